package store

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
)

// described registers an agent whose description is a text.
func (s *testStore) described(handle, text string) domain.Caller {
	s.Helper()
	caller, _ := s.register(handle, func(r *domain.Registration) { r.DescriptionEN, r.Name, r.Owner = text, "N", "O" })
	return caller
}

func handlesOf(items []domain.AgentDocument) (handles []string) {
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
		found, err := s.Agents(t.Context(), document.AgentFilter{Query: tt.query}, listing.Page{Limit: 20})
		s.ok(err)
		handles := handlesOf(found.Items)
		strict, some := handles[:found.Strict], handles[found.Strict:]
		if !slices.Equal(slices.Sorted(slices.Values(strict)), strings.Fields(tt.strict)) || !slices.Equal(slices.Sorted(slices.Values(some)), strings.Fields(tt.some)) {
			t.Errorf("%s, %q: strict %v, partial %v; want %q and %q", tt.name, tt.query, strict, some, tt.strict, tt.some)
		}
		if found.Total != len(strict) || found.TotalSome != len(some) || (found.Hint != nil) != (found.Total == 0) {
			t.Errorf("%s: total %d, total_some %d, hint %+v", tt.name, found.Total, found.TotalSome, found.Hint)
		}
		only, err := s.Agents(t.Context(), document.AgentFilter{Query: tt.query, Strict: true}, listing.Page{Limit: 20})
		if s.ok(err); !slices.Equal(handlesOf(only.Items), strict) || only.TotalSome != 0 {
			t.Errorf("%s, strict matches only: %v", tt.name, handlesOf(only.Items))
		}
	}
	found, err := s.Agents(t.Context(), document.AgentFilter{Query: "code"}, listing.Page{Limit: 1})
	if s.ok(err); found.TotalSome != 0 || found.Total != 2 {
		t.Errorf("strict matches fill the page, and total_some is %d", found.TotalSome)
	}
}

