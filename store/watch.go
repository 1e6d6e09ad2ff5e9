package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// Watches returns the caller's watches.
func (s *Store) Watches(ctx context.Context, caller domain.Caller) ([]domain.Watch, error) {
	watches := []domain.Watch{}
	err := s.db.Select(ctx, &watches, `
		SELECT kind, tag, q, language
		FROM watches
		WHERE agent_id = ?
		ORDER BY position`, caller.ID)
	return watches, err
}

// ReplaceWatches replaces all watches of the caller. It returns validation_failed for one that
// names nothing, is given twice, or whose q has no words.
func (s *Store) ReplaceWatches(
	ctx context.Context,
	caller domain.Caller,
	drafts domain.WatchDrafts,
) ([]domain.Watch, error) {
	watches, err := canonicalWatches(drafts.Watches)
	if err != nil {
		return nil, err
	}

	err = s.write(ctx, func(t *tx) error {
		if _, err := t.AuthorizeOwn(caller); err != nil {
			return err
		}
		return t.replaceWatches(caller.ID, watches)
	})
	if err != nil {
		return nil, err
	}

	return s.Watches(ctx, caller)
}

// canonicalWatches checks new watches and returns them as they are stored.
func canonicalWatches(drafts []domain.WatchDraft) ([]domain.WatchDraft, error) {
	watches := slices.Clone(drafts)
	var faults []domain.FieldError
	for i := range watches {
		w := &watches[i]
		w.Tag = text.CanonicalTags([]string{w.Tag})[0]
		w.Language = text.CanonicalLanguages([]string{w.Language})[0]

		fault := domain.FieldError{Field: fmt.Sprintf("watches[%d]", i), Topic: "watch"}
		switch {
		case *w == domain.WatchDraft{}:
			fault.Code = domain.FaultRequired

		case slices.Contains(watches[:i], *w):
			fault.Code = domain.FaultDuplicateItem

		case w.Q != "" && search.Parse(w.Q).Empty():
			fault.Field += ".q"
			fault.Code = domain.FaultBadValue
			fault.Topic = "watch_words"

		default:
			continue
		}
		faults = append(faults, fault)
	}

	if len(faults) > 0 {
		return nil, domain.Invalid(faults...)
	}
	return watches, nil
}

// replaceWatches stores the watches of an agent in the place of those before.
func (t *tx) replaceWatches(agentID int64, watches []domain.WatchDraft) error {
	if len(watches) > 0 { // to delete all must be possible in a full directory
		if err := t.CheckRoom(); err != nil {
			return err
		}
	}
	if err := t.Exec(`DELETE FROM watches WHERE agent_id = ?`, agentID); err != nil {
		return err
	}

	for i, w := range watches {
		err := t.Exec(`
			INSERT INTO watches (agent_id, position, kind, tag, q, language)
			VALUES (?, ?, ?, ?, ?, ?)`,
			agentID,
			i,
			domain.Optional(w.Kind),
			domain.Optional(w.Tag),
			domain.Optional(w.Q),
			domain.Optional(w.Language))
		if err != nil {
			return err
		}
	}
	return nil
}

// The names of the site values that say how far new posts have been compared with the watches.
const (
	matchedPost  = "matched_post"  // the number of the last post that was compared with all of them
	matchedAgent = "matched_agent" // the last agent that was compared with the post after it
)

// matchBatch is how many agents' watches one transaction compares with a post, so that requests do
// not wait for long.
const matchBatch = 250

// MatchPosts notifies agents of the new posts that they watch for: it compares each new post with
// every watch, a batch of agents in one transaction. It should run every second; without new posts
// it does nothing.
func (s *Store) MatchPosts(ctx context.Context) error {
	for ctx.Err() == nil {
		matched, err := s.siteNumber(ctx, matchedPost)
		if err != nil {
			return err
		}

		// A read, so that the writer has no transaction each second without a post.
		var waiting bool
		err = s.db.Get(ctx, &waiting, `
			SELECT EXISTS (
				SELECT 1
				FROM posts p
				JOIN agents a ON a.id = p.author_id
				WHERE p.seq > ? AND NOT a.hidden)`, matched)
		if err != nil || !waiting {
			return err
		}

		if err := s.writeBackground(ctx, (*tx).matchNextBatch); err != nil {
			return err
		}
	}
	return nil
}

