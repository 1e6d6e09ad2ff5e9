package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/testdata/proof"
)

// readAll walks a list by offset, by pages of 100.
func readAll[T any](t testing.TB, name func(T) string, page func(listing.Page) (listing.List[T], error)) (names []string) {
	t.Helper()
	for {
		found, err := page(listing.Page{Limit: 100, Offset: len(names)})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range found.Items {
			names = append(names, name(item))
		}
		if found.Next == "" {
			if found.Total != len(names) || !found.TotalIsExact {
				t.Errorf("total %d, exact %v, of %d", found.Total, found.TotalIsExact, len(names))
			}
			return names
		}
	}
}

func handleOf(d domain.PublicAgent) string { return d.Handle }
func idOf(d domain.PublicPost) string      { return d.ID }

// TestAgents_Tiers: where each text of a card is found, the newest first within a tier.
func TestAgents_Tiers(t *testing.T) {
	s := newStore(t)
	const word = "lantern"
	for _, tt := range []struct {
		handle string
		set    func(r *domain.Registration, o *domain.OfferingDraft)
	}{
		{"not-doing", func(_ *domain.Registration, o *domain.OfferingDraft) { o.NotDoing = word }},
		{"title", func(_ *domain.Registration, o *domain.OfferingDraft) { o.Title = word }},
		{"for-whom", func(_ *domain.Registration, o *domain.OfferingDraft) { o.ForWhom = word }},
		{"person", func(r *domain.Registration, _ *domain.OfferingDraft) { r.Owner = word }},
		{"english", func(r *domain.Registration, _ *domain.OfferingDraft) { r.DescriptionEN = word }},
		{"name", func(r *domain.Registration, _ *domain.OfferingDraft) { r.Name = word }},
		{"deliverable", func(_ *domain.Registration, o *domain.OfferingDraft) { o.Deliverable = word }},
		{"tag", func(_ *domain.Registration, o *domain.OfferingDraft) { o.Tags = []string{word} }},
		{"capability", func(r *domain.Registration, _ *domain.OfferingDraft) { r.Capabilities = []string{word} }},
		{"the-lantern", func(*domain.Registration, *domain.OfferingDraft) {}},
		{"chinese", func(r *domain.Registration, _ *domain.OfferingDraft) { r.DescriptionZH = word }},
		{"tagline", func(r *domain.Registration, _ *domain.OfferingDraft) { r.Tagline = word }},
	} {
		o := domain.OfferingDraft{Title: "t", Deliverable: "d", Mode: "free"}
		c, _ := s.register(tt.handle, func(r *domain.Registration) { tt.set(r, &o) })
		_, err := s.ReplaceOfferings(context.Background(), c, domain.Menu{Offerings: []domain.OfferingDraft{o}})
		s.ok(err)
	}
	const all = "the-lantern name title tagline capability deliverable person chinese tag english for-whom"
	for query, want := range map[string]string{word: all, "LANTERNS": all, "lanter": all, "lantern zeppelin": "", "lantern chinese": "chinese"} {
		got := readAll(t, handleOf, func(p listing.Page) (listing.List[domain.PublicAgent], error) {
			return s.Agents(context.Background(), domain.AgentFilter{Match: domain.MatchAll, Query: query}, p)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}

// TestAgents_Filters: alone and together, with and without words.
func TestAgents_Filters(t *testing.T) {
	s := newStore(t)
	s.register("old", func(r *domain.Registration) {
		r.Capabilities, r.Languages = []string{"Tide tables"}, []string{"zh-CN", "en"}
	})
	s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, "old"))
	s.clock.Advance(time.Millisecond)
	s.register("month")
	s.clock.Advance(newWindow)
	claimed, _ := s.register("claimed", func(r *domain.Registration) { r.Languages = []string{"zh-Hant-TW"} })
	s.claim(claimed, 1)
	s.register("plain", func(r *domain.Registration) { r.Capabilities, r.Languages = []string{"tide"}, []string{"zh"} })
	yes, no := true, false
	for _, tt := range []struct {
		domain.AgentFilter
		want string
	}{
		{domain.AgentFilter{}, "plain claimed month old"},
		{domain.AgentFilter{New: true}, "plain claimed month"},
		{domain.AgentFilter{Verified: &yes}, "claimed old"},
		{domain.AgentFilter{Verified: &no}, "plain month"},
		{domain.AgentFilter{Verified: &no, MinLevel: 1}, ""},
		{domain.AgentFilter{MinLevel: 1}, "claimed old"},
		{domain.AgentFilter{MinLevel: 2}, "claimed"},
		{domain.AgentFilter{Capability: "tide TABLES"}, "old"},
		{domain.AgentFilter{Capability: "tide"}, "plain"},
		{domain.AgentFilter{Language: "ZH"}, "plain claimed old"},
		{domain.AgentFilter{Language: "zh-hant"}, "claimed"},
		{domain.AgentFilter{Language: "z"}, ""},
		{domain.AgentFilter{Language: "zh", New: true, Verified: &no}, "plain"},
	} {
		for _, words := range []string{"", "name", "nam"} { // of which each agent has one
			f := tt.AgentFilter
			f.Query, f.Match = words, domain.MatchAll
			got := readAll(t, handleOf, func(p listing.Page) (listing.List[domain.PublicAgent], error) {
				return s.Agents(context.Background(), f, p)
			})
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%+v: %v, want %q", f, got, tt.want)
			}
		}
	}
}

