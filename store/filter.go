package store

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// The kinds of facets of the search rows. The value of a kind is stored with each facet.
const (
	facetHandle rune = iota
	facetCapability
	facetLanguage // each beginning of a tag: zh of zh-CN
	facetLevel    // "0", or "from1" and "from2" up to the level
	facetKind     // of a post
	facetTag      // of a post, or of a menu
	facetAuthor
	facetOpen // of a post whose deadline has not passed
)

// agentFacets are the facets of agents: those that an agent has, and those that a filter asks for.
var agentFacets = []struct {
	kind  rune
	of    func(*domain.Agent) []string
	asked func(*domain.AgentFilter) []string
}{
	{
		kind:  facetHandle,
		of:    func(a *domain.Agent) []string { return []string{a.Handle} },
		asked: func(*domain.AgentFilter) []string { return nil },
	},
	{
		kind:  facetCapability,
		of:    func(a *domain.Agent) []string { return a.Capabilities },
		asked: func(f *domain.AgentFilter) []string { return given(f.Capability) },
	},
	{
		kind: facetLanguage,
		of:   func(a *domain.Agent) []string { return languageRanges(a.Languages) },
		asked: func(f *domain.AgentFilter) []string {
			return text.CanonicalLanguages(given(f.Language))
		},
	},
	{
		kind:  facetLevel,
		of:    func(a *domain.Agent) []string { return levels(a.Level()) },
		asked: askedLevels,
	},
	{
		kind:  facetTag,
		of:    menuTags,
		asked: func(*domain.AgentFilter) []string { return nil },
	},
}

// postFacets are agentFacets for posts.
var postFacets = []struct {
	kind  rune
	of    func(p *postRow, author string) []string
	asked func(*domain.PostFilter) []string
}{
	{
		kind:  facetKind,
		of:    func(p *postRow, _ string) []string { return []string{p.Kind} },
		asked: func(f *domain.PostFilter) []string { return given(f.Kind) },
	},
	{
		kind:  facetTag,
		of:    func(p *postRow, _ string) []string { return p.Tags },
		asked: func(f *domain.PostFilter) []string { return given(f.Tag) },
	},
	{
		kind:  facetAuthor,
		of:    func(_ *postRow, author string) []string { return []string{author} },
		asked: func(f *domain.PostFilter) []string { return given(f.Author) },
	},
	{
		kind:  facetOpen,
		of:    func(p *postRow, _ string) []string { return flag(!p.Closed) },
		asked: func(f *domain.PostFilter) []string { return flag(f.Open) },
	},
}

// given returns a value of a filter; none if it is empty.
func given(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// flag returns the value of a facet that a record has or has not.
func flag(set bool) []string {
	if !set {
		return nil
	}
	return []string{""}
}

// scriptLength is the length of the subtag of a script, such as Hant.
const scriptLength = 4

// languageRanges returns the ranges that find languages by extended filtering (RFC 4647): their
// beginnings, such as zh of zh-CN, and zh-TW for zh-Hant-TW.
func languageRanges(languages []string) (all []string) {
	for _, tag := range languages {
		subtags := strings.Split(tag, "-")
		for i := range subtags {
			all = append(all, strings.Join(subtags[:i+1], "-"))
			if i == 2 && len(subtags[1]) == scriptLength {
				all = append(all, subtags[0]+"-"+subtags[i])
			}
		}
	}
	return all
}

// levels returns the values of the facet of a trust level: from which levels on it is.
func levels(level int) []string {
	if level == 0 {
		return []string{"0"}
	}
	return []string{"from1", "from2"}[:level]
}

func askedLevels(f *domain.AgentFilter) (asked []string) {
	least := f.MinLevel
	if f.Verified != nil {
		if *f.Verified {
			least = max(least, 1)
		} else {
			asked = append(asked, "0")
		}
	}

	if least > 0 {
		asked = append(asked, fmt.Sprintf("from%d", least))
	}

	return asked
}

func menuTags(a *domain.Agent) (tags []string) {
	for _, o := range a.Offerings {
		tags = append(tags, o.Tags...)
	}
	return tags
}

// facets returns the facets of a kind with values.
func facets(kind rune, values []string) (all []string) {
	for _, value := range values {
		all = append(all, search.Facet(kind, value))
	}
	return all
}

// askedOfAgents returns the facets of the agents that a filter selects.
func askedOfAgents(f domain.AgentFilter) (asked []string) {
	for _, facet := range agentFacets {
		asked = append(asked, facets(facet.kind, facet.asked(&f))...)
	}

	// These have several values of which one suffices, so they are no facets of the table.
	if len(f.AnyCapability) > 0 {
		asked = append(asked, search.AnyFacet(facets(facetCapability, f.AnyCapability)))
	}

	if len(f.AnyTag) > 0 {
		languages := facets(facetLanguage, text.CanonicalLanguages(f.AnyTag))
		asked = append(asked, search.AnyFacet(append(facets(facetTag, f.AnyTag), languages...)))
	}

	return asked
}

// askedOfPosts returns the facets of the posts that a filter selects.
func askedOfPosts(f domain.PostFilter) (asked []string) {
	for _, facet := range postFacets {
		asked = append(asked, facets(facet.kind, facet.asked(&f))...)
	}
	return asked
}

// Facets returns the most frequent values of agents. The full-text table has no row of a hidden
// agent, so none counts.
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
	// The tokens of a kind stand between its facet without a value and that of the next kind.
	err = s.db.Select(ctx, &counts, `
		SELECT term, doc
		FROM agent_values
		WHERE term >= ? AND term < ?
		ORDER BY doc DESC, term
		LIMIT ?`, search.Facet(kind, ""), search.Facet(kind+1, ""), domain.FacetValues)
	return counts, err
}

// maxFacet is the maximum length of a value that lists accept as a filter.
const maxFacet = 60

// facetValues returns the most frequent values of a kind that lists accept as filters.
func (s *Store) facetValues(ctx context.Context, kind rune) ([]domain.FacetValue, error) {
	counts, err := s.countFacets(ctx, kind)
	if err != nil {
		return nil, err
	}

	values := []domain.FacetValue{}
	for _, c := range counts {
		value := search.FacetText(c.Token)
		if kind == facetLanguage {
			value, _ = text.ParseLanguage(value)
		}

		// Folding may have made a value too long, and the beginning of a language need not be one.
		isAccepted := utf8.RuneCountInString(value) <= maxFacet && text.CheckLine(value)
		if isAccepted && search.Facet(kind, text.NormalizeLine(value)) == c.Token {
			values = append(values, domain.FacetValue{Value: value, Agents: c.Agents})
		}
	}

	return values, nil
}

// levels counts the agents of each trust level. Facets say from which levels on an agent is.
func (s *Store) levels(ctx context.Context) ([]domain.LevelFacet, error) {
	counts, err := s.countFacets(ctx, facetLevel)
	if err != nil {
		return nil, err
	}

	by := map[string]int{}
	for _, c := range counts {
		by[search.FacetText(c.Token)] = c.Agents
	}
	return []domain.LevelFacet{
		{Value: 0, Agents: by["0"]},
		{Value: 1, Agents: by["from1"] - by["from2"]},
		{Value: 2, Agents: by["from2"]},
	}, nil
}
