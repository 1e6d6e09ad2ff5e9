// Package schema holds the database schema of Callbook as goose migrations.
//
// The rules of this folder: tables are STRICT, every column has a comment, and a CHECK or REFERENCES
// prevents each wrong state that a bug could store.
//
// Goose runs the migrations that a database lacks on a copy of it, each in a transaction
// of its own (never a PRAGMA, a VACUUM or a COMMIT in them), and the program puts the
// copy in the place of the database once all have succeeded. There is no way back: a file
// has the annotation -- +goose Up alone, with StatementBegin and StatementEnd around a
// trigger. Meanwhile foreign keys are not enforced but checked at the end. So a table may
// be rebuilt, where ALTER TABLE does not do: create new_name, copy the rows and the
// table's row of sqlite_sequence (or numbers of deleted rows are given again), drop the
// old one, rename.
//
// A migration that has reached the main branch counts as released: somebody has run it, and it is
// never edited again, not even in its comments, which may name files that have moved. The test of
// the newest one makes the database that its successors are tested with.
//
// The SQL stays portable: no SQLite function beyond length, COALESCE and the
// aggregates. The two full-text tables are the exception: store/txn/search.go writes
// them, and store/listing/search.go queries them.
package schema

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the numbered files of the folder migrations.
var Migrations, _ = fs.Sub(files, "migrations") // which fails for an invalid path only
