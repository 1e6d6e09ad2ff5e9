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
	"errors"
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

// rebuildBatch is how many search rows one transaction of RebuildIfOld stores.
const rebuildBatch = 500

// RebuildIfOld rebuilds all derived data if an older program built it. It calls
// progress, unless that is nil, with the number of agents done and of all. The write-ahead log stays small,
// because there are many transactions. If ctx ends between two of them, the next start of any version begins again.
func RebuildIfOld(ctx context.Context, db *txn.DB, progress func(done, agents int64)) error {
	var stored string
	_, err := db.Find(ctx, &stored, selectFormat, formatName)
	if err != nil || stored == format {
		return err
	}
	err = db.Write(ctx, func(t *txn.Tx) error {
		return errors.Join(t.ClearSearch(), rebuildAllEvidence(t), t.SetSiteValue(formatName, []byte("unfinished")))
	})
	if err == nil {
		err = rebuildAll(ctx, db, progress)
	}
	if err == nil {
		err = db.Write(ctx, func(t *txn.Tx) error {
			return errors.Join(t.OptimizeSearch(), t.SetSiteValue(formatName, []byte(format)))
		})
	}
	if err != nil {
		return fmt.Errorf("rebuild the documents: %w", err)
	}
	return nil
}

const (
	formatName   = "document_format"
	selectFormat = `SELECT CAST(value AS TEXT) FROM site WHERE name = ?`
)

func rebuildAll(ctx context.Context, db *txn.DB, progress func(done, agents int64)) error {
	var agents []int64
	if err := db.Select(ctx, &agents, `SELECT id FROM agents ORDER BY id`); err != nil {
		return err
	}
	for done, all := 0, len(agents); done < all; {
		if progress != nil {
			progress(int64(done), int64(all))
		}
		var rebuilt int
		err := db.Write(ctx, func(t *txn.Tx) (err error) {
			rebuilt, err = rebuildSome(t, agents[done:])
			return err
		})
		if err != nil {
			return err
		}
		done += rebuilt
	}
	return nil
}

// rebuildSome rebuilds the documents of the first agents and their posts, and returns of how many agents.
func rebuildSome(t *txn.Tx, agents []int64) (rebuilt int, err error) {
	for rebuilt < len(agents) && t.PendingSearchRows() < rebuildBatch {
		id := agents[rebuilt]
		err := errors.Join(
			t.Exec(`DELETE FROM post_documents WHERE author_id = ?`, id),
			t.Exec(`DELETE FROM agent_documents WHERE agent_id = ?`, id))
		if err == nil {
			_, err = RebuildAgent(t, id) // and the documents of its posts
		}
		if err != nil {
			return 0, fmt.Errorf("agent %d: %w", id, err)
		}
		rebuilt++
	}
	return rebuilt, nil
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
