package domain

import (
	"strings"
	"testing"
)

func TestMatchMenu_ShowsTheEntriesThatMatchMost(t *testing.T) {
	for words, want := range map[string]string{
		"tide": "A B C", "tide table": "A C", "harbour table": "C", "table harbour tide": "C", "harbour": "B C", "weather": "", "": "",
	} {
		a := PublicAgent{Agent: Agent{Offerings: []Offering{
			{ID: "A", Title: "tide table"}, {ID: "B", Title: "harbour tide"}, {ID: "C", Title: "tide harbour table"},
		}}}
		a.MatchMenu(func(o Offering) (hits int) {
			for word := range strings.FieldsSeq(words) {
				hits += strings.Count(o.Title, word)
			}
			return hits
		})
		var got []string
		for _, o := range a.Matched {
			got = append(got, o.ID)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}
