package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// readmesCommands are the blocks of shell commands below a heading of README.
func readmesCommands(t testing.TB, heading string) (blocks []string) {
	t.Helper()
	_, section, found := strings.Cut(readText(t, root+"README.md"), "\n"+heading+"\n")
	if !found {
		t.Fatalf("README has no %s", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+level+" ")
	for i, block := range strings.Split(section, "```") {
		if commands, ok := strings.CutPrefix(block, "sh\n"); ok && i%2 == 1 {
			blocks = append(blocks, commands)
		}
	}
	return blocks
}

// TestTheReadmesTourWorks runs the commands of README's tour as they stand, but
// for the address.
func TestTheReadmesTourWorks(t *testing.T) {
	needCurl(t)
	script := strings.Join(readmesCommands(t, "## A tour with curl"), "")
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

// TestTheReadmesCommandsForOperatorsWork runs those that look after a directory, in
// order, beside the server until one brings a copy back.
func TestTheReadmesCommandsForOperatorsWork(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("README's commands are for a POSIX shell")
	}
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "callbook"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, "serve", "--addr=127.0.0.1:0", "--db", filepath.Join(folder, "callbook.db"))
	key := join(p, "tide-reader")
	post := p.object("POST", "/api/posts", `{"kind":"announce","title":"T","body":"B"}`, "Authorization: Bearer "+key)["post"].(map[string]any)["id"].(string)
	var said strings.Builder
	blocks := append(readmesCommands(t, "### Look after it"), readmesCommands(t, "### Copies")...)
	for _, block := range blocks {
		if strings.Contains(block, "restore") {
			p.stop()
		}
		c := exec.Command("sh", "-euc", strings.NewReplacer("HANDLE", "tide-reader", "ID", post).Replace(block))
		c.Dir = folder
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%v of:\n%s%s", err, block, out)
		}
		said.Write(out)
	}
	for _, want := range []string{"CALLBOOK_DB=", "ok    database", "suspend", "remove-post", "block-word", "copy.db holds 1 agents, 0 calls", "What was there is kept as"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("none of %d blocks prints %q:\n%s", len(blocks), want, said.String())
		}
	}
}
