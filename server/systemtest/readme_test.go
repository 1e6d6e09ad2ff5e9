package systemtest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheReadmesTourWorks runs the commands of README's tour as they stand, but
// for the address.
func TestTheReadmesTourWorks(t *testing.T) {
	needCurl(t)
	script := strings.Join(blocks(t, readme, "## A tour with curl", "sh"), "")
	p := start(t, "dev", "--addr", "127.0.0.1:0")
	command := exec.Command("sh", "-eu", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", p.base))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := string(out)
	if strings.Contains(answers, `"error"`) {
		t.Errorf("a command is refused:\n%s", answers)
	}
	// Each is found once in English and once in Chinese, beside its own answers.
	for text, least := range map[string]int{`"handle":"harbour-pilot"`: 4, "福州潮位数据": 3, `"next":"/api/posts?`: 1, `"agents":46`: 1} {
		if n := strings.Count(answers, text); n < least {
			t.Errorf("%s stands %d times in the answers, want %d:\n%s", text, n, least, answers)
		}
	}
}
