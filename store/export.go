package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// exportedTables selects, of each table that refers to agents, the rows about agent ?1. Handles
// replace the numbers of other agents. Hashes and tokens are omitted, since they are of use to the
// directory alone. So is the outbox: a mail in it would reveal that others use the mailbox, or
// reveal the owner's address to a thief of the key.
var exportedTables = []struct{ name, query string }{
	{"agents", `SELECT h.handle, a.* FROM agents a JOIN handles h ON h.id = a.id WHERE a.id = ?1`},
	{"watches", `SELECT kind, tag, q, language FROM watches WHERE agent_id = ?1 ORDER BY position`},
	{"owner_claims", `SELECT status, requested_at, expires_at, confirmed_at
		FROM owner_claims WHERE agent_id = ?1`},
	{"codes", `SELECT purpose, mailbox, wrong_tries, created_at, expires_at
		FROM codes WHERE agent_id = ?1`},
	{"mail_log", `SELECT at FROM mail_log WHERE agent_id = ?1 ORDER BY seq`},
	{"posts", `SELECT * FROM posts WHERE author_id = ?1 ORDER BY seq`},
	{"replies", `SELECT r.id, p.id AS post_id, r.body, r.created_at
		FROM replies r JOIN posts p ON p.seq = r.post_seq WHERE r.author_id = ?1 ORDER BY r.seq`},
	{"requests", `SELECT r.*, f.handle AS from_handle, o.handle AS to_handle
		FROM requests r JOIN handles f ON f.id = r.from_id JOIN handles o ON o.id = r.to_id
		WHERE r.from_id = ?1 OR r.to_id = ?1 ORDER BY r.seq`},
	{"blocks", `SELECT h.handle AS blocked, b.created_at
		FROM blocks b JOIN handles h ON h.id = b.blocked_id
		WHERE b.blocker_id = ?1 ORDER BY b.created_at`},
	{"collabs", `SELECT c.*, i.handle AS initiator, p.handle AS partner
		FROM collabs c JOIN handles i ON i.id = c.initiator_id JOIN handles p ON p.id = c.partner_id
		WHERE c.initiator_id = ?1 OR c.partner_id = ?1 ORDER BY c.seq`},
	{"events", `SELECT type, subject, at FROM events WHERE agent_id = ?1 ORDER BY seq`},
	{"wakes", `SELECT url, status, tries, due_at FROM wakes WHERE agent_id = ?1`},
	{"usage", `SELECT act, at FROM usage WHERE agent_id = ?1 ORDER BY at`},
	{"idempotency", `SELECT created_at FROM idempotency WHERE agent_id = ?1 ORDER BY created_at`},
	{"reports", `SELECT id, about, subject, reason, created_at, closed_at
		FROM reports WHERE reporter_id = ?1 ORDER BY seq`},
}

// ExportTables has the rows about an agent by the name of their table, each by column.
type ExportTables map[string][]map[string]any

// exportAgent returns everything stored about an agent. Derived data is omitted, since it repeats
// the rest.
func exportAgent(ctx context.Context, db *sqlitedb.DB, id int64) (ExportTables, error) {
	all := ExportTables{}
	for _, t := range exportedTables {
		rows, err := exportRows(ctx, db, t.query, id)
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", t.name, err)
		}
		all[t.name] = rows
	}

	// The menu and the links are lists in the row of the agent.
	for _, agent := range all["agents"] {
		for _, list := range []string{"offerings", "links"} {
			all[list] = []map[string]any{}
			if stored, ok := agent[list].(jsontext.Value); ok {
				var entries []map[string]any
				if err := json.Unmarshal(stored, &entries); err != nil {
					return nil, fmt.Errorf("export %s: %w", list, err)
				}
				all[list] = append(all[list], entries...)
			}
			delete(agent, list)
		}
	}
	return all, nil
}

func exportRows(
	ctx context.Context,
	db *sqlitedb.DB,
	query string,
	id int64,
) ([]map[string]any, error) {
	stored, err := db.SelectMaps(ctx, query, id)
	if err != nil {
		return nil, err
	}

	rows := []map[string]any{} // not nil, which would be null in JSON
	for _, columns := range stored {
		row := map[string]any{}
		for column, value := range columns {
			if v, ok := exportValue(column, value); ok {
				row[column] = v
			}
		}

		rows = append(rows, row)
	}

	return rows, nil
}

// unexported are columns that follow from others.
var unexported = []string{"level", "hidden", "menu_entries", "links_due_at", "closed"}

// flags are the columns of booleans.
var flags = []string{
	"contact_public",
	"accepting",
	"require_offering",
	"require_owner_receipt",
	"key_used",
	"counts",
}

// exportValue converts a value as the API shows it: times to timestamps, and stored JSON to JSON.
// It reports false for what follows from other columns, for numbers of rows and for hashes.
func exportValue(column string, value any) (any, bool) {
	if slices.Contains(unexported, column) {
		return nil, false
	}

	// "created_at" has the kind "at", as "at" itself does.
	kind := column[strings.LastIndexByte(column, '_')+1:]
	switch v := value.(type) {
	case []byte:
		return nil, false

	case int64:
		switch {
		case kind == "at", kind == "until", kind == "since":
			return domain.Time(v), true

		case slices.Contains(flags, column):
			return v != 0, true

		case kind == "id", kind == "seq":
			return nil, false
		}

	case string:
		switch column {
		// The subject of a report is no JSON, that of an event is.
		case "capabilities", "languages", "offerings", "links", "tags", "offering", "subject":
			if strings.HasPrefix(v, "[") || strings.HasPrefix(v, "{") {
				return jsontext.Value(v), true
			}
		}
	}

	return value, true
}
