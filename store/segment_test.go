package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func TestSegment(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"spaces and signs", " -- ,.;: \t\n /\\ ", ""},
		{"English", "Plans berths, and Tides.", "plans berths and tides"},
		{"Chinese", "人工智能", "人工 工智 智能 能"},
		{"one character", "人", "人"},
		{"two characters", "助手", "助手 手"},
		{"two runs", "人工，智能", "人工 工 智能 能"},
		{"mixed", "AI助手v2", "ai 助手 手 v2"},
		{"beyond the basic plane", "𠀀𠀁", "𠀀𠀁 𠀁"},
		{"Japanese", "データを読む", "デー ータ タを を読 読む む"},
		{"half-width kana", "ﾃﾞｰﾀ", "デー ータ タ"},
		{"Korean", "한국어 검색", "한국 국어 어 검색 색"},
		{"decomposed Korean", "\u1112\u1161\u11AB국", "한국 국"},
		{"Thai", "ไทย", "ไท ทย ย"},
		{"Hindi is spaced", "हिन्दी भाषा", "हिन्दी भाषा"},
		{"Russian", "Порт ЙОД", "порт иод"},
		{"Arabic", "ميناء", "ميناء"},
		{"c++ and c#", "C++, c# and f#.", "c\uE12B\uE12B c\uE123 and f\uE123"},
		{"a sign alone", "+ # ++", ""},
		{"a sign before a word", "#tide +1", "tide 1"},
		{"a hyphen parts", "gpt-4 well-known", "gpt 4 well known"},
		{"an apostrophe parts", "don't", "don t"},
		{"emoji", "🚢tide🚢", "tide"},
		{"joined emoji", "👩‍✈️", ""},
		{"accents", "Café CAFÉ cafe\u0301", "cafe cafe cafe"},
		{"width", "ＡＢＣ　１２３", "abc 123"},
		{"compatibility", "㎏ Ⅷ ﬁn ²", "kg viii fin 2"},
		{"a mark without a letter", "\u0301\u0E35 a", "a"},
		{"marks that tell words apart", "が か", "が か"},
		{"capitals that are two letters", "Straße STRASSE", "strasse strasse"},
		{"a letter with another's capital", "kapı KAPI", "kapi kapi"},
		{"letters that end a word", "Πάρος ΠΑΡΟΣ", "παροσ παροσ"},
		{"Turkish dotted I", "İstanbul", "istanbul"},
		{"underscore parts", "snake_case", "snake case"},
		{"numbers", "3.14 2026-11-20", "3 14 2026 11 20"},
		{"the closing of a quote", `"; DROP TABLE "`, "drop table"},
	} {
		if got := segment(tt.text); got != tt.want {
			t.Errorf("%s: %+q, want %+q", tt.name, got, tt.want)
		}
	}
	if got := segment("人工", "", "智能", "tide"); got != "人工 工 智能 能 tide" {
		t.Errorf("texts run into one another: %s", got)
	}
}

func TestQueryWords(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		want        []word
	}{
		{"nothing", "", nil},
		{"signs", "!? 🚢", nil},
		{"one word is a beginning", "tid", []word{{"tid", true}}},
		{"the last one is a beginning", "tide tab", []word{{"tide", false}, {"tab", true}}},
		{"one character", "潮", []word{{"潮", true}}},
		{"one character before others", "潮 tab", []word{{"潮", true}, {"tab", true}}},
		{"two characters", "潮汐", []word{{"潮汐", false}}},
		{"a run", "潮汐表", []word{{"潮汐 汐表", false}}},
		{"a run that repeats", "潮汐潮汐潮", []word{{"潮汐 汐潮", false}}},
		{"mixed", "AI助手", []word{{"ai", false}, {"助手", false}}},
		{"twice", "tide TIDE", []word{{"tide", false}}},
		{"twice, another last", "tide tide tab", []word{{"tide", false}, {"tab", true}}},
	} {
		got := queryWords(tt.query)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		}
	}
}

var errUndo = errors.New("undo")

