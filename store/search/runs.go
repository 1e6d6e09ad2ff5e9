package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// run is a word of a script with spaces, or an unbroken stretch of one without.
type run struct {
	text     string
	at       int // byte offset in the text
	unspaced bool
}

// Words returns the words of a text of a script with spaces, and the unbroken stretches of one
// without, in order and folded.
func Words(text string) (words []string) {
	for r := range runs(Fold(text)) {
		words = append(words, r.text)
	}
	return words
}

// runs yields the runs of a text in order.
func runs(text string) iter.Seq[run] {
	return func(yield func(run) bool) {
		start, kind := -1, separator
		for i, r := range text {
			k := kindOf(r)
			switch {
			case k == mark && start >= 0:
				continue // it belongs to the character before it

			case k == kind && start >= 0:
				continue
			}

			end := i
			if k == sign && kind == spacedWord {
				end += signs(text[start:i], text[i:])
			}

			// A run ends here, and the character may begin another one.
			if start >= 0 && !yield(run{text[start:end], start, kind == unspacedRun}) {
				return
			}

			start, kind = -1, separator
			if k == spacedWord || k == unspacedRun {
				start, kind = i, k
			}
		}

		if start >= 0 {
			yield(run{text[start:], start, kind == unspacedRun})
		}
	}
}

// signs returns how many of the signs that follow a word belong to it: c++, c# and a+ are words of
// their own, and the plus in r+d and the signs of longer words separate words.
func signs(word, rest string) int {
	// In "r+d" and "1+1" the plus stands between two words; in "a+ school" and "c++" it does not.
	next, _ := utf8.DecodeRuneInString(rest[1:])
	k := kindOf(next)
	switch {
	case utf8.RuneCountInString(word) > 2:
		return 0

	case strings.HasPrefix(rest, "++"):
		return 2

	case rest[0] == '+' && (k == spacedWord || k == unspacedRun):
		return 0
	}

	return 1
}

type runeKind int

const (
	separator runeKind = iota
	spacedWord
	unspacedRun
	mark
	sign
)

// unspaced are the scripts written without spaces.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
}

func kindOf(r rune) runeKind {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return spacedWord

		case r == '+', r == '#':
			return sign
		}

		return separator

	case '一' <= r && r <= '鿿':
		return unspacedRun

	case unicode.In(r, unicode.Mn, unicode.Mc):
		return mark

	case !unicode.IsLetter(r) && !unicode.IsNumber(r):
		return separator

	case r == 'ー', r == '〆', unicode.In(r, unspaced...): // Unicode gives the first two no script
		return unspacedRun
	}

	return spacedWord
}

// IsUnspaced reports whether a character belongs to a script written without spaces.
func IsUnspaced(r rune) bool { return r >= utf8.RuneSelf && kindOf(r) == unspacedRun }

// beginsUnspaced reports whether the first character of a word is of such a script.
func beginsUnspaced(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return IsUnspaced(first)
}

// characters returns the characters of a run, each with the marks that follow it.
func characters(text string) (all []string) {
	start := 0
	for i, r := range text {
		if i > start && kindOf(r) != mark {
			all, start = append(all, text[start:i]), i
		}
	}
	return append(all, text[start:])
}

// bare returns a character without its marks.
func bare(character string) string {
	_, size := utf8.DecodeRuneInString(character)
	return character[:size]
}

// pairs returns the pairs of neighbouring characters of a run.
func pairs(text string) (all []string) {
	chars, at := characters(text), 0
	for i := range len(chars) - 1 {
		all = append(all, text[at:at+len(chars[i])+len(chars[i+1])])
		at += len(chars[i])
	}
	return all
}

// stem returns the English stem of a folded word, and other words as they are.
func stem(word string) string {
	if len(word) < 3 || len(word) > maxStemmed ||
		strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return word
	}
	return english.Stem(word, false)
}

// maxStemmed is the length from which on a word is no English word, and is not worth stemming.
const maxStemmed = 40
