// Package systemtest tests the program as a whole: its commands, its files, and what happens to both when processes are
// killed, disks fill up or the power fails.
package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"callbook/server/cli"
	"callbook/testdata/demo"
	"callbook/testdata/proof"
)

// output records the output of a program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// root is the path of the module's root folder.
const root = "../../"

// run runs the program like main, but within the test, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, args, demo.Files, stdout, stderr)
}

// program is a run of the program within the test.
type program struct {
	testing.TB
	out, err *output
	cancel   context.CancelFunc
	status   chan int
	base     string
}

// patience is the timeout for anything that a test waits for.
const patience = time.Minute

var printedAddress = regexp.MustCompile(`(?:address=|"address":"|agents: http://)([0-9.]+:[0-9]+|\[[0-9a-f:]+\]:[0-9]+)`)

// racing matches the tests that also run under the race detector: those in which goroutines of the program meet, at
// startup and shutdown, in background jobs beside requests, and in the log. For the others it would only make the
// program ten times slower.
var racing = regexp.MustCompile(`^Test(Restart|Shutdown|Watchdog|Readiness|Connections|HTTPS|Certificate|Authority|Log|Compact)_|` +
	`^Test(Serve_StartsAndStops|Dev_PrintsKeys|Admin_CommandsWorkBesideServer|Backup_RestoresLostFile|` +
	`Damage_StopsService|Mail_DeliversBySMTP)$`)

// skipUnlessRacing skips a test under the race detector, except those that racing matches and all tests of the proof.
func skipUnlessRacing(t testing.TB) {
	t.Helper()
	if !racing.MatchString(t.Name()) {
		proof.OneByOne(t)
	}
}

// start runs a serving command and returns once it prints its address.
func start(t testing.TB, args ...string) *program {
	t.Helper()
	skipUnlessRacing(t)
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{TB: t, out: &output{}, err: &output{}, cancel: cancel, status: make(chan int, 1)}
	go func() { p.status <- run(ctx, args, p.out, p.err) }()
	t.Cleanup(func() { p.stop() })
	if !p.prints("its address", p.listens) {
		t.Fatalf("callbook %q ended with status %d: %s", args, p.stop(), p.err)
	}
	return p
}

// listens reports whether the program has printed its address, which is its base from now on.
func (p *program) listens() bool {
	m := printedAddress.FindStringSubmatch(p.err.String() + p.out.String())
	if m != nil {
		p.base = "http://" + m[1]
	}
	return m != nil
}

