package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	nonJoiner   = '\u200C' // ZERO WIDTH NON-JOINER
	joiner      = '\u200D' // ZERO WIDTH JOINER
	textStyle   = '\uFE0E' // VARIATION SELECTOR-15
	emojiStyle  = '\uFE0F' // VARIATION SELECTOR-16
	keycapFrame = '\u20E3' // COMBINING ENCLOSING KEYCAP
)

// maxMarksInRow limits nonspacing marks in a row. Tibetan needs eight, more than any other living
// script; longer runs only cover the text around them.
const maxMarksInRow = 8

// forbiddenRunes are forbidden in every context: controls, noncharacters and private use, and
// characters that are invisible or reorder others. They include every Default_Ignorable_Code_Point
// except those that runeContext allows in some contexts. Other unassigned characters are allowed,
// as new emoji appear every year.
var forbiddenRunes = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp,
	unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
	{
		R16: []unicode.Range16{
			{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // blank Braille pattern, the usual "empty" name
			// Object and replacement character: the traces of lost text.
			{Lo: 0xFFFC, Hi: 0xFFFD, Stride: 1},
		},
		R32: []unicode.Range32{
			{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // blank hieroglyphs
			{Lo: 0x16FE4, Hi: 0x16FE4, Stride: 1}, // Khitan filler
			{Lo: 0x1D159, Hi: 0x1D159, Stride: 1}, // musical null notehead
		},
	},
}

// pictographs have a text and an emoji style, and join with ZWJ. Whole symbol
// blocks, since the exact property would have to follow each Unicode version;
// without regional indicators (1F1E6 to 1F1FF), which only ever form pairs.
// Skin tones are inside: they precede a joiner like their base.
var pictographs = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00A9, Hi: 0x00A9, Stride: 1},
		{Lo: 0x00AE, Hi: 0x00AE, Stride: 1},
		{Lo: 0x203C, Hi: 0x203C, Stride: 1},
		{Lo: 0x2049, Hi: 0x2049, Stride: 1},
		{Lo: 0x2122, Hi: 0x2122, Stride: 1},
		{Lo: 0x2139, Hi: 0x2139, Stride: 1},
		{Lo: 0x2190, Hi: 0x21FF, Stride: 1}, // arrows
		{Lo: 0x2300, Hi: 0x23FF, Stride: 1}, // technical
		{Lo: 0x24C2, Hi: 0x24C2, Stride: 1},
		{Lo: 0x25A0, Hi: 0x27BF, Stride: 1}, // shapes, symbols, dingbats
		{Lo: 0x2900, Hi: 0x297F, Stride: 1}, // arrows
		{Lo: 0x2B00, Hi: 0x2BFF, Stride: 1}, // symbols and arrows
		{Lo: 0x3030, Hi: 0x3030, Stride: 1},
		{Lo: 0x303D, Hi: 0x303D, Stride: 1},
		{Lo: 0x3297, Hi: 0x3297, Stride: 1},
		{Lo: 0x3299, Hi: 0x3299, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1F000, Hi: 0x1F1E5, Stride: 1},
		{Lo: 0x1F200, Hi: 0x1FAFF, Stride: 1},
		{Lo: 0x1FC00, Hi: 0x1FFFD, Stride: 1}, // reserved for pictographs to come
	},
}

// joiningScripts use ZWJ and ZWNJ in their spelling.
var joiningScripts = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic, unicode.Mongolian,
	unicode.Phags_Pa, unicode.Adlam, unicode.Hanifi_Rohingya,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya,
	unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
	unicode.Khmer, unicode.Myanmar,
}

// Normalize returns s as it is stored and measured: in NFC, with LF for CR LF, without surrounding
// white space. Checks and limits apply to the result. It is idempotent.
func Normalize(s string) string {
	return strings.TrimSpace(newlines.ReplaceAllLiteralString(norm.NFC.String(s), "\n"))
}

// newlines matches every CR right before a LF. A lone one stays, and is rejected later.
var newlines = regexp.MustCompile(`\r+\n`)

