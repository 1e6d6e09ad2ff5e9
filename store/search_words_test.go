package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"callbook/store/search"
)

var errUndo = errors.New("undo")

// searchIn asks the index itself whether queries find a text that stands alone in it; nothing of it stays.
func (s *testStore) searchIn(text string, queries ...string) []bool {
	s.Helper()
	var found []bool
	err := s.write(context.Background(), func(t *tx) error {
		found = nil
		t.Index(postSearch, 1, search.Row{First: []string{text}}.Tokens())
		if err := t.StoreSearchRows(); err != nil {
			return err
		}
		for _, query := range queries {
			n := 0
			if q := search.Parse(query); !q.Empty() {
				q = q.Learn(make([]int, len(q.Words)), make([]string, search.MaxCompletions))
				if err := t.Get(&n, ofTest+`SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?`, q.All(nil)); err != nil {
					return err
				}
				for _, part := range q.Parts(nil) {
					if err := t.Get(new(int), ofTest+`SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?`, part.Expression); err != nil {
						return err
					}
				}
			}
			found = append(found, n > 0)
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		s.Fatalf("%+q in %+q: %v", queries, text, err)
	}
	return found
}

func TestSearch_FindsEveryPartOfARun(t *testing.T) {
	s := newStore(t)
	for _, text := range []string{"港口潮汐助手", "𠀀人工𠀁智能", "データを読む", "한국어검색", "タイドテーブル", "ボート", "大大大小大"} {
		runes := []rune(text)
		var queries []string
		for i := range runes {
			for j := i + 1; j <= len(runes); j++ {
				queries = append(queries, string(runes[i:j]))
			}
		}
		for i, found := range s.searchIn("LLM "+text+"v2，完", queries...) {
			if !found {
				t.Errorf("%s is not found in %s", queries[i], text)
			}
		}
	}
}

func TestSearch_FindsNothingElse(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct{ text, query string }{
		{"人工，智能", "工智"},
		{"人工 智能", "工智"},
		{"人工智能", "人智"},
		{"人工智能", "能人"},
		{"潮汐", "汐潮"},
		{"tide table", "able"},
		{"tide table", "tid table"},
		{"c++", "c#"},
		{"cplusplus", "c++"},
		{"가", "각"},
		{"が", "か"},
		{"tide", "ide"},
		{"tide", "潮"},
	} {
		if s.searchIn(tt.text, tt.query)[0] {
			t.Errorf("%s is found in %s", tt.query, tt.text)
		}
	}
}

func TestSearch_IgnoresCaseWidthAndAccents(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct{ text, query string }{
		{"Café", "cafe"}, {"cafe", "CAFÉ"}, {"ＴＩＤＥ", "tide"}, {"tide", "ｔｉ"}, {"C++", "c++"}, {"C#", "c#"}, {"c++", "c"},
		{"gpt-4", "GPT-4"}, {"gpt-4", "gpt 4"}, {"gpt 4", "gpt-4"}, {"ﾃﾞｰﾀ", "データ"}, {"データ", "ﾃﾞ"}, {"हिन्दी", "हिन"},
		{"ไทย", "ทย"}, {"กี่", "ก"}, {"AI助手", "ai助手"}, {"AI助手", "助手AI"}, {"潮汐表 tide", "tide 汐"}, {"translates", "translator"}, {"海洋与上海", "上海洋"}, {"é", "e"}, {"a", "a"}, {"ab", "ab"}, {"abc", "abc"},
	} {
		if !s.searchIn(tt.text, tt.query)[0] {
			t.Errorf("%s is not found in %s", tt.query, tt.text)
		}
	}
}

// FuzzSearch: no query is a syntax error, and a text finds itself.
func FuzzSearch(f *testing.F) {
	for _, seed := range [][2]string{
		{"港口潮汐", "潮"}, {"AI助手", `" OR *`}, {"c++ NEAR(", `{first} : "a"`}, {"a\x00b", "a^b"}, {"한국어", "국"}, {"กี่", "ี"},
		{"हिन्दी", "हि"}, {"\U000E0041x", "x\u200D"}, {"ﬁ", "fi"}, {"𠀀", "𠀀"}, {"e\u0301", "é"}, {"İ", "i"}, {"facet:x -y", "-y"},
		{"\uE200a", "\uE000a"}, {"か\u309Aか", "か"}, {"\u0E35\u0E35", "\u0E35"}, {"a\u0E35b", "a\u0E35"}, {"1\u20E3", "1"},
	} {
		f.Add(seed[0], seed[1])
	}
	s := newStore(f)
	f.Fuzz(func(t *testing.T, text, query string) {
		if !utf8.ValidString(text) || !utf8.ValidString(query) || strings.ContainsRune(text+query, 0) || len(text) > 2000 || len(query) > 800 {
			return
		}
		found := (&testStore{Store: s.Store, TB: t}).searchIn(text, query, text)
		if !found[1] && !search.Parse(text).Empty() {
			t.Errorf("%+q does not find itself", text)
		}
	})
}