// prints waits until the output fulfils a condition, and reports whether it does so before the program ends.
func (p *program) prints(what string, is func() bool) bool {
	p.Helper()
	for late := time.After(patience); !is(); {
		select {
		case status := <-p.status:
			p.status <- status
			return is()
		case <-late:
			p.Fatalf("it does not print %s: %s%s", what, p.out, p.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// stop stops the program and returns its exit status.
func (p *program) stop() int {
	p.Helper()
	p.cancel()
	select {
	case status := <-p.status:
		p.status <- status
		return status
	case <-time.After(patience):
		p.Fatal("the program does not stop")
		return -1
	}
}

// newRequest builds a request with headers such as "Name: value".
func newRequest(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// call sends a request and returns status and body.
func (p *program) call(method, path, body string, headers ...string) (int, string) {
	p.Helper()
	a, err := http.DefaultClient.Do(newRequest(p, method, p.base+path, body, headers...))
	if err != nil {
		p.Fatal(err)
	}
	return a.StatusCode, readBody(p, a)
}

// readBody reads the body of a response to its end.
func readBody(t testing.TB, a *http.Response) string {
	t.Helper()
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object sends a request that must succeed and returns its JSON.
func (p *program) object(method, path, body string, headers ...string) (object map[string]any) {
	p.Helper()
	status, text := p.call(method, path, body, headers...)
	if err := json.Unmarshal([]byte(text), &object); err != nil || status >= 300 {
		p.Fatalf("%s %s: %d %s (%v)", method, path, status, text, err)
	}
	return object
}

// finished runs a command that exits by itself.
func finished(args ...string) (status int, out, err string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience/4) // ends one that serves
	defer cancel()
	var stdout, stderr bytes.Buffer
	status = run(ctx, args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// until waits for something that happens in another process.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	waitFor(t, patience, what, is)
}

// waitFor is until with its own timeout.
func waitFor(t testing.TB, most time.Duration, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(most); !is(); {
		if time.Now().After(late) {
			t.Fatalf("it never comes that %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// lay writes a file, and makes its folder.
func lay(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func registrationFor(handle, mailbox string) string {
	return fmt.Sprintf(`{"handle":"%s","name":"A","owner":"B","mailbox":"%s","description_en":"D","accept_rules":true}`, handle, mailbox)
}

func TestServe_StartsAndStops(t *testing.T) {
	db := filepath.Join(t.TempDir(), "callbook.db")
	for i, command := range [][]string{{"serve"}, {}} { // serve is the default
		p := start(t, append(command, "--addr", "127.0.0.1:0", "--db", db)...)
		if status, body := p.call("GET", "/readyz", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if index := p.object("GET", "/api", ""); index["openapi"] != p.base+"/openapi.json" {
			t.Errorf("the site's address is not where it listens: %v", index["openapi"])
		}
		p.object("POST", "/api/agents", registrationFor(fmt.Sprintf("agent-%d", i), "a@example.org"))
		if total := p.object("GET", "/api/agents", "")["total"]; total != float64(i+1) {
			t.Errorf("%v agents in run %d", total, i)
		}
		if status := p.stop(); status != 0 {
			t.Errorf("status %d: %s", status, p.err)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://")); err == nil {
			t.Error("it still listens")
		}
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Errorf("the write-ahead log still has %d bytes", info.Size())
		}
		if p.out.String() != "" || !strings.Contains(p.err.String(), "callbook has stopped") {
			t.Errorf("printed %q, logged %q", p.out, p.err)
		}
	}
}

func TestDev_KeepsDatabase(t *testing.T) {
	args := []string{"dev", "--addr=127.0.0.1:0", "--empty", "--db=" + newDB(t)}
	p := start(t, args...)
	p.object("POST", "/dev/reset", `{"counterparts":true}`)
	join(p, "harbour-pilot")
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
		var answer map[string]any
		text, err := exec.Command("sh", "-c", command).Output()
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if list, ok := answer["agents"].([]any); ok && len(list) == 0 {
			err = errors.New("it finds nothing")
		}
		if err != nil || answer["error"] != nil || answer["notice"] == nil {
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
	if status := p.stop(); status != 0 {
		t.Errorf("status %d: %s", status, p.err)
	}
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

// session uses the directory like an agent, with values that the log must not contain.
func session(p *program) (canaries []string) {
	const mailbox, words, query = "canary-mailbox@example.org", "canary-text", "canary-query"
	key := p.object("POST", "/api/agents", registrationFor("harbour-pilot", mailbox), "Idempotency-Key: canary-idempotency-key")["api_key"].(string)
	auth := "Authorization: Bearer " + key
	p.object("GET", "/api/me", "", auth)
	id := p.object("POST", "/api/posts", `{"kind":"announce","title":"`+words+`","body":"`+words+`"}`, auth)["post"].(map[string]any)["id"].(string)
	p.object("PATCH", "/api/me", `{"tagline":"`+words+`","mailbox":"new-`+mailbox+`"}`, auth)
	p.object("POST", "/api/posts/"+id+"/report", `{"reason":"`+words+`"}`)
	for i, call := range []string{
		"GET /api/agents?q=" + query, "GET /api/posts?tag=" + query + "&unknown=" + query, "GET /api/me?api_key=" + key, "GET /api/agents?q=%zz" + query,
		"DELETE /api/me?confirm=" + query, "PUT /api/me/offerings", "POST /api/agents", "GET /nowhere?" + query, "GET /a%0a%1b%5b31mb",
	} {
		method, path, _ := strings.Cut(call, " ")
		from := "X-Forwarded-For: 192.0.2." // a network has one line a second of those to unknown paths
		p.call(method, path, `{"`+words+`":"`+words+`"}`, from+strconv.Itoa(2*i), "Authorization: Basic "+key, "Cookie: "+words, "User-Agent: "+words, "Referer: http://x/"+words, "X-Request-Id: "+words+" "+words)
		p.call(method, path, `{"broken":`+words, from+strconv.Itoa(2*i+1), auth)
	}
	renewed := p.object("POST", "/api/me/rotate-key", "", auth)["api_key"].(string)
	p.call("GET", "/api/me", "", auth)
	return []string{key, renewed, "cq_", "canary"}
}

func TestLog_HoldsNothingPrivate(t *testing.T) {
	for _, form := range []string{"text", "json"} {
		p := start(t, "serve", "--addr", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "callbook.db"), "--log", form, "--log-level", "debug", "--trusted-proxy=127.0.0.1")
		canaries := session(p)
		p.stop()
		log := p.err.String()
		for _, canary := range canaries {
			if strings.Contains(log, canary) {
				t.Errorf("%s log holds %s:\n%s", form, canary, log)
			}
		}
		lines := 0
		for line := range strings.Lines(log) {
			var event map[string]any
			if err := json.Unmarshal([]byte(line), &event); form == "json" && (err != nil || event["time"] == nil || event["level"] == nil) {
				t.Errorf("a line of the log is no event: %q", line)
			}
			if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\n\x00") || form == "text" && !strings.HasPrefix(line, "20") {
				t.Errorf("a line of the log can be forged: %q", line)
			}
			if strings.Contains(line, "request_id") {
				lines++
			}
		}
		if lines < 24 || !strings.Contains(log, "/api/agents") {
			t.Errorf("%d calls are logged:\n%s", lines, log)
		}
	}
}

// TestLog_ShowsClientsIfWanted checks the event of a request.
func TestLog_ShowsClientsIfWanted(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"dev", "--empty"}} {
		p := start(t, append(command, "--addr=127.0.0.1:0", "--db="+newDB(t), "--log=json", "--log-clients")...)
		p.call("GET", "/api/stats", "")
		p.stop()
		if event := regexp.MustCompile(`(?m)^\{"level":"info","network":"[0-9a-f]{16}","method":"GET",.*$`); !event.MatchString(p.err.String()) {
			t.Errorf("%s: the log: %s", command, p.err)
		}
	}
}
