package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/query"
	"callbook/store/search"
	"callbook/testdata/proof"
)

// The reference of this file works on units: words of spaced scripts, and
// unbroken runs of Chinese. It never folds or cuts anything: each unit comes
// with the spellings that a search must take for the same.
var spellings = map[string][]string{
	"cafe": {"cafe", "Café", "CAFÉ", "cafe\u0301"}, "tide": {"tide", "TIDE", "ｔｉｄｅ"}, "tideway": {"tideway", "Tideway"},
	"table": {"table", "Table"}, "port": {"port", "PORT"}, "порт": {"порт", "ПОРТ"}, "c++": {"c++", "C++"}, "c#": {"c#", "C#"}, "c": {"c", "C"},
	"gpt": {"gpt", "GPT"}, "4": {"4", "４"}, "潮汐": {"潮汐"}, "港口潮汐助手": {"港口潮汐助手"}, "助手": {"助手"}, "港口": {"港口"}, "人工智能": {"人工智能"},
	"表": {"表"}, "データ": {"データ", "ﾃﾞｰﾀ"}, "llm": {"llm", "LLM"}, "zone": {"zone", "zoné"},
}

var (
	units = slices.Sorted(func(yield func(string) bool) {
		for u := range spellings {
			if !yield(u) {
				return
			}
		}
	})
	queried = []string{"潮", "口潮", "汐助", "工智", "手", "ー", "ータ", "t", "ti", "tid", "caf", "港口潮", "智", "z", "missing", "缺"}
)

func isRun(unit string) bool { return unit[0] >= 0xE3 } // from U+3000 on

// textOf writes units as an agent would, in any spelling.
func textOf(r *rand.Rand, units []string) string {
	written := make([]string, len(units))
	for i, u := range units {
		written[i] = spellings[u][r.IntN(len(spellings[u]))]
	}
	return strings.Join(written, []string{" ", ", ", " - ", "，"}[r.IntN(4)])
}

func someUnits(r *rand.Rand, least, most int) []string {
	some := make([]string, least+r.IntN(most-least+1))
	for i := range some {
		some[i] = units[r.IntN(len(units))]
	}
	return some
}

// hasWord tells whether a word of a query is in a text; last words match as
// beginnings too.
func hasWord(text []string, word string, last bool) bool {
	return slices.ContainsFunc(text, func(unit string) bool {
		switch {
		case isRun(word):
			return isRun(unit) && strings.Contains(unit, word)
		case last:
			return !isRun(unit) && strings.HasPrefix(unit, word)
		}
		return unit == word
	})
}

// modelled is an agent as the reference knows it: its units by weight.
type modelled struct {
	seq           int64
	handle        string
	weights       [3][]string
	level         int
	isNew         bool
	listed, langs []string // capabilities and languages
}

// tierOf is where a query finds an agent: -1 for nowhere.
func (m *modelled) tierOf(words []string) int {
	var text []string
	for tier, units := range m.weights {
		text = append(text, units...)
		missing := false
		for i, w := range words {
			missing = missing || !hasWord(text, w, i == len(words)-1)
		}
		if !missing {
			return tier
		}
	}
	return -1
}

// inOrder returns the handles of the agents that a query selects, as a list shows
// them: by tier, then newest first.
func inOrder(all []modelled, words []string, selected func(*modelled) bool) (handles []string) {
	type hit struct {
		tier int
		m    *modelled
	}
	var hits []hit
	for i := range all {
		if tier := all[i].tierOf(words); tier >= 0 && selected(&all[i]) {
			hits = append(hits, hit{tier, &all[i]})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(b.m.seq, a.m.seq))
	})
	for _, h := range hits {
		handles = append(handles, h.m.handle)
	}
	return handles
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomQuery(r *rand.Rand) (words []string, query string) {
	var written []string
	for range r.IntN(4) {
		w := pick(r, append(queried, units...)...)
		words = append(words, w)
		if forms, ok := spellings[w]; ok {
			w = pick(r, forms...)
		}
		written = append(written, w)
	}
	// A word asked twice is asked once; as the last it is no beginning then.
	return words, strings.Join(written, " ")
}

const modelledAgents = 150

// modelAgents registers random agents, a third of them more than 30 days ago.
func (s *testStore) modelAgents(r *rand.Rand) (all []modelled) {
	s.Helper()
	for i := range modelledAgents {
		if i == modelledAgents/3 {
			s.clock.Advance(query.NewWindow + time.Millisecond)
		}
		m := modelled{handle: fmt.Sprintf("agent-%d", i), isNew: i >= modelledAgents/3}
		title, name, tagline, owner, deliverable := someUnits(r, 1, 1), someUnits(r, 1, 2), someUnits(r, 0, 2), someUnits(r, 1, 1), someUnits(r, 1, 2)
		en, zh, tag := someUnits(r, 1, 5), someUnits(r, 0, 5), someUnits(r, 1, 1)
		m.listed = slices.Compact(slices.Sorted(slices.Values(someUnits(r, 0, 3))))
		m.langs = pick(r, nil, []string{"en"}, []string{"zh-CN", "en"}, []string{"zh-Hant-TW"}, []string{"zh"})
		mixed := textOf(r, name) // of scripts that no name may mix by now
		caller, _ := s.register(m.handle, func(g *domain.Registration) {
			g.Owner, g.Tagline = textOf(r, owner), textOf(r, tagline)
			g.DescriptionEN, g.DescriptionZH = textOf(r, en), textOf(r, zh)
			for _, c := range m.listed {
				g.Capabilities = append(g.Capabilities, textOf(r, []string{c}))
			}
			g.Languages = m.langs
		})
		s.change([]domain.Caller{caller}, `UPDATE agents SET name = ? WHERE id = ?`, mixed, caller.ID)
		m.seq, m.level = caller.ID, r.IntN(3)
		m.weights = [3][]string{
			append([]string{"agent", fmt.Sprint(i)}, name...),
			slices.Concat(tagline, owner, m.listed),
			slices.Concat(en, zh),
		}
		if r.IntN(2) == 0 {
			_, err := s.ReplaceOfferings(context.Background(), caller, domain.Menu{Offerings: []domain.OfferingDraft{{
				Title: textOf(r, title), Deliverable: textOf(r, deliverable), Mode: "free", Tags: []string{textOf(r, tag)},
			}}})
			s.ok(err)
			m.weights[0] = append(m.weights[0], title...)
			m.weights[1] = append(m.weights[1], deliverable...)
			m.weights[2] = append(m.weights[2], tag...)
		}
		switch m.level {
		case 1:
			s.ok(s.Verify(context.Background(), m.handle))
		case 2:
			s.claim(caller, byte(i))
		}
		all = append(all, m)
	}
	return all
}

