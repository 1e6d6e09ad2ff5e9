package store

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Search words are cut in Go, the same way for what is stored and what is asked,
// so that FTS5 only ever sees words between spaces.
//
// Scripts written without spaces (Chinese, Japanese, Korean, Thai and the like)
// are cut into pairs of neighbouring characters, and the last character of a run
// stands alone after them: 人工智能 becomes 人工 工智 智能 能. A run that is asked
// is found where all of its pairs are, so 工智 is found inside it; that they follow
// each other is not asked, as where they stand would be half of the index, and the
// pairs between two words are seldom found but there. A single character is asked as
// the beginning of a word, and each character begins one.

// word is one unit of a query.
type word struct {
	text   string // one search word, or the pairs of a run, each once, with spaces between
	prefix bool   // any word that starts with it matches
}

// unspaced are the scripts that are cut into pairs.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
}

// fold removes what a search ignores: case, width, accents, compatibility forms.
func fold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	var folded strings.Builder
	folded.Grow(len(s))
	for _, r := range norm.NFKD.String(strings.ToValidUTF8(s, "\uFFFD")) { // behind a broken character it does nothing
		switch r = unicode.ToLower(r); {
		case 0x300 <= r && r <= 0x36F:
			// Only the accents of Latin, Greek and Cyrillic: the marks of other
			// scripts, such as the voicing of kana, tell words apart.
		case r == 'ß': // whose capitals are two
			folded.WriteString("ss")
		case r == 'ς': // which has the capital of σ
			folded.WriteRune('σ')
		case r == 'ı': // which has the capital of i
			folded.WriteByte('i')
		default:
			folded.WriteRune(r)
		}
	}
	return norm.NFC.String(folded.String())
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runs calls f for each run of a folded text: a word of a spaced script, or an
// unbroken stretch of an unspaced one.
func runs(folded string, f func(run string, unspaced bool)) {
	start, kind := -1, separator
	for i, r := range folded {
		k := kindOf(r)
		if k == mark && start >= 0 {
			continue // a mark belongs to the character before it
		}
		if k == sign && kind == spacedWord {
			continue // c++ and c# are words of their own
		}
		if k == kind && start >= 0 {
			continue
		}
		if start >= 0 {
			f(folded[start:i], kind == unspacedRun)
		}
		start, kind = -1, k
		if k == spacedWord || k == unspacedRun {
			start = i
		} else {
			kind = separator
		}
	}
	if start >= 0 {
		f(folded[start:], kind == unspacedRun)
	}
}

type runeKind int

const (
	separator runeKind = iota
	spacedWord
	unspacedRun
	mark
	sign
)

func kindOf(r rune) runeKind {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return spacedWord
		case r == '+', r == '#':
			return sign
		}
		return separator
	case '一' <= r && r <= '鿿': // most of what is unspaced, without a look at the tables below
		return unspacedRun
	case unicode.In(r, unicode.Mn, unicode.Mc):
		return mark
	case !unicode.IsLetter(r) && !unicode.IsNumber(r):
		return separator
	case r == 'ー', r == '〆', unicode.In(r, unspaced...): // Unicode counts the two to no script
		return unspacedRun
	}
	return spacedWord
}

// segment returns the search words of texts, with spaces between. No pair reaches
// from one text into the next.
func segment(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		runs(fold(text), func(run string, unspaced bool) {
			if unspaced {
				pairs(&b, run)
				_, last := utf8.DecodeLastRuneInString(run)
				run = run[len(run)-last:]
			}
			appendWord(&b, run)
		})
	}
	return b.String()
}

// pairs appends the pairs of neighbouring characters of a run; none for a run of
// one character.
func pairs(b *strings.Builder, run string) {
	before := -1
	for i, r := range run {
		if before >= 0 {
			appendWord(b, run[before:i+utf8.RuneLen(r)])
		}
		before = i
	}
}

func appendWord(b *strings.Builder, w string) {
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	for _, r := range w {
		b.WriteRune(safeRune(r))
	}
}

// safeRune keeps a word in one piece in FTS5: its tokenizer splits at ASCII signs,
// so these move to the private use area, where no text of an agent can be.
func safeRune(r rune) rune {
	if r < utf8.RuneSelf && kindOf(r) != spacedWord {
		return 0xE100 + r
	}
	return r
}

// maxBeginning is how long the beginnings of words are that are words of their own
// in the index: a character of an unspaced script, up to three of a spaced one.
// The beginning of very many words is one look-up by it.
const maxBeginning = 3

// beginnings calls f with each beginning of a search word.
func beginnings(w string, f func(string)) {
	n := 0
	for i, r := range w {
		n++
		f(w[:i+utf8.RuneLen(r)])
		if n == maxBeginning || isUnspaced(r) {
			return
		}
	}
}

// isOneCharacter tells of a search word that is one character of an unspaced script.
func isOneCharacter(w string) bool {
	r, size := utf8.DecodeRuneInString(w)
	return size == len(w) && isUnspaced(r)
}

func isUnspaced(r rune) bool { return r >= utf8.RuneSelf && kindOf(r) == unspacedRun }

// queryWords cuts a query. Every word must match; the last one also as the start
// of a longer word.
func queryWords(q string) []word {
	var words []word
	seen := map[word]bool{}
	var last *word // the query's last word, if it can be the beginning of a longer one
	runs(fold(q), func(run string, unspaced bool) {
		var b strings.Builder
		if unspaced {
			pairs(&b, run)
		}
		single := b.Len() == 0
		if single {
			appendWord(&b, run)
		}
		w := word{text: eachOnce(b.String()), prefix: single && unspaced}
		last = nil
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
			if single {
				last = &words[len(words)-1]
			}
		}
	})
	if last != nil {
		last.prefix = true
	}
	return words
}

func eachOnce(words string) string {
	var once []string
	for w := range strings.SplitSeq(words, " ") {
		if !slices.Contains(once, w) {
			once = append(once, w)
		}
	}
	return strings.Join(once, " ")
}

// matches tells whether a word, or each pair of a run, stands in what segment made.
func (w word) matches(segmented string) bool {
	for one := range strings.SplitSeq(w.text, " ") {
		if !holds(segmented, one, w.prefix) {
			return false
		}
	}
	return true
}

func holds(segmented, word string, prefix bool) bool {
	for from := 0; ; {
		i := strings.Index(segmented[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		starts := i == 0 || segmented[i-1] == ' '
		ends := prefix || end == len(segmented) || segmented[end] == ' '
		if starts && ends {
			return true
		}
		from = i + 1
	}
}

// facet is one value that lists filter by, as a word that no text can contain.
func facet(kind facetKind, value string) string {
	var b strings.Builder
	b.WriteRune(0xE000 + rune(kind))
	for _, r := range fold(value) {
		b.WriteRune(safeRune(r))
	}
	return b.String()
}

type facetKind rune

const (
	facetHandle facetKind = iota
	facetCapability
	facetLanguage
	facetLevel
	facetKindOfPost
	facetTag
	facetAuthor
	facetOpen
	facetBlock
)
