package tools

import (
	"strings"
	"testing"
)

func TestBriefPost_CutsItsBody(t *testing.T) {
	for _, character := range []string{"a", "中", "🙂", "\""} {
		for length, want := range map[int]int{0: 0, 1: 1, 159: 159, 160: 160, 161: 160, 4000: 160} {
			got, truncated := cutBody(strings.Repeat(character, length))
			if got != strings.Repeat(character, want) || truncated != (length > want) {
				t.Errorf("%d × %s: %s, truncated %t", length, character, got, truncated)
			}
		}
	}
}