func TestSearch_Hint(t *testing.T) {
	s := newStore(t)
	s.described("poet", "Poetry translation, and translations of code.")
	for query, want := range map[string]string{
		"tranlation zzqx":    "[] ",
		"tranlation":         "[] translation",
		"poetry tranlation":  "[{poetry 1}] poetry translation",
		"poetry of the zzqx": "[{poetry 1}] ",
		"translating zzqx":   "[] ", // found by its stem, but no word of the index
		"诗歌 zzqx":            "[] ",
		"poetryzzz诗歌翻译 zzqx": "[] ",
		"zzqx poetry":        "[{poetry 1}] ",
		"人人人人人人 zzqx":        "[] ",
		"?!":                 "[] ",
	} {
		found, err := s.Agents(t.Context(), document.AgentFilter{Query: query}, listing.Page{Limit: 5})
		s.ok(err)
		if found.Hint == nil {
			t.Fatalf("%s: no hint: %v", query, handlesOf(found.Items))
		}
		if got := fmt.Sprintf("%v %s", found.Hint.Words, found.Hint.DidYouMean); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestSearch_OffsetSkipsStrictMatches: partial matches follow by next alone, so that no page by offset repeats them.
func TestSearch_OffsetSkipsStrictMatches(t *testing.T) {
	s := newStore(t)
	for i := range 40 {
		s.described(fmt.Sprintf("agent-%02d", i), []string{"harbour pilot", "harbour lights", "big vessel", "big vessel"}[i%4])
	}
	for offset, want := range map[int][2]int{0: {10, 2}, 3: {7, 0}, 10: {0, 0}, 12: {0, 0}} {
		found, err := s.Agents(t.Context(), document.AgentFilter{Query: "harbour pilot"}, listing.Page{Limit: 12, Offset: offset})
		s.ok(err)
		if got := [2]int{found.Strict, len(found.Items) - found.Strict}; got != want || found.Total != 10 || (found.Next != "") != (offset == 0) {
			t.Errorf("offset %d: %v items, want %v; total %d, next %q", offset, got, want, found.Total, found.Next)
		}
		if wantSome := map[bool]int{true: 10}[offset == 0]; found.TotalSome != wantSome {
			t.Errorf("offset %d: total_some %d, want %d", offset, found.TotalSome, wantSome)
		}
	}
}

// TestSearch_NextVisitsEveryMatchOnce walks strict and then partial matches while agents come and leave.
func TestSearch_NextVisitsEveryMatchOnce(t *testing.T) {
	s := newStore(t)
	var want []string
	for i := range 30 {
		handle := fmt.Sprintf("agent-%02d", i)
		s.described(handle, []string{"harbour pilot", "harbour lights", "a pilot for boats"}[i%3])
		want = append(want, handle)
	}
	var visited []string
	page := listing.Page{Limit: 11}
	for step := 0; ; step++ {
		found, err := s.Agents(t.Context(), document.AgentFilter{Query: "harbour pilot"}, page)
		s.ok(err)
		visited = append(visited, handlesOf(found.Items)...)
		if found.Total != 10 || found.TotalSome != 20 || found.Strict != []int{10, 0, 0}[step] {
			t.Errorf("page %d: total %d, total_some %d, %d strict", step, found.Total, found.TotalSome, found.Strict)
		}
		if page.Cursor = found.Next; page.Cursor == "" {
			break
		}
		gone := s.described(fmt.Sprintf("newcomer-%d", step), "pilot boats only")
		s.ok(s.DeleteAgent(t.Context(), gone))
		s.described(fmt.Sprintf("late-%d", step), "a pilot, of late")
	}
	if !slices.Equal(slices.Sorted(slices.Values(visited)), want) {
		t.Errorf("visited %v", visited)
	}
}

// TestSearch_PartialMatchesFollowLongStrictOnes, which take more than a page by their size alone.
func TestSearch_PartialMatchesFollowLongStrictOnes(t *testing.T) {
	s := newStore(t)
	for i := range 10 {
		author := s.verified(fmt.Sprintf("agent-%d", i))
		for n := range 5 {
			s.post(author, func(d *domain.PostDraft) {
				switch d.Title, d.Body = "Big vessel", fmt.Sprint("Number ", n); {
				case i < 6:
					d.Title, d.Body = "Harbour tides", strings.Repeat("潮", 3900)+d.Body
				case i < 7:
					d.Title = "Harbour lights"
				}
			})
		}
	}
	page, pages := listing.Page{Limit: 100}, [][2]int{}
	for {
		found, err := s.Posts(t.Context(), document.PostFilter{Query: "harbour tides"}, page)
		s.ok(err)
		pages = append(pages, [2]int{found.Strict, len(found.Items) - found.Strict})
		if found.Total != 30 || found.TotalSome != 5 {
			t.Errorf("total %d, total_some %d, want 30 and 5", found.Total, found.TotalSome)
		}
		if page.Cursor = found.Next; page.Cursor == "" {
			break
		}
	}
	if len(pages) != 2 || pages[0][0]+pages[1][0] != 30 || pages[0][1] != 0 || pages[1][1] != 5 {
		t.Errorf("strict and partial matches by page: %v", pages)
	}
}

// TestSearch_FiltersHoldForMadeUpCursors: the records that a cursor names are within the filters all the same.
func TestSearch_FiltersHoldForMadeUpCursors(t *testing.T) {
	s := newStore(t)
	poet := s.described("poet", "Poetry.")
	f := document.AgentFilter{Query: "harbour", MinLevel: 1}
	var raw []byte
	for _, n := range []uint64{uint64(crc32.ChecksumIEEE([]byte(f.Name()))), 0, 1, 1, uint64(poet.ID)} {
		raw = binary.AppendUvarint(raw, n)
	}
	forged := base64.RawURLEncoding.EncodeToString(raw)
	found, err := s.Agents(t.Context(), f, listing.Page{Limit: 5, Cursor: forged})
	if s.ok(err); len(found.Items) > 0 {
		t.Errorf("%v is not within the filters", handlesOf(found.Items))
	}
	f.Strict = true
	if found, err = s.Agents(t.Context(), f, listing.Page{Limit: 5, Cursor: forged}); err != nil || len(found.Items) > 0 {
		t.Errorf("strict matches only: %v, %v", handlesOf(found.Items), err)
	}
}
