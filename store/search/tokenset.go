package search

import "slices"

// TokenSet is the tokens of one record, of all its texts and facets, for queries that wait for new
// records: it is compared with them without an index.
type TokenSet map[string]struct{}

// TokenSet returns the tokens of the record.
func (r Row) TokenSet() TokenSet {
	set := newTokenSet()
	set.add(slices.Concat(r.First, r.Second, r.Third))
	for _, facet := range r.Facets {
		set.addToken(facet)
	}
	return set.seen
}

func (s TokenSet) lacks(tok string) bool {
	_, ok := s[tok]
	return !ok
}

// hasAny reports whether the record has one of the tokens.
func (s TokenSet) hasAny(tokens []string) bool {
	return slices.ContainsFunc(tokens, func(tok string) bool { return !s.lacks(tok) })
}

// Has reports whether the record has all tokens.
func (s TokenSet) Has(tokens []string) bool { return !slices.ContainsFunc(tokens, s.lacks) }

// Matches reports whether the record has all words whole: the last one is no prefix.
func (s TokenSet) Matches(words []Word) bool {
	for _, w := range words {
		has := false
		if w.unspaced {
			has = s.Has(w.pairs)
		} else {
			has = s.hasAny(wordTokens(w.Text))
		}
		if !has {
			return false
		}
	}
	return true
}
