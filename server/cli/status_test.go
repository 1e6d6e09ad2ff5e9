package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(manual), -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[1]] = row[2] != "no"
	}
	for status, helps := range again {
		if in, ok := listed[fmt.Sprint(status)]; !ok || in != helps {
			t.Errorf("the manual says of %d: %v, %v", status, ok, in)
		}
	}
	if len(listed) != len(again) {
		t.Errorf("the manual has %d statuses", len(listed))
	}
}
