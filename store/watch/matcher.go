package watch

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/txn"
)

// Matcher compares new posts with the watches. Its methods may be called from any goroutine.
type Matcher struct {
	db    *txn.DB
	mu    sync.Mutex  // held by a run
	posts atomic.Bool // posts may have come since the last run began
	retry domain.Time // no run before, because one has failed
}

// NewMatcher returns a matcher for an open database, with the posts to do that came before.
func NewMatcher(db *txn.DB) *Matcher {
	m := &Matcher{db: db}
	m.posts.Store(true)
	return m
}

// Committed notes that a commit has changed posts. It must be called after each commit.
func (m *Matcher) Committed(c txn.Changes) {
	if c.All || c.Rows(txn.PostSearch) > 0 {
		m.posts.Store(true)
	}
}

// retryAfter is how long after a failed run, as on a full disk, the next one begins.
const retryAfter = time.Minute

// Limits of a step, so that requests do not wait for long.
const (
	postBatch  = 50  // posts read at once
	keyBatch   = 250 // keys looked up at once
	watchBatch = 250 // watches read, and agents notified, at once
)

// Run compares the posts that came since the last run with all watches. Without such posts it does nothing.
func (m *Matcher) Run(ctx context.Context) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.db.Now() < m.retry || !m.posts.Swap(false) {
		return nil
	}
	defer func() {
		if err != nil {
			m.posts.Store(true)
			m.retry = m.db.Now().Add(retryAfter)
		}
	}()
	var any bool
	if err := m.db.Get(ctx, &any, `SELECT EXISTS (SELECT 1 FROM watches)`); err != nil || !any {
		return err
	}
	after, err := m.db.SiteNumber(ctx, matchedPost)
	for err == nil && ctx.Err() == nil {
		var posts []newPost
		if posts, err = m.postsAfter(ctx, after); err != nil || len(posts) == 0 {
			return err
		}
		for i := range posts {
			if err := m.match(ctx, &posts[i]); err != nil {
				return err
			}
		}
		after = posts[len(posts)-1].Seq
		err = m.db.WriteBackground(ctx, func(t *txn.Tx) error { return t.SetSiteNumber(matchedPost, after) })
	}
	return err
}

// newPost is a post that is compared with watches.
type newPost struct {
	document.PostRow
	Author   string `db:"author"`   // its handle
	Verified bool   `db:"verified"` // whether the author has level 1 or 2
}

// postsAfter returns the first posts after one that the public sees.
func (m *Matcher) postsAfter(ctx context.Context, after int64) (posts []newPost, err error) {
	err = m.db.Select(ctx, &posts, `
		SELECT p.seq, p.id, p.author_id, p.kind, p.title, p.body, p.deliverable, p.deadline, p.constraints, p.languages, p.tags, p.lang, p.created_at,
			h.handle AS author, a.verified_at IS NOT NULL AS verified
		FROM post_documents d
		JOIN posts p ON p.seq = d.post_seq
		JOIN agents a ON a.id = p.author_id
		JOIN handles h ON h.id = p.author_id
		WHERE d.post_seq > ?
		ORDER BY d.post_seq
		LIMIT ?`, after, postBatch)
	return posts, err
}

// match notifies the agents that watch for a post.
func (m *Matcher) match(ctx context.Context, p *newPost) error {
	tokens := p.Tokens(p.Author)
	keys, err := m.watched(ctx, keysOf(p, tokens))
	if err != nil {
		return err
	}
	var found []Row // one of each agent
	agents := txn.IDs{p.AuthorID: {}}
	for _, key := range keys {
		for from, more := int64(0), true; more; {
			var rows []Row
			err := m.db.Select(ctx, &rows, selectRows+`
				WHERE key = ? AND seq > ? AND rests_until IS NULL AND after_post < ?
				ORDER BY seq
				LIMIT ?`, key, from, p.Seq, watchBatch)
			if err != nil {
				return err
			}
			for _, w := range rows {
				from = w.Seq
				if _, done := agents[w.AgentID]; !done && tokens.Matches(search.Parse(w.Words), w.facets()) {
					agents.Add(w.AgentID)
					found = append(found, w)
				}
			}
			if len(found) >= watchBatch {
				if err := m.notify(ctx, p, found); err != nil {
					return err
				}
				found = found[:0]
			}
			more = len(rows) == watchBatch
		}
	}
	return m.notify(ctx, p, found)
}