// CheckLine reports whether a normalized text may be stored in a one-line field. If not, the error
// is forbidden_character. It accepts the empty text.
func CheckLine(s string) bool {
	_, position := ForbiddenRune(s, false)
	return position == 0
}

// ForbiddenRune returns the first character that a one-line or multi-line field does not take, and
// its position in characters from 1. It returns position 0 if there is none. A multi-line field
// takes newline and tab, too.
func ForbiddenRune(s string, multiLine bool) (r rune, position int) {
	var c runeContext
	for i, n := 0, 1; i < len(s); n++ {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			// Invalid UTF-8 gives U+FFFD, which is forbidden.
			r, size = utf8.DecodeRuneInString(s[i:])
		}

		i += size
		switch {
		case isPlain(r), multiLine && (r == '\n' || r == '\t'):
			c = runeContext{base: r, last: r}

		case !c.accept(r, s[i:]):
			return r, n
		}
	}

	return 0, 0
}

// isPlain is a fast path for printable ASCII, common Han and Hangul.
func isPlain(r rune) bool {
	return r >= ' ' && r <= '~' || r >= 0x4E00 && r <= 0x9FFF || r >= 0xAC00 && r <= 0xD7A3
}

// isForbidden reports whether a character is forbidden in every context. Marks such as the Arabic
// number sign are visible, though Unicode has them among the invisible formats.
func isForbidden(r rune) bool {
	return unicode.In(r, forbiddenRunes...) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// runeContext holds what the rules need to know of the characters before the next one.
type runeContext struct {
	base  rune // the last one that is no mark, joiner or selector
	last  rune // the very last one
	marks int  // nonspacing marks since base
}

// accept reports whether r may follow, before rest, and adds r to the context.
func (c *runeContext) accept(r rune, rest string) bool {
	defer func() { c.last = r }()
	switch {
	case r == joiner || r == nonJoiner:
		return c.mayJoin(r, firstRune(rest))

	case r == textStyle || r == emojiStyle:
		return unicode.Is(pictographs, c.last) ||
			isKeycapKey(c.last) && firstRune(rest) == keycapFrame

	case isHanSelector(r):
		return unicode.Is(unicode.Han, c.last)

	case isMongolianSelector(r):
		return unicode.Is(unicode.Mongolian, c.last) && unicode.IsLetter(c.last)

	case isForbidden(r):
		return false

	case unicode.In(r, unicode.Mn, unicode.Me):
		c.marks++
		return c.marks <= maxMarksInRow
	}

	c.base, c.marks = r, 0
	return true
}

// mayJoin reports whether ZWJ or ZWNJ has an effect between c.last and next; without one it would
// be invisible. The first two cases are those of emoji sequences and of RFC 5892 (CONTEXTJ); the
// third is wider than its rule A.1: Bengali writes ZWJ before the virama, and Persian puts its
// endings to digits and foreign names with ZWNJ.
func (c *runeContext) mayJoin(r, next rune) bool {
	switch {
	case r == joiner && unicode.Is(pictographs, next):
		return c.last == emojiStyle || unicode.Is(pictographs, c.last)
	case !unicode.IsLetter(c.base) && !unicode.IsNumber(c.base),
		c.last == joiner,
		c.last == nonJoiner:
		return false
	}
	return isVirama(c.last) || unicode.In(next, joiningScripts...)
}

func isVirama(r rune) bool {
	const virama = 9
	return norm.NFC.PropertiesString(string(r)).CCC() == virama
}

func isKeycapKey(r rune) bool {
	return r >= '0' && r <= '9' || r == '#' || r == '*'
}

// isHanSelector reports whether a character selects a standardized or an ideographic variant. The
// registry of the latter has about thirty for a character at most; the rest of the block would
// only serve to hide bytes.
func isHanSelector(r rune) bool {
	return r >= 0xFE00 && r <= 0xFE0D || r >= 0xE0100 && r <= 0xE013F
}

func isMongolianSelector(r rune) bool {
	return r >= 0x180B && r <= 0x180D || r == 0x180F
}

// firstRune returns the first character; U+FFFD, which matches no rule, for the empty text.
func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
