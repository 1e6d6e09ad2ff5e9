package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// past is what was reported in earlier runs of one form at one commit, for a run of
// hours that is cut off to go on where it was.
type past struct {
	Commit  string
	Long    bool
	Took    time.Duration      // all runs
	Figures map[string]figures // by test, of those that passed
}

// recall reads what an earlier run has kept; nothing, when that was of another form or
// commit, or of files that no commit has.
func recall(file, commit string, isLong bool) (p past) {
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &p) != nil || p.Commit != commit || p.Long != isLong ||
		strings.HasSuffix(commit, "+") {
		p = past{Commit: commit, Long: isLong}
	}

	if p.Figures == nil {
		p.Figures = map[string]figures{}
	}

	return p
}

// keep writes it for the next run.
func (p past) keep(file string) error {
	if file == "" {
		return nil
	}

	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}

	return os.WriteFile(file, text, 0o600)
}

// id tells a test apart from all others.
func (t test) id() string { return fmt.Sprintf("%s %s race=%t", t.folder, t.name, t.race) }

// report is what a test reported in an earlier run; nil when it did not pass.
func (p past) report(t test) *report {
	if f, is := p.Figures[t.id()]; is {
		return &report{figures: f, ended: true}
	}
	return nil
}

// add keeps what tests reported that passed.
func (p past) add(reports map[test]*report) {
	for t, r := range reports {
		if r.fault() == "" {
			p.Figures[t.id()] = r.figures
		}
	}
}