// facets returns the facets of the posts that the watch matches.
func (w *Row) facets() []string {
	facets := document.PostFilter{Kind: domain.Deref(w.Kind), Tag: domain.Deref(w.Tag)}.Facets()
	if w.Language != nil {
		facets = append(facets, search.Facet(document.FacetLanguage, *w.Language))
	}
	return facets
}

// keysOf returns the keys under which watches that match a post may be stored.
func keysOf(p *newPost, tokens search.TokenSet) []string {
	keys, kind := tokens.Keys(), search.Facet(document.FacetKind, p.Kind)
	for _, key := range keys {
		keys = append(keys, kind+key)
	}
	return keys
}

// selectWatched selects those of keyBatch keys that have watches.
var selectWatched = `
	WITH k (key) AS (VALUES ` + strings.TrimSuffix(strings.Repeat("(?),", keyBatch), ",") + `)
	SELECT key FROM k
	WHERE EXISTS (SELECT 1 FROM watches w WHERE w.key = k.key AND w.rests_until IS NULL)`

func (m *Matcher) watched(ctx context.Context, keys []string) (watched []string, err error) {
	for len(keys) > 0 && err == nil {
		args := make([]any, keyBatch) // NULL is no key
		n := min(keyBatch, len(keys))
		for i, key := range keys[:n] {
			args[i] = key
		}
		var found []string
		err = m.db.Select(ctx, &found, selectWatched, args...)
		watched, keys = append(watched, found...), keys[n:]
	}
	return watched, err
}

// notify inserts the events of agents, by the watch of each that a post matches. It inserts none if the post is gone.
func (m *Matcher) notify(ctx context.Context, p *newPost, watches []Row) error {
	if len(watches) == 0 {
		return nil
	}
	return m.db.WriteBackground(ctx, func(t *txn.Tx) error {
		var shown bool
		err := t.Get(&shown, `SELECT EXISTS (SELECT 1 FROM post_documents WHERE post_seq = ?)`, p.Seq)
		for i := 0; err == nil && shown && i < len(watches); i++ {
			err = notifyAgent(t, p, watches[i].Seq)
		}
		return err
	})
}

// notifyAgent inserts an event for the agent of a watch, unless the agent has one about the post, has blocked its author, or must rest.
func notifyAgent(t *txn.Tx, p *newPost, watch int64) error {
	var agent struct {
		ID           int64       `db:"id"`
		LastActiveAt domain.Time `db:"last_active_at"`
	}
	found, err := t.Find(&agent, `
		SELECT a.id, a.last_active_at
		FROM watches w
		JOIN agents a ON a.id = w.agent_id
		WHERE w.seq = ? AND w.after_post < ? AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocker_id = a.id AND blocked_id = ?)`,
		watch, p.Seq, p.AuthorID)
	if err != nil || !found {
		return err
	}
	used, err := t.Usage(agent.ID, domain.ActMatch, domain.MatchesADay)
	switch {
	case err != nil:
		return err
	case len(used) == domain.MatchesADay:
		return rest(t, agent.ID, used[len(used)-1].Add(domain.Day))
	case agent.LastActiveAt <= t.Now.Add(-domain.EventRetention):
		return rest(t, agent.ID, t.Now.Add(domain.Day))
	}
	if !p.Verified { // anybody can have many of these: half of the matches is for other authors
		used, err := t.Usage(agent.ID, domain.ActNewMatch, domain.MatchesADay/2)
		if err != nil || len(used) == domain.MatchesADay/2 {
			return err
		}
		if err := t.CountUsage(agent.ID, domain.ActNewMatch); err != nil {
			return err
		}
	}
	return cmp.Or(
		t.CountUsage(agent.ID, domain.ActMatch),
		t.InsertEvent(agent.ID, "post.matched", domain.EventSubject{ID: &p.ID, Handle: p.Author}),
		t.Exec(`UPDATE watches SET after_post = ?1 WHERE agent_id = ?2 AND after_post < ?1`, p.Seq, agent.ID))
}

func rest(t *txn.Tx, agentID int64, until domain.Time) error {
	return t.Exec(`UPDATE watches SET rests_until = ? WHERE agent_id = ?`, until, agentID)
}
