package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Default_Ignorable_Code_Point as Unicode lists it: nothing in it may stand
// where it cannot be seen. Kept apart from the table it tests.
var defaultIgnorable = [][2]rune{
	{0xAD, 0xAD}, {0x34F, 0x34F}, {0x61C, 0x61C}, {0x115F, 0x1160}, {0x17B4, 0x17B5},
	{0x180B, 0x180F}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F},
	{0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},
	{0xFFF0, 0xFFF8}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
}

func refusalClass(r rune) string {
	within := func(p [2]rune) bool { return r >= p[0] && r <= p[1] }
	switch {
	case unicode.Is(unicode.Cc, r):
		return "control"
	case r >= 0xD800 && r <= 0xDFFF:
		return "surrogate"
	case r >= 0xFDD0 && r <= 0xFDEF, r%0x10000 >= 0xFFFE:
		return "noncharacter"
	case unicode.Is(unicode.Co, r):
		return "private use"
	case slices.ContainsFunc(defaultIgnorable, within):
		return "default ignorable"
	case r == 0x2028 || r == 0x2029:
		return "separator"
	case r >= 0xFFF9 && r <= 0xFFFB:
		return "annotation"
	case r == 0xFFFC || r == 0xFFFD:
		return "replacement"
	case r >= 0x13430 && r <= 0x1343F:
		return "hieroglyph format"
	case r == 0x2800 || r == 0x1D159 || r == 0x13441 || r == 0x13442 || r == 0x16FE4:
		return "blank symbol"
	}
	return "other"
}

// encode also writes surrogates, as a careless encoder would.
func encode(r rune) string {
	if r >= 0xD800 && r <= 0xDFFF {
		return string([]byte{0xED, byte(0x80 | r>>6&0x3F), byte(0x80 | r&0x3F)})
	}
	return string(r)
}

// checkLines is CheckLine for a multi-line field.
func checkLines(s string) bool { _, position := ForbiddenRune(s, true); return position == 0 }

func TestCheckLine_EveryCodePointBetweenLetters(t *testing.T) {
	oneLine, multiLine := map[string]int{}, map[string]int{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		s := "x" + encode(r) + "x"
		if !CheckLine(s) {
			oneLine[refusalClass(r)]++
		}
		if !checkLines(s) {
			multiLine[refusalClass(r)]++
		}
	}
	want := map[string]int{
		"control": 65, "surrogate": 2048, "noncharacter": 66, "private use": 137468,
		"default ignorable": 4174, "separator": 2, "annotation": 3, "replacement": 2,
		"hieroglyph format": 16, "blank symbol": 5,
	}
	if diff := cmp.Diff(want, oneLine); diff != "" {
		t.Errorf("refused by CheckLine (-want +got):\n%s", diff)
	}
	want["control"] -= 2 // newline and tab
	if diff := cmp.Diff(want, multiLine); diff != "" {
		t.Errorf("refused by checkLines (-want +got):\n%s", diff)
	}
}

