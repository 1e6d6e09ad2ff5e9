package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Default_Ignorable_Code_Point as Unicode lists it. Kept apart from the table that it tests.
var defaultIgnorable = [][2]rune{
	{0xAD, 0xAD}, {0x34F, 0x34F}, {0x61C, 0x61C}, {0x115F, 0x1160}, {0x17B4, 0x17B5},
	{0x180B, 0x180F}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F},
	{0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},
	{0xFFF0, 0xFFF8}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
}

func isDefaultIgnorable(r rune) bool {
	return slices.ContainsFunc(defaultIgnorable, func(p [2]rune) bool { return r >= p[0] && r <= p[1] })
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

// TestNormalize_EveryCodePoint checks that each default-ignorable character is left out between letters, each control
// character and surrogate is rejected, and every other is stored.
func TestNormalize_EveryCodePoint(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text := "x" + encode(r) + "x"
		oneLine, lines := NormalizeLine(text), Normalize(text)
		switch {
		case isDefaultIgnorable(r):
			if oneLine != "xx" || lines != "xx" {
				t.Errorf("%U is stored as %+q and %+q", r, oneLine, lines)
			}
		case r == 0x2028 || r == 0x2029:
			if oneLine != "x x" || lines != "x\nx" {
				t.Errorf("%U is stored as %+q and %+q", r, oneLine, lines)
			}
		default:
			control := unicode.IsControl(r) || r >= 0xD800 && r <= 0xDFFF
			if CheckLine(oneLine) == control || checkLines(lines) == (control && r != '\n' && r != '\t') {
				t.Errorf("%U: taken in one line %v, in lines %v", r, CheckLine(oneLine), checkLines(lines))
			}
		}
	}
}

// TestNormalize_EveryCodePointBeforeSelectorOrJoiner tries what depends on its place after every code point.
func TestNormalize_EveryCodePointBeforeSelectorOrJoiner(t *testing.T) {
	for _, tt := range []struct {
		name, after string
		want        int // code points behind which it stays
	}{
		{"emoji style", "\uFE0F", 5117},
		{"text style", "\uFE0E", 5117},
		{"keycap", "\uFE0F\u20E3", 5129}, // and ten digits, number sign, asterisk
		{"ideographic selector", "\U000E0100", 0},
		{"tag", "\U000E0041", 0},
		{"zero-width joiner, pictograph", "\u200D\u2764", 5117},
		{"zero-width non-joiner, pictograph", "\u200C\u2764", 0},
		{"zero-width joiner, Latin", "\u200Dx", 0},
		{"zero-width non-joiner, nothing", "\u200C", 0},
	} {
		got := 0
		for r := rune(0); r < 0x20000; r++ { // behind are ideographs, tags and private use alone
			selector, _ := utf8.DecodeRuneInString(tt.after)
			if strings.ContainsRune(NormalizeLine("x"+encode(r)+tt.after), selector) && !unicode.In(r, unicode.M) && !isDefaultIgnorable(r) {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: stays after %d code points, want %d", tt.name, got, tt.want)
		}
	}
}

// honestTexts are stored as they are.
var honestTexts = map[string]string{
	"empty":                              "",
	"ASCII":                              "I'm <b>, \"quoted\" & 100% ~ok~ \\",
	"Chinese":                            "为小型品牌做小红书笔记，三天交付。",
	"Chinese with ideographic space":     "你好\u3000世界",
	"Han of a supplementary plane":       "𠮷野家 𪚥",
	"Japanese":                           "日本語のテキスト、ガギグゲゴ",
	"Japanese, halfwidth":                "ﾊﾛｰ",
	"Korean":                             "안녕하세요 세계",
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
	"ten marks in a row":                 "a" + strings.Repeat("\u0316", 10),
	"private use":                        "a\uE123b",
	"object replacement character":       "a\uFFFCb",
	"replacement character":              "a\uFFFDb",
	"noncharacter":                       "a\uFFFEb",
	"flag of England, made of tags":      "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
	"blank Braille":                      "a\u2800b",
	"Mongolian with a joiner":            "\u1820\u1821\u200D\u1822",
}

func TestNormalize_KeepsHonestTexts(t *testing.T) {
	for name, text := range honestTexts {
		if got := NormalizeLine(text); got != text || !CheckLine(got) {
			t.Errorf("%s: %+q is stored as %+q", name, text, got)
		}
		lines := strings.TrimSpace(text + "\n\t" + text)
		if got := Normalize(lines); got != lines || !checkLines(got) {
			t.Errorf("%s: %+q is stored as %+q", name, lines, got)
		}
	}
}

func TestNormalize_LeavesInvisibleCharactersOut(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"bidi override":                  {"abc\u202Edcba", "abcdcba"},
		"bidi isolate":                   {"\u2067abc\u2069", "abc"},
		"bidi mark":                      {"abc\u200Fabc", "abcabc"},
		"Arabic letter mark":             {"\u061Cabc", "abc"},
		"zero-width space":               {"ad\u200Bmin", "admin"},
		"word joiner":                    {"ad\u2060min", "admin"},
		"soft hyphen":                    {"ad\u00ADmin", "admin"},
		"byte order mark":                {"\uFEFFadmin", "admin"},
		"Hangul filler as a name":        {"\u3164", ""},
		"tags spelling a message":        {"hi\U000E0069\U000E0067\U000E006E", "hi"},
		"tags after an emoji":            {"😀\U000E0068\U000E0069", "😀"},
		"a flag of too many tags":        {"🏴" + strings.Repeat("\U000E0067", 7) + "\U000E007F", "🏴"},
		"a flag without an end":          {"🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067", "🏴"},
		"combining grapheme joiner":      {"a\u034Fb", "ab"},
		"emoji style after a letter":     {"a\uFE0F", "a"},
		"emoji style at the start":       {"\uFE0F😀", "😀"},
		"emoji style twice":              {"❤\uFE0F\uFE0F", "❤\uFE0F"},
		"emoji style on a digit alone":   {"1\uFE0F", "1"},
		"75 selectors behind a letter":   {"葛" + strings.Repeat("\U000E0101", 75) + "城", "葛城"},
		"ideographic variant":            {"葛\U000E0100城市", "葛城市"},
		"standardised variant":           {"\u82A6\uFE00", "\u82A6"},
		"Mongolian selector":             {"\u1820\u180B\u1821", "\u1820\u1821"},
		"ZWJ between Latin letters":      {"ad\u200Dmin", "admin"},
		"ZWNJ between Han":               {"你\u200C好", "你好"},
		"ZWNJ between emoji":             {"👩\u200C💻", "👩💻"},
		"ZWJ at the start":               {"\u200D👩", "👩"},
		"ZWJ at the end of an emoji":     {"👩\u200D", "👩"},
		"ZWJ twice":                      {"👩\u200D\u200D💻", "👩\u200D💻"},
		"ZWNJ twice in Persian":          {"می\u200C\u200Cخواهم", "می\u200Cخواهم"},
		"ZWNJ at the end of Persian":     {"کتاب\u200C", "کتاب"},
		"two joiners after virama":       {"क्\u200D\u200Dष", "क्\u200Dष"},
		"what composes without a joiner": {"e\u2060\u0301", "é"},
	} {
		if got := NormalizeLine(tt.text); got != tt.want {
			t.Errorf("%s: %+q is stored as %+q, want %+q", name, tt.text, got, tt.want)
		}
	}
}

