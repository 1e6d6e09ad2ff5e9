package search

import (
	"maps"
	"slices"
	"strings"
)

// TokenSet is the tokens of one record, of all its texts and facets, for queries that wait for new records: it is compared
// with them without an index.
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

// hasAll reports whether the record has all tokens.
func (s TokenSet) hasAll(tokens []string) bool { return !slices.ContainsFunc(tokens, s.lacks) }

// hasAny reports whether the record has one of the tokens.
func (s TokenSet) hasAny(tokens []string) bool {
	return slices.ContainsFunc(tokens, func(tok string) bool { return !s.lacks(tok) })
}

// Matches reports whether the record is a strict match of a query within facets, of whole words: the last one is no prefix.
func (s TokenSet) Matches(q Query, facets []string) bool {
	for _, w := range q.Words {
		if w.unspaced && !s.hasAll(w.pairs) || !w.unspaced && !s.hasAny(wordTokens(w.Text)) {
			return false
		}
	}
	return s.hasAll(facets)
}

// Keys returns the keys of the record: of each key that Query.Keys returns for a query that it matches, and its facets.
func (s TokenSet) Keys() []string {
	keys := make(TokenSet, len(s))
	for tok := range s {
		keys[strings.TrimPrefix(tok, stemMark)] = struct{}{}
	}
	return slices.Collect(maps.Keys(keys))
}

// Key is a text by which queries that wait for new records are found.
type Key struct {
	Text       string
	Expression string // FTS5, of the records that have it
}

// Keys returns the keys of the query. Every record that it matches has each of them.
func (q Query) Keys() (keys []Key) {
	for _, w := range q.Words {
		if !w.unspaced {
			keys = append(keys, Key{stem(token(w.Text)), anyOf(spellings(anywhere, w.Text, false))})
			continue
		}
		for _, pair := range w.pairs {
			keys = append(keys, Key{pair, quote(anywhere, pair)})
		}
	}
	return keys
}
