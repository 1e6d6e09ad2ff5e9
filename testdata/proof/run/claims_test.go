package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
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
			listed[test{folder: t.folder, name: t.name, fuzz: t.fuzz}] = true
		}
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	there := map[test]bool{}
	for of := range listed {
		files, err := filepath.Glob(filepath.Join("../../..", of.folder, "*_test.go"))
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

// TestTables checks that the table of the short form has a row for every claim, with its bound. That of the long form is
// a record of the commit that it names.
func TestTables(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if row := fmt.Sprintf("| %s | %s |", c.what, outcome{claim: c}.wanted(false)); !strings.Contains(string(text), row) {
			t.Errorf("testdata/proof/README.md has no row for %s", c.name)
		}
	}
}

// TestWhatTestsReport: from the lines of `go test -json`.
func TestWhatTestsReport(t *testing.T) {
	for name, tt := range map[string]struct {
		of    test
		lines string
		fault string
		want  figures
	}{
		"it reports twice": {
			test{name: "TestX"}, `{"Action":"attr","Test":"TestX","Key":"ready_ms","Value":"7"}
			{"Action":"attr","Test":"TestX/part","Key":"ready_ms","Value":"5"}
			{"Action":"pass","Test":"TestX/part"}
			{"Action":"pass","Test":"TestX"}`, "", figures{"ready ms": {7, 5}, cases: {1}},
		},
		"it has parts": {
			test{name: "TestX"}, `{"Action":"pass","Test":"TestX/a/of_a"}
			{"Action":"pass","Test":"TestX/a"}
			{"Action":"pass","Test":"TestX/b"}
			{"Action":"pass","Test":"TestX"}`, "", figures{cases: {2}},
		},
		"a part is skipped": {
			test{name: "TestX"}, `{"Action":"skip","Test":"TestX/a"}
			{"Action":"pass","Test":"TestX"}`, "TestX/a is skipped", figures{cases: {1}},
		},
		"it fails":     {test{name: "TestX"}, `{"Action":"fail","Test":"TestX"}`, "it fails", figures{}},
		"it is missed": {test{name: "TestX"}, `{"Action":"pass","Test":"TestY"}`, "it did not run to its end", figures{}},
		"it breaks off": {
			test{name: "TestX"}, `{"Action":"run","Test":"TestX"}
			panic: oh`, "it did not run to its end", figures{},
		},
		"a fuzz target's time is over": {
			test{name: "FuzzX", fuzz: true}, `{"Action":"output","Test":"FuzzX","Output":"fuzz: elapsed: 3s, execs: 123 (41/sec)"}
			{"Action":"output","Test":"FuzzX","Output":"fuzz: elapsed: 5s, execs: 300 (41/sec)"}
			{"Action":"output","Test":"FuzzX","Output":"    context deadline exceeded"}
			{"Action":"fail","Test":"FuzzX"}`, "", figures{inputs: {300}},
		},
		"a seed of a fuzz target fails": {
			test{name: "FuzzX", fuzz: true}, `{"Action":"output","Test":"FuzzX","Output":"    x_test.go:7: GET: context deadline exceeded"}
			{"Action":"fail","Test":"FuzzX"}`, "it fails", figures{},
		},
		"a fuzz target fails": {
			test{name: "FuzzX", fuzz: true}, `{"Action":"output","Test":"FuzzX","Output":"fuzz: elapsed: 3s, execs: 123 (41/sec)"}
			{"Action":"output","Test":"FuzzX","Output":"Failing input written to testdata/fuzz"}
			{"Action":"output","Test":"FuzzX","Output":"context deadline exceeded"}
			{"Action":"fail","Test":"FuzzX"}`, "it fails", figures{inputs: {123}},
		},
	} {
		of := &report{figures: figures{}}
		r := reader{settings: settings{progress: io.Discard}, reports: map[test]*report{tt.of: of}, outputs: map[string][]string{}}
		for line := range strings.Lines(tt.lines) {
			r.line([]byte(line))
		}
		if of.fault() != tt.fault || !reflect.DeepEqual(of.figures, tt.want) {
			t.Errorf("%s: %q, %v", name, of.fault(), of.figures)
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

// TestARunGoesOnWhereItWas, at the same commit and in the same form.
func TestARunGoesOnWhereItWas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept.json")
	first, second := test{folder: ".", name: "TestX"}, test{folder: ".", name: "TestX", race: true}
	of := []outcome{{claim: claim{tests: []test{first, second}}}}
	p := recall(file, "abc", true)
	p.add(map[test]*report{first: {figures: figures{"lost": {0}}, ended: true}, second: {figures: figures{}, failure: "it fails"}})
	if err := p.keep(file); err != nil {
		t.Fatal(err)
	}
	if left := groups(of, recall(file, "abc", true)); len(left) != 1 || !slices.Equal(left[0], []test{second}) {
		t.Errorf("what is left: %v", left)
	}
	if r := recall(file, "abc", true).report(first); r == nil || r.fault() != "" || !slices.Equal(r.figures["lost"], []int{0}) {
		t.Errorf("what was reported: %+v", r)
	}
	for name, left := range map[string][][]test{
		"another commit": groups(of, recall(file, "abd", true)), "the other form": groups(of, recall(file, "abc", false)), "no file": groups(of, recall("", "abc", true)),
	} {
		if len(left) != 2 {
			t.Errorf("%s: %v", name, left)
		}
	}
}
