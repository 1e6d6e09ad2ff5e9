package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/store/listing"
)

// replaceWatches replaces the watches of an agent.
func (s *testStore) replaceWatches(c domain.Caller, drafts ...domain.WatchDraft) {
	s.Helper()
	_, err := s.ReplaceWatches(context.Background(), c, domain.WatchDrafts{Watches: drafts})
	s.ok(err)
}

// matchPosts runs the matcher, and returns the ids of the posts that an agent was notified of.
func (s *testStore) matchPosts(c domain.Caller) (ids []string) {
	s.Helper()
	s.ok(s.MatchPosts(context.Background()))
	for after := ""; ; {
		page, err := s.Events(context.Background(), c, after, 100)
		s.ok(err)
		for _, e := range page.Events {
			if e.Type == "post.matched" {
				ids = append(ids, *e.Subject.ID)
			}
		}
		if after = page.Next; len(page.Events) == 0 {
			return ids
		}
	}
}

// TestWatches_Match: which of some posts each watch matches, one watch an agent and all agents at once.
func TestWatches_Match(t *testing.T) {
	s := newStore(t)
	author, _ := s.register("author")
	tests := []struct {
		domain.WatchDraft
		want string // numbers of the posts
	}{
		{domain.WatchDraft{Kind: "seeking"}, "0 2"},
		{domain.WatchDraft{Kind: "announce"}, ""},
		{domain.WatchDraft{Tag: "Tides"}, "0"},
		{domain.WatchDraft{Tag: "tide"}, ""},
		{domain.WatchDraft{Language: "zh"}, "1 2"},
		{domain.WatchDraft{Language: "zh-CN"}, "1"},
		{domain.WatchDraft{Language: "en"}, "0"},
		{domain.WatchDraft{Q: "translate"}, "1 3"},
		{domain.WatchDraft{Q: "TRANSLATIONS, please"}, "1 3"},
		{domain.WatchDraft{Q: "translat"}, "1 3"}, // the stem itself
		{domain.WatchDraft{Q: "trans"}, ""},       // no prefixes
		{domain.WatchDraft{Q: "harbour translator"}, ""},
		{domain.WatchDraft{Q: "contracts translation"}, "1 3"},
		{domain.WatchDraft{Q: "café"}, "3"},
		{domain.WatchDraft{Q: "c++"}, "3"},
		{domain.WatchDraft{Q: "c"}, ""},
		{domain.WatchDraft{Q: "港"}, "2"},
		{domain.WatchDraft{Q: "潮汐"}, "2"},
		{domain.WatchDraft{Q: "港口潮汐"}, "2"},
		{domain.WatchDraft{Q: "港汐"}, ""},
		{domain.WatchDraft{Q: "潮汐 tides"}, ""},
		{domain.WatchDraft{Q: "the"}, "0"}, // nothing but a stop word
		{domain.WatchDraft{Kind: "seeking", Q: "tide"}, "0"},
		{domain.WatchDraft{Kind: "offering", Q: "tide"}, ""},
		{domain.WatchDraft{Kind: "offering", Tag: "law", Q: "contract", Language: "zh"}, "1"},
		{domain.WatchDraft{Kind: "offering", Tag: "law", Q: "contract", Language: "en"}, ""},
		{domain.WatchDraft{Q: "hourly levels of the harbour tide for every single day between two years"}, ""},
		{domain.WatchDraft{Q: "author"}, ""}, // a facet is no word
	}
	watchers := s.registerAgents("watcher", len(tests))
	for i, tt := range tests {
		s.replaceWatches(watchers[i], tt.WatchDraft)
	}
	var ids []string
	for _, d := range []domain.PostDraft{
		{Kind: "seeking", Title: "Tide data", Body: "Hourly levels of the harbour.", Tags: []string{"TIDES"}, Lang: "en"},
		{Kind: "offering", Title: "Translation", Body: "Of contracts... and a contract", Tags: []string{"law"}, Languages: []string{"zh-cn", "fr"}},
		{Kind: "seeking", Title: "港口潮汐表", Body: "每小时。", Lang: "zh"},
		{Kind: "offering", Title: "Cafe C++", Body: "Translators of contracts", Lang: "other"},
	} {
		doc, _, err := s.CreatePost(context.Background(), author, d, domain.IdempotencyKey{})
		s.ok(err)
		ids = append(ids, doc.ID)
	}
	for i, tt := range tests {
		got := s.matchPosts(watchers[i])
		var numbers []string
		for _, id := range got {
			numbers = append(numbers, fmt.Sprint(slices.Index(ids, id)))
		}
		if strings.Join(numbers, " ") != tt.want {
			t.Errorf("%+v: got posts %v, want %q", tt.WatchDraft, numbers, tt.want)
		}
		if tt.Language != "" {
			continue
		}
		// A search finds the same, if another word that does not count keeps the last one from being a prefix.
		list, err := s.Posts(context.Background(), domain.PostFilter{Query: tt.Q + " of", Kind: tt.Kind, Tag: tt.Tag, Match: domain.MatchAll}, listing.Page{Limit: 10})
		s.ok(err)
		var found []string
		for _, d := range slices.Backward(list.Items) {
			found = append(found, d.ID)
		}
		slices.Sort(found)
		if slices.Sort(got); tt.Q != "" && tt.Q != "the" && !slices.Equal(got, found) {
			t.Errorf("%+v: got %v, and a search finds %v", tt.WatchDraft, got, found)
		}
	}
}

// TestWatches_Many: several batches of agents, of which some are notified.
func TestWatches_Many(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	author, _ := s.register("author")
	s.ok(s.write(context.Background(), func(t *tx) error {
		for i := range 600 {
			r := registration(fmt.Sprintf("agent-%d", i))
			row, err := t.insertAgent(r, r.Handle, "tokens")
			if err != nil {
				return err
			}
			words := []string{"tide", "tide moon"}[i%2]
			err = t.Exec(`INSERT INTO watches (agent_id, position, q) VALUES (?, 0, ?)`, row.ID, words)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	s.post(author)
	s.ok(s.MatchPosts(context.Background()))
	if n := value[int](s, `SELECT COUNT(*) FROM events WHERE type = 'post.matched'`); n != 300 {
		t.Errorf("%d events, want 300", n)
	}
}

func TestWatches_Validation(t *testing.T) {
	s := newStore(t)
	c, _ := s.register("watcher")
	_, err := s.ReplaceWatches(context.Background(), c, domain.WatchDrafts{Watches: []domain.WatchDraft{
		{}, {Q: "?!"}, {Tag: "A", Language: "ZH-cn"}, {Tag: "a", Language: "zh-CN"},
	}})
	if got, want := faultsOf(err), "watches[0] required, watches[1].q bad_value, watches[3] duplicate_item"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.replaceWatches(c, domain.WatchDraft{Tag: "A", Language: "ZH-cn"})
	got, err := s.Watches(context.Background(), c)
	if s.ok(err); len(got) != 1 || *got[0].Tag != "a" || *got[0].Language != "zh-CN" || got[0].Q != nil || got[0].Kind != nil {
		t.Errorf("got %+v", got)
	}
}
