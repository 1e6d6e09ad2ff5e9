package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/jmoiron/sqlx"

	"callbook/store/durable"
)

// Contents is what a database file holds, for whoever made or restored it.
type Contents struct {
	Agents   int   `db:"agents"`
	Posts    int   `db:"posts"`
	Replies  int   `db:"replies"`
	Requests int   `db:"requests"`
	Collabs  int   `db:"collabs"`
	Schema   int64 `db:"schema"` // version
	Bytes    int64 `db:"-"`
}

// ErrExists tells that a backup would take the place of a file.
var ErrExists = errors.New("there is such a file already: give a name that is free")

// Backup writes a copy of the database at path to the file to, also while another
// process serves it: everything that was answered before it began is in the copy.
// The copy is checked as a whole before it gets its name, and nobody but its
// owner may read it. It refuses with ErrExists a name that is taken.
func Backup(ctx context.Context, path, to string) (contents Contents, err error) {
	if !Exists(path) {
		return contents, fmt.Errorf("there is no database at %s", path)
	}
	if !missing(to) {
		return contents, fmt.Errorf("%w: %s", ErrExists, to)
	}
	path = FileOf(path)
	if besides(path, to) {
		return contents, errors.New("SQLite and callbook use this name themselves: give another")
	}
	// An empty file of that mode is what SQLite then fills.
	draft, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return contents, err
	}
	defer os.Remove(draft.Name()) // gone by then unless something failed
	if err := draft.Close(); err != nil {
		return contents, err
	}
	if err := copyInto(ctx, path, draft.Name()); err != nil {
		return contents, fmt.Errorf("copy %s: %w", path, damage(err))
	}
	if contents, err = Inspect(ctx, draft.Name()); err != nil {
		return contents, fmt.Errorf("check the copy of %s: %w", path, err)
	}
	return contents, settle(draft.Name(), to, link)
}

// besides tells of the names that belong to a database's own files.
func besides(path, name string) bool {
	of, err := filepath.Abs(path)
	at, atErr := filepath.Abs(name)
	suffix, found := strings.CutPrefix(at, of+"-")
	return errors.Join(err, atErr) == nil && (found && slices.Contains([]string{"journal", "wal", "shm"}, suffix) || at == of+".lock")
}

// copyInto has SQLite write a copy, as one reader sees the database.
func copyInto(ctx context.Context, path, to string) error {
	mode := readOnly // a damaged file stays as it is, with its log
	if missing(path + "-wal") {
		mode = readWrite // nobody serves it, but somebody may begin to
	}
	return visit(ctx, path, mode, func(db *sqlx.DB) error {
		_, err := db.ExecContext(ctx, `VACUUM INTO ?`, to)
		return err
	})
}

// visit opens a database file for one act.
func visit(ctx context.Context, path string, mode mode, act func(*sqlx.DB) error) error {
	db, err := connect(ctx, path, mode, 1, "busy_timeout(5000)", "trusted_schema(OFF)", "temp_store(MEMORY)")
	if err == nil {
		err = act(db)
	}
	if db != nil {
		err = errors.Join(err, db.Close())
	}
	return err
}

// Inspect checks a database file that nobody serves as a whole, and counts what it
// holds. It refuses with ErrForeign another program's file, with ErrNewerSchema
// one of a newer version, and with ErrDamaged one that is not as SQLite wrote it.
func Inspect(ctx context.Context, path string) (Contents, error) {
	return examine(ctx, path, frozen)
}

// Examine is Inspect for a database with its log. Unless another process serves it, the
// caller has locked it. It leaves the file and its log as they are.
func Examine(ctx context.Context, path string, served bool) (Contents, error) {
	if !Exists(path) {
		return Contents{}, fmt.Errorf("there is no database at %s", path)
	}
	path = FileOf(path)
	mode := readOnly
	if !served {
		mode = lookingMode(path)
	}
	return examine(ctx, path, mode)
}

func examine(ctx context.Context, path string, mode mode) (contents Contents, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return contents, err
	}
	err = visit(ctx, path, mode, func(db *sqlx.DB) (err error) {
		contents, err = inspect(ctx, db)
		return err
	})
	contents.Bytes = info.Size() + fileSize(path+"-wal")
	return contents, damage(err)
}