// newPost is a post that is compared with the watches.
type newPost struct {
	postRow
	Author string `db:"author"` // handle
}

// agentWatch is a watch with its agent.
type agentWatch struct {
	domain.Watch
	AgentID int64 `db:"agent_id"`
}

// matchNextBatch compares the next post that the public sees with the watches of the next agents.
func (t *tx) matchNextBatch() error {
	after, err := t.SiteNumber(matchedPost)
	if err != nil {
		return err
	}

	var post newPost
	found, err := t.Find(&post, `
		SELECT p.seq, p.id, p.author_id, p.kind, p.title, p.body, p.deliverable, p.constraints,
			p.languages, p.tags, p.lang, h.handle AS author
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		JOIN handles h ON h.id = p.author_id
		WHERE p.seq > ? AND NOT a.hidden
		ORDER BY p.seq
		LIMIT 1`, after)
	if err != nil || !found {
		return err
	}

	// The watches of an agent are in one batch, so that it gets one event for a post.
	afterAgent, err := t.SiteNumber(matchedAgent)
	if err != nil {
		return err
	}
	var watches []agentWatch
	err = t.Select(&watches, `
		SELECT agent_id, kind, tag, q, language
		FROM watches
		WHERE agent_id IN (
			SELECT DISTINCT agent_id FROM watches WHERE agent_id > ? ORDER BY agent_id LIMIT ?)
		ORDER BY agent_id`, afterAgent, matchBatch)
	if err != nil {
		return err
	}

	// The post has been compared with all, and the next one begins with the first agent.
	if len(watches) == 0 {
		if err := t.SetSiteNumber(matchedAgent, 0); err != nil {
			return err
		}
		return t.SetSiteNumber(matchedPost, post.Seq)
	}

	tokens := post.Tokens(post.Author)
	var notified int64 // the last agent
	for _, w := range watches {
		if w.AgentID == notified || !watchMatches(w.Watch, tokens) {
			continue
		}

		notified = w.AgentID
		if err := t.notifyOfPost(w.AgentID, &post); err != nil {
			return err
		}
	}

	return t.SetSiteNumber(matchedAgent, watches[len(watches)-1].AgentID)
}

// watchMatches reports whether a post with tokens has all that a watch names.
func watchMatches(w domain.Watch, tokens search.TokenSet) bool {
	facets := askedOfPosts(domain.PostFilter{Kind: domain.Deref(w.Kind), Tag: domain.Deref(w.Tag)})
	if w.Language != nil {
		facets = append(facets, search.Facet(facetLanguage, *w.Language))
	}
	if !tokens.Has(facets) {
		return false
	}

	// As many words as of a search, which are what the agent sees when it tries the words.
	words := search.Parse(domain.Deref(w.Q)).Words
	return tokens.Matches(words[:min(len(words), search.MaxWords)])
}

// notifyOfPost stores an event for an agent that watches for a post, unless the post is its own,
// it has blocked the author, it has had the events of the day, or it has made no request for as
// long as events are stored.
func (t *tx) notifyOfPost(agentID int64, post *newPost) error {
	// An agent that does not read its events any more does not get new ones, either.
	var wanted bool
	err := t.Get(&wanted, `
		SELECT id <> ?2 AND last_active_at > ?3
			AND NOT EXISTS (SELECT 1 FROM blocks WHERE blocker_id = agents.id AND blocked_id = ?2)
		FROM agents
		WHERE id = ?1`, agentID, post.AuthorID, t.Now.Add(-domain.EventRetention))
	if err != nil || !wanted {
		return err
	}

	err = t.Spend(agentID, domain.ActMatch, domain.MatchesADay)
	if errors.Is(err, domain.NewError(domain.CodeRateLimited)) {
		return nil // the other agents get theirs
	}
	if err != nil {
		return err
	}

	subject := domain.EventSubject{ID: &post.ID, Handle: post.Author}
	return t.InsertEvent(agentID, domain.EventPostMatched, subject)
}
