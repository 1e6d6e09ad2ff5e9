package domain

import (
	"strings"
	"testing"
)

func TestMatchMenu_ShowsTheEntriesThatMatchMost(t *testing.T) {
	for words, want := range map[string]string{
		"tide": "A B C", "tide table": "A C", "harbour table": "C", "table harbour tide": "C", "harbour": "B C", "weather": "", "": "",
	} {
		d := AgentDocument{Menu: "A\nB\nC", MenuWords: "tide table\nharbour tide\ntide harbour table"}
		d.MatchMenu(func(tokens string) (hits int) {
			for word := range strings.FieldsSeq(words) {
				hits += strings.Count(tokens, word)
			}
			return hits
		})
		if got := strings.Join(d.Matched, " "); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}
