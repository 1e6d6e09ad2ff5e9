package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
)

// SQLite overwrites what is deleted (secure_delete), but not the copies that are left
// behind when it moves rows to other pages to make room: they stay in the middle of the
// page that the rows came from, between its table of cells and the cells themselves.
// This file overwrites these: in each page that is on its way from the log to the file,
// and, a few at a time after each start, in the pages that were there before.

// blanker knows how far the pages have been looked at.
type blanker struct {
	salt   [8]byte          // of the log that was looked at last
	frames int64            // of it that were looked at
	found  map[int]struct{} // pages in it with something to blank
	next   int              // page of the file, from 1 on; 0 when all were looked at

	ahead *bufio.Reader // of the log
	frame []byte
}

// The log's format (sqlite.org/fileformat2.html#walformat): a header, in which the size
// of a page and the salt stand at these places, and frames, each with a header before its
// page.
const (
	logPageSize = 8
	logSalt     = 16
	frameHeader = 24
	frameCommit = 4
	frameSalt   = 8
)

// mostBlankable is how many pages a file may have for its b-tree pages to be told from
// others by their first byte, which is that of a page's number there: 128 GB.
const mostBlankable = 1 << 25

// look looks at the pages that were written to the log since it last did. It follows each
// commit, so that it comes before the log begins anew, whoever has folded it into the file.
// The log is nobody's to lock: opening and closing it does SQLite no harm.
func (w *writer) look() {
	f, err := os.Open(w.store.path + "-wal")
	if err == nil {
		err = errors.Join(w.blanked.read(f), f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.blanked.next = 1
	}
}

const (
	mostOfPage = 64 << 10  // bytes of a page, in SQLite
	lookAhead  = 128 << 10 // bytes of the log that are read at once
)

func (b *blanker) read(log *os.File) error {
	var header [logHeader]byte
	if _, err := log.ReadAt(header[:], 0); err != nil {
		return ended(err) // an empty log
	}
	if salt := [8]byte(header[logSalt:]); salt != b.salt {
		b.salt, b.frames = salt, 0
	}
	size := frameHeader + min(int(binary.BigEndian.Uint32(header[logPageSize:])), mostOfPage)
	if b.frame == nil {
		b.frame, b.ahead = make([]byte, frameHeader+mostOfPage), bufio.NewReaderSize(nil, lookAhead)
	}
	from, frame := logHeader+b.frames*int64(size), b.frame[:size]
	b.ahead.Reset(io.NewSectionReader(log, from, math.MaxInt64-from))
	for at := b.frames + 1; ; at++ {
		if _, err := io.ReadFull(b.ahead, frame); err != nil || [8]byte(frame[frameSalt:]) != b.salt { // what follows is of an earlier log
			return ended(err)
		}
		if binary.BigEndian.Uint32(frame[frameCommit:]) != 0 { // others may be undone, and written over
			b.frames = at
		}
		number := int(binary.BigEndian.Uint32(frame))
		if _, known := b.found[number]; !known && blankPage(number, frame[frameHeader:]) {
			b.found[number] = struct{}{}
		}
	}
}

// blankLog blanks the pages that were written to the log since it last ran. The log
// has to be folded into the file after it, not before. What fails is left to blankFile.
func (w *writer) blankLog(ctx context.Context) error {
	w.look()
	pages := slices.Sorted(maps.Keys(w.blanked.found))
	clear(w.blanked.found)
	if err := w.blank(ctx, pages); err != nil {
		w.blanked.next = 1
		return fmt.Errorf("blank what was moved: %w", err)
	}
	return nil
}

// ended is nil for the end of a file.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// blankStep is how many pages are looked at, or written, at once: calls in between do not
// wait for long.
const blankStep = 250

// blank overwrites what was left behind in pages of the file.
func (w *writer) blank(ctx context.Context, pages []int) error {
	for step := range slices.Chunk(pages, blankStep) {
		if err := w.blankTogether(ctx, step); err != nil {
			return errors.Join(err, w.rollback())
		}
	}
	return nil
}

func (w *writer) blankTogether(ctx context.Context, pages []int) error {
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var file struct {
		Pages  int `db:"page_count"`
		Vacuum int `db:"auto_vacuum"`
	}
	err := w.conn.GetContext(ctx, &file, `SELECT page_count, auto_vacuum FROM pragma_page_count, pragma_auto_vacuum`)
	if err != nil || file.Pages >= mostBlankable || file.Vacuum != 0 { // with which there are pages of another kind
		return errors.Join(err, w.rollback())
	}
	changed := false
	for _, number := range pages {
		var page []byte
		if number > file.Pages { // it has become shorter
			continue
		}
		if err := w.conn.GetContext(ctx, &page, `SELECT data FROM sqlite_dbpage WHERE pgno = ?`, number); err != nil {
			return err
		}
		if !blankPage(number, page) {
			continue
		}
		changed = true
		if _, err := w.conn.ExecContext(ctx, `UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?`, page, number); err != nil {
			return err
		}
	}
	if !changed {
		return w.rollback()
	}
	return w.end(ctx)
}

// The kinds of b-tree pages (sqlite.org/fileformat2.html#b_tree_pages).
const (
	indexInner = 2
	tableInner = 5
	indexLeaf  = 10
	tableLeaf  = 13
)

// blankPage overwrites what lies between the table of cells and the cells of a b-tree
// page, and tells whether there was anything. Other pages it leaves as they are.
func blankPage(number int, page []byte) (changed bool) {
	begin := 0
	if number == 1 {
		begin = 100 // the file's own header
	}
	if len(page) < 512 {
		return false
	}
	at := func(offset int) int { return int(binary.BigEndian.Uint16(page[offset:])) }
	table := begin + 8
	switch page[begin] {
	case indexInner, tableInner:
		table += 4
	case indexLeaf, tableLeaf:
	default:
		return false
	}
	free, cells, content := at(begin+1), at(begin+3), at(begin+5)
	end := table + 2*cells
	if content == 0 {
		content = 1 << 16
	}
	if end > content || content > len(page) || free != 0 && free < content {
		return false
	}
	for cell := table; cell < end; cell += 2 {
		if at(cell) < content || at(cell) >= len(page) {
			return false
		}
	}
	if !slices.ContainsFunc(page[end:content], func(b byte) bool { return b != 0 }) {
		return false
	}
	clear(page[end:content])
	return true
}

// blankFile blanks pages of the file that look did not meet, which an older or another
// program wrote: some at each call, until all were looked at since the start.
func (s *Store) blankFile(ctx context.Context) error {
	const pages = 4000
	for range pages / blankStep {
		done := false
		err := s.outside(ctx, func(w *writer) error {
			b, all := &w.blanked, 0
			if done = b.next == 0; done {
				return nil
			}
			if err := w.conn.GetContext(ctx, &all, `PRAGMA page_count`); err != nil {
				return err
			}
			var step []int
			for number := b.next; number < b.next+blankStep && number <= all; number++ {
				step = append(step, number)
			}
			if err := w.blank(ctx, step); err != nil {
				return err
			}
			if b.next += blankStep; b.next > all {
				b.next = 0
			}
			return nil
		})
		if err != nil || done {
			return err
		}
	}
	return nil
}
