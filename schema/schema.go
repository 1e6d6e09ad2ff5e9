// Package schema holds the database schema of Callbook as goose migrations.
//
// The rules of this folder: tables are STRICT, every column has a comment, and
// a CHECK or a REFERENCES stands wherever a bug could store a wrong state.
//
// All migrations that a database lacks run in one transaction (never a PRAGMA, a
// VACUUM or a COMMIT in them), and there is no way back: a file begins with the
// line -- +goose Up, and the whole of it is run. Meanwhile foreign keys are not
// enforced but checked at the end. So a table may be rebuilt, where ALTER TABLE
// does not do: create new_name, copy the rows and the table's row of
// sqlite_sequence (or numbers of deleted rows are given again), drop the old one,
// rename. A migration that was released is not edited again.
//
// The SQL stays portable: no SQLite function beyond length, COALESCE and the
// aggregates. The two full-text tables are the exception: store/search_row.go and
// store/search_merge.go write them, and the lists of agents and of calls ask them.
package schema

import "embed"

// Migrations holds the numbered files of the folder migrations.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Folder is the path of the migrations inside Migrations.
const Folder = "migrations"
