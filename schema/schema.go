// Package schema holds the database schema of Callbook as goose migrations.
//
// The rules of this folder: tables are STRICT, every table, column and index has a comment above
// it, and a CHECK or REFERENCES prevents each wrong state that a bug could store.
//
// Goose runs the migrations that a database lacks on a copy of it, each in a transaction of its
// own (never a PRAGMA, a VACUUM or a COMMIT in them), and the program renames the copy over the
// database once all have succeeded. There is no way back: a file has the annotation -- +goose Up
// alone, with StatementBegin and StatementEnd around a trigger. Meanwhile foreign keys are not
// enforced but checked at the end. So a table may be rebuilt, where ALTER TABLE does not do:
// create new_name, copy the rows and the table's row of sqlite_sequence (or numbers of deleted
// rows are given again), drop the old one, rename.
//
// A file that was released is never edited again, not even in its comments: the schema that it
// gives is compared with that of databases out there. schema_test.go lists the released files.
//
// The SQL stays portable: no SQLite function beyond length, json_array_length, COALESCE and the
// aggregates. The two full-text tables are the exception: store/search_index.go writes them, and
// store/listing/index.go queries them.
package schema

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the numbered files of the folder migrations.
var Migrations, _ = fs.Sub(files, "migrations") // which fails for an invalid path only
