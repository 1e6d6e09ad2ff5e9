package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBriefPost_CutsItsBody(t *testing.T) {
	for _, character := range []string{"a", "中", "🙂", "\""} {
		for length, want := range map[int]int{0: 0, 1: 1, 159: 159, 160: 160, 161: 160, 4000: 160} {
			text, _ := json.Marshal(map[string]any{"body": strings.Repeat(character, length)})
			var p BriefPost
			if err := json.Unmarshal(text, &p); err != nil || p.Body != strings.Repeat(character, want) || p.BodyTruncated != (length > want) {
				t.Errorf("%d × %s: %v %+v", length, character, err, p)
			}
		}
	}
}
