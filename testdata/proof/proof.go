// Package proof is what the tests of Callbook's claims share: how much each of them
// tries, and how it reports its figures. `go run ./testdata/proof/run` runs them all and prints
// the table of testdata/proof/README.md.
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

// Variable of the environment that says how much is tried. Without it, tests try as
// much as finds what is not rare.
const Variable = "PROOF"

// Its values: as much as CI has time for, and as much as the published figures need.
const (
	Short = "short"
	Long  = "long"
)

// Rounds is how often something is tried: without the setting, in the short form, and
// in the long one.
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

// RaceDetector tells whether the tests run under the race detector.
var RaceDetector = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
})

// OneByOne skips a long test whose acts come one after the other, or in processes of
// their own, when it would run under the race detector, and not for the table.
func OneByOne(t testing.TB) {
	t.Helper()
	if RaceDetector() && !Asked() {
		t.Skip("its acts come one by one: nothing to find for the race detector, which takes minutes for it")
	}
}

// Asked tells whether the tests run for the table, and so may take their time.
func Asked() bool { return Rounds(0, 1, 1) > 0 }

// Figure reports a number of what was tried or found, in units of one. A test and its
// subtests may report a figure several times: whether the table adds them up or takes
// the largest, and what each figure has to be, stands in package proof/run.
func Figure(t testing.TB, name string, n int) {
	t.Helper()
	t.Attr(strings.ReplaceAll(name, " ", "_"), strconv.Itoa(n))
}

// FigureName is the name of a figure that a test's attribute reports: attributes have
// no spaces.
func FigureName(attribute string) string { return strings.ReplaceAll(attribute, "_", " ") }