// The characters that depend on their place, each tried after every code point.
func TestCheckLine_EveryCodePointBeforeSelectorOrJoiner(t *testing.T) {
	tests := []struct {
		name, after string
		want        int
	}{
		{"emoji style", "\uFE0F", 5119},
		{"text style", "\uFE0E", 5119},
		{"keycap", "\uFE0F\u20E3", 5131}, // and ten digits, number sign, asterisk
		{"unregistered ideographic selector", "\U000E0140", 0},
		{"tag", "\U000E0041", 0},
		{"zero-width joiner, pictograph", "\u200D\u2764", 5119},
		{"zero-width non-joiner, pictograph", "\u200C\u2764", 0},
		{"zero-width joiner, Latin", "\u200Dx", 0},
		{"zero-width non-joiner, nothing", "\u200C", 0},
	}
	for _, tt := range tests {
		got := 0
		for r := rune(0); r < 0x20000; r++ { // behind are ideographs, tags and private use alone
			if CheckLine(encode(r) + tt.after) {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: accepted after %d code points, want %d", tt.name, got, tt.want)
		}
	}
}

func TestCheckLine_Accepts(t *testing.T) {
	tests := map[string]string{
		"empty":                              "",
		"ASCII":                              "I'm <b>, \"quoted\" & 100% ~ok~ \\",
		"Chinese":                            "为小型品牌做小红书笔记，三天交付。",
		"Chinese with ideographic space":     "你好\u3000世界",
		"Han of a supplementary plane":       "𠮷野家 𪚥",
		"Japanese":                           "日本語のテキスト、ガギグゲゴ",
		"Japanese, halfwidth":                "ﾊﾛｰ",
		"Japanese, ideographic variant":      "葛\U000E0100城市",
		"Han with standardised variant":      "\u2269A\u82A6\uFE00",
		"Korean":                             "안녕하세요 세계",
		"Korean, conjoining jamo":            "\u1112\u1161\u11AB",
		"Arabic":                             "مرحبا بالعالم، ١٢٣",
		"Arabic with vowel signs":            "مُحَمَّدٌ",
		"Arabic number sign":                 "\u0600\u0661",
		"Hebrew with points":                 "שָׁלוֹם עוֹלָם",
		"Hindi":                              "हिन्दी में काम",
		"Hindi, ZWJ after virama":            "क्\u200Dष",
		"Hindi, ZWJ after virama at the end": "क्\u200D",
		"Hindi, ZWNJ after virama":           "क्\u200Cष",
		"Bengali, ZWJ before virama":         "র\u200D্যাব",
		"Sinhala":                            "ශ්\u200Dරී ලංකා",
		"Malayalam, old chillu":              "ന്\u200D",
		"Persian with ZWNJ":                  "می\u200Cخواهم کتاب\u200Cها",
		"Persian ending after vowel sign":    "کتابِ\u200Cها",
		"Persian ending after digit":         "۲۰\u200Cساله",
		"Persian ending after foreign name":  "API\u200Cهای",
		"Mongolian with selector":            "\u1820\u180B\u1821\u200D\u1822",
		"Thai":                               "สวัสดีชาวโลก ที่นี่",
		"Tibetan stack of eight":             "\u0F67\u0F90\u0FB5\u0FA8\u0FB3\u0FBA\u0FBC\u0FBB\u0F82",
		"Vietnamese":                         "Tiếng Việt",
		"Russian":                            "Привет, ёж",
		"Polytonic Greek":                    "ᾧ ἐν ἀρχῇ",
		"eight marks in a row":               "a" + strings.Repeat("\u0316", 8),
		"marks after a new base":             strings.Repeat("a"+strings.Repeat("\u0316", 8), 3),
		"marks after a new base, Cyrillic":   strings.Repeat("ж"+strings.Repeat("\u0316", 8), 3),
		"right to left in left to right":     "name עברית name",
		"emoji":                              "🎉🚀😀",
		"emoji style":                        "❤\uFE0F ✈\uFE0F ©\uFE0F",
		"text style":                         "❤\uFE0E",
		"skin tone":                          "👍🏽",
		"woman with computer":                "👩\u200D💻",
		"woman with computer, skin tone":     "👩🏽\u200D💻",
		"family":                             "👨\u200D👩\u200D👧\u200D👦",
		"couple with styled heart":           "👩🏽\u200D❤\uFE0F\u200D👨🏻",
		"rainbow flag":                       "🏳\uFE0F\u200D🌈",
		"head shaking":                       "🙂\u200D↔\uFE0F",
		"keycap":                             "1\uFE0F\u20E3 #\uFE0F\u20E3 *\uFE0F\u20E3",
		"keycap without style":               "1\u20E3",
		"national flags":                     "🇨🇳🇩🇪",
		"mathematics":                        "∀x∈ℝ: ⌈x⌉ ≥ x",
		"no-break spaces":                    "10\u00A0km 1\u202F000",
		"unassigned":                         "\u0378",
		"pictograph to come":                 "\U0001FAFF\U0001FC00",
	}
	for name, s := range tests {
		if !CheckLine(s) {
			t.Errorf("%s: %+q refused in one line", name, s)
		}
		if !checkLines(s + "\n\t" + s) {
			t.Errorf("%s: %+q refused in lines", name, s)
		}
	}
}

func TestCheckLine_Rejects(t *testing.T) {
	tests := map[string]string{
		"NUL":                                 "a\x00b",
		"escape":                              "\x1B[31mred",
		"lone CR":                             "a\rb",
		"delete":                              "a\x7Fb",
		"C1 next line":                        "a\u0085b",
		"invalid byte":                        "a\xFFb",
		"cut-off sequence":                    "a\xE4\xBD",
		"overlong NUL":                        "a\xC0\x80b",
		"lone surrogate":                      "a\xED\xA0\x80b",
		"beyond Unicode":                      "a\xF4\x90\x80\x80b",
		"replacement character":               "a\uFFFDb",
		"object replacement character":        "a\uFFFCb",
		"bidi override":                       "abc\u202Edcba",
		"bidi isolate":                        "\u2067abc\u2069",
		"bidi mark":                           "abc\u200Fabc",
		"Arabic letter mark":                  "\u061Cabc",
		"zero-width space":                    "ad\u200Bmin",
		"word joiner":                         "ad\u2060min",
		"soft hyphen":                         "ad\u00ADmin",
		"byte order mark":                     "\uFEFFadmin",
		"line separator":                      "a\u2028b",
		"Hangul filler as a name":             "\u3164",
		"blank Braille as a name":             "\u2800",
		"tags spelling a message":             "hi\U000E0069\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065",
		"tags after an emoji":                 "😀\U000E0068\U000E0069",
		"flag of England, made of tags":       "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
		"private use":                         "a\uE000b",
		"noncharacter":                        "a\uFFFE",
		"noncharacter of plane 1":             "a\U0001FFFF",
		"combining grapheme joiner":           "a\u034Fb",
		"nine marks in a row":                 "a" + strings.Repeat("\u0316", 9),
		"nine enclosing and nonspacing":       "a" + strings.Repeat("\u20DD\u0316\u0301", 3),
		"nine marks at the start":             strings.Repeat("\u0316", 9),
		"marks split by joiners":              "क" + strings.Repeat("\u094D\u200D", 9),
		"emoji style after a letter":          "a\uFE0F",
		"emoji style at the start":            "\uFE0F😀",
		"emoji style twice":                   "❤\uFE0F\uFE0F",
		"emoji style on a digit alone":        "1\uFE0F",
		"selectors hiding bytes":              "😀\U000E0158\U000E0155\U000E015C",
		"one hidden byte after an emoji":      "😀\U000E0100",
		"ideographic selector twice":          "葛\U000E0100\U000E0101",
		"ideographic selector after a letter": "a\U000E0100",
		"unregistered ideographic selector":   "葛\U000E01EF",
		"standardised variant twice":          "\u82A6\uFE00\uFE00",
		"Mongolian selector twice":            "\u1820\u180B\u180B",
		"Mongolian selector elsewhere":        "a\u180B",
		"ZWJ between Latin letters":           "ad\u200Dmin",
		"ZWNJ between Latin letters":          "ad\u200Cmin",
		"ZWNJ between Han":                    "你\u200C好",
		"ZWNJ between Cyrillic letters":       "ад\u200Cмин",
		"ZWNJ between emoji":                  "👩\u200C💻",
		"ZWJ at the start":                    "\u200D👩",
		"ZWJ at the end of an emoji":          "👩\u200D",
		"ZWJ from emoji to letter":            "👩\u200Da",
		"ZWJ from letter to emoji":            "a\u200D👩",
		"ZWJ between regional indicators":     "🇨\u200D🇳",
		"ZWJ twice":                           "👩\u200D\u200D💻",
		"ZWNJ twice in Persian":               "می\u200C\u200Cخواهم",
		"ZWNJ at the end of Persian":          "کتاب\u200C",
		"ZWNJ at the start of Persian":        "\u200Cکتاب",
		"ZWNJ after a space":                  "a \u200Cب",
		"two joiners after virama":            "क्\u200D\u200Dष",
		"two non-joiners after virama":        "क्\u200C\u200Cष",
		"virama without letter":               "\u094D\u200D",
		"overflow of marks, normalised":       Normalize("a" + strings.Repeat("\u0301", 40)),
	}
	for name, s := range tests {
		if CheckLine(s) {
			t.Errorf("%s: %+q accepted in one line", name, s)
		}
		if checkLines(s) {
			t.Errorf("%s: %+q accepted in lines", name, s)
		}
	}
}

func TestCheckLines_AllowsNewlineAndTab(t *testing.T) {
	for _, s := range []string{"a\nb", "a\tb", "\n", "👩\n"} {
		if CheckLine(s) || !checkLines(s) {
			t.Errorf("%q: one line %v, lines %v; want false, true", s, CheckLine(s), checkLines(s))
		}
	}
	if checkLines("👩\u200D\n💻") {
		t.Error("a joiner at the end of a line is accepted")
	}
}

func TestNormalize(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to do", "a b", "a b"},
		{"outer white space of all kinds", " \t\r\n\u00A0\u3000\u2028a\u2003\n", "a"},
		{"inner white space stays", "a  b\n\nc", "a  b\n\nc"},
		{"decomposed letter", "Cafe\u0301", "Café"},
		{"decomposed Hangul", "\u1112\u1161\u11AB", "한"},
		{"kelvin and angstrom signs", "\u212A\u212B", "KÅ"},
		{"width is kept", "ＡＢＣ１２３", "ＡＢＣ１２３"},
		{"CR LF", "a\r\nb\r\n\r\nc", "a\nb\n\nc"},
		{"CR CR LF", "a\r\r\nb", "a\nb"},
		{"lone CR stays", "a\rb\r\nc\rd", "a\rb\nc\rd"},
		{"only white space", " \n\u3000", ""},
		{"no white space", "\u200B\uFEFF", "\u200B\uFEFF"},
		{"invalid bytes stay", "a\xFF\xE4", "a\xFF\xE4"},
	}
	for _, tt := range tests {
		if got := Normalize(tt.in); got != tt.want {
			t.Errorf("%s: got %+q, want %+q", tt.name, got, tt.want)
		}
		if got := Normalize(tt.want); got != tt.want {
			t.Errorf("%s: %+q is changed once more to %+q", tt.name, tt.want, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a\r\r\nb", "Cafe\u0301", "👩\u200D💻", "क्\u200Dष", "\xFF\u0301", strings.Repeat("\u0301", 40), "1\uFE0F\u20E3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := Normalize(s)
		if again := Normalize(n); again != n {
			t.Errorf("normalised twice: %+q, then %+q", n, again)
		}
		if CheckLine(s) && (!checkLines(s) || strings.ContainsAny(s, "\n\t")) {
			t.Errorf("%+q: one line, but not lines", s)
		}
		if !checkLines(s) {
			return
		}
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\r\u200B\u202E\uFEFF") {
			t.Errorf("%+q accepted", s)
		}
		if !checkLines(s + "\n" + s) {
			t.Errorf("%+q accepted once, but not twice", s)
		}
	})
}
