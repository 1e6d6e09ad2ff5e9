package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// row is one line of the result: what is measured, and the goals for it.
type row struct {
	name    string // what --only matches
	what    string // what the table says
	measure func(ctx context.Context, b *bench, name string) (figures, error)
	goals   []goal // none: for information
	last    []site // no row after this one needs them
}

// figures are what a row came to. What was not measured is zero.
type figures struct {
	Rate            float64       `json:"requests_a_second,omitempty"`
	P50             time.Duration `json:"p50_ns,omitempty"`
	P99             time.Duration `json:"p99_ns,omitempty"`
	CPU             time.Duration `json:"cpu_ns_a_request,omitempty"`
	Bytes           int           `json:"bytes,omitempty"` // of an answer
	OfFloor         float64       `json:"of_floor,omitempty"`
	TimesPocketBase float64       `json:"times_pocketbase,omitempty"`
	TimesBefore     float64       `json:"times_before,omitempty"` // of the program of --before
	Value           float64       `json:"value"`                  // where the row is about another figure
	Unit            string        `json:"unit,omitempty"`         // of the value
	Notes           []string      `json:"notes,omitempty"`        // lines below the table
	Peers           []peer        `json:"peers,omitempty"`        // the other sides, for charts
	Sizes           []sized       `json:"sizes,omitempty"`        // of a row about growth, for charts
}

// peer is what another side came to in the same turns.
type peer struct {
	Name string        `json:"name"`
	Rate float64       `json:"requests_a_second"`
	P99  time.Duration `json:"p99_ns"`
}