func TestCheckLine_Rejects(t *testing.T) {
	for name, s := range map[string]string{
		"NUL":              "a\x00b",
		"escape":           "\x1B[31mred",
		"lone CR":          "a\rb",
		"delete":           "a\x7Fb",
		"C1 next line":     "a\u0085b",
		"invalid byte":     "a\xFFb",
		"cut-off sequence": "a\xE4\xBD",
		"overlong NUL":     "a\xC0\x80b",
		"lone surrogate":   "a\xED\xA0\x80b",
		"beyond Unicode":   "a\xF4\x90\x80\x80b",
	} {
		if CheckLine(s) || checkLines(s) {
			t.Errorf("%s: %+q is accepted", name, s)
		}
	}
}

func TestCheckLines_AllowsNewlineAndTab(t *testing.T) {
	for _, s := range []string{"a\nb", "a\tb", "\n", "👩\n"} {
		if CheckLine(s) || !checkLines(s) {
			t.Errorf("%q: one line %v, lines %v; want false, true", s, CheckLine(s), checkLines(s))
		}
	}
}

func TestNormalize(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to do", "a b", "a b"},
		{"outer white space of all kinds", " \t\r\n\u00A0\u3000\u2028a\u2003\n", "a"},
		{"inner white space stays", "a  b\n\nc", "a  b\n\nc"},
		{"decomposed letter", "Cafe\u0301", "Café"},
		{"separators", "a\u2028b\u2029c", "a\nb\nc"},
		{"decomposed Hangul", "\u1112\u1161\u11AB", "한"},
		{"kelvin and angstrom signs", "\u212A\u212B", "KÅ"},
		{"width is kept", "ＡＢＣ１２３", "ＡＢＣ１２３"},
		{"CR LF", "a\r\nb\r\n\r\nc", "a\nb\n\nc"},
		{"CR CR LF", "a\r\r\nb", "a\nb"},
		{"lone CR stays", "a\rb\r\nc\rd", "a\rb\nc\rd"},
		{"only white space", " \n\u3000", ""},
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
		if checkLines(s) && (!utf8.ValidString(s) || strings.ContainsAny(s, "\x00\r")) {
			t.Errorf("%+q accepted", s)
		}
		if strings.ContainsAny(n, "\u200B\u202E\uFEFF\u00AD") {
			t.Errorf("%+q is stored", n)
		}
	})
}
