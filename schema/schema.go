// Package schema holds the database schema of Callbook as goose migrations.
//
// The rules of this folder: tables are STRICT, every column has a comment, and
// a CHECK or a REFERENCES stands wherever a bug could store a wrong state. A
// migration runs inside one transaction (never NO TRANSACTION, never a PRAGMA
// or a VACUUM in it), and a migration that was released is not edited again.
//
// The SQL stays portable: no SQLite function beyond length, COALESCE and the
// aggregates. The two full-text tables are the exception; store/search.go is
// the only code that touches them.
package schema

import "embed"

// Migrations holds the numbered files of the folder migrations.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Folder is the path of the migrations inside Migrations.
const Folder = "migrations"