func inspect(ctx context.Context, db *sqlx.DB) (contents Contents, err error) {
	var id int
	if err := db.GetContext(ctx, &id, `PRAGMA application_id`); err != nil {
		return contents, err
	}
	if id != applicationID {
		return contents, ErrForeign
	}
	if err := quickCheck(ctx, db); err != nil {
		return contents, err
	}
	var orphans int
	if err := db.GetContext(ctx, &orphans, `SELECT COUNT(*) FROM pragma_foreign_key_check`); err != nil {
		return contents, err
	}
	if orphans > 0 {
		return contents, fmt.Errorf("%w: %d rows refer to rows that are not there", ErrDamaged, orphans)
	}
	err = db.GetContext(ctx, &contents, `
		SELECT (SELECT COUNT(*) FROM agents) AS agents, (SELECT COUNT(*) FROM posts) AS posts,
			(SELECT COUNT(*) FROM replies) AS replies, (SELECT COUNT(*) FROM requests) AS requests,
			(SELECT COUNT(*) FROM collabs) AS collabs,
			(SELECT MAX(version_id) FROM goose_db_version WHERE is_applied) AS schema`)
	if err != nil {
		return contents, err
	}
	newest, err := newestSchema()
	if err == nil && contents.Schema > newest {
		err = fmt.Errorf("%w (schema %d, this program knows %d)", ErrNewerSchema, contents.Schema, newest)
	}
	return contents, err
}

// settle gives a finished file its name, so that it is there as a whole or not at
// all, whatever ends the program or the power.
func settle(draft, name string, as func(draft, name string) error) error {
	if err := flush(draft); err != nil {
		return err
	}
	if err := as(draft, name); err != nil {
		return err
	}
	return syncFolder(name)
}

// link is os.Rename that takes the place of no file. Where a disk knows no links,
// another program that takes the name at the same moment loses it.
func link(draft, name string) error {
	err := os.Link(draft, name)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s", ErrExists, name)
	case err != nil:
		return os.Rename(draft, name)
	}
	return os.Remove(draft)
}

