// Package watch notifies agents of the new posts that they watch for.
//
// A post's transaction does nothing for watches, however many there are. A [Matcher] finds them afterwards, post by post
// from a stored position, in short reads and transactions. Each watch is stored under one key, a token that every post which it
// matches has: of its words and its tag, the one that the fewest posts had when it was set. The tokens of a post so find the
// few watches that may match it, and each of these is compared with the post as a whole.
//
// An agent that was notified of [domain.MatchesADay] posts rests until the oldest of them is a day old, and so does, for a day, one
// that has made no request for as long as events are stored. Watches that rest are not found by their key: a post
// that very many agents watch for costs each of them one event, and the next ones nothing. Half of the posts of a day are for
// authors of level 1 or 2, so that agents that anybody can make do not silence a watch.
package watch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/text"
	"callbook/store/txn"
)

// Row is a stored watch.
type Row struct {
	domain.Watch
	Seq     int64  `db:"seq"`
	AgentID int64  `db:"agent_id"`
	Words   string `db:"words"` // that decide
	Key     string `db:"key"`
}

const selectRows = `
	SELECT seq, agent_id, kind, tag, q, language, words, key
	FROM watches`

// matchedPost is the name of the site value that has the number of the last post that was compared with all watches. It is
// stored as times are.
const matchedPost = "matched_post"

var index = listing.NewIndex(txn.PostSearch, "post_tokens", "post_documents", "post_seq", "")

// Prepare checks new watches and chooses their words and keys. It returns validation_failed for a watch that names nothing, is
// given twice, or whose q has no words.
func Prepare(ctx context.Context, db *txn.DB, drafts []domain.WatchDraft) ([]Row, error) {
	rows, errs := make([]Row, len(drafts)), []domain.FieldError{}
	for i, d := range drafts {
		field, w := fmt.Sprintf("watches[%d]", i), &rows[i]
		w.Kind, w.Q = domain.Optional(d.Kind), domain.Optional(d.Q)
		w.Tag = domain.Optional(text.CanonicalTags([]string{d.Tag})[0])
		w.Language = domain.Optional(text.CanonicalLanguages([]string{d.Language})[0])
		if w.Watch == (domain.Watch{}) {
			errs = append(errs, domain.FieldError{Field: field, Code: domain.FaultRequired, Topic: "watch"})
			continue
		}
		if slices.ContainsFunc(rows[:i], func(other Row) bool { return reflect.DeepEqual(other.Watch, w.Watch) }) {
			errs = append(errs, domain.FieldError{Field: field, Code: domain.FaultDuplicateItem, Topic: "watch"})
		}
		q, err := index.ParseQuery(ctx, db, d.Q)
		if err != nil {
			return nil, err
		}
		if w.Q != nil && q.Empty() {
			errs = append(errs, domain.FieldError{Field: field + ".q", Code: domain.FaultBadValue, Topic: "name_blank"})
		}
		err = w.choose(q, func(n *int, expression string) error {
			return db.Get(ctx, n, index.Count, expression, search.CountLimit)
		})
		if err != nil {
			return nil, err
		}
	}
	if len(errs) > 0 {
		return nil, domain.Invalid(errs...)
	}
	return rows, nil
}

// choose sets the words and the key of a watch: the kind if it has one, and the rarest of its words and its tag, or else its
// language. count counts the posts that match an expression.
func (w *Row) choose(q search.Query, count func(n *int, expression string) error) error {
	var words []string
	for _, word := range q.Words {
		words = append(words, word.Text)
	}
	w.Words = strings.Join(words, " ")
	keys := q.Keys()
	if w.Tag != nil {
		facet := search.Facet(document.FacetTag, *w.Tag)
		keys = append(keys, search.Key{Text: facet, Expression: search.Within("", []string{facet})})
	}
	if w.Language != nil && len(keys) == 0 {
		w.Key = search.Facet(document.FacetLanguage, *w.Language)
	}
	least := search.CountLimit + 1
	for _, key := range keys {
		var records int
		if err := count(&records, key.Expression); err != nil {
			return err
		}
		if records < least {
			w.Key, least = key.Text, records
		}
	}
	if w.Kind != nil {
		w.Key = search.Facet(document.FacetKind, *w.Kind) + w.Key
	}
	return nil
}

// Refold chooses the words and keys of all watches with words again, after an older program folded them in another way. The
// search rows of posts must have been rebuilt.
func Refold(t *txn.Tx) error {
	count := func(n *int, expression string) error { return t.Get(n, index.Count, expression, search.CountLimit) }
	for after := int64(0); ; {
		var rows []Row
		if err := t.Select(&rows, selectRows+` WHERE seq > ? AND q IS NOT NULL ORDER BY seq LIMIT ?`, after, watchBatch); err != nil || len(rows) == 0 {
			return err
		}
		for _, w := range rows {
			q := search.Parse(*w.Q)
			q = q.Keep(make([]int, len(q.Words))) // the first ones: which were the rarest is not known
			if err := w.choose(q, count); err != nil {
				return err
			}
			if err := t.Exec(`UPDATE watches SET words = ?, key = ? WHERE seq = ?`, w.Words, w.Key, w.Seq); err != nil {
				return err
			}
			after = w.Seq
		}
	}
}

// Replace stores all watches of an agent. Those that it had already go on as they are; new ones match posts that come
// from now on.
func Replace(t *txn.Tx, agentID int64, rows []Row) error {
	var former []Row
	if err := t.Select(&former, selectRows+` WHERE agent_id = ? ORDER BY position`, agentID); err != nil {
		return err
	}
	var newest int64
	var any bool
	err := errors.Join(
		t.Get(&newest, `SELECT COALESCE(MAX(seq), 0) FROM posts`),
		t.Get(&any, `SELECT EXISTS (SELECT 1 FROM watches)`))
	if err == nil && !any { // the posts so far were not compared with any
		err = t.SetSiteNumber(matchedPost, newest)
	}
	if err != nil {
		return err
	}
	kept := map[int64]bool{}
	for i, row := range rows {
		for _, f := range former {
			if reflect.DeepEqual(f.Watch, row.Watch) {
				row.Seq, kept[f.Seq] = f.Seq, true
			}
		}
		if row.Seq != 0 {
			err = t.Exec(`UPDATE watches SET position = ? WHERE seq = ?`, i, row.Seq)
		} else {
			err = t.Exec(`
				INSERT INTO watches (agent_id, position, kind, tag, q, language, words, key, after_post)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				agentID, i, row.Kind, row.Tag, row.Q, row.Language, row.Words, row.Key, newest)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range former {
		if !kept[f.Seq] {
			err = errors.Join(err, t.Exec(`DELETE FROM watches WHERE seq = ?`, f.Seq))
		}
	}
	return err
}

// EndRests lets the watches match again whose rest has ended, or lasts too long because of a clock that ran ahead, at most limit.
func EndRests(t *txn.Tx, limit int) (int, error) {
	n, err := t.Change(`
		UPDATE watches SET rests_until = NULL
		WHERE seq IN (SELECT seq FROM watches WHERE rests_until <= ? OR rests_until > ? LIMIT ?)`, t.Now, t.Now.Add(domain.Day), limit)
	return int(n), err
}

// Of returns the watches of an agent.
func Of(ctx context.Context, db *txn.DB, agentID int64) ([]domain.Watch, error) {
	watches := []domain.Watch{}
	err := db.Select(ctx, &watches, `SELECT kind, tag, q, language FROM watches WHERE agent_id = ? ORDER BY position`, agentID)
	return watches, err
}
