package ard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
)

// resultType names the records that an exploration counts (7.3).
type resultType struct {
	Facets []facet `json:"facets"`
}

type facet struct {
	Field    string `json:"field"`
	Limit    *int   `json:"limit"`
	MinCount *int   `json:"minCount"`
}

// fields are the fields that an exploration counts, with the values of an entry.
var fields = map[string]func(host string, e *Entry) []string{
	"type":         func(string, *Entry) []string { return []string{AgentType} },
	"publisher":    func(host string, _ *Entry) []string { return []string{host} },
	"capabilities": func(_ string, e *Entry) []string { return fold(e.Capabilities) },
	"tags":         func(_ string, e *Entry) []string { return e.Tags },
	"metadata.trustLevel": func(_ string, e *Entry) []string {
		return []string{strconv.Itoa(e.Metadata.TrustLevel)}
	},
}

// An exploration reads two of the largest pages of a search, exploredAgents in all. It counts as
// one read.
const (
	exploredPages  = 2
	exploredPage   = 100
	exploredAgents = exploredPages * exploredPage
)

const (
	maxFacets    = 10
	maxBuckets   = 100
	usualBuckets = 20
)

// fold returns values as GET /api/facets has them, each once.
func fold(values []string) (folded []string) {
	for _, v := range values {
		folded = append(folded, search.Fold(v))
	}
	slices.Sort(folded)
	return slices.Compact(folded)
}

// valid sets the numbers that are left out, and reports whether the fields are countable, each
// once, and the numbers are within their limits.
func (t *resultType) valid() bool {
	if t == nil || len(t.Facets) == 0 || len(t.Facets) > maxFacets {
		return false
	}

	seen := map[string]bool{}
	for i := range t.Facets {
		f := &t.Facets[i]
		f.Limit = cmp.Or(f.Limit, new(usualBuckets))
		f.MinCount = cmp.Or(f.MinCount, new(1))
		if fields[f.Field] == nil || seen[f.Field] {
			return false
		}
		if *f.Limit < 1 || *f.Limit > maxBuckets || *f.MinCount < 1 {
			return false
		}
		seen[f.Field] = true
	}

	return true
}

// Exploration is the response of POST /ard/explore.
type Exploration struct {
	ResultType string             `json:"resultType"`
	Facets     map[string]Buckets `json:"facets"`
}

// Buckets are the most frequent values of a field.
type Buckets struct {
	Buckets []Bucket `json:"buckets"`
	Other   int      `json:"otherCount,omitzero"`
}

// Bucket is a value, and the number of entries that have it.
type Bucket struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

func (r *Registry) exploreEntries(req *api.Request, q query) (Exploration, error) {
	var asked []facet
	if err := json.Unmarshal([]byte(q.Facets), &asked); err != nil {
		return Exploration{}, err
	}

	f, err := agentFilter(q.Text, q.Filter)
	if err != nil {
		return Exploration{}, err
	}

	var counts map[string]map[string]int
	switch {
	case f.None:
	case q.Text == "" && f.MinLevel == 0 && len(f.AnyCapability)+len(f.AnyTag) == 0:
		counts, err = r.countAll(req)

	default:
		counts, err = r.countFound(req, f.AgentFilter, asked)
	}
	if err != nil {
		return Exploration{}, err
	}

	response := Exploration{ResultType: "facets", Facets: map[string]Buckets{}}
	for _, f := range asked {
		response.Facets[f.Field] = buckets(counts[f.Field], f)
	}

	return response, nil
}

// countAll counts the values of all agents as GET /api/facets has them: the most frequent ones.
func (r *Registry) countAll(req *api.Request) (map[string]map[string]int, error) {
	response, err := r.Engine.Read(req.Context(), r.Engine.Operation("getFacets"), nil)
	if err != nil {
		return nil, err
	}

	all := response.Value.(public.FacetsResponse)
	agents, levels := 0, map[string]int{}
	for _, l := range all.Levels {
		agents += l.Agents
		levels[strconv.Itoa(l.Value)] = l.Agents
	}

	return map[string]map[string]int{
		"type":                {AgentType: agents},
		"publisher":           {r.host: agents},
		"metadata.trustLevel": levels,
		"capabilities":        countFacets(all.Capabilities),
		"tags":                countFacets(slices.Concat(all.Languages, all.Tags)),
	}, nil
}

// countFacets returns the numbers of agents by value. A tag may be the code of a language as well:
// how many agents have both is unknown.
func countFacets(facets []domain.FacetValue) map[string]int {
	counts := map[string]int{}
	for _, f := range facets {
		counts[f.Value] = max(counts[f.Value], f.Agents)
	}
	return counts
}

// countFound counts the values of the agents that a search finds, up to exploredAgents.
func (r *Registry) countFound(
	req *api.Request,
	f domain.AgentFilter,
	asked []facet,
) (map[string]map[string]int, error) {
	counts := map[string]map[string]int{}
	for _, a := range asked {
		counts[a.Field] = map[string]int{}
	}
	page := listing.Page{Limit: exploredPage}
	for range exploredPages {
		list, err := r.Store.Agents(req.Context(), f, page)
		if err != nil {
			return nil, err
		}
		for _, e := range r.entries(list.Items) {
			for field, values := range counts {
				for _, v := range fields[field](r.host, e) {
					values[v]++
				}
			}
		}

		if list.Next == "" {
			break
		}
		page.Cursor = list.Next
	}
	return counts, nil
}

// buckets returns the buckets of a facet, the most frequent first.
func buckets(counts map[string]int, f facet) Buckets {
	all := []Bucket{}
	for value, n := range counts {
		if n >= *f.MinCount {
			all = append(all, Bucket{value, n})
		}
	}

	slices.SortFunc(
		all,
		func(a, b Bucket) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Value, b.Value)) },
	)
	shown := Buckets{Buckets: all[:min(len(all), *f.Limit)]}
	for _, b := range all[len(shown.Buckets):] {
		shown.Other += b.Count
	}

	return shown
}
