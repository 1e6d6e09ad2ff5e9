package record

import (
	"fmt"
	"slices"
	"strings"

	"callbook/store/domain"
	"callbook/store/search"
)

// The kinds of facets of the search rows.
const (
	FacetHandle rune = iota
	FacetCapability
	FacetLanguage // each beginning of a tag: zh of zh-CN
	FacetLevel    // "0", or "from1" and "from2" up to the level
	FacetKind     // of a post
	FacetTag      // of a post, or of a menu
	FacetAuthor
	FacetOpen // of a post whose deadline has not passed
)

// agentSearchRow returns the row of an agent in the full-text table.
func agentSearchRow(a *domain.Agent) search.Row {
	first := []string{a.Handle, a.Name}
	second := append([]string{domain.Deref(a.Tagline), a.Owner}, a.Capabilities...)
	third := []string{a.DescriptionEN, a.DescriptionZH}
	facets := []string{search.Facet(FacetHandle, a.Handle)}
	for _, o := range a.Offerings {
		first = append(first, o.Title)
		second = append(second, o.Deliverable)
		third = append(append(third, domain.Deref(o.ForWhom)), o.Tags...)
		for _, tag := range o.Tags {
			facets = append(facets, search.Facet(FacetTag, tag))
		}
	}
	for _, c := range a.Capabilities {
		facets = append(facets, search.Facet(FacetCapability, c))
	}
	facets = append(facets, languageFacets(a.Languages...)...)
	if a.Level() == 0 {
		facets = append(facets, search.Facet(FacetLevel, "0"))
	}
	for n := 1; n <= a.Level(); n++ {
		facets = append(facets, search.Facet(FacetLevel, fmt.Sprintf("from%d", n)))
	}
	return search.Row{First: first, Second: second, Third: third, Facets: facets}
}

// languageFacets returns the facets of languages: each with its beginnings, such as zh of zh-CN.
func languageFacets(languages ...string) (facets []string) {
	for _, l := range languages {
		for i, r := range l + "-" {
			if r == '-' {
				facets = append(facets, search.Facet(FacetLanguage, l[:i]))
			}
		}
	}
	return facets
}

// Tokens returns what watches are compared with: the tokens of the post's row in the full-text table, and its languages.
func (p *PostRow) Tokens(author string) search.TokenSet {
	row := p.searchRow(author)
	row.Facets = append(row.Facets, languageFacets(append(slices.Clone(p.Languages), domain.Deref(p.Lang))...)...)
	return row.TokenSet()
}

// Texts returns what the agent says on its card, a text a line.
func (a *AgentRow) Texts() string {
	lines := []string{a.Name, a.Owner, domain.Deref(a.Tagline), a.DescriptionEN, a.DescriptionZH}
	lines = append(append(lines, a.Capabilities...), domain.Deref(a.Model), domain.Deref(a.ContactPolicy.Note))
	for _, o := range a.Offerings {
		lines = append(lines, o.Title, o.Deliverable, domain.Deref(o.ForWhom), domain.Deref(o.NotDoing))
		lines = append(lines, o.Tags...)
	}
	lines = append(lines, domain.Deref(a.Homepage))
	for _, l := range a.Trust.Links {
		lines = append(lines, l.URL)
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), "\n")
}

// MenuWords returns the tokens of an entry of a menu.
func MenuWords(o domain.Offering) string {
	return search.Tokens(append([]string{o.Title, o.Deliverable, domain.Deref(o.ForWhom)}, o.Tags...)...)
}

// searchRow returns the row of a post in the full-text table.
func (p *PostRow) searchRow(author string) search.Row {
	facets := []string{search.Facet(FacetKind, p.Kind), search.Facet(FacetAuthor, author)}
	for _, tag := range p.Tags {
		facets = append(facets, search.Facet(FacetTag, tag))
	}
	if !p.Closed {
		facets = append(facets, search.Facet(FacetOpen, ""))
	}
	return search.Row{
		First:  []string{p.Title},
		Second: append([]string{domain.Deref(p.Deliverable)}, p.Tags...),
		Third:  []string{p.Body, domain.Deref(p.Constraints)},
		Facets: facets,
	}
}
