package api

import (
	"fmt"
	"strings"
	"testing"
)

// TestReadTexts_RejectsIncompleteFiles: the program does not start with a file in which a text is missing.
func TestReadTexts_RejectsIncompleteFiles(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, want string }{
		"a text without Chinese": {"[notes.guess]\nen = ", "[notes.guess]\nzh2 = ", "notes.guess.zh2"},
		"an empty language":      {`en = "must be a number"`, `en = ""`, "validator number: a language is missing"},
		"another value":          {`zh = "不得小于 %[1]v"`, `zh = "不得小于"`, "validator minimum: the languages have other values"},
		"no text of a message":   {"[validator.object]", "[notes.object]", "validator object: a language is missing"},
		"no status":              {"[errors.invalid_json]\nstatus = 400", "[errors.invalid_json]", "0 is no status"},
		"no text of a code":      {"[errors.unauthorized]", "[errors.none]\nstatus = 400\n\n[errors.unauthorized]", "none: there is no text"},
		"a word in two guesses":  {`words = "whoami profile`, `words = "me profile`, "GET me stands in two guesses"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(textsFile, tt.old) != 1 {
				t.Fatalf("%q does not stand in the file once", tt.old)
			}
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, tt.want) {
					t.Errorf("panic: %s, want %s", got, tt.want)
				}
			}()
			readTexts(strings.Replace(textsFile, tt.old, tt.new, 1))
		})
	}
}
