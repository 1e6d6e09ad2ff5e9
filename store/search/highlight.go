package search

import "strings"

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
func (q Query) forms() (words [][]form) {
	g := theGlossary()
	for _, w := range q.Words {
		var found []form
		add := func(word string, prefix bool) {
			if len(found) >= maxForms {
				return
			}

			for _, same := range Parse(word).Words {
				if same.unspaced {
					found = append(found, form{tokens: same.pairs})
					continue
				}

				s := stem(same.Text)
				found = append(
					found,
					form{[]string{token(same.Text)}, prefix},
					form{tokens: []string{token(s)}},
					form{tokens: []string{stemMark + s}},
				)
			}
		}

		add(w.Text, w.prefix)
		pieces := []string{w.Text}
		if w.unspaced {
			pieces = g.cut(w.Text)
		}

		for _, piece := range pieces {
			if g.byWord[piece] != nil {
				add(piece, false)
			}

			for _, same := range g.same(piece) {
				add(same, false)
			}
		}

		words = append(words, found)
	}

	return words
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
	tokens, prefixes := map[string]bool{}, []string{}
	for _, forms := range q.forms() {
		for _, f := range forms {
			if f.prefix {
				prefixes = append(prefixes, f.tokens[0])
			}

			for _, tok := range f.tokens {
				tokens[tok] = true
			}
		}
	}

	return func(text string) (spans []Span) {
		mark := func(from, to int) {
			if n := len(spans); n > 0 && spans[n-1].To >= from {
				spans[n-1] = Span{min(spans[n-1].From, from), max(spans[n-1].To, to)}
				return
			}

			spans = append(spans, Span{from, to})
		}

		for r := range runs(text) {
			if !r.unspaced {
				word := token(Fold(r.text))
				found := tokens[word] || tokens[stemMark+stem(word)]
				for _, p := range prefixes {
					found = found || strings.HasPrefix(word, p)
				}

				if found {
					mark(r.at, r.at+len(r.text))
				}

				continue
			}

			before, beforeAt, at := "", 0, r.at
			for _, c := range characters(r.text) {
				folded := Fold(c)
				if tokens[bare(folded)] {
					mark(at, at+len(c))
				}

				if before != "" && tokens[before+folded] {
					mark(beforeAt, at+len(c))
				}

				before, beforeAt = folded, at
				at += len(c)
			}
		}

		return spans
	}
}