// sized is what a directory of a number of agents came to.
type sized struct {
	Agents int           `json:"agents"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
}

// of puts a side's own figures into a row.
func (f *figures) of(s *side) {
	f.Rate, f.P50, f.P99, f.CPU = s.tally.rate(), s.tally.quantile(0.5), s.tally.quantile(0.99), s.tally.perRequest()
}

// beside adds another side.
func (f *figures) beside(name string, s *side) {
	f.Peers = append(f.Peers, peer{name, s.tally.rate(), s.tally.quantile(0.99)})
}

// measured is which figure a goal is about.
type measured int

const (
	ofFloor measured = iota
	timesPocketBase
	ofValue
)

func (f figures) get(m measured) float64 {
	switch m {
	case ofFloor:
		return f.OfFloor
	case timesPocketBase:
		return f.TimesPocketBase
	}
	return f.Value
}

// goal bounds a figure.
type goal struct {
	about measured
	most  bool // the bound is the most it may be, else the least
	bound float64
}

func atLeast(about measured, bound float64) goal { return goal{about, false, bound} }

func atMost(about measured, bound float64) goal { return goal{about, true, bound} }

func (g goal) met(f figures) bool {
	if g.most {
		return f.get(g.about) <= g.bound
	}
	return f.get(g.about) >= g.bound
}

func (g goal) String() string {
	sign := "≥"
	if g.most {
		sign = "≤"
	}
	unit := ""
	if g.about == timesPocketBase {
		unit = " ×"
	}
	return fmt.Sprintf("%s %.4g%s", sign, g.bound, unit)
}

// manyAgents is from when on a single query may take longer.
const manyAgents = 1_000_000

// rows are all that is measured, in this order, with the goals.
func rows(s settings) []row {
	return slices.Concat(readRows, searchRows(s), slowestRows(s), growthRows(s), writeRows, rowsBefore(s), processRows)
}

var readRows = []row{
	{name: "card/cached", what: "a card, cached", measure: reading{on: cached, asks: fewCards, peer: peerCards}.measure,
		goals: []goal{atLeast(ofFloor, 0.60), atLeast(timesPocketBase, 5)}},
	{name: "card/uncached", what: "a card, not cached", measure: reading{on: uncached, asks: manyCards, peer: peerCards}.measure,
		goals: []goal{atLeast(timesPocketBase, 1.5)}},
	{name: "card/304", what: "a card, not modified (304)", measure: reading{on: cached, asks: knownCards}.measure,
		goals: []goal{atLeast(ofFloor, 0.70)}},
	{name: "card/gzip", what: "a card, cached, compressed", measure: reading{on: cached, asks: compressedCards}.measure},
	{name: "card/https", what: "a card, cached, over HTTPS with HTTP/2", measure: reading{on: cachedTLS, asks: fewCards}.measure,
		goals: []goal{atLeast(ofFloor, 0.60)}},
	{name: "agents/https", what: "20 agents, cached, over HTTPS with HTTP/2", measure: reading{on: cachedTLS, asks: page(fullAgents)}.measure,
		goals: []goal{atLeast(ofFloor, 0.60)}, last: []site{cachedTLS, floorTLS}},
	{name: "badge/cached", what: "a badge, cached", measure: reading{on: cached, asks: fewBadges}.measure},
	{name: "badge/uncached", what: "a badge, not cached", measure: reading{on: uncached, asks: fewBadges}.measure},
	{name: "calls/cached", what: "20 calls of a kind, cached", measure: reading{on: cached, asks: callsOfKind, peer: peerCallsOfKind}.measure,
		goals: []goal{atLeast(ofFloor, 0.70), atLeast(timesPocketBase, 10)}},
	{name: "calls/uncached", what: "20 calls of a kind, not cached", measure: reading{on: uncached, asks: callsOfKind, peer: peerCallsOfKind}.measure,
		goals: []goal{atLeast(timesPocketBase, 1.5)}},
	{name: "agents/cached", what: "20 agents, cached", measure: reading{on: cached, asks: page(fullAgents)}.measure,
		goals: []goal{atLeast(ofFloor, 0.70)}},
	{name: "agents/uncached", what: "20 agents, not cached", measure: reading{on: uncached, asks: page(fullAgents)}.measure},
	{name: "brief/cached", what: "20 brief agents, cached", measure: reading{on: cached, asks: page(briefAgents)}.measure,
		goals: []goal{atLeast(ofFloor, 0.70)}},
	{name: "brief/uncached", what: "20 brief agents, not cached", measure: reading{on: uncached, asks: page(briefAgents)}.measure},
}

func searchRows(s settings) (all []row) {
	for _, q := range searches {
		r := row{name: "search/agents/" + q.name, what: "agents by " + q.what, measure: reading{on: uncached, asks: searchOf("agents", q.q)}.measure}
		if q.q == englishWord(middling) {
			r.measure = reading{on: uncached, asks: searchOf("agents", q.q), peer: peerSearch(q.q)}.measure
			r.goals = []goal{atLeast(timesPocketBase, 5)}
		}
		all = append(all, r)
	}
	for _, q := range searches {
		all = append(all, row{name: "search/calls/" + q.name, what: "calls by " + q.what, measure: reading{on: uncached, asks: searchOf("posts", q.q)}.measure})
	}
	last := row{name: "search/ordinary", what: "ordinary searches, one client, not cached", measure: ordinary,
		goals: []goal{atMost(ofValue, 10)}, last: []site{floor}}
	if s.agents >= manyAgents {
		last.goals = []goal{atMost(ofValue, 25)}
	}
	return append(all, last)
}

func slowestRows(s settings) []row {
	one := row{name: "search/any", what: "any single query", measure: slowestOn(uncached).measure, goals: []goal{atMost(ofValue, 60)}}
	if s.agents >= manyAgents {
		one.goals = []goal{atMost(ofValue, 250)}
	}
	if !s.growth || s.agents == manyAgents {
		return []row{one}
	}
	return []row{one, {name: "search/any-of-many", what: fmt.Sprintf("any single query, %d agents", manyAgents),
		measure: slowestOn(ofSize(manyAgents)).measure, goals: []goal{atMost(ofValue, 250)}}}
}

func growthRows(s settings) []row {
	var goals []goal
	if s.growth {
		goals = []goal{atMost(ofValue, 1.5)}
	}
	sizes, last := sizesOf(s), []site{uncached}
	for _, size := range sizes {
		last = append(last, ofSize(size))
	}
	return []row{
		{name: "growth/card", what: "a card of a larger directory, one client", measure: growth{manyCards, sizes}.measure, goals: goals},
		{name: "growth/list", what: "20 agents of a larger directory, one client", measure: growth{page(fullAgents), sizes}.measure, goals: goals},
		{name: "growth/search", what: "an ordinary search of a larger directory, one client", measure: growth{searchOf("agents", englishWord(middling)), sizes}.measure,
			goals: goals, last: last},
	}
}

var writeRows = []row{
	{name: "day", what: "a directory's day, 16 clients: 99 % reads, 1 % writes", measure: aDay,
		goals: []goal{atLeast(timesPocketBase, 2.5)}},
	{name: "writes/create", what: "calls posted, 64 clients", measure: besidePocketBase{writtenCall, peerCall}.measure,
		goals: []goal{atLeast(timesPocketBase, 2), atLeast(ofValue, 1)}},
	{name: "writes/register", what: "registrations, 64 clients", measure: besidePocketBase{writtenRegistration, peerRegistration}.measure,
		goals: []goal{atLeast(timesPocketBase, 2), atLeast(ofValue, 1)}, last: []site{pocketBase, pocketBaseFull}},
	{name: "writes/posts", what: "calls posted, 64 clients, commits shared", measure: writing{writtenCall, writeConnections}.measure,
		goals: []goal{atLeast(ofValue, 2)}},
	{name: "writes/registrations", what: "registrations, 64 clients, commits shared", measure: writing{writtenRegistration, writeConnections}.measure,
		goals: []goal{atLeast(ofValue, 2)}},
	{name: "writes/requests", what: "contact requests, 64 clients, commits shared", measure: writing{writtenRequest, writeConnections}.measure,
		goals: []goal{atLeast(ofValue, 2)}},
	{name: "writes/lone", what: "calls posted, one client, commits shared", measure: writing{writtenCall, 1}.measure,
		goals: []goal{atLeast(ofValue, 0.9)}, last: []site{shared, alone}},
	{name: "burst", what: "10,000 registrations while others read", measure: burst,
		goals: []goal{atMost(ofValue, 5)}},
}

var processRows = []row{
	{name: "memory/rest", what: "memory at rest", measure: memoryAtRest, goals: []goal{atMost(ofValue, 20)}},
	{name: "memory/load", what: "memory under load, 64 clients", measure: memoryUnderLoad, goals: []goal{atMost(ofValue, 100)}},
	{name: "size", what: "the program", measure: programSize, goals: []goal{atMost(ofValue, 28)}},
	{name: "start/directory", what: "a clean start with the directory", measure: starting{}.measure, goals: []goal{atMost(ofValue, 60)}},
	{name: "start/fresh", what: "a fresh start", measure: starting{fresh: true}.measure, goals: []goal{atMost(ofValue, 40)}},
	{name: "searches", what: "searches that differ from those over fresh rows", measure: storedAsFresh, goals: []goal{atMost(ofValue, 0)}},
}
