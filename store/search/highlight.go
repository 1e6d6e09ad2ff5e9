package search

import (
	"slices"
	"strings"
)

// Span is a part of a text, in bytes.
type Span struct{ From, To int }

// form is one way in which a text can hold a word of a query: all of the tokens.
type form struct {
	tokens []string
	prefix bool // the token may be the beginning of a longer one
}

// maxForms bounds the forms of one word: a long run may hold many words of the glossary.
const maxForms = 60

// forms returns, for each word of the query, the ways in which a text can hold it or a word that
// the glossary has for it.
func (q Query) forms() (all [][]form) {
	for _, w := range q.Words {
		all = append(all, w.forms())
	}
	return all
}

func (w Word) forms() []form {
	g := theGlossary()
	pieces := []string{w.Text}
	if w.unspaced {
		pieces = g.cut(w.Text)
	}

	var others []string
	for _, piece := range pieces {
		if g.byWord[piece] != nil {
			others = append(others, piece)
		}
		others = append(others, g.same(piece)...)
	}

	// The word itself comes first: maxForms must not leave it out.
	all := formsOf(w.Text, w.prefix)
	for _, other := range others {
		if len(all) >= maxForms {
			break
		}
		all = append(all, formsOf(other, false)...)
	}
	return all
}

// formsOf returns the ways in which a text can hold the words of another text, each by itself.
func formsOf(text string, prefix bool) (all []form) {
	for _, w := range Parse(text).Words {
		if w.unspaced {
			all = append(all, form{tokens: w.pairs})
			continue
		}

		s := stem(w.Text)
		all = append(all,
			form{tokens: []string{token(w.Text)}, prefix: prefix},
			form{tokens: []string{token(s)}},
			form{tokens: []string{stemMark + s}})
	}
	return all
}

// Matcher returns a function that counts how many words of the query, or words that the glossary
// has for them, texts have.
func (q Query) Matcher() func(texts ...string) int {
	words := q.forms()

	// Stemming takes the most time, and a word begins like its stem.
	beginnings := map[string]bool{}
	for _, forms := range words {
		for _, f := range forms {
			if stem, ok := strings.CutPrefix(f.tokens[0], stemMark); ok {
				beginnings[beginning(stem)] = true
			}
		}
	}

	return func(texts ...string) (hits int) {
		set := newTokenSet()
		set.stemmed = beginnings
		set.add(texts)
		tokens := " " + strings.Join(set.tokens, " ") + " "
		for _, forms := range words {
			for _, f := range forms {
				if f.in(tokens) {
					hits++
					break
				}
			}
		}
		return hits
	}
}

func (f form) in(tokens string) bool {
	end := " "
	if f.prefix {
		end = ""
	}

	for _, tok := range f.tokens {
		if !strings.Contains(tokens, " "+tok+end) {
			return false
		}
	}

	return true
}

// Highlighter returns a function that returns the parts of a text that match words of the query or
// of the glossary, in order and apart from each other.
func (q Query) Highlighter() func(text string) []Span {
	h := highlighter{tokens: map[string]bool{}}
	for _, forms := range q.forms() {
		for _, f := range forms {
			if f.prefix {
				h.prefixes = append(h.prefixes, f.tokens[0])
			}
			for _, tok := range f.tokens {
				h.tokens[tok] = true
			}
		}
	}
	return h.spans
}

// highlighter has the tokens that match, and the beginnings of further ones.
type highlighter struct {
	tokens   map[string]bool
	prefixes []string
}

func (h highlighter) spans(text string) (spans []Span) {
	for r := range runs(text) {
		switch {
		case r.unspaced:
			spans = h.appendPairs(spans, r)
		case h.matches(r.text):
			spans = appendSpan(spans, r.at, r.at+len(r.text))
		}
	}
	return spans
}

// matches reports whether a word of a script with spaces matches.
func (h highlighter) matches(text string) bool {
	word := token(Fold(text))
	return h.tokens[word] || h.tokens[stemMark+stem(word)] ||
		slices.ContainsFunc(h.prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
}

// appendPairs appends the characters and pairs of a run that match.
func (h highlighter) appendPairs(spans []Span, r run) []Span {
	// The tokens of a run are its characters and pairs, whatever words a reader sees in it.
	before, beforeAt, at := "", 0, r.at
	for _, c := range characters(r.text) {
		end := at + len(c)
		folded := Fold(c)
		if h.tokens[bare(folded)] {
			spans = appendSpan(spans, at, end)
		}
		if before != "" && h.tokens[before+folded] {
			spans = appendSpan(spans, beforeAt, end)
		}

		before, beforeAt, at = folded, at, end
	}
	return spans
}

// appendSpan appends a span, or extends the last one if both touch.
func appendSpan(spans []Span, from, to int) []Span {
	if n := len(spans); n > 0 && spans[n-1].To >= from {
		spans[n-1] = Span{From: min(spans[n-1].From, from), To: max(spans[n-1].To, to)}
		return spans
	}
	return append(spans, Span{From: from, To: to})
}
