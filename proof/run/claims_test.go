package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClaimsNameTestsThatAreThere: one that was renamed would no longer be tried, and a
// new fuzz target not yet.
func TestClaimsNameTestsThatAreThere(t *testing.T) {
	listed := map[test]bool{}
	for _, c := range claims {
		for _, n := range c.needs {
			if !strings.Contains(c.shows, "{"+n.figure+"}") {
				t.Errorf("%s does not show %q", c.name, n.figure)
			}
		}
		for _, t := range c.tests {
			listed[t] = true
		}
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	there := map[test]bool{}
	for of := range listed {
		files, err := filepath.Glob(filepath.Join("../..", of.folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("no tests in %s: %v", of.folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range declared.FindAllSubmatch(text, -1) {
				name := string(found[1])
				there[test{folder: of.folder, name: name, fuzz: strings.HasPrefix(name, "Fuzz")}] = true
			}
		}
	}
	for of := range listed {
		if !there[of] {
			t.Errorf("%s has no %s", of.folder, of.name)
		}
	}
	for of := range there {
		if of.fuzz && !listed[of] {
			t.Errorf("%s of %s stands in no claim", of.name, of.folder)
		}
	}
}

// TestFiguresOfSeveralTests: numbers add up, bounds hold for the largest.
func TestFiguresOfSeveralTests(t *testing.T) {
	o := outcome{
		claim:   claim{shows: "{lost} of {tried} in {ms} ms", needs: []need{{"lost", exactly, 0, 0}, {"tried", atLeast, 1000, 10_000}, {"ms", atMost, 50, 50}}},
		figures: figures{"lost": {0, 0}, "tried": {600, 700}, "ms": {20, 40}},
	}
	if got := o.reached(); got != "0 of 1,300 in 40 ms" {
		t.Error(got)
	}
	if got := o.wanted(true); got != "0 of ≥ 10,000 in ≤ 50 ms" {
		t.Error(got)
	}
	if got := o.short(false); len(got) != 0 {
		t.Errorf("the short form falls short of %q", got)
	}
	if got := o.short(true); !slices.Equal(got, []string{"tried is to be ≥ 10,000"}) {
		t.Errorf("the long form falls short of %q", got)
	}
	for name, broken := range map[string]figures{
		"one is lost": {"lost": {0, 1}, "tried": {5000}, "ms": {1}}, "none reports": {"tried": {5000}, "ms": {1}}, "one takes long": {"lost": {0}, "tried": {5000}, "ms": {1, 51}},
	} {
		o.figures = broken
		if len(o.short(false)) != 1 {
			t.Errorf("%s: %q", name, o.short(false))
		}
	}
	o.faults = []string{"it fails"}
	if len(o.short(false)) != 2 {
		t.Error("a test that fails is no fault")
	}
}