func (m *modelled) selectedBy(f document.AgentFilter) bool {
	lang := strings.ToLower(f.Language)
	return (f.Verified == nil || *f.Verified == (m.level > 0)) && m.level >= f.MinLevel && (!f.New || m.isNew) &&
		(f.Capability == "" || slices.Contains(m.listed, strings.ToLower(f.Capability))) &&
		(lang == "" || slices.ContainsFunc(m.langs, func(l string) bool { return strings.HasPrefix(strings.ToLower(l)+"-", lang+"-") }))
}

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

func handleOf(d domain.AgentDocument) string { return d.Handle }
func idOf(d domain.PostDocument) string      { return d.ID }

func TestAgents_AgreesWithAReference(t *testing.T) {
	proof.OneByOne(t)
	s := newStore(t)
	r := rand.New(rand.NewPCG(1, 2))
	all := s.modelAgents(r)
	yes, no := true, false
	found := 0
	for i := range 400 {
		words, query := randomQuery(r)
		f := document.AgentFilter{
			Strict: true, Query: query, New: r.IntN(4) == 0, MinLevel: pick(r, 0, 0, 0, 1, 2), Verified: pick(r, nil, nil, nil, &yes, &no),
			Capability: pick(r, "", "", "", "Tide", "cafe", "潮汐", "C++", "c", "tid"), Language: pick(r, "", "", "", "zh", "EN", "zh-cn", "zh-Hant", "z", "fr"),
		}
		if i < 2*len(units) { // each unit alone, without any filter too
			words, f = []string{units[i/2]}, document.AgentFilter{Strict: true, Query: spellings[units[i/2]][0]}
		}
		want := inOrder(all, words, func(m *modelled) bool { return m.selectedBy(f) })
		got := readAll(t, handleOf, func(p listing.Page) (listing.List[domain.AgentDocument], error) {
			return s.Agents(context.Background(), f, p)
		})
		if !slices.Equal(got, want) {
			t.Fatalf("query %d, %+v (words %q):\ngot  %v\nwant %v", i, f, words, got, want)
		}
		found += len(got)
	}
	if found < 3000 {
		t.Errorf("the queries found %d agents in all: they test too little", found)
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
		got := readAll(t, handleOf, func(p listing.Page) (listing.List[domain.AgentDocument], error) {
			return s.Agents(context.Background(), document.AgentFilter{Strict: true, Query: query}, p)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}

func TestTotals_AreCountedTo1000(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("author")
	add := func(from, to int) {
		s.ok(s.write(ctx, func(t *tx) error {
			for i := from; i < to; i++ {
				r := registration(fmt.Sprintf("agent-%d", i))
				if _, err := t.insertAgentRow(r, r.Handle); err != nil {
					return err
				}
				draft := s.draft("tide", "b")
				draft.Tags = []string{"x"}
				if _, err := t.createPost(author, draft); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	check := func(total int, exact bool) {
		for _, f := range []document.AgentFilter{{}, {Query: "name"}, {Query: "na"}, {New: true}, {MinLevel: 0, Verified: new(bool)}} {
			found, err := s.Agents(ctx, f, listing.Page{Limit: 1})
			if s.ok(err); found.Total != total || found.TotalIsExact != exact {
				t.Errorf("agents by %+v: total %d, exact %v; want %d, %v", f, found.Total, found.TotalIsExact, total, exact)
			}
		}
	}
	checkPosts := func(total int, exact bool) {
		for _, f := range []document.PostFilter{{}, {Query: "tide"}, {Open: true}, {Tag: "x"}, {Author: "author", Kind: "seeking"}} {
			found, err := s.Posts(ctx, f, listing.Page{Limit: 1})
			if s.ok(err); found.Total != total || found.TotalIsExact != exact {
				t.Errorf("calls by %+v: total %d, exact %v; want %d, %v", f, found.Total, found.TotalIsExact, total, exact)
			}
		}
	}
	add(1, 1000)
	check(1000, true)
	checkPosts(999, true)
	add(1000, 1001)
	check(1000, false)
	checkPosts(1000, true)
	add(1001, 1002)
	checkPosts(1000, false)
	found, err := s.Agents(ctx, document.AgentFilter{Query: "name"}, listing.Page{Limit: 2, Offset: 1001})
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
	f := document.AgentFilter{Query: "tide"}
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
		found, err := s.Posts(t.Context(), document.PostFilter{Query: q, Strict: true}, listing.Page{Limit: 100})
		if s.ok(err); len(found.Items) != want || found.Total != want {
			t.Errorf("%s: %d of %d, want %d", q, len(found.Items), found.Total, want)
		}
	}
}
