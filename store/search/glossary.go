package search

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// glossaryText has a concept a line: English words, an equals sign, Chinese words.
//
//go:embed glossary.tsv
var glossaryText string

// glossary finds words with the same meaning.
type glossary struct {
	concepts [][]string       // words of both languages, folded
	byWord   map[string][]int // concepts of a word, and of an English word's stem
	longest  int              // characters of the longest Chinese word
}

// theGlossary returns the glossary, which is read at the first call.
var theGlossary = sync.OnceValue(readGlossary)

func readGlossary() *glossary {
	g := &glossary{byWord: map[string][]int{}}
	for line := range strings.Lines(glossaryText) {
		var words []string
		for w := range strings.FieldsSeq(strings.Replace(line, " = ", " ", 1)) {
			words = append(words, Fold(w))
		}

		n := len(g.concepts)
		g.concepts = append(g.concepts, words)
		for _, w := range words {
			g.add(w, n)
			if s := stem(w); s != w {
				g.add(s, n)
			}

			if beginsUnspaced(w) {
				g.longest = max(g.longest, utf8.RuneCountInString(w))
			}
		}
	}

	return g
}

func (g *glossary) add(word string, concept int) {
	if !slices.Contains(g.byWord[word], concept) {
		g.byWord[word] = append(g.byWord[word], concept)
	}
}

// same returns the other words of the concepts of a folded word.
func (g *glossary) same(word string) (words []string) {
	concepts := g.byWord[word]
	if len(concepts) == 0 {
		concepts = g.byWord[stem(word)]
	}

	for _, n := range concepts {
		for _, w := range g.concepts[n] {
			if w != word {
				words = append(words, w)
			}
		}
	}

	return words
}

// cut divides a run of a script without spaces into words of the glossary and stop words, from
// left to right and the longest first, and the pieces between them.
func (g *glossary) cut(text string) (pieces []string) {
	chars := characters(text)
	start := 0 // of the piece before the next word
	flush := func(end int) {
		if start < end {
			pieces = append(pieces, strings.Join(chars[start:end], ""))
		}
	}

	for i := 0; i < len(chars); {
		// The longest word that begins here, or nothing: n is then 1 or less.
		n := min(g.longest, len(chars)-i)
		for ; n > 1; n-- {
			if w := strings.Join(chars[i:i+n], ""); g.byWord[w] != nil || stopWords[w] {
				break
			}
		}

		if n <= 1 && !stopWords[chars[i]] {
			i++
			continue
		}

		flush(i)
		pieces = append(pieces, strings.Join(chars[i:i+max(n, 1)], ""))
		i += max(n, 1)
		start = i
	}

	flush(len(chars))
	return pieces
}
