package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
)

// On a full disk, and at Options.MaxBytes, the writes of a context of Freeing still succeed, because the space of
// Options.Reserve is kept for them: a file beside the database, which is deleted before such a write and made again after
// it, and as many pages beyond MaxBytes. The pages that they free are for all writes; those beyond MaxBytes are not.

type freeing struct{}

// Freeing returns a context whose writes free space, so that they may use the reserve where they find no other room.
func Freeing(ctx context.Context) context.Context { return context.WithValue(ctx, freeing{}, true) }

// reserveOf returns the name of the file that keeps space on the disk.
func reserveOf(path string) string { return path + ".reserve" }

// retryFreeing runs those writes of a batch again that free space and found none. A commit that failed for lack of space
// is not stored: its pages in the log are overwritten by the next one.
func (w *writer) retryFreeing(batch []*job) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(j *job) bool { return !j.freeing || !errors.Is(j.err, ErrNoSpace) })
	if len(batch) == 0 || w.db.Failure() != nil {
		return
	}
	_ = os.Remove(reserveOf(w.db.path))
	_ = w.limitPages(w.maxPages + w.db.options.Reserve/pageSize) // if it fails, there is less room
	for _, j := range batch {
		if w.reuseLog(); w.db.Failure() != nil {
			return
		}
		j.err = nil
		_ = w.commit([]*job{j})
	}
	w.grown = w.maxPages > 0
	_ = w.limitPages(w.maxPages)
	w.fillReserve()
}

// limitPages sets the size up to which the file may grow, if it is limited at all. One that is larger keeps its size.
func (w *writer) limitPages(pages int64) (err error) {
	if w.maxPages > 0 {
		_, err = w.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	}
	return err
}

// pages are the numbers of pages of a file.
type pages struct {
	All  int64 `db:"page_count"`
	Free int64 `db:"freelist_count"`
}

func (w *writer) pages() (p pages, err error) {
	err = w.conn.GetContext(context.Background(), &p, `SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count`)
	return p, err
}

// setLimit sets how many pages the writes that free no space may use: as many as Options.MaxBytes has, or are in use already.
func (w *writer) setLimit() error {
	if w.db.options.MaxBytes == 0 {
		return nil
	}
	p, err := w.pages()
	w.maxPages = max(w.db.options.MaxBytes/pageSize, p.All-p.Free, 1)
	w.grown = p.All > w.maxPages
	return errors.Join(err, w.limitPages(w.maxPages))
}

// checkLimit returns ErrNoSpace if the writes of a batch that free no space leave more pages in use than they may. SQLite
// limits only the size of the file, and lets every write use the free pages of a larger one.
func (w *writer) checkLimit(batch []*job) error {
	if !w.grown || !slices.ContainsFunc(batch, func(j *job) bool { return !j.freeing }) {
		return nil
	}
	p, err := w.pages()
	if err == nil && p.All-p.Free > w.maxPages {
		w.db.probed.Store(0)
		err = ErrNoSpace
	}
	return err
}

// fillReserve makes the file that keeps space on the disk as large as it should be, or as there is room. Its
// contents cannot be compressed. A failure needs no report: a full disk is reported anyway. After a failure that stops the
// database, nothing is written.
func (w *writer) fillReserve() {
	name, want := reserveOf(w.db.path), w.db.options.Reserve
	missing := want - fileSize(name)
	if missing <= 0 || w.db.Failure() != nil {
		return
	}
	if w.reuseLog(); w.db.Failure() != nil {
		return
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	_, _ = io.CopyN(file, rand.NewChaCha8([32]byte{}), missing)
	_ = file.Close()
}

// reuseLog empties the log, so that its space can be used again, unless a read is in the way.
func (w *writer) reuseLog() {
	done, err := truncateLog(context.Background(), w.conn, 0)
	if done {
		w.logPages = 0
	}
	_ = w.db.stopIfFatal(err)
}
