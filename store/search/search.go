// Package search turns texts into the tokens of a full-text index, and queries into expressions of
// that index. It knows FTS5's query language but runs no SQL: package store owns the tables.
//
// # Tokens
//
// A record is indexed as a [Row]: texts of three weights, and facets. [Fold] removes case, width
// and accents. Words of scripts with spaces are tokens, and so is the English stem of each word
// that differs from it. Scripts without spaces (Chinese, Japanese, Korean, Thai and the like) are
// cut into single characters and pairs of neighbours, so that 工智 is found inside 人工智能. A facet is
// a token that no text can contain.
//
// The index has one column without positions. Instead of columns, each token of a text begins with
// the mark of a tier, and is written once for each tier that it belongs to: a word of the first
// texts for all three tiers, one of the third texts for the last tier alone. A tier is then an
// intersection of rows, which FTS5 reads newest first and stops where a page ends; with columns it
// would read the positions of each row to filter them.
//
// # Strict matches
//
// [Parse] reads a query; no input is a syntax error. Every word must match: itself, its stem, or
// for the last one a longer word that begins with it. A run of three or more characters without
// spaces matches where all of its pairs do, in any order. The first tier has all words in the
// first texts, the second in the first two, the third anywhere; within a tier the newest come
// first. The index has beginnings of two and four letters; another one is replaced by the longer
// ones, or by the words, that it begins ([Query.Incomplete]).
//
// # Partial matches
//
// Where strict matches do not fill a page, records that match only some of the words follow.
// [Query.Parts] divides the query into parts; the glossary adds the words of both languages that
// mean the same. Each part considers its newest [PartMatches] records, and [Rank] orders them by
// the summed rarity of the parts that they match.
package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tokens with a meaning of their own begin with a private-use character, which Fold replaces in
// texts. Signs such as + and # move there as well, since the tokenizer "ascii" would split a token
// at them.
const (
	firstFacet = 0xE000
	firstSign  = 0xE100
	stemMark   = "\uE200"
	firstTier  = 0xE300

	lastPrivate = 0xF8FF
)

// Row has the texts of a record, for the index.
type Row struct {
	// By weight; no pair of characters reaches from one text into the next.
	First, Second, Third []string
	Facets               []string // tokens made by Facet
}

// Tokens returns all tokens of the record, each once, separated by spaces.
func (r Row) Tokens() string {
	var b strings.Builder
	b.WriteString(strings.Join(r.Facets, " "))

	// A token of a heavier text is written for every lighter tier as well: the set keeps it.
	added := newTokenSet()
	for tier, texts := range [textTiers][]string{r.First, r.Second, r.Third} {
		added.add(texts)
		for _, tok := range added.tokens {
			b.WriteByte(' ')
			b.WriteRune(firstTier + rune(tier))
			b.WriteString(tok)
		}
	}

	return b.String()
}

// Facet returns the token of a value that lists filter by. kind distinguishes the fields; it is
// less than 256. Case, width and accents of the value are ignored.
func Facet(kind rune, value string) string {
	return string(firstFacet+kind) + token(Fold(value))
}

// AnyFacet returns a facet for Within that stands for any of several.
func AnyFacet(facets []string) string { return strings.Join(facets, " ") } // none contains a space

// FacetText returns the value, folded, of a token that Facet returned.
func FacetText(tok string) string {
	_, size := utf8.DecodeRuneInString(tok)
	return strings.Map(func(r rune) rune {
		if firstSign <= r && r < firstSign+utf8.RuneSelf {
			return r - firstSign
		}
		return r
	}, tok[size:])
}

// Tokens returns the tokens of texts, each once, separated by spaces.
func Tokens(texts ...string) string {
	set := newTokenSet()
	set.add(texts)
	return strings.Join(set.tokens, " ")
}

// tokenSet has tokens in the order in which they were added, each once.
type tokenSet struct {
	tokens  []string
	seen    map[string]struct{}
	stemmed map[string]bool // beginnings of the words that are stemmed; nil for all
}

// beginning returns the first two letters of a word in ASCII.
func beginning(word string) string { return word[:min(2, len(word))] }

func newTokenSet() *tokenSet { return &tokenSet{seen: make(map[string]struct{}, 64)} }

// add adds the tokens of texts.
func (s *tokenSet) add(texts []string) {
	for _, text := range texts {
		for run := range runs(Fold(text)) {
			if run.unspaced {
				for _, tok := range characters(run.text) {
					s.addToken(bare(tok))
				}

				for _, tok := range pairs(run.text) {
					s.addToken(tok)
				}

				continue
			}

			s.addToken(token(run.text))
			if s.stemmed != nil && !s.stemmed[beginning(run.text)] {
				continue
			}

			if stem := stem(run.text); stem != run.text {
				s.addToken(stemMark + stem)
			}
		}
	}
}

func (s *tokenSet) addToken(tok string) {
	if _, ok := s.seen[tok]; !ok {
		s.seen[tok] = struct{}{}
		s.tokens = append(s.tokens, tok)
	}
}

// token moves the signs of a word out of ASCII.
func token(word string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && kindOf(r) != spacedWord {
			return firstSign + r
		}
		return r
	}, word)
}

// Fold returns a text without the differences that a search ignores: case, width, accents and
// compatibility forms.
func Fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}

	var b strings.Builder
	b.Grow(len(s))
	for _, r := range norm.NFKD.String(strings.ToValidUTF8(s, "\uFFFD")) {
		switch r = unicode.ToLower(r); {
		case IsIgnorable(r):
			// Nobody sees it, so nobody can search for it.
		case firstFacet <= r && r <= lastPrivate:
			b.WriteRune(utf8.RuneError) // tokens begin with such a character
		case 0x300 <= r && r <= 0x36F:
			// Accents of Latin, Greek and Cyrillic only. Marks of other scripts, such as the
			// voicing of kana, distinguish words.
		case r == 'ß':
			b.WriteString("ss")

		case r == 'ς':
			b.WriteRune('σ')

		case r == 'ı':
			b.WriteByte('i')

		default:
			b.WriteRune(r)
		}
	}

	return norm.NFC.String(b.String())
}

// ignorable are the characters of Unicode's property Default_Ignorable_Code_Point, with those that
// notIgnorable takes out again.
var ignorable = []*unicode.RangeTable{
	unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// notIgnorable are formats that are visible, or that have an effect on visible characters.
var notIgnorable = []*unicode.RangeTable{
	unicode.Prepended_Concatenation_Mark,
	{
		R16: []unicode.Range16{{Lo: 0xFFF9, Hi: 0xFFFB, Stride: 1}},   // interlinear annotations
		R32: []unicode.Range32{{Lo: 0x13430, Hi: 0x1343F, Stride: 1}}, // hieroglyphs
	},
}

// IsIgnorable reports whether Unicode lets a character be invisible (Default_Ignorable_Code_Point):
// zero-width spaces, soft hyphens, direction marks, selectors, tags and the like.
func IsIgnorable(r rune) bool {
	return r > unicode.MaxASCII && unicode.In(r, ignorable...) && !unicode.In(r, notIgnorable...)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