func flush(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeFolder makes a folder and those above it where they are missing, for nobody else
// to read. Like what is put into it, it outlasts a power cut.
func MakeFolder(name string) error {
	if !missing(name) {
		return os.MkdirAll(name, 0o700) // tells of what is no folder
	}
	if err := MakeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	if err := syncFolder(name); err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

// syncFolder makes the names in a file's folder survive a power cut.
func syncFolder(name string) error { return durable.SyncFolder(filepath.Dir(name)) }

// Restore puts a backup in the place of the database at path, which the caller
// has locked. What was there is kept, with its log, under the name that it
// returns; empty when nothing was. The backup is checked first, by a copy: it
// stays as it is.
func Restore(ctx context.Context, backup, path string, now time.Time) (contents Contents, kept string, err error) {
	if err := restorable(backup, path); err != nil {
		return contents, "", err
	}
	draft, err := copyBeside(backup, path)
	defer os.Remove(draft) // gone by then unless something failed
	if err != nil {
		return contents, "", fmt.Errorf("copy %s: %w", backup, err)
	}
	if contents, err = Inspect(ctx, draft); err != nil {
		return contents, "", fmt.Errorf("check %s: %w", backup, err)
	}
	if kept, err = setAside(path, now); err != nil {
		return contents, kept, fmt.Errorf("set aside %s: %w", path, err)
	}
	return contents, kept, settle(draft, path, os.Rename)
}

// restorable refuses what is no copy: another kind of file, the database itself,
// and one that somebody serves or that has a log, without which it is not whole.
func restorable(backup, path string) error {
	from, err := os.Stat(backup)
	if err != nil {
		return err
	}
	if !from.Mode().IsRegular() {
		return fmt.Errorf("%s is no file: name the backup itself", backup)
	}
	if to, err := os.Stat(path); err == nil && os.SameFile(from, to) {
		return errors.New("the backup is the database itself: name another file")
	}
	if own := FileOf(backup); fileSize(own+"-wal") > 0 || held(own) {
		return fmt.Errorf("%s is a database with a log of its own, not a copy: make one first, with callbook backup COPY --db %s, and restore that", backup, backup)
	}
	return nil
}

// held tells whether a process serves a database.
func held(path string) bool {
	if missing(path + ".lock") {
		return false
	}
	l := flock.New(path + ".lock")
	locked, err := l.TryLock()
	_ = l.Close()
	return err == nil && !locked
}

// copyBeside copies a backup into the folder of the database, for whoever owns
// that: the operator may be another user than the service.
func copyBeside(backup, path string) (draft string, err error) {
	in, err := os.Open(backup)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".restoring.*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return out.Name(), errors.Join(err, out.Close(), ownAs(out.Name(), existing(path)))
}

// existing is a file, or the folder that it would be in.
func existing(path string) string {
	if missing(path) {
		return filepath.Dir(path)
	}
	return path
}

// setAside renames a database with its log, so that SQLite would still find both
// together. A log that stayed would be folded into whatever comes in its place.
func setAside(path string, now time.Time) (kept string, err error) {
	name := path + ".before-restore-" + now.UTC().Format("20060102T150405Z")
	kept = name
	for n := 2; !missing(kept) || !missing(kept+"-wal"); n++ {
		kept = fmt.Sprintf("%s-%d", name, n)
	}
	found := ""
	for _, suffix := range []string{"", "-wal"} {
		err := os.Rename(path+suffix, kept+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, err
		}
		found = kept
		// One after the other on the disk, too: a power cut must leave neither a database
		// without its log nor a log beside another database.
		if err := syncFolder(path); err != nil {
			return found, err
		}
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	return found, nil
}

// Schedule is how the service makes copies by itself.
type Schedule struct {
	Path   string        // of the database
	Folder string        // for the copies; there are none when it is empty
	Every  time.Duration // from one to the next
	Keep   int           // how many stay; at least 1
}

// scheduledName names a copy by its time, so that names sort by age.
const scheduledName = "callbook-20060102T150405Z.db"

// Run makes the next copy if it is due, and returns its name; empty when none was.
// Older ones go only once the new one is whole, so a database that can no longer be
// copied never pushes out the last good copy. A copy's own time counts, not that of
// its file.
func (b Schedule) Run(ctx context.Context, now time.Time) (name string, contents Contents, err error) {
	made, err := b.made()
	if err != nil {
		return "", contents, err
	}
	if err := b.tidy(); err != nil {
		return "", contents, err
	}
	for _, earlier := range made {
		if age := now.Sub(earlier); age >= 0 && age < b.Every { // what the clock ran ahead of does not count
			return "", contents, nil
		}
	}
	name = filepath.Join(b.Folder, now.UTC().Format(scheduledName))
	if contents, err = Backup(ctx, b.Path, name); err != nil {
		return "", contents, err
	}
	past := slices.DeleteFunc(made, func(at time.Time) bool { return at.After(now) })
	var errs []error
	for i := range len(past) + 1 - max(b.Keep, 1) {
		errs = append(errs, os.Remove(filepath.Join(b.Folder, past[i].Format(scheduledName))))
	}
	return name, contents, errors.Join(errs...)
}

// tidy removes the copies that nobody finished: the program was killed meanwhile.
func (b Schedule) tidy() error {
	entries, err := os.ReadDir(b.Folder)
	for _, entry := range entries {
		of, found := strings.CutPrefix(entry.Name(), ".")
		at := strings.LastIndexByte(of, '.')
		if _, notOurs := time.Parse(scheduledName, of[:max(at, 0)]); found && notOurs == nil {
			err = errors.Join(err, os.Remove(filepath.Join(b.Folder, entry.Name())))
		}
	}
	return err
}

// Newest is the time of the newest copy that is not of a time to come; zero when there
// is none.
func (b Schedule) Newest(now time.Time) (time.Time, error) {
	if b.Folder == "" {
		return time.Time{}, nil
	}
	made, err := b.made()
	made = slices.DeleteFunc(made, func(at time.Time) bool { return at.After(now) })
	if err != nil || len(made) == 0 {
		return time.Time{}, err
	}
	return made[len(made)-1], nil
}

// Owns tells whether a file is one of the copies, by its folder and name.
func (b Schedule) Owns(path string) bool {
	path = FileOf(path)
	_, err := time.Parse(scheduledName, filepath.Base(path))
	in, inErr := os.Stat(filepath.Dir(path))
	folder, folderErr := os.Stat(b.Folder)
	return errors.Join(err, inErr, folderErr) == nil && os.SameFile(in, folder)
}

// NewestName is the name of the newest copy; empty when there is none.
func (b Schedule) NewestName(now time.Time) string {
	newest, err := b.Newest(now)
	if err != nil || newest.IsZero() {
		return ""
	}
	return filepath.Join(b.Folder, newest.Format(scheduledName))
}

// made lists the times of the copies that there are, the oldest first.
func (b Schedule) made() (made []time.Time, err error) {
	entries, err := os.ReadDir(b.Folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries { // sorted by name
		if at, err := time.Parse(scheduledName, entry.Name()); err == nil {
			made = append(made, at)
		}
	}
	return made, nil
}
