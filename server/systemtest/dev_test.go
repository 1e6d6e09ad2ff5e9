package systemtest

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestDev_RunsACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is one of sh; run on Unix")
	}
	status, out, errors := finished("dev", "--addr=127.0.0.1:0", "--log-level=error", "--exec", `echo "$CALLBOOK_URL $CALLBOOK_KEYS"; exit 7`)
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
	if status, _, _ := finished("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec=true"); status != 0 {
		t.Errorf("status %d of a command that succeeds", status)
	}
	if status, _, _ := finished("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec=kill -9 $$"); status != 128+9 {
		t.Errorf("status %d of a command that a signal ends", status)
	}
	for _, empty := range []string{"", " "} {
		if status, _, errors := finished("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec="+empty); status != 64 || !strings.Contains(errors, "command of the shell") {
			t.Errorf("an empty command: status %d: %s", status, errors)
		}
	}
	t.Setenv(asProgram, "1")
	if status, out, errors := finished("dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--exec", "'"+os.Args[0]+"' version"); status != 0 || !strings.HasPrefix(out, "callbook ") {
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
		if status, _, errors := finished("dev", "--addr=127.0.0.1:0", "--allow-host="+name); status != 64 || !strings.Contains(errors, "host name") {
			t.Errorf("%s: status %d: %s", name, status, errors)
		}
	}
	status, out, welcome := finished("dev", "--addr=0.0.0.0:0", "--empty", "--log-level=error", "--allow-host=callbook", "--exec", `echo "$CALLBOOK_URL"`)
	if status != 0 || !strings.HasPrefix(out, "http://localhost:") || !strings.Contains(welcome, "reach it at http://callbook:") {
		t.Errorf("status %d: %s %s", status, out, welcome)
	}
}
