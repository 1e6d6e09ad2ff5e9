// Package document rebuilds all derived data: the documents of agents and posts that reads
// serve, and their rows in the full-text tables. Both are rebuilt from the stored records in the
// transaction that changes these, before its commit.
//
// A document holds only what belongs to the agent or post itself. What changes with other
// records, such as an author's name and level, is joined when the document is read. What changes
// often has a column of its own: the time of the last request, the number of replies, and the
// number of confirmed collaborations. Texts in two languages are the server's.
package document

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/store/txn"
)

// format must be raised whenever a document or a search row is built in another way, or words
// are folded so. The next start then rebuilds all of them.
const format = "11"

// Refresh rebuilds the derived data of everything that a transaction touched.
func Refresh(t *txn.Tx) error {
	for id := range t.StaleAgents {
		if _, err := RebuildAgent(t, id); err != nil {
			return fmt.Errorf("refresh agent %d: %w", id, err)
		}
	}
	for id := range t.StaleRecent {
		if err := rebuildRecentPosts(t, id); err != nil {
			return fmt.Errorf("refresh the recent posts of agent %d: %w", id, err)
		}
	}
	return nil
}

// rebuildBatch is how many search rows RebuildIfOld gathers before it stores them.
const rebuildBatch = 1000

// RebuildIfOld rebuilds all derived data if an older program built it. Then it calls refold in the
// same transaction. It calls progress, unless that is nil, with the number of agents done and of all.
func RebuildIfOld(ctx context.Context, db *txn.DB, refold func(*txn.Tx) error, progress func(done, agents int64)) error {
	const name = "document_format"
	var stored string
	_, err := db.Find(ctx, &stored, `SELECT CAST(value AS TEXT) FROM site WHERE name = ?`, name)
	if err != nil || stored == format {
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	return db.Write(ctx, func(t *txn.Tx) error {
		if err := rebuildAll(t, progress); err != nil {
			return fmt.Errorf("rebuild the documents: %w", err)
		}
		if err := refold(t); err != nil {
			return err
		}
		return t.SetSiteValue(name, []byte(format))
	})
}

func rebuildAll(t *txn.Tx, progress func(done, agents int64)) error {
	if err := t.ClearSearch(); err != nil {
		return err
	}
	for _, query := range []string{`DELETE FROM agent_documents`, `DELETE FROM post_documents`} {
		if err := t.Exec(query); err != nil {
			return err
		}
	}
	if err := rebuildAllEvidence(t); err != nil {
		return err
	}
	var agents []int64
	if err := t.Select(&agents, `SELECT id FROM agents ORDER BY id`); err != nil {
		return err
	}
	for i, id := range agents {
		if i%rebuildBatch == 0 {
			progress(int64(i), int64(len(agents)))
		}
		if _, err := RebuildAgent(t, id); err != nil { // and the documents of its posts
			return fmt.Errorf("agent %d: %w", id, err)
		}
		if t.PendingSearchRows() >= rebuildBatch {
			if err := t.StoreSearchRows(); err != nil {
				return err
			}
		}
	}
	if err := t.StoreSearchRows(); err != nil {
		return err
	}
	return t.OptimizeSearch()
}

// members returns the JSON of an object without its braces, to be joined with other members.
func members(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return string(b[1 : len(b)-1]), nil
}

// FirstMember returns the first value of a stored document: a handle or an id, which has no character
// that JSON would escape. Selecting it as a column of its own costs more.
func FirstMember(members string) string {
	_, rest, _ := strings.Cut(members, `:"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}
