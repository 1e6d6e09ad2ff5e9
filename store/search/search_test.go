package search

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"Tide tables, tides":          "tide tables " + stemMark + "tabl tides " + stemMark + "tide",
		"translators":                 "translators " + stemMark + "translat",
		"C++ and C#":                  "c\uE12B\uE12B and c\uE123",
		"人工智能":                        "人 工 智 能 人工 工智 智能",
		"React+TypeScript, C++17":     "react typescript c\uE12B\uE12B 17",
		"AI+教育 A+B B+ C#/F# c#+f#":    "ai 教 育 教育 a b b\uE12B c\uE123 f\uE123",
		"Notepad++ +1 a++++":          "notepad 1 a\uE12B\uE12B",
		"node.js .NET v1.2":           "node js net v1 2",
		"港":                           "港",
		"GPT-4 助手":                    "gpt 4 助 手 助手",
		"ﾃﾞｰﾀ Café ＷＩＤＥ":              "デ ー タ デー ータ cafe wide",
		"Straße ΠΑΡΟΣ Kapı":           "strasse " + stemMark + "strass παροσ kapi",
		"<>\"'()*:^-, NEAR(a b) OR c": "near a b or c",
	} {
		got := Tokens(text)
		if got != want && !sameTokens(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Tokens("潮", "汐"); strings.Contains(got, "潮汐") {
		t.Errorf("a pair reaches from one text into the next: %q", got)
	}
}

func sameTokens(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(strings.Fields(a))), slices.Sorted(slices.Values(strings.Fields(b))))
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"?!":                   "",
		"Code review agent":    "code review",
		"the agent":            "the agent*",
		"tide tide":            "tide",
		"translat":             "translat*",
		"诗歌翻译 我":               "诗歌翻译",
		"我":                    "我",
		"help with sql":        "sql*",
		"python 代码":            "python 代码",
		"look for a c++ guide": "look c++ guide*",
	} {
		var got []string
		for _, w := range Parse(text).Words {
			word := w.Text
			if w.prefix {
				word += "*"
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	n := 0
	for _, w := range Parse(strings.Repeat("潮汐表港口助手人工智能数据翻译诗歌天气", 3) + " 一二三四五六七八九十").Words {
		n += len(w.pairs)
	}
	if n > MaxPairs {
		t.Errorf("%d pairs", n)
	}
}

func TestQuery_KeepsTheRarestWords(t *testing.T) {
	q := Parse("w0 w1 w2 w3 w4 w5 w6 w7 w8 w9").Learn([]int{9, 1000, 0, 5, 5, 5, 900, 5, 5, 5}, nil)
	var got []string
	for _, w := range q.Words {
		got = append(got, w.Text)
	}
	if strings.Join(got, " ") != "w0 w2 w3 w4 w5 w7 w8 w9" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"tide", "tide", 0}, {"tranlation", "translation", 1}, {"recipie", "recipe", 1}, {"reveiw", "review", 1}, {"spredsheet", "spreadsheet", 1},
		{"cafe", "coffee", 3}, {"abcd", "abdc", 1}, {"a", "abcd", 3}, {"潮汐", "潮水", 1},
	} {
		if got := Distance(tt.a, tt.b, 2); got != min(tt.want, 3) {
			t.Errorf("%s, %s: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestNear_HasTheNearestWords(t *testing.T) {
	for _, tt := range []struct{ word, tokens, want string }{
		{"tide", "tidy tables tile tied", "tidy tile tied"},
		{"tide", "tidal", ""}, // a short word may differ in one place only
		{"tides", "tidal", "tidal"},
		{"translatoin", "translates translations translated", "translations"},
		{"translatoin", "translations translation translators", "translation"},
	} {
		near := NewNear(tt.word)
		near.Add(strings.Fields(tt.tokens))
		if got := strings.Join(near.Words, " "); got != tt.want {
			t.Errorf("%s among %s: %q, want %q", tt.word, tt.tokens, got, tt.want)
		}
	}
}

func TestParts_LeaveOutStopWords(t *testing.T) {
	for text, want := range map[string]string{
		"我找潮汐翻译": "潮汐 翻译", "什么潮汐": "潮汐", "需要": "需要", "需要 潮汐": "潮汐", "什么 我们": "", "我们需要": "",
	} {
		var got []string
		for _, p := range Parse(text).Parts(nil) {
			if p.factor == 1 {
				got = append(got, strings.Trim(p.Expression, `()"`+tierMark(anywhere)))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestHighlight(t *testing.T) {
	for _, tt := range []struct{ query, text, want string }{
		{"translation", "Translates poems; a translator", "[Translates] poems; a [translator]"},
		{"tid", "Tide tables", "[Tide] tables"},
		{"诗歌翻译", "翻译现代诗歌", "[翻译]现代[诗歌]"},
		{"潮汐", "港口潮汐助手", "港口[潮汐]助手"},
		{"weather", "看天气的助手", "看[天气]的助手"},
		{"cafe", "CAFÉ <b>", "[CAFÉ] <b>"},
		{"typescript", "React+TypeScript in C++17", "React+[TypeScript] in C++17"},
		{"c++", "React+TypeScript in C++17", "React+TypeScript in [C++]17"},
		{"", "nothing", "nothing"},
	} {
		var b strings.Builder
		at := 0
		for _, s := range Parse(tt.query).Highlighter()(tt.text) {
			fmt.Fprintf(&b, "%s[%s]", tt.text[at:s.From], tt.text[s.From:s.To])
			at = s.To
		}
		b.WriteString(tt.text[at:])
		if b.String() != tt.want {
			t.Errorf("%s in %q: %q, want %q", tt.query, tt.text, b.String(), tt.want)
		}
	}
}

// TestRank_LeavesOutCommonWords: a record that matches only a common word is no result where the others are rare.
func TestRank_LeavesOutCommonWords(t *testing.T) {
	parts := Parse("quantum chinese").Parts(nil)
	found := make([]Found, 0, len(parts))
	for _, p := range parts {
		f := Found{Part: p, Answer: Answer{Newest: 1000}}
		if p.Word == "chinese" {
			f.Count, f.IDs = 500, []int64{3, 2, 1}
		}
		found = append(found, f)
	}
	if got := Rank(found, nil); len(got) > 0 {
		t.Errorf("%v match only the common word", got)
	}
	for i := range found {
		if found[i].Word == "quantum" {
			found[i].Count, found[i].IDs = 1, []int64{2}
		}
	}
	if got := Rank(found, nil); !slices.Equal(got, []int64{2}) {
		t.Errorf("got %v", got)
	}
	if got := Rank(found, []int64{2}); len(got) > 0 {
		t.Errorf("%v match every word", got)
	}
	for count, want := range map[int][]int64{60: {2, 3, 1}, 100: {2}} {
		for i := range found {
			if found[i].Word == "chinese" {
				found[i].Count, found[i].InUpper = count, found[i].IDs
			}
		}
		if got := Rank(found, nil); !slices.Equal(got, want) {
			t.Errorf("a word that %d of 1000 records have, beside one of one record: %v, want %v", count, got, want)
		}
	}
}

// TestGlossary checks the form of the file: English words, " = ", Chinese words; no word is on many lines.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile("glossary.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		english, chinese, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		if !ok || english == "" || chinese == "" {
			t.Errorf("line %d: %q", n, line)
		}
		for w := range strings.FieldsSeq(english + " " + chinese) {
			first, _ := utf8.DecodeRuneInString(w)
			if IsUnspaced(first) != strings.Contains(" "+chinese+" ", " "+w+" ") {
				t.Errorf("line %d: %s is on the wrong side", n, w)
			}
			if lines[w]++; lines[w] > 3 {
				t.Errorf("line %d: %s is on more than three lines", n, w)
			}
		}
	}
	if n < 500 {
		t.Errorf("%d lines", n)
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"Tide C++", "人工智能", "ﾃﾞｰﾀ\xff", "e\u0301 \u0301", "\uE200x \uE000", "ไทย ພາສາລາວ", "'\"*():^-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if Fold(Fold(s)) != Fold(s) {
			t.Errorf("folding %q again changes it", s)
		}
		for tok := range strings.FieldsSeq(Tokens(s)) {
			for _, r := range tok {
				if r < utf8.RuneSelf && kindOf(r) != spacedWord {
					t.Errorf("%q: FTS5 would split the token %q", s, tok)
				}
			}
		}
		q := Parse(s)
		for _, span := range q.Highlighter()(s) {
			if span.From < 0 || span.From >= span.To || span.To > len(s) {
				t.Errorf("%q: %v", s, span)
			}
		}
		for _, p := range q.Parts(nil) {
			if strings.ContainsAny(strings.NewReplacer(`" *`, "", `"`, "", "(", "", ")", "", " AND ", "", " OR ", "").Replace(p.Expression), `"*():^`) {
				t.Errorf("%q: the expression %s", s, p.Expression)
			}
		}
	})
}
