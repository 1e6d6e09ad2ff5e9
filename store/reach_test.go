package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// commonWords is a directory where three words are common and seldom meet.
func commonWords(t *testing.T, agents int) *testStore {
	s := newStore(t)
	var all []Registration
	for i := range agents {
		r := registration(fmt.Sprintf("agent-%03d", i))
		r.DescriptionEN = "An agent"
		for word, each := range map[string]int{"alpha": 2, "beta": 3, "gamma": 5} {
			if i%each == 0 {
				r.DescriptionEN += " " + word
			}
		}
		if i%45 == 0 {
			r.Name += " gamma beta"
		}
		all = append(all, r)
	}
	s.registerAll(all, true)
	return s
}

// registerAll adds agents in one transaction, each with a call of its description if asked.
func (s *testStore) registerAll(all []Registration, withCalls bool) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) error {
		for _, r := range all {
			agent, err := t.insertAgentRow(r, r.Handle)
			if err != nil {
				return err
			}
			if !withCalls {
				continue
			}
			post, err := t.insertPost(agent.ID, PostDraft{Kind: "seeking", Title: "A call", Body: r.DescriptionEN, Tags: []string{"all"}})
			if err == nil {
				_, err = t.settlePost(&post, r.Handle)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// walkAll follows next through a list, and returns what stands in it and how many
// pages that took.
func walkAll[T any](t *testing.T, read func(Page) (List[T], error), name func(T) string) (found []string, pages int) {
	t.Helper()
	return walkFrom(t, 0, read, name)
}

// walkFrom is walkAll from an offset on.
func walkFrom[T any](t *testing.T, offset int, read func(Page) (List[T], error), name func(T) string) (found []string, pages int) {
	t.Helper()
	for page := (Page{Limit: 7, Offset: offset}); ; pages++ {
		list, err := read(page)
		if err != nil || pages > 500 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, item := range list.Items {
			found = append(found, name(item))
		}
		if list.Total < len(list.Items) || list.Next != "" && list.TotalIsExact && list.Total <= len(list.Items) {
			t.Errorf("page %d has %d records and tells a total of %d", pages, len(list.Items), list.Total)
		}
		if list.Next == "" {
			return found, pages + 1
		}
		page.Cursor = list.Next
	}
}

// TestAPageOfCommonWordsLooksOnlySoFar: it ends early, and next leads to every record
// once all the same.
func TestAPageOfCommonWordsLooksOnlySoFar(t *testing.T) {
	s := commonWords(t, 300)
	ctx := context.Background()
	handle := func(d AgentDocument) string { return d.Handle }
	id := func(d PostDocument) string { return d.ID }
	for _, q := range []string{"alpha beta gamma", "gamma beta alpha", "agent alpha beta gam"} {
		agents := func(page Page) (List[AgentDocument], error) { return s.Agents(ctx, AgentFilter{Query: q}, page) }
		calls := func(page Page) (List[PostDocument], error) {
			return s.Posts(ctx, PostFilter{Query: q, Kind: "seeking", Tag: "all"}, page)
		}
		s.looked = looked
		wantAgents, few := walkAll(t, agents, handle)
		wantCalls, _ := walkAll(t, calls, id)
		if len(wantAgents) != 10 || len(wantCalls) != 10 || few != 2 {
			t.Fatalf("%q: %d agents on %d pages, %d calls", q, len(wantAgents), few, len(wantCalls))
		}
		s.looked = 10
		gotAgents, many := walkAll(t, agents, handle)
		gotCalls, _ := walkAll(t, calls, id)
		slices.Sort(wantAgents) // of words that are all common, those in names come no earlier
		slices.Sort(gotAgents)
		slices.Sort(wantCalls)
		slices.Sort(gotCalls)
		if diff := cmp.Diff(append(wantAgents, wantCalls...), append(gotAgents, gotCalls...)); diff != "" || many <= few {
			t.Errorf("%q: on %d pages (-all +found):\n%s", q, many, diff)
		}
	}
}

// TestAnOffsetHoldsWhereAPageEndsEarly: what it skips may be further down than a page
// looks.
func TestAnOffsetHoldsWhereAPageEndsEarly(t *testing.T) {
	s := commonWords(t, 300)
	s.looked = 10
	for _, open := range []bool{false, true} {
		calls := func(page Page) (List[PostDocument], error) {
			return s.Posts(t.Context(), PostFilter{Query: "alpha beta gamma", Open: open}, page)
		}
		agents := func(page Page) (List[AgentDocument], error) {
			return s.Agents(t.Context(), AgentFilter{Query: "alpha beta gamma"}, page)
		}
		allCalls, _ := walkAll(t, calls, func(d PostDocument) string { return d.ID })
		allAgents, pages := walkAll(t, agents, func(d AgentDocument) string { return d.Handle })
		if pages < 5 || len(allAgents) != 10 || len(allCalls) != 10 {
			t.Fatalf("%d pages of %d agents, %d calls", pages, len(allAgents), len(allCalls))
		}
		for offset := range 12 {
			gotCalls, _ := walkFrom(t, offset, calls, func(d PostDocument) string { return d.ID })
			gotAgents, _ := walkFrom(t, offset, agents, func(d AgentDocument) string { return d.Handle })
			want := slices.Concat(allCalls[min(offset, 10):], allAgents[min(offset, 10):])
			if diff := cmp.Diff(want, slices.Concat(gotCalls, gotAgents), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("offset %d (-want +found):\n%s", offset, diff)
			}
		}
	}
}

// TestARareWordIsLookedForToTheEnd: a page of it is never cut, however little it may
// look at, and its total is exact.
func TestARareWordIsLookedForToTheEnd(t *testing.T) {
	s := commonWords(t, 300)
	s.looked = 10
	ctx := context.Background()
	for q, want := range map[string]int{"agent-000 agent alpha": 1, "agent alpha beta gamma nothing": 0} {
		found, err := s.Agents(ctx, AgentFilter{Query: q}, Page{Limit: 7})
		if err != nil || len(found.Items) != want || found.Total != want || !found.TotalIsExact || found.Next != "" {
			t.Errorf("%q: %d agents of %d (exact %v), next %q: %v", q, len(found.Items), found.Total, found.TotalIsExact, found.Next, err)
		}
	}
}

// TestAnOffsetPastTheEndIsEmpty: of a search in tiers too.
func TestAnOffsetPastTheEndIsEmpty(t *testing.T) {
	s := commonWords(t, 100)
	for offset, want := range map[int]int{0: 7, 30: 4, 34: 0, 10000: 0} {
		found, err := s.Agents(context.Background(), AgentFilter{Query: "beta"}, Page{Limit: 7, Offset: offset})
		if err != nil || len(found.Items) != want || found.Total != 34 || !found.TotalIsExact {
			t.Errorf("offset %d: %d of %d, %v", offset, len(found.Items), found.Total, err)
		}
	}
}

// TestBlocksHoldTheNumbersBetween: those between two bounds, and few blocks.
func TestBlocksHoldTheNumbersBetween(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		below := 2 + r.Int64N(4_000_000)>>r.IntN(20)
		low := 1 + r.Int64N(below-1)
		asked := strings.Split(strings.Trim(between(low, below), "()"), " OR ")
		if len(asked) > fewBlocks+1 {
			t.Fatalf("%d blocks between %d and %d", len(asked), low, below)
		}
		for _, number := range []int64{low, low + r.Int64N(below-low), below - 1} {
			if !slices.ContainsFunc(blocks(number), func(b string) bool { return slices.Contains(asked, quote(b)) }) {
				t.Fatalf("between %d and %d, %d is in none of %q", low, below, number, asked)
			}
		}
	}
	if asked := between(1, 1<<40); asked != "" {
		t.Errorf("of all numbers: %q", asked)
	}
}

// TestAWalkFindsAllWhileTheDirectoryGrows: that words are too common to be told apart
// by tiers may turn out in the middle of one.
func TestAWalkFindsAllWhileTheDirectoryGrows(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	var all []Registration
	for i := range 300 {
		r := registration(fmt.Sprintf("agent-%03d", i))
		if i%10 == 0 {
			r.Name = "alpha beta"
		} else if i%10 == 5 {
			r.DescriptionEN = "alpha beta"
		}
		all = append(all, r)
	}
	s.registerAll(all, false)
	for _, later := range []int64{looked, 60, 40, 20, 10} {
		s.looked = looked
		found := map[string]int{}
		for page := (Page{Limit: 7}); ; {
			list, err := s.Agents(ctx, AgentFilter{Query: "alpha beta"}, page)
			s.ok(err)
			for _, a := range list.Items {
				found[a.Handle]++
			}
			if list.Next == "" {
				break
			}
			page.Cursor, s.looked = list.Next, later
		}
		for handle, n := range found {
			if n != 1 {
				t.Errorf("looked %d: %s is shown %d times", later, handle, n)
			}
		}
		if len(found) != 60 {
			t.Errorf("looked %d: %d of 60 are shown", later, len(found))
		}
	}
}

// TestAnExactHandleComesFirstInAFilter: within a filter that nearly all match, too.
func TestAnExactHandleComesFirstInAFilter(t *testing.T) {
	s := newStore(t)
	s.register("alpha")
	var all []Registration
	for i := range 100 {
		r := registration(fmt.Sprintf("agent-%03d", i))
		r.DescriptionEN = "alpha"
		all = append(all, r)
	}
	s.registerAll(all, false)
	s.looked = 10
	found, err := s.Agents(t.Context(), AgentFilter{Query: "alpha", Verified: new(bool)}, Page{Limit: 7})
	if s.ok(err); len(found.Items) == 0 || found.Items[0].Handle != "alpha" {
		t.Errorf("%d agents, and not alpha first", len(found.Items))
	}
}

// TestCompletionsAreShort: words as long as texts are do not stand in a query by the
// hundred. Up to some length of a beginning they are found all the same.
func TestCompletionsAreShort(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("author")
	for i := range 40 {
		s.post(author, func(d *PostDraft) { d.Body = strings.Repeat("transl", 600) + fmt.Sprintf("%c%c", 'a'+i/26, 'a'+i%26) })
	}
	for beginning, all := range map[string]bool{"transl": true, "transltransltra": true, "transltransltran": false} {
		q, err := s.parse(ctx, beginning)
		size := 0
		for _, form := range q.forms {
			size += len(form)
			if s.Store.words.Contains(form) {
				t.Errorf("a word of %d bytes is remembered", len(form))
			}
		}
		if err != nil || size > formBytes || q.cut == all || all != (len(q.forms) == 0) {
			t.Errorf("%s: %d completions of %d bytes, cut %v: %v", beginning, len(q.forms), size, q.cut, err)
		}
		found, err := s.Posts(ctx, PostFilter{Query: beginning}, Page{Limit: 7})
		if s.ok(err); found.TotalIsExact != all || all && found.Total != 40 || len(found.Items) == 0 {
			t.Errorf("%s: %d calls of %d, exact %v", beginning, len(found.Items), found.Total, found.TotalIsExact)
		}
	}
}

// TestARememberedWordKeepsNoText: not the one that it was cut from.
func TestARememberedWordKeepsNoText(t *testing.T) {
	s := newStore(t, noCaps)
	author, _ := s.register("author")
	text := strings.Repeat("港口潮汐助手", 600) // 25 KB, once cut
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	post := func(i int) {
		s.post(author, func(d *PostDraft) { d.Body = fmt.Sprintf("%s word%d", text, i) })
	}
	post(0)
	before := held()
	const calls = 300
	for i := range calls {
		post(i + 1)
	}
	if grown := int64(held()) - int64(before); grown > calls*10<<10 || !s.Store.words.Contains("word300") {
		t.Errorf("%d bytes more are held after %d calls", grown, calls)
	}
}

// TestTheExactAgentLeavesBetweenPages: of the others none is skipped.
func TestTheExactAgentLeavesBetweenPages(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	tide, _ := s.register("tide")
	for _, handle := range []string{"tide-1", "tide-2", "tide-3"} {
		s.register(handle)
	}
	first, err := s.Agents(ctx, AgentFilter{Query: "tide"}, Page{Limit: 1})
	if s.ok(err); len(first.Items) != 1 || first.Items[0].Handle != "tide" {
		t.Fatalf("first comes %+v", first.Items)
	}
	s.ok(s.DeleteAgent(ctx, tide))
	rest, err := s.Agents(ctx, AgentFilter{Query: "tide"}, Page{Limit: 10, Cursor: first.Next})
	if s.ok(err); len(rest.Items) != 3 {
		t.Errorf("%d of 3 follow", len(rest.Items))
	}
}

// TestMadeUpWordsHideNone: however many words begin so, a search completes to few of
// them and finds all.
func TestMadeUpWordsHideNone(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("author")
	before := s.post(author, func(d *PostDraft) { d.Title = "Translations before" })
	for i := range 20 {
		words := make([]string, 100)
		for j := range words {
			words[j] = fmt.Sprintf("transl%c%c%c", 'a'+i, 'a'+j/26, 'a'+j%26)
		}
		s.post(author, func(d *PostDraft) { d.Body = strings.Join(words, " ") })
	}
	s.register("one", func(r *Registration) { r.Name, r.DescriptionEN = "Translator", "Since." })
	after := s.post(author, func(d *PostDraft) { d.Title = "Transmissions after" })
	for beginning, want := range map[string]int{"tran": 22, "trans": 22, "transla": 2, "translations": 1, "translaaa": 1, "translb": 1, "transmi": 1} {
		q, err := s.parse(ctx, beginning)
		if s.ok(err); len(q.forms) > maxForms || q.cut {
			t.Errorf("%s: %d completions, cut %v", beginning, len(q.forms), q.cut)
		}
		calls, err := s.Posts(ctx, PostFilter{Query: beginning}, Page{Limit: 100})
		if s.ok(err); len(calls.Items) != want || calls.Total != want || !calls.TotalIsExact {
			t.Errorf("%s: %d calls of %d, exact %v, want %d", beginning, len(calls.Items), calls.Total, calls.TotalIsExact, want)
		}
		if want == 22 && (calls.Items[0].ID != after.ID || calls.Items[1].ID != before.ID) {
			t.Errorf("%s: the calls with it in their titles do not come first", beginning)
		}
		found, err := s.Agents(ctx, AgentFilter{Query: beginning}, Page{Limit: 7})
		if s.ok(err); len(found.Items) != number(strings.HasPrefix("translator", beginning)) || !found.TotalIsExact {
			t.Errorf("%s: %d agents, exact %v", beginning, len(found.Items), found.TotalIsExact)
		}
	}
}

// TestAVeryLongWordIsFound: also where many longer ones begin so.
func TestAVeryLongWordIsFound(t *testing.T) {
	s := newStore(t)
	author, _ := s.register("author")
	const word = "internationalization"
	for i := range 3 {
		words := make([]string, 60)
		for j := range words {
			words[j] = fmt.Sprintf("%s%c%c%c", word, 'a'+i, 'a'+j/26, 'a'+j%26)
		}
		s.post(author, func(d *PostDraft) { d.Body = strings.Join(words, " ") })
	}
	s.post(author, func(d *PostDraft) { d.Title = word })
	s.post(author, func(d *PostDraft) { d.Body = word })
	found, err := s.Posts(t.Context(), PostFilter{Query: word}, Page{Limit: 100})
	if s.ok(err); len(found.Items) < 3 || !strings.Contains(found.Items[0].Post, `"title":"`+word) || !strings.Contains(found.Items[1].Post, `"body":"`+word+`"`) {
		t.Errorf("%d calls: %+v", len(found.Items), found.Items)
	}
}

// TestEveryBeginningIsFound: in each kind of text, after words came and went, in the
// order in which they are learned, whatever they are.
func TestEveryBeginningIsFound(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(1, 2))
	rows := map[int64][]string{}
	change := func(number int64, row *searchRow) {
		s.ok(s.write(context.Background(), func(t *tx) error {
			if row == nil {
				var words searchRow
				words.third = rows[number]
				t.unindex(postSearch, number, &words)
				return nil
			}
			t.index(postSearch, number, row)
			return nil
		}))
	}
	word := func() string { // of two letters, so that very many begin alike
		b := []byte("abababab"[:random.IntN(5)])
		for range 2 + random.IntN(8) {
			b = append(b, "ab"[random.IntN(2)])
		}
		return string(b) + strings.Repeat("á", random.IntN(2)*random.IntN(12))
	}
	next := int64(1)
	for round := range 4 {
		for range 60 {
			var row searchRow
			for _, texts := range []*[]string{&row.first, &row.second, &row.third} {
				for range 4 {
					*texts = append(*texts, word())
				}
			}
			rows[next] = slices.Concat(row.first, row.second, row.third)
			change(next, &row)
			next++
		}
		for beginning := range strings.FieldsSeq("abab abaa abba baba bbbb ababa ababab abababa abababaa abababab ababababa ababababaa ababaá ababáá ababaaaaaaaaaaa ababababaaaaaaaa") {
			want := 0
			for _, words := range rows {
				if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(fold(w), fold(beginning)) }) {
					want++
				}
			}
			q, err := s.parse(context.Background(), beginning)
			if s.ok(err); len(q.forms) > maxForms {
				t.Errorf("%s has %d completions", beginning, len(q.forms))
			}
			got := 0
			if all := q.tiers(nil, "").all.match; !q.none {
				got = value[int](s, `SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?`, all)
			}
			if got != want {
				t.Errorf("round %d: %s is found in %d rows, want %d", round, beginning, got, want)
			}
		}
		for number := range rows {
			if number%3 == int64(round)%3 {
				change(number, nil)
				delete(rows, number)
			}
		}
		s.ok(s.write(context.Background(), func(t *tx) error { _, err := t.dropWords(); return err }))
	}
	if spelled := value[int](s, `SELECT COUNT(*) FROM search_words WHERE completed_from > 4`); spelled == 0 {
		t.Error("no word was one too many")
	}
}
