package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jmoiron/sqlx"

	"callbook/store/durable"
)

// Info describes a database file that was verified.
type Info struct {
	Schema int64 // version
	Bytes  int64 // with its log
}

// Backup copies the database at path to the file to, also while another process serves it. The
// copy has all commits from before the start. It is verified before it gets its name, and only its
// owner may read it. Backup returns ErrExists if there is a file of that name.
func Backup(ctx context.Context, path, to string, f Format) (info Info, err error) {
	if !Exists(path) {
		return info, fmt.Errorf("there is no database at %s", path)
	}
	if !missing(to) {
		return info, fmt.Errorf("%w: %s", ErrExists, to)
	}

	path = FileOf(path)
	if err := checkLinks(path); err != nil {
		return info, err
	}

	// SQLite fills an empty file of that mode.
	draft, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return info, err
	}

	// The copy gets its name at the end: before, a crash leaves nothing that looks like a backup.
	defer os.Remove(draft.Name()) // gone by then unless something failed
	if err := draft.Close(); err != nil {
		return info, err
	}

	mode := readOnly // a damaged file stays as it is, with its log
	if missing(path + "-wal") {
		mode = readWrite // no process serves it, but one may start to
	}

	if err := copyInto(ctx, path, draft.Name(), mode); err != nil {
		return info, fmt.Errorf("copy %s: %w", path, damageError(err))
	}
	if info, err = f.verify(ctx, draft.Name(), immutable); err != nil {
		return info, fmt.Errorf("check the copy of %s: %w", path, err)
	}

	err = durable.Create(draft.Name(), to)
	if errors.Is(err, fs.ErrExist) {
		return info, fmt.Errorf("%w: %s", ErrExists, to)
	}
	return info, err
}

// copyInto writes a copy of one state of the database at path into an empty file.
func copyInto(ctx context.Context, path, to string, mode mode) error {
	// SQLite copies within one read transaction: the copy has no half of a write.
	return withFile(ctx, path, mode, func(file *sqlx.DB) error {
		return vacuumInto(ctx, file, path, to)
	})
}

// vacuumInto is copyInto for an open database.
func vacuumInto(ctx context.Context, file *sqlx.DB, path, to string) error {
	written := func() (done, total int64) { return fileSize(to), fileSize(path) }
	defer watchProgress(ctx, "copying the database", written)()

	_, err := file.ExecContext(ctx, `VACUUM INTO ?`, to)
	return err
}

// Verify checks a whole database file, and leaves it and its log as they are. Unless another
// process serves it, the caller has locked it. It returns ErrForeign for another program's file,
// ErrNewerSchema for one of a newer version, and ErrDamaged for one that is not as SQLite wrote
// it.
func Verify(ctx context.Context, path string, served bool, f Format) (Info, error) {
	if !Exists(path) {
		return Info{}, fmt.Errorf("there is no database at %s", path)
	}

	path = FileOf(path)
	mode := readOnly
	if !served {
		mode = unchangingMode(path)
	}
	return f.verify(ctx, path, mode)
}

func (f Format) verify(ctx context.Context, path string, mode mode) (info Info, err error) {
	defer EstimateProgress(ctx, "checking the database", fileSize(path))()
	err = withFile(ctx, path, mode, func(file *sqlx.DB) (err error) {
		info.Schema, err = f.check(ctx, file)
		return err
	})
	info.Bytes = fileSize(path) + fileSize(path+"-wal")
	return info, damageError(err)
}

// check reads a whole database, and returns its schema version.
func (f Format) check(ctx context.Context, file *sqlx.DB) (schema int64, err error) {
	// The mark comes first: another program's file is ErrForeign, also if it is damaged.
	if err := f.checkMark(ctx, file); err != nil {
		return 0, err
	}
	if err := quickCheck(ctx, file); err != nil {
		return 0, err
	}

	// SQLite checks no references that are already in the file.
	orphans, err := orphansIn(ctx, file)
	if err != nil {
		return 0, err
	}
	if orphans != "" {
		return 0, fmt.Errorf("%w: %s", ErrDamaged, orphans)
	}

	schema, _, err = f.versions(ctx, file)
	if err != nil || f.Inspect == nil {
		return schema, err
	}
	return schema, f.Inspect(ctx, file)
}
