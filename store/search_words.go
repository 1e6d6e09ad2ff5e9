package store

import (
	"slices"
	"strings"

	"callbook/store/domain"
	"callbook/store/search"
)

// agentTokens returns the tokens of an agent in the full-text table. Those of a new one are cut
// like PostWords.
func agentTokens(a *domain.Agent) string { return agentSearchRow(a).Tokens() }

// agentSearchRow returns the row of an agent in the full-text table.
func agentSearchRow(a *domain.Agent) search.Row {
	first := []string{a.Handle, a.Name}
	second := append([]string{domain.Deref(a.Tagline), a.Owner}, a.Capabilities...)
	third := []string{a.DescriptionEN, a.DescriptionZH}
	for _, o := range a.Offerings {
		first = append(first, o.Title)
		second = append(second, o.Deliverable)
		third = append(third, domain.Deref(o.ForWhom))
		third = append(third, o.Tags...)
	}

	row := search.Row{First: first, Second: second, Third: third}
	for _, facet := range agentFacets {
		row.Facets = append(row.Facets, facets(facet.kind, facet.of(a))...)
	}
	return row
}

// Tokens returns what watches are compared with: the tokens of the post's row in the full-text
// table, and its languages.
func (p *postRow) Tokens(author string) search.TokenSet {
	row := postTexts(&p.Post)
	languages := languageRanges(append(slices.Clone(p.Languages), domain.Deref(p.Lang)))
	row.Facets = append(p.searchFacets(author), facets(facetLanguage, languages)...)
	return row.TokenSet()
}

// Texts returns what the agent says on its card, a text a line.
func (a *agentRow) Texts() string {
	lines := []string{a.Name, a.Owner, domain.Deref(a.Tagline), a.DescriptionEN, a.DescriptionZH}
	lines = append(lines, a.Capabilities...)
	lines = append(lines, domain.Deref(a.Model), domain.Deref(a.ContactPolicy.Note))
	for _, o := range a.Offerings {
		lines = append(lines, o.Title, o.Deliverable)
		lines = append(lines, domain.Deref(o.ForWhom), domain.Deref(o.NotDoing))
		lines = append(lines, o.Tags...)
	}

	lines = append(lines, domain.Deref(a.Homepage))
	for _, l := range a.Trust.Links {
		lines = append(lines, l.URL)
	}

	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return strings.Join(lines, "\n")
}

// menuTexts returns the texts of an entry of a menu that searches read.
func menuTexts(o domain.Offering) []string {
	return append([]string{o.Title, o.Deliverable, domain.Deref(o.ForWhom)}, o.Tags...)
}

// postWords returns the tokens of a post's texts. Cutting them takes long: a new post's are cut
// before its write has the writer to itself.
func postWords(p *domain.Post) string { return postTexts(p).Tokens() }

func postTexts(p *domain.Post) search.Row {
	return search.Row{
		First:  []string{p.Title},
		Second: append([]string{domain.Deref(p.Deliverable)}, p.Tags...),
		Third:  []string{p.Body, domain.Deref(p.Constraints)},
	}
}

// tokens returns the tokens of a post in the full-text table: its facets and words.
func (p *postRow) tokens(author, words string) string {
	return strings.Join(append(p.searchFacets(author), words), " ")
}

func (p *postRow) searchFacets(author string) (all []string) {
	for _, facet := range postFacets {
		all = append(all, facets(facet.kind, facet.of(p, author))...)
	}
	return all
}
