package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"callbook/store/search"
)

const (
	nonJoiner   = '\u200C' // ZERO WIDTH NON-JOINER
	joiner      = '\u200D' // ZERO WIDTH JOINER
	textStyle   = '\uFE0E' // VARIATION SELECTOR-15
	emojiStyle  = '\uFE0F' // VARIATION SELECTOR-16
	keycapFrame = '\u20E3' // COMBINING ENCLOSING KEYCAP
)

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

// Normalize returns a text of several lines as it is stored and measured: in NFC, without invisible
// characters and surrounding white space, and with LF for CR LF and for separators of lines and
// paragraphs. Checks and limits apply to the result. It is idempotent.
func Normalize(s string) string { return normalize(s, "\n") }

// NormalizeLine is Normalize for a text of one line, in which a separator becomes a blank.
func NormalizeLine(s string) string { return normalize(s, " ") }

func normalize(s, separator string) string {
	s = newlines.ReplaceAllLiteralString(norm.NFC.String(s), "\n")
	if !isASCII(s) {
		s = separators.ReplaceAllLiteralString(s, separator)
		s = norm.NFC.String(stripInvisible(s))
	}
	return strings.TrimSpace(s)
}

var (
	// newlines matches every CR right before a LF. A lone one stays, and is rejected later.
	newlines = regexp.MustCompile(`\r+\n`)

	separators = regexp.MustCompile(`[\x{2028}\x{2029}]`)
)

// CheckLine reports whether a normalized text may be stored in a one-line field. If not, the error
// is forbidden_character. It accepts the empty text.
func CheckLine(s string) bool {
	_, position := ForbiddenRune(s, false)
	return position == 0
}

// ForbiddenRune returns the first character that a one-line or multi-line field does not take, and
// its position in characters from 1: a control character, or U+FFFD for invalid UTF-8. It returns
// position 0 if there is none. A multi-line field takes newline and tab.
func ForbiddenRune(s string, multiLine bool) (r rune, position int) {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		position++
		switch {
		case multiLine && (r == '\n' || r == '\t'):
		case unicode.IsControl(r), r == utf8.RuneError && size == 1:
			return r, position
		}

		s = s[size:]
	}
	return 0, 0
}

// runeContext holds what the rules need to know of the characters before the next one.
type runeContext struct {
	base rune // the last one that is no mark, joiner or selector
	last rune // the very last one
}

// stripInvisible leaves out the characters that nobody sees (search.IsIgnorable), but those that
// change how the text around them looks.
func stripInvisible(s string) string {
	if !strings.ContainsFunc(s, search.IsIgnorable) {
		return s
	}

	var b strings.Builder
	b.Grow(len(s))
	var c runeContext
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if search.IsIgnorable(r) {
			if size = c.visible(s); size == 0 {
				if c.last == blackFlag {
					c.last = 0 // the rest of its tags spell no flag either
				}
				s = s[utf8.RuneLen(r):]
				continue
			}
		} else if !unicode.In(r, unicode.Mn, unicode.Me) {
			c.base = r
		}

		b.WriteString(s[:size])
		c.last, _ = utf8.DecodeLastRuneInString(s[:size])
		s = s[size:]
	}
	return b.String()
}

// visible returns the number of bytes at the beginning of s, a joiner, selector or tag, that have an
// effect behind the characters before; 0 if they have none.
func (c *runeContext) visible(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	next := firstRune(s[size:])
	switch r {
	case joiner, nonJoiner:
		if c.mayJoin(r, next) {
			return size
		}

	case textStyle, emojiStyle:
		if unicode.Is(pictographs, c.last) || isKeycapKey(c.last) && next == keycapFrame {
			return size
		}
	}

	if c.last == blackFlag {
		return len(flagTags.FindString(s))
	}
	return 0
}

// blackFlag is the emoji that tags turn into the flag of a region, such as England's: the letters
// and digits of its code and an end (UTS #51).
const blackFlag = '\U0001F3F4'

var flagTags = regexp.MustCompile(
	"^[\U000E0030-\U000E0039\U000E0061-\U000E007A]{3,6}\U000E007F",
)

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

// firstRune returns the first character; U+FFFD, which matches no rule, for the empty text.
func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
