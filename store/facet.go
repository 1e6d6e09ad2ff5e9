package store

import (
	"context"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// Facets returns the most frequent values of agents. The full-text table has no row of a hidden agent, so
// none counts.
func (s *Store) Facets(ctx context.Context) (f domain.Facets, err error) {
	f.AsOf = s.now()
	if f.Capabilities, err = s.facetValues(ctx, facetCapability); err != nil {
		return f, err
	}
	if f.Languages, err = s.facetValues(ctx, facetLanguage); err != nil {
		return f, err
	}
	if f.Tags, err = s.facetValues(ctx, facetTag); err != nil {
		return f, err
	}
	f.Levels, err = s.levels(ctx)
	return f, err
}

// facetCount is how many agents have a facet.
type facetCount struct {
	Token  string `db:"term"`
	Agents int    `db:"doc"`
}

func (s *Store) countFacets(ctx context.Context, kind rune) (counts []facetCount, err error) {
	err = s.db.Select(ctx, &counts, `
		SELECT term, doc FROM agent_values
		WHERE term >= ? AND term < ?
		ORDER BY doc DESC, term
		LIMIT ?`, search.Facet(kind, ""), search.Facet(kind+1, ""), domain.FacetValues)
	return counts, err
}

// maxFacet is the maximum length of a value that lists accept as a filter.
const maxFacet = 60

// facetValues returns the most frequent values of a kind, as far as lists accept them as filters: folding may have made one too
// long, and the beginning of a language need not be one.
func (s *Store) facetValues(ctx context.Context, kind rune) ([]domain.FacetValue, error) {
	counts, err := s.countFacets(ctx, kind)
	values := []domain.FacetValue{}
	for _, c := range counts {
		value := search.FacetText(c.Token)
		if kind == facetLanguage {
			value, _ = text.ParseLanguage(value)
		}
		if utf8.RuneCountInString(value) <= maxFacet && text.CheckLine(value) && search.Facet(kind, text.Normalize(value)) == c.Token {
			values = append(values, domain.FacetValue{Value: value, Agents: c.Agents})
		}
	}
	return values, err
}

// levels counts the agents of each trust level. Facets say from which levels on an agent is.
func (s *Store) levels(ctx context.Context) ([]domain.LevelFacet, error) {
	counts, err := s.countFacets(ctx, facetLevel)
	by := map[string]int{}
	for _, c := range counts {
		by[search.FacetText(c.Token)] = c.Agents
	}
	return []domain.LevelFacet{{Value: 0, Agents: by["0"]}, {Value: 1, Agents: by["from1"] - by["from2"]}, {Value: 2, Agents: by["from2"]}}, err
}