// findsIn asks the index itself whether queries find a text that stands alone in
// it; nothing of it stays.
func (s *testStore) findsIn(text string, queries ...string) []bool {
	s.Helper()
	var found []bool
	err := s.write(context.Background(), func(t *tx) error {
		found = nil
		t.index(postSearch, 1, &searchRow{first: []string{text}})
		if err := t.storeSearchRows(); err != nil {
			return err
		}
		for _, q := range queries {
			q := query{words: queryWords(q)} // as parse completes it, but inside the transaction
			if beginning, ok := q.beginning(); ok {
				var known []longWord
				if err := t.selectAll(&known, begunBy, beginning, beginning+string(utf8.MaxRune), maxForms+1); err != nil {
					return err
				}
				q.complete(beginning, known)
			}
			n := 0
			if len(q.words) > 0 && !q.none {
				if err := t.get(&n, `SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?`, q.tiers(nil, "").all.match); err != nil {
					return err
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

func TestEveryPartOfARunIsFound(t *testing.T) {
	s := newStore(t)
	for _, text := range []string{"港口潮汐助手", "𠀀人工𠀁智能", "データを読む", "한국어검색", "タイドテーブル", "ボート", "大大大小大"} {
		runes := []rune(text)
		var queries []string
		for i := range runes {
			for j := i + 1; j <= len(runes); j++ {
				queries = append(queries, string(runes[i:j]))
			}
		}
		for i, found := range s.findsIn("AI "+text+"v2，完", queries...) {
			if !found {
				t.Errorf("%s is not found in %s", queries[i], text)
			}
		}
	}
}

func TestWhatIsNotFound(t *testing.T) {
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
		if s.findsIn(tt.text, tt.query)[0] {
			t.Errorf("%s is found in %s", tt.query, tt.text)
		}
	}
}

func TestWhatIsFoundAllTheSame(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct{ text, query string }{
		{"Café", "cafe"}, {"cafe", "CAFÉ"}, {"ＴＩＤＥ", "tide"}, {"tide", "ｔｉ"}, {"C++", "c++"}, {"C#", "c#"}, {"c++", "c"},
		{"gpt-4", "GPT-4"}, {"gpt-4", "gpt 4"}, {"gpt 4", "gpt-4"}, {"ﾃﾞｰﾀ", "データ"}, {"データ", "ﾃﾞ"}, {"हिन्दी", "हिन"},
		{"ไทย", "ทย"}, {"กี่", "ก"}, {"AI助手", "ai助手"}, {"AI助手", "助手AI"}, {"潮汐表 tide", "tide 汐"}, {"é", "e"}, {"a", "a"}, {"ab", "ab"}, {"abc", "abc"},
	} {
		if !s.findsIn(tt.text, tt.query)[0] {
			t.Errorf("%s is not found in %s", tt.query, tt.text)
		}
	}
}

// FuzzSearch: no query is a syntax error, a text finds itself and the beginning
// of its last word, and the menu entries of a card are told by the same rule as
// the index's.
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
		found := (&testStore{Store: s.Store, TB: t}).findsIn(text, query, text)
		words := queryWords(query)
		matches := len(words) > 0
		for _, w := range words {
			matches = matches && w.matches(segment(text))
		}
		if found[0] != matches {
			t.Errorf("%+q in %+q: the index says %v, matches %v", query, text, found[0], matches)
		}
		if !found[1] && len(queryWords(text)) > 0 {
			t.Errorf("%+q does not find itself", text)
		}
	})
}

// FuzzFold holds the short way of plain characters against the tables alone.
func FuzzFold(f *testing.F) {
	f.Add("Hello wörld c++ 人工智能，ＡＢＣ。")
	f.Add("É é ﬁ Ⅷ ㍿ ｶﾞ ｡ ､ 〜")
	f.Add("\xba\xba\xf5ϑa\xff")
	f.Add("ΠΆΡΟΣ Πάρος ẞ ß ŉ ꭰᎠ İı ᾳ")
	f.Add("e\u0301 か\u3099 中\u0301\u3099文 A\u0338 ﷺ \u1100\u1161\u11a8 가\u11a8 K Å ẛ̣ ～、")
	f.Fuzz(func(t *testing.T, s string) {
		var b strings.Builder
		for _, r := range norm.NFKD.String(strings.ToValidUTF8(s, "\uFFFD")) {
			if r < 0x300 || r > 0x36F {
				b.WriteRune(unicode.ToLower(r))
			}
		}
		if got, want := fold(s), norm.NFC.String(strings.NewReplacer("ß", "ss", "ς", "σ", "ı", "i").Replace(b.String())); got != want {
			t.Errorf("fold(%q) = %q, want %q", s, got, want)
		}
	})
}

// TestPreparedRowMeetsItsPanic: what goes wrong beside the writer fails the write
// alone.
func TestPreparedRowMeetsItsPanic(t *testing.T) {
	s := newStore(t)
	row := &searchRow{cut: sync.OnceValues(func() (string, []scopedWord) { panic("cut") })}
	row.cutBeside()
	err := s.write(context.Background(), func(tx *tx) error {
		tx.search[searchKey{postSearch, 1}] = row
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("%v, want the panic", err)
	}
	s.register("still-there")
}

// TestARunIsAllOfItsPairs: where they stand is not asked, however many they are.
func TestARunIsAllOfItsPairs(t *testing.T) {
	s := newStore(t)
	var run []rune
	for i := range 200 {
		run = append(run, '一'+rune(i))
	}
	text := string(run)
	for name, tt := range map[string]struct {
		text, query string
		want        bool
	}{
		"the whole run":         {text, text, true},
		"the end is another":    {text, string(run[:199]) + "龍", false},
		"the middle is another": {text, string(run[:20]) + "龍" + string(run[21:]), false},
		"again and again":       {text, strings.Repeat("一丁", 100), false},
		"apart":                 {"海洋与上海", "上海洋", true},
		"not all of them":       {"海与上海", "上海洋", false},
	} {
		words := queryWords(tt.query)
		if found := s.findsIn(tt.text, tt.query)[0]; found != tt.want || len(words) != 1 || words[0].matches(segment(tt.text)) != tt.want {
			t.Errorf("%s: found %v, by %d words", name, found, len(words))
		}
	}
}
