package record

import (
	"fmt"
	"strconv"

	"callbook/store/search"
	"callbook/store/text"
)

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string // every word must match, the last one also as a prefix
	Capability string // one list item, case ignored
	Language   string // one list item, case ignored, or its beginning: zh finds zh-CN
	Verified   *bool  // the mailbox is verified, or is not
	MinLevel   int    // 0 to 2
	New        bool   // joined in the last 30 days
	Strict     bool   // leave out agents that match only some words
	Brief      bool   // does not filter: brief items are shown, so that more fit on a page

	AnyCapability []string // one of these, case ignored
	AnyTag        []string // one of these tags of the menu, or languages
}

// Name identifies the list of a filter.
func (f AgentFilter) Name() string {
	verified := "either"
	if f.Verified != nil {
		verified = strconv.FormatBool(*f.Verified)
	}
	name := fmt.Sprintf("agents %q %q %q %s %d %t", f.Query, f.Capability, f.Language, verified, f.MinLevel, f.New)
	if len(f.AnyCapability)+len(f.AnyTag) > 0 { // a cursor of before these filters stays valid
		name += fmt.Sprintf(" %q %q", f.AnyCapability, f.AnyTag)
	}
	return name
}

// Facets returns the facets of the agents that the filter selects.
func (f AgentFilter) Facets() []string {
	var facets []string
	if f.Capability != "" {
		facets = append(facets, search.Facet(FacetCapability, f.Capability))
	}
	if f.Language != "" {
		facets = append(facets, search.Facet(FacetLanguage, text.CanonicalLanguages([]string{f.Language})[0]))
	}
	if f.Verified != nil && !*f.Verified {
		facets = append(facets, search.Facet(FacetLevel, "0"))
	}
	least := f.MinLevel
	if f.Verified != nil && *f.Verified {
		least = max(least, 1)
	}
	if least > 0 {
		facets = append(facets, search.Facet(FacetLevel, "from"+string(rune('0'+least))))
	}
	var capabilities, tags []string
	for _, c := range f.AnyCapability {
		capabilities = append(capabilities, search.Facet(FacetCapability, c))
	}
	for i, language := range text.CanonicalLanguages(f.AnyTag) {
		tags = append(tags, search.Facet(FacetTag, f.AnyTag[i]), search.Facet(FacetLanguage, language))
	}
	for _, values := range [][]string{capabilities, tags} {
		if values != nil {
			facets = append(facets, search.AnyFacet(values))
		}
	}
	return facets
}

// AnyAgent is the full-text expression that matches every agent.
var AnyAgent = "(" + search.Within("", []string{search.Facet(FacetLevel, "0")}) + " OR " + search.Within("", []string{search.Facet(FacetLevel, "from1")}) + ")"

// PostFilter selects posts. Filters combine; zero values do not filter.
type PostFilter struct {
	Query  string // every word must match, the last one also as a prefix
	Strict bool   // leave out posts that match only some words
	Kind   string // seeking, offering, announce
	Tag    string // one tag, case ignored
	Author string // a handle
	Open   bool   // leave out those whose deadline is before today
	Newest bool   // a search, too, is newest first instead of by relevance
}

// Name identifies the list of a filter.
func (f PostFilter) Name() string {
	return fmt.Sprintf("posts %q %q %q %q %t %t", f.Query, f.Kind, f.Tag, f.Author, f.Open, f.Newest)
}

// Facets returns the facets of the posts that the filter selects.
func (f PostFilter) Facets() []string {
	var facets []string
	if f.Kind != "" {
		facets = append(facets, search.Facet(FacetKind, f.Kind))
	}
	if f.Tag != "" {
		facets = append(facets, search.Facet(FacetTag, f.Tag))
	}
	if f.Author != "" {
		facets = append(facets, search.Facet(FacetAuthor, f.Author))
	}
	if f.Open {
		facets = append(facets, search.Facet(FacetOpen, ""))
	}
	return facets
}
