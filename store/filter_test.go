package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/store/listing"
)

// TestFacets_CountWhatListsFind: each value is a filter by which the list finds as many agents; hidden and deleted agents never
// count.
func TestFacets_CountWhatListsFind(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	add := func(handle string, capabilities, languages, tags []string) domain.Caller {
		c, _ := s.register(handle, func(r *domain.Registration) { r.Capabilities, r.Languages = capabilities, languages })
		_, err := s.ReplaceOfferings(ctx, c, domain.Menu{Offerings: []domain.OfferingDraft{
			{Title: "t", Deliverable: "d", Mode: "free", Tags: tags}, {Title: "u", Deliverable: "d", Mode: "free", Tags: tags},
		}})
		s.ok(err)
		return c
	}
	one := add("one", []string{"Tide tables", "C++", "潮汐"}, []string{"zh-cn", "zh-TW"}, []string{"Tides"})
	two := add("two", []string{"tide TABLES", "Dịch"}, []string{"en", "de-u-co-phonebk"}, []string{"tides", "c#"})
	long := strings.Repeat("㍿", 60) // which becomes 240 characters
	add("three", []string{"c++", long}, []string{"zh"}, []string{long})
	gone := add("gone", []string{"gone", "c++"}, []string{"fr"}, []string{"gone"})
	add("suspended", []string{"hidden", "c++"}, []string{"fr"}, []string{"hidden"})
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, "one"))
	s.claim(two, 1)
	s.ok(s.DeleteAgent(ctx, gone))
	s.ok(s.Suspend(ctx, "suspended", "spam", s.clock.Now().Add(domain.Week)))

	facets, err := s.Facets(ctx)
	s.ok(err)
	for name, tt := range map[string]struct {
		got    []domain.FacetValue
		want   string
		filter func(string) domain.AgentFilter
	}{
		"capabilities": {facets.Capabilities, "c++ 2, tide tables 2, dich 1, 潮汐 1", func(v string) domain.AgentFilter { return domain.AgentFilter{Capability: v} }},
		"languages":    {facets.Languages, "zh 2, de 1, de-u-co 1, de-u-co-phonebk 1, en 1, zh-CN 1, zh-TW 1", func(v string) domain.AgentFilter { return domain.AgentFilter{Language: v} }},
		"tags":         {facets.Tags, "tides 2, c# 1", nil},
	} {
		var got []string
		for _, v := range tt.got {
			got = append(got, fmt.Sprint(v.Value, " ", v.Agents))
			if tt.filter == nil {
				continue
			}
			list, err := s.Agents(ctx, tt.filter(v.Value), listing.Page{Limit: 10})
			if s.ok(err); list.Total != v.Agents {
				t.Errorf("%s %s: %d agents, and the list has %d", name, v.Value, v.Agents, list.Total)
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, ", "), tt.want)
		}
	}
	if want := []domain.LevelFacet{{Value: 0, Agents: 1}, {Value: 1, Agents: 1}, {Value: 2, Agents: 1}}; !slices.Equal(facets.Levels, want) {
		t.Errorf("levels %v, want %v", facets.Levels, want)
	}

	add("four", []string{"c++"}, nil, nil)
	s.ok(s.Suspend(ctx, one.Handle, "spam", s.clock.Now().Add(domain.Week)))
	count := func() int {
		t.Helper()
		facets, err := s.Facets(ctx)
		s.ok(err)
		return facets.Capabilities[slices.IndexFunc(facets.Capabilities, func(v domain.FacetValue) bool { return v.Value == "tide tables" })].Agents
	}
	if n := count(); n != 1 {
		t.Errorf("%d with a suspended agent, want 1", n)
	}
}

func TestFacets_FiftyMostFrequent(t *testing.T) {
	s := newStore(t)
	for i := range 13 {
		s.register(fmt.Sprintf("agent-%d", i), func(r *domain.Registration) {
			for n := range 5 {
				r.Capabilities = append(r.Capabilities, fmt.Sprintf("only %d-%d", i, n))
			}
			r.Capabilities = append(r.Capabilities, "zz common")
		})
	}
	facets, err := s.Facets(context.Background())
	if s.ok(err); len(facets.Capabilities) != 50 || facets.Capabilities[0] != (domain.FacetValue{Value: "zz common", Agents: 13}) {
		t.Errorf("%d capabilities, the first %+v", len(facets.Capabilities), facets.Capabilities[0])
	}
}
