package store

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

// demoAgent is an agent of the demo directory's files.
type demoAgent struct {
	domain.Registration
	Offerings []domain.OfferingDraft `json:"offerings"`
}

// demoDirectory returns a store with the agents of the demo directory, each with a post, and the lines of
// testdata/search/queries.tsv: a query, the handles that fit, and a note.
func demoDirectory(t *testing.T) (*testStore, [][3]string) {
	t.Helper()
	s := newStore(t, noCaps)
	text, err := os.ReadFile("../testdata/demo/agents.json")
	s.ok(err)
	var agents []demoAgent
	s.ok(json.Unmarshal(text, &agents))
	for _, a := range agents {
		a.AcceptRules = true
		caller, _ := s.register(a.Handle, func(r *domain.Registration) { *r = a.Registration })
		_, err := s.ReplaceOfferings(t.Context(), caller, domain.Menu{Offerings: a.Offerings})
		s.ok(err)
		s.post(caller, func(d *domain.PostDraft) { d.Title, d.Body = a.Name, a.DescriptionEN+a.DescriptionZH })
	}

	text, err = os.ReadFile("../testdata/search/queries.tsv")
	s.ok(err)
	var queries [][3]string
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] != "query" {
			queries = append(queries, [3]string(fields))
		}
	}
	return s, queries
}

// TestSearch_TakesFourStatements for any page of a search.
func TestSearch_TakesFourStatements(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s, queries := demoDirectory(t)
	var texts []string
	for _, q := range queries {
		texts = append(texts, q[0])
	}
	texts = append(texts, "tranlation", "tranlations of poerty", "code zzqx 翻译", "港口潮汐助手人工智能数据翻译诗歌天气",
		"one two three four five six seven eight nine tranlation", "harbourlight")

	var counts []int
	count := func(text string, search func() error) {
		before := s.db.ReadStatements()
		s.ok(search())
		n := s.db.ReadStatements() - before
		if counts = append(counts, n); n > 4 {
			t.Errorf("%s: %d statements", text, n)
		}
	}
	first, later := listing.Page{Limit: 20}, listing.Page{Limit: 3, Offset: 2}
	for _, text := range texts {
		count(text, func() error { return errOf(s.Agents(t.Context(), domain.AgentFilter{Query: text}, first)) })
		count(text, func() error { return errOf(s.Posts(t.Context(), domain.PostFilter{Query: text}, first)) })
		fresh := domain.AgentFilter{Query: text, Language: "en", New: true}
		count(text, func() error { return errOf(s.Agents(t.Context(), fresh, first)) })
		filtered := domain.AgentFilter{Query: text, Match: domain.MatchAll, Language: "en", MinLevel: 1}
		count(text, func() error { return errOf(s.Agents(t.Context(), filtered, first)) })
		open := domain.PostFilter{Query: text, Kind: "seeking", Open: true}
		count(text, func() error { return errOf(s.Posts(t.Context(), open, later)) })
	}
	slices.Sort(counts)
	t.Logf("statements of %d pages: median %d, at most %d", len(counts), counts[len(counts)/2], counts[len(counts)-1])
}

// TestSearch_Quality searches the demo directory for what testdata/search/queries.tsv has, and holds how often an agent
// that fits is among the first three against a bound.
func TestSearch_Quality(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s, queries := demoDirectory(t)
	var tried, inThree, single, clean int
	var reciprocal float64
	for _, q := range queries {
		query, fits, note := q[0], q[1], q[2]
		tried++
		found, err := s.Agents(t.Context(), domain.AgentFilter{Query: query}, listing.Page{Limit: 20})
		s.ok(err)
		fitting := func(d domain.PublicAgent) bool { return slices.Contains(strings.Fields(fits), d.Handle) }
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
	recall := float64(inThree) / float64(tried)
	t.Logf("recall in the top three %.3f, mean reciprocal rank %.3f, %d queries; %d of %d single words without an unfit agent before a fitting one of the same match",
		recall, reciprocal/float64(tried), tried, clean, single)
	if recall < 0.85 || float64(clean) < 0.9*float64(single) {
		t.Errorf("below the bounds of 0.85 and 0.9")
	}
}
