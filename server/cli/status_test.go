package cli

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"callbook/testdata/testkit"
)

// TestExits_MatchUnitAndManual checks that the unit restarts after the statuses for which a restart may help, and
// that the manual has a row for each status.
func TestExits_MatchUnitAndManual(t *testing.T) {
	again := map[int]bool{statusFailed: true, statusInternal: false}
	for _, e := range exits {
		if before, known := again[e.status]; known && before != e.again {
			t.Errorf("status %d helps at times: a service manager cannot send", e.status)
		}
		again[e.status] = e.again
	}
	var final []string
	for status, helps := range again {
		if !helps {
			final = append(final, fmt.Sprint(status))
		}
	}
	slices.Sort(final)
	if line := "\nRestartPreventExitStatus=" + strings.Join(final, " ") + "\n"; !strings.Contains(serviceUnit, line) {
		t.Errorf("the unit has no line %s", line)
	}
	manual, err := os.ReadFile("../../static/docs/troubleshooting.md")
	testkit.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(manual), -1)
	listed := map[int]bool{}
	for _, row := range rows {
		status, _ := strconv.Atoi(row[1])
		listed[status] = row[2] != "no"
	}
	if !maps.Equal(listed, again) {
		t.Errorf("the manual has the statuses %v, want %v", listed, again)
	}
}
