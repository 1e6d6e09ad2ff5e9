package systemtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestDev_RunsACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is one of sh; run on Unix")
	}
	status, out, errors := runCommand("dev", "--addr=127.0.0.1:0", "--log-level=error", "--exec", `echo "$CALLBOOK_URL $CALLBOOK_KEYS"; exit 7`)
	if strings.Contains(errors, "exit status") {
		t.Errorf("the status is printed, too: %s", errors)
	}
	url, list, _ := strings.Cut(out, " ")
	keys := map[string]string{}
	if err := json.Unmarshal([]byte(list), &keys); err != nil {
		t.Errorf("CALLBOOK_KEYS: %v", err)
	}
	if status != 7 || !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasPrefix(keys["always-accepts"], "cq_") {
		t.Errorf("status %d: %s", status, out)
	}
	if _, err := http.Get(url + "/api"); err == nil {
		t.Error("callbook dev goes on after the command")
	}
	if status, _, _ := runCommand("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec=true"); status != 0 {
		t.Errorf("status %d of a command that succeeds", status)
	}
	if status, _, _ := runCommand("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec=kill -9 $$"); status != 128+9 {
		t.Errorf("status %d of a command that a signal ends", status)
	}
	for _, empty := range []string{"", " "} {
		if status, _, errors := runCommand("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec="+empty); status != 64 || !strings.Contains(errors, "command of the shell") {
			t.Errorf("an empty command: status %d: %s", status, errors)
		}
	}
	t.Setenv(asProgram, "1")
	if status, out, errors := runCommand("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec", "'"+os.Args[0]+"' version"); status != 0 || !strings.HasPrefix(out, "callbook ") {
		t.Errorf("callbook version as the command: status %d: %s%s", status, out, errors)
	}
}

func TestDev_AllowsHosts(t *testing.T) {
	p := start(t, "dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--allow-host=callbook", "--allow-host=host.docker.internal")
	for host, want := range map[string]int{"callbook:80": 200, "Host.Docker.Internal": 200, "localhost": 200, "callbook.example.org": 403, "other": 403} {
		r := newRequest(t, "GET", p.base+"/dev/agents", "")
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d", host, response.StatusCode)
		}
	}
	for _, name := range []string{"", "http://callbook", "callbook:80", "*", "*.example.org"} {
		if status, _, errors := runCommand("dev", "--addr=127.0.0.1:0", "--allow-host="+name); status != 64 || !strings.Contains(errors, "host name") {
			t.Errorf("%s: status %d: %s", name, status, errors)
		}
	}
	status, out, welcome := runCommand("dev", "--addr=0.0.0.0:0", "--empty", "--log-level=error", "--allow-host=callbook", "--exec", `echo "$CALLBOOK_URL"`)
	if status != 0 || !strings.HasPrefix(out, "http://localhost:") || !strings.Contains(welcome, "reach it at http://callbook:") {
		t.Errorf("status %d: %s %s", status, out, welcome)
	}
}

func TestDev_KeepsDatabase(t *testing.T) {
	args := []string{"dev", "--addr=127.0.0.1:0", "--empty", "--db=" + newDB(t)}
	p := start(t, args...)
	p.object("POST", "/dev/reset", `{"counterparts":true}`)
	p.register("harbour-pilot")
	p.stop()
	p = start(t, args...)
	total, known := p.object("GET", "/api/agents", "")["total"], p.object("GET", "/dev/agents", "")["agents"].([]any)
	if total != 7.0 || len(known) != 6 || !strings.Contains(p.out.String(), "\n6 demo agents") || p.object("POST", "/dev/reset", "")["agents"] != 0.0 {
		t.Errorf("%v agents, %d with keys; printed %s", total, len(known), p.out)
	}
}

// needCurl skips a test where the shell commands of the documents cannot run.
func needCurl(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"sh", "sed", "tee", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here to try the lines with", tool)
		}
	}
	if help, _ := exec.Command("curl", "--help", "all").Output(); !bytes.Contains(help, []byte("--json")) {
		t.Skip("this curl is too old for --json")
	}
}

// shownCommand matches a command on the page of callbook dev.
var shownCommand = regexp.MustCompile(`<pre><code class="pick">(curl .*)</code></pre>`)

func TestDev_ShownCommandsWork(t *testing.T) {
	t.Parallel()
	needCurl(t)
	p := start(t, "dev", "--addr", "127.0.0.1:0")
	_, page := p.call("GET", "/dev", "")
	commands := shownCommand.FindAllStringSubmatch(page, -1)
	for _, m := range commands {
		command := html.UnescapeString(m[1])
		var response map[string]any
		text, err := exec.Command("sh", "-c", command).Output()
		if err == nil {
			err = json.Unmarshal(text, &response)
		}
		if list, ok := response["agents"].([]any); ok && len(list) == 0 {
			err = errors.New("it finds nothing")
		}
		if err != nil || response["error"] != nil || response["notice"] == nil {
			t.Errorf("%s\n%s\n%v", command, text, err)
		}
	}
	if len(commands) != 7 {
		t.Errorf("%d commands: %s", len(commands), page)
	}
}

// TestDev_PrintsKeys checks what is printed at the start, and that nothing is left behind.
func TestDev_PrintsKeys(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	p := start(t, "dev", "--addr", "127.0.0.1:0")
	printed := p.out.String()
	if agents := p.object("GET", "/dev/agents", "")["agents"].([]any); len(agents) == 0 || !strings.Contains(printed, fmt.Sprintf("%d demo agents", len(agents))) {
		t.Errorf("%d agents; printed %s", len(agents), printed)
	}
	first, _, _ := strings.Cut(printed, "\n")
	if first != "Callbook for testing agents: "+p.base || strings.Count(printed, "\n") > 8 || !strings.Contains(printed, " "+p.base+"/dev\n") {
		t.Errorf("it prints:\n%s", printed)
	}
	for _, page := range regexp.MustCompile(`\S+/docs/\S+`).FindAllString(printed, -1) {
		if status, text := p.call("GET", strings.TrimPrefix(page, p.base), ""); status != 200 || !strings.Contains(text, "/dev/clock") {
			t.Errorf("%s: %d %s", page, status, text)
		}
	}
	if !strings.Contains(printed, p.base+"/docs/testing\n") {
		t.Errorf("no page of the manual in:\n%s", printed)
	}
	for level := range 3 {
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^  (\S+) +level %d  (\S+)$`, level)).FindStringSubmatch(printed)
		if m == nil {
			t.Errorf("no agent of level %d in:\n%s", level, printed)
			continue
		}
		agent := p.object("GET", "/api/me", "", "Authorization: Bearer "+m[2])["agent"].(map[string]any)
		if agent["handle"] != m[1] || agent["trust"].(map[string]any)["level"] != float64(level) {
			t.Errorf("the key of %s at level %d is that of %v", m[1], level, agent)
		}
	}
	p.stopCleanly()
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestDev_LimitsFlag(t *testing.T) {
	for limits, want := range map[string]any{"off": nil, "normal": 600.0, "relaxed": 2400.0} {
		p := start(t, "dev", "--addr=127.0.0.1:0", "--empty", "--limits="+limits)
		shown := p.object("GET", "/api", "")["limits"].(map[string]any)["per_address"].(map[string]any)["reads"].(map[string]any)["calls"]
		if shown != want {
			t.Errorf("--limits=%s: %v reads", limits, shown)
		}
		p.stop()
	}
}
