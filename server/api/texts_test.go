package api

import (
	"strings"
	"testing"
)

// TestTexts_HaveBothLanguages: each text exists in both, with the same placeholders in number.
func TestTexts_HaveBothLanguages(t *testing.T) {
	check := func(name string, text Text) {
		t.Helper()
		if text.EN == "" || text.ZH == "" {
			t.Errorf("%s: a language is missing", name)
		}
		if en, zh := strings.Count(text.EN, "%"), strings.Count(text.ZH, "%"); en != zh {
			t.Errorf("%s: %d placeholders in English, %d in Chinese", name, en, zh)
		}
	}

	for code, entry := range embedded.Errors {
		if entry.Status < 400 || entry.Status > 599 || len(entry.Texts) == 0 {
			t.Errorf("%s: status %d, %d texts", code, entry.Status, len(entry.Texts))
		}
		for topic, text := range entry.Texts {
			check(string(code)+" "+topic, text)
		}
	}
	for code, byTopic := range embedded.Details {
		for topic, text := range byTopic {
			check(string(code)+" "+topic, text)
		}
	}
	for _, texts := range []map[string]Text{embedded.Notes, embedded.Kinds, embedded.Problems} {
		for name, text := range texts {
			check(name, text)
		}
	}
}
