// Package upgrade has a migration of the next version, for tests of upgrades: no program has it.
package upgrade

import (
	"fmt"
	"io/fs"
	"testing/fstest"

	"callbook/schema"
)

// Step is a migration of most kinds: it adds a column and fills it, rebuilds a table to which
// others refer, and makes a table, an index and a trigger.
const Step = `
ALTER TABLE agents ADD COLUMN noted_at INTEGER;
UPDATE agents SET noted_at = created_at;

CREATE TABLE new_handles (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    handle     TEXT NOT NULL UNIQUE,
    deleted_at INTEGER,
    length     INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new_handles (id, handle, deleted_at, length) SELECT id, handle, deleted_at, length(handle) FROM handles;
DELETE FROM sqlite_sequence WHERE name = 'new_handles';
INSERT INTO sqlite_sequence (name, seq) SELECT 'new_handles', seq FROM sqlite_sequence WHERE name = 'handles';
DROP TABLE handles;
ALTER TABLE new_handles RENAME TO handles;

CREATE TABLE notes (
    agent_id INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- whose; NULL never
    note     TEXT NOT NULL -- text; with a semicolon
) STRICT;
INSERT INTO notes (agent_id, note) SELECT id, name || '; noted' FROM agents;
CREATE INDEX notes_note ON notes (note);
-- +goose StatementBegin
CREATE TRIGGER notes_gone AFTER DELETE ON notes BEGIN
    UPDATE agents SET noted_at = NULL WHERE id = old.agent_id;
    DELETE FROM notes WHERE note = ';';
END;
-- +goose StatementEnd
`

// Released is the version of the program's own schema.
var Released = int64(len(released()))

// Migrations returns the program's own migrations with steps behind them.
func Migrations(steps ...string) fs.FS {
	files := released()
	for i, step := range steps {
		name := fmt.Sprintf("%05d_step.sql", Released+int64(i)+1)
		files[name] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + step)}
	}
	return files
}

func released() fstest.MapFS {
	files := fstest.MapFS{}
	names, _ := fs.Glob(schema.Migrations, "*.sql") // which fails for an invalid pattern only
	for _, name := range names {
		text, err := fs.ReadFile(schema.Migrations, name)
		if err != nil {
			panic(err) // the files are embedded
		}

		files[name] = &fstest.MapFile{Data: text}
	}

	return files
}
