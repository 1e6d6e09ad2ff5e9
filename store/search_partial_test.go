package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
)

// described registers an agent whose description is a text.
func (s *testStore) described(handle, text string) domain.Caller {
	s.Helper()
	caller, _ := s.register(handle, func(r *domain.Registration) { r.DescriptionEN, r.Name, r.Owner = text, "N", "O" })
	return caller
}

func handlesOf(items []domain.PublicAgent) (handles []string) {
	for _, d := range items {
		handles = append(handles, d.Handle)
	}
	return handles
}

func TestSearch_PartialMatches(t *testing.T) {
	s := newStore(t)
	for handle, text := range map[string]string{
		"poet":     "Poetry in both languages.",
		"forecast": "看天气，也看潮汐。",
		"reviewer": "Code review for Go.",
		"coder":    "Writes code.",
		"lawyer":   "Reviews contracts.",
	} {
		s.described(handle, text)
	}
	for i := range 20 {
		s.described(fmt.Sprintf("common-%d", i), "An everyday helper.")
	}
	for _, tt := range []struct {
		name, query  string
		strict, some string // handles in any order
	}{
		{"every word", "code review", "reviewer", "coder lawyer"},
		{"another form of a word", "reviewing code", "reviewer", "coder lawyer"},
		{"the other language", "weather", "", "forecast"},
		{"the other language, Chinese", "诗歌", "", "poet"},
		{"inside a run", "天气预报", "", "forecast"},
		{"a misspelled word", "poerty", "", "poet"},
		{"a common word beside an unknown one", "everyday zzqx", "", ""},
		{"nothing", "zzqx", "", ""},
		{"no letters", "?!", "", ""},
	} {
		found, err := s.Agents(t.Context(), domain.AgentFilter{Query: tt.query}, listing.Page{Limit: 20})
		s.ok(err)
		handles := handlesOf(found.Items)
		strict, some := handles[:found.Strict], handles[found.Strict:]
		if !slices.Equal(slices.Sorted(slices.Values(strict)), strings.Fields(tt.strict)) || !slices.Equal(slices.Sorted(slices.Values(some)), strings.Fields(tt.some)) {
			t.Errorf("%s, %q: strict %v, partial %v; want %q and %q", tt.name, tt.query, strict, some, tt.strict, tt.some)
		}
		if found.Total != len(strict) || found.TotalSome != len(some) || (found.Hint != nil) != (found.Total == 0) {
			t.Errorf("%s: total %d, total_some %d, hint %+v", tt.name, found.Total, found.TotalSome, found.Hint)
		}
		only, err := s.Agents(t.Context(), domain.AgentFilter{Query: tt.query, Match: domain.MatchAll}, listing.Page{Limit: 20})
		if s.ok(err); !slices.Equal(handlesOf(only.Items), strict) || only.TotalSome != 0 {
			t.Errorf("%s, strict matches only: %v", tt.name, handlesOf(only.Items))
		}
	}
	found, err := s.Agents(t.Context(), domain.AgentFilter{Query: "code"}, listing.Page{Limit: 1})
	if s.ok(err); found.TotalSome != 0 || found.Total != 2 {
		t.Errorf("strict matches fill the page, and total_some is %d", found.TotalSome)
	}
}

// TestSearch_PartialMatchesAreOnTheFirstPageAlone, whatever its size: next and offset lead to strict ones.
func TestSearch_PartialMatchesAreOnTheFirstPageAlone(t *testing.T) {
	s := newStore(t)
	for i := range 40 {
		s.described(fmt.Sprintf("agent-%02d", i), []string{"harbour pilot", "harbour lights", "big vessel", "big vessel"}[i%4])
	}
	for _, tt := range []struct {
		page              listing.Page
		strict, some, all int // items of the page, and total_some
	}{
		{listing.Page{Limit: 12}, 10, 2, 10},
		{listing.Page{Limit: 100}, 10, 10, 10},
		{listing.Page{Limit: 12, Offset: 3}, 7, 0, 0},
		{listing.Page{Limit: 12, Offset: 10}, 0, 0, 0},
		{listing.Page{Limit: 10}, 10, 0, 0},
		{listing.Page{Limit: 6}, 6, 0, 0},
	} {
		found, err := s.Agents(t.Context(), domain.AgentFilter{Query: "harbour pilot"}, tt.page)
		s.ok(err)
		if found.Strict != tt.strict || len(found.Items) != tt.strict+tt.some || found.TotalSome != tt.all || found.Total != 10 {
			t.Errorf("%+v: %d items, %d strict; total %d, total_some %d", tt.page, len(found.Items), found.Strict, found.Total, found.TotalSome)
		}
		if found.Next == "" {
			continue
		}
		next, err := s.Agents(t.Context(), domain.AgentFilter{Query: "harbour pilot"}, listing.Page{Limit: 100, Cursor: found.Next})
		if s.ok(err); tt.page.Limit != 6 || len(next.Items) != 4 || next.TotalSome != 0 || next.Next != "" {
			t.Errorf("%+v: %d items follow, total_some %d, next %q", tt.page, len(next.Items), next.TotalSome, next.Next)
		}
	}
}

// TestSearch_NextVisitsEveryStrictMatchOnce walks long posts, which take more than a page by their size alone, while posts come
// and go.
func TestSearch_NextVisitsEveryStrictMatchOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tide := func(author domain.Caller) domain.PublicPost {
		return s.post(author, func(d *domain.PostDraft) { d.Title, d.Body = "Harbour tides", strings.Repeat("潮", 3900)+d.Body })
	}
	want, visited := map[string]int{}, map[string]int{}
	for i := range 10 {
		author := s.verified(fmt.Sprintf("agent-%d", i))
		for range 3 {
			want[tide(author).ID]++
		}
		s.post(author, func(d *domain.PostDraft) { d.Title, d.Body = "Harbour lights", "Red and green" })
	}

	page, pages := listing.Page{Limit: 100}, 0
	for {
		found, err := s.Posts(t.Context(), domain.PostFilter{Query: "harbour tides"}, page)
		s.ok(err)
		for _, p := range found.Items {
			visited[p.ID]++
		}
		if found.TotalSome != 0 || found.Strict != len(found.Items) {
			t.Errorf("page %d: %d items, %d strict, total_some %d", pages, len(found.Items), found.Strict, found.TotalSome)
		}
		pages++
		if page.Cursor = found.Next; page.Cursor == "" {
			break
		}
		newcomer := s.verified(fmt.Sprintf("newcomer-%d", pages))
		tide(newcomer)
		s.ok(s.DeletePost(t.Context(), newcomer, tide(newcomer).ID))
	}
	if diff := cmp.Diff(want, visited); pages < 2 || diff != "" {
		t.Errorf("in %d pages (-want +got):\n%s", pages, diff)
	}
}