func TestAgents_ExactHandleComesFirst(t *testing.T) {
	s := newStore(t)
	s.register("tide")
	s.register("tide-two")
	s.register("other", func(r *domain.Registration) { r.Name = "tide" })
	for query, want := range map[string]string{
		"tide": "tide other tide-two", "tide-two": "tide-two", "other": "other", "tid": "other tide-two tide",
	} {
		got := readAll(t, handleOf, func(p listing.Page) (listing.List[domain.PublicAgent], error) {
			return s.Agents(context.Background(), domain.AgentFilter{Match: domain.MatchAll, Query: query}, p)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}

// TestLists_HaveADeadline unless they are the beginning of a list without filters, which always costs little.
func TestLists_HaveADeadline(t *testing.T) {
	s := newStore(t, func(o *Options) { o.QueryTimeout = 1 }) // a nanosecond
	agents := func(f domain.AgentFilter, p listing.Page) error { return errOf(s.Agents(t.Context(), f, p)) }
	posts := func(f domain.PostFilter, p listing.Page) error { return errOf(s.Posts(t.Context(), f, p)) }
	start, later := listing.Page{Limit: 1}, listing.Page{Limit: 1, Offset: 1}
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"agents", "", agents(domain.AgentFilter{}, start)},
		{"agents by offset", "unavailable", agents(domain.AgentFilter{}, later)},
		{"new agents", "unavailable", agents(domain.AgentFilter{New: true}, start)},
		{"agents by words", "unavailable", agents(domain.AgentFilter{Query: "tide"}, start)},
		{"posts", "", posts(domain.PostFilter{}, start)},
		{"posts of a kind", "", posts(domain.PostFilter{Kind: "seeking"}, start)},
		{"posts by offset", "unavailable", posts(domain.PostFilter{}, later)},
		{"posts with a tag", "unavailable", posts(domain.PostFilter{Kind: "seeking", Tag: "tide"}, start)},
	} {
		wantOutcome(t, tt.name, tt.err, tt.want)
	}
}

func TestTotals_AreCountedTo1000(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("author")
	add := func(from, to int) {
		s.ok(s.write(ctx, func(t *tx) error {
			row, err := t.Authorize(author)
			if err != nil {
				return err
			}
			for i := from; i < to; i++ {
				r := registration(fmt.Sprintf("agent-%d", i))
				tokens := agentTokens(new(newAgentRow(&r, t.Now).Agent))
				if _, err := t.insertAgent(r, r.Handle, tokens); err != nil {
					return err
				}
				draft := s.draft("tide", "b")
				draft.Tags = []string{"x"}
				words := postWords(new(draftedPost(draft)))
				if _, err := t.createPost(row, author.Address, draft, words); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	check := func(total int, exact bool) {
		for _, f := range []domain.AgentFilter{{}, {Query: "name"}, {Query: "na"}, {New: true}, {MinLevel: 0, Verified: new(bool)}} {
			found, err := s.Agents(ctx, f, listing.Page{Limit: 1})
			if s.ok(err); found.Total != total || found.TotalIsExact != exact {
				t.Errorf("agents by %+v: total %d, exact %v; want %d, %v", f, found.Total, found.TotalIsExact, total, exact)
			}
		}
	}
	checkPosts := func(total int, exact bool) {
		for _, f := range []domain.PostFilter{{}, {Query: "tide"}, {Open: true}, {Tag: "x"}, {Author: "author", Kind: "seeking"}} {
			found, err := s.Posts(ctx, f, listing.Page{Limit: 1})
			if s.ok(err); found.Total != total || found.TotalIsExact != exact {
				t.Errorf("calls by %+v: total %d, exact %v; want %d, %v", f, found.Total, found.TotalIsExact, total, exact)
			}
		}
	}
	add(1, 1000)
	check(1000, true)
	check(1000, true) // from the cache
	checkPosts(999, true)
	add(1000, 1001)
	check(1000, false)
	checkPosts(1000, true)
	add(1001, 1002)
	checkPosts(1000, false)
	s.ok(s.DeletePost(ctx, author, value[string](s, `SELECT id FROM posts LIMIT 1`)))
	checkPosts(1000, true)
	found, err := s.Agents(ctx, domain.AgentFilter{Query: "name"}, listing.Page{Limit: 2, Offset: 1001})
	if s.ok(err); len(found.Items) != 1 || found.Next != "" {
		t.Errorf("the last page has %d agents, next %q", len(found.Items), found.Next)
	}
}

// TestAgents_CursorOutlivesTheExactHandle: an agent that comes to have the very handle that
// is searched for puts no other twice or nowhere.
func TestAgents_CursorOutlivesTheExactHandle(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	for i := range 5 {
		s.register(fmt.Sprintf("tide-%d", i))
	}
	f := domain.AgentFilter{Query: "tide"}
	first, err := s.Agents(ctx, f, listing.Page{Limit: 2})
	s.ok(err)
	s.register("tide")
	rest, err := s.Agents(ctx, f, listing.Page{Limit: 10, Cursor: first.Next})
	s.ok(err)
	var names []string
	for _, d := range append(first.Items, rest.Items...) {
		names = append(names, d.Handle)
	}
	if got := fmt.Sprint(names); got != "[tide-4 tide-3 tide-2 tide-1 tide-0]" {
		t.Error(got)
	}
}

func TestSearch_CompletesLastWord(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	const words = 2 * search.MaxCompletions
	for i := range words {
		s.post(pilot, func(d *domain.PostDraft) { d.Title = fmt.Sprintf("xylophone%d", i) })
	}
	for _, title := range []string{"m", "mo", "moo", "moor", "moors", "mural"} {
		s.post(pilot, func(d *domain.PostDraft) { d.Title = title })
	}
	for q, want := range map[string]int{"m": 6, "mo": 4, "moo": 3, "moor": 2, "x": words, "xy": words, "xyl": words, "xylo": words, "mox": 0, "xylop": words, "xylophone": words, "xylophone1": 11, "xylophone12": 1, "xylophonex": 0, "xylops": 0, "xylophone1 xylophone2": 0} {
		found, err := s.Posts(t.Context(), domain.PostFilter{Query: q, Match: domain.MatchAll}, listing.Page{Limit: 100})
		if s.ok(err); len(found.Items) != want || found.Total != want {
			t.Errorf("%s: %d of %d, want %d", q, len(found.Items), found.Total, want)
		}
	}
}
