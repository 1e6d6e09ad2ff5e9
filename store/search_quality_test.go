package store

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

// demoAgent is an agent of the demo directory's files.
type demoAgent struct {
	domain.Registration
	Offerings []domain.OfferingDraft `json:"offerings"`
}

// TestSearch_Quality searches the demo directory for what testdata/search/queries.tsv has, and holds how often an agent
// that fits is among the first three against a bound.
func TestSearch_Quality(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	proof.OneByOne(t)
	text, err := os.ReadFile("../testdata/demo/agents.json")
	s.ok(err)
	var agents []demoAgent
	s.ok(json.Unmarshal(text, &agents))
	for _, a := range agents {
		a.AcceptRules = true
		caller, _ := s.register(a.Handle, func(r *domain.Registration) { *r = a.Registration })
		_, err := s.ReplaceOfferings(t.Context(), caller, domain.Menu{Offerings: a.Offerings})
		s.ok(err)
	}
	queries, err := os.ReadFile("../testdata/search/queries.tsv")
	s.ok(err)
	var asked, inThree, single, clean int
	var reciprocal float64
	for line := range strings.Lines(string(queries)) {
		query, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		fits, note, _ := strings.Cut(rest, "\t")
		if query == "query" {
			continue
		}
		asked++
		found, err := s.Agents(t.Context(), document.AgentFilter{Query: query}, listing.Page{Limit: 20})
		s.ok(err)
		fitting := func(d domain.AgentDocument) bool { return slices.Contains(strings.Fields(fits), d.Handle) }
		first := slices.IndexFunc(found.Items, fitting)
		if first >= 0 {
			reciprocal += 1 / float64(first+1)
		}
		if first >= 0 && first < 3 {
			inThree++
		} else {
			t.Logf("missed: %s (%s): a fitting agent is at %d of %d", query, note, first+1, len(found.Items))
		}
		if strings.HasPrefix(note, "single") && first >= 0 {
			single++
			if first == 0 || first == found.Strict {
				clean++
			} else {
				var names []string
				for _, d := range found.Items[:first+1] {
					names = append(names, d.Handle)
				}
				t.Logf("unfit before a fitting one: %s: %d match every word, %v", query, found.Strict, names)
			}
		}
	}
	recall := float64(inThree) / float64(asked)
	t.Logf("recall in the top three %.3f, mean reciprocal rank %.3f, %d queries; %d of %d single words without an unfit agent before a fitting one of the same match",
		recall, reciprocal/float64(asked), asked, clean, single)
	if recall < 0.85 || float64(clean) < 0.9*float64(single) {
		t.Errorf("below the bounds of 0.85 and 0.9")
	}
}
