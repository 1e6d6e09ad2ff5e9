package store

import (
	"slices"
	"strings"

	"callbook/store/search"
)

// blockForm returns a text in the form in which blocked words are stored and compared: its
// words, cut and folded as for a search, with one space between.
func blockForm(text string) string { return strings.Join(search.Words(text), " ") }

// holds reports whether a text holds one of some words in the form of blockForm.
func holds(text string, words []string) bool {
	text = blockForm(text)
	return slices.ContainsFunc(words, func(word string) bool { return holdsWord(text, word) })
}

// holdsWord reports whether a text contains a word: anywhere if the word has characters of a script without spaces,
// else as a whole word.
func holdsWord(text, word string) bool {
	anywhere := strings.ContainsFunc(word, search.IsUnspaced)
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		if anywhere || isWordEdge(text, i-1) && isWordEdge(text, i+len(word)) {
			return true
		}
		from = i + 1
	}
}

// isWordEdge reports whether a word ends at a byte of a form. A sign belongs to a word, as in c++, but the word without
// it is found as well.
func isWordEdge(text string, i int) bool {
	return i < 0 || i == len(text) || text[i] == ' ' || text[i] == '+' || text[i] == '#'
}
