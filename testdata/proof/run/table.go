package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// claim is a row of the table: what is claimed, the figures that show it, and what
// they have to be.
type claim struct {
	name  string // for -only
	what  string
	shows string // figures stand in it by their names in braces
	needs []need
	tests []test
}

// need is what a figure has to be in the short form and in the long one. A figure
// that no test reports is a need that is not met.
type need struct {
	figure      string
	is          bound
	short, long int
}

// bound also says how the figures of several tests become one.
type bound int

const (
	exactly bound = iota // of their sum
	atLeast              // of their sum
	atMost               // of the largest
)

func (b bound) join(x, y int) int {
	if b == atMost {
		return max(x, y)
	}
	return x + y
}

func (b bound) holds(figure, wanted int) bool {
	switch b {
	case atLeast:
		return figure >= wanted
	case atMost:
		return figure <= wanted
	}
	return figure == wanted
}

func (n need) wanted(isLong bool) int {
	if isLong {
		return n.long
	}
	return n.short
}

func (n need) String() string {
	return map[bound]string{exactly: "", atLeast: "≥ ", atMost: "≤ "}[n.is]
}

// figures are what the tests of a row reported, by name, one number from each.
type figures map[string][]int

// outcome is a row of the table, filled.
type outcome struct {
	claim
	figures figures
	faults  []string // failed and skipped tests
}

// figure is what the tests came to, and whether any reported it.
func (o outcome) figure(name string) (n int, known bool) {
	is := exactly
	if i := slices.IndexFunc(o.needs, func(n need) bool { return n.figure == name }); i >= 0 {
		is = o.needs[i].is
	}

	for i, f := range o.figures[name] {
		if i == 0 {
			n = f
			continue
		}

		n = is.join(n, f)
	}

	return n, len(o.figures[name]) > 0
}

// short is what the row falls short of.
func (o outcome) short(isLong bool) (of []string) {
	for _, n := range o.needs {
		if got, known := o.figure(n.figure); !known || !n.is.holds(got, n.wanted(isLong)) {
			of = append(of, fmt.Sprintf("%s is to be %s%s", n.figure, n, grouped(n.wanted(isLong))))
		}
	}
	return append(of, o.faults...)
}

var placeholder = regexp.MustCompile(`\{[a-zA-Z0-9 ]+\}`)

// reached is the row's text with its figures.
func (o outcome) reached() string {
	if len(o.faults) > 0 {
		return "a test fails"
	}

	return placeholder.ReplaceAllStringFunc(o.shows, func(name string) string {
		n, known := o.figure(strings.Trim(name, "{}"))
		if !known {
			return "?"
		}

		return grouped(n)
	})
}

// wanted is the row's text with what its figures have to be.
func (o outcome) wanted(isLong bool) string {
	return placeholder.ReplaceAllStringFunc(o.shows, func(name string) string {
		for _, n := range o.needs {
			if "{"+n.figure+"}" == name {
				return n.String() + grouped(n.wanted(isLong))
			}
		}

		return "…"
	})
}

// grouped is a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// markdown is the table as testdata/proof/README.md has it.
func markdown(outcomes []outcome, isLong bool) string {
	var b strings.Builder
	b.WriteString("| claim | to be reached | reached | |\n| --- | --- | --- | --- |\n")
	for _, o := range outcomes {
		met := "met"
		if len(o.short(isLong)) > 0 {
			met = "**short**"
		}

		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", o.what, o.wanted(isLong), o.reached(), met)
	}

	return b.String()
}
