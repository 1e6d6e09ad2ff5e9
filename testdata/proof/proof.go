// Package proof holds the settings of the tests that prove Callbook's claims, and reports their
// figures. `go run ./testdata/proof/run` runs them all and prints the table of
// testdata/proof/README.md.
package proof

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Variable is the environment variable that selects the form of the proof. Without it, tests run
// few rounds.
const Variable = "PROOF"

// Values of Variable: the form for CI, and the form for the published figures.
const (
	Short = "short"
	Long  = "long"
)

// Rounds returns the number of rounds without Variable, in the short form, or in the long form.
func Rounds(glance, inShort, inLong int) int {
	switch os.Getenv(Variable) {
	case Long:
		return inLong

	case Short:
		return inShort

	case "":
		return glance
	}

	panic("unknown: " + Variable + "=" + os.Getenv(Variable))
}

// RaceDetector reports whether the tests run under the race detector.
var RaceDetector = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.ContainsFunc(
		info.Settings,
		func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" },
	)
})

// OneByOne skips a long test under the race detector, except in the proof. It is for tests whose
// requests run one after the other, in which the detector finds nothing that a shorter test does
// not find.
func OneByOne(t testing.TB) {
	t.Helper()
	if RaceDetector() && !Asked() {
		t.Skip("its requests run one by one, so that the race detector finds nothing in it")
	}
}

// Asked reports whether the tests run for the proof, and so may take long.
func Asked() bool { return Rounds(0, 1, 1) > 0 }

// Figure reports a number. A test and its subtests may report a figure several times: package
// proof/run decides whether the table has their sum or maximum, and the bounds.
func Figure(t testing.TB, name string, n int) {
	t.Helper()
	t.Attr(strings.ReplaceAll(name, " ", "_"), strconv.Itoa(n))
}

// FigureName returns the name of the figure in a test's attribute, which has underscores instead
// of spaces.
func FigureName(attribute string) string { return strings.ReplaceAll(attribute, "_", " ") }
