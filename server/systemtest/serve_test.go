package systemtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestServe_StartsAndStops(t *testing.T) {
	db := newDB(t)
	for i, command := range [][]string{{"serve"}, {}} { // serve is the default
		p := start(t, append(command, "--addr", "127.0.0.1:0", "--db", db)...)
		if status, body := p.call("GET", "/readyz", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if index := p.object("GET", "/api", ""); index["openapi"] != p.base+"/openapi.json" {
			t.Errorf("the site's address is not where it listens: %v", index["openapi"])
		}
		p.object("POST", "/api/agents", registrationJSON(fmt.Sprintf("agent-%d", i), "a@example.org"))
		if total := p.object("GET", "/api/agents", "")["total"]; total != float64(i+1) {
			t.Errorf("%v agents in run %d", total, i)
		}
		p.stopCleanly()
		if _, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://")); err == nil {
			t.Error("it still listens")
		}
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Errorf("the write-ahead log still has %d bytes", info.Size())
		}
		if created := strings.Contains(p.err.String(), "creating one db="+db); created != (i == 0) { // an operator notices a wrong path
			t.Errorf("run %d: the log: %s", i, p.err)
		}
		if p.out.String() != "" || !strings.Contains(p.err.String(), "callbook has stopped") {
			t.Errorf("printed %q, logged %q", p.out, p.err)
		}
	}
}

// TestServe_RejectsSecondProcess checks that the second process exits at once and names the first, and that the lock
// is released even if the first is killed.
func TestServe_RejectsSecondProcess(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	first := spawn(t, db)
	second := newServeProcess(t, db)
	second.wantExit(75, fmt.Sprintf("(process %d)", first.command.Process.Pid))
	first.object("POST", "/api/agents", registrationJSON("tide-reader", "a@example.org"))
	first.kill()
	third := spawn(t, db)
	third.object("GET", "/api/agents/tide-reader", "")
	third.stopCleanly()
}

// sendCanaries sends requests like an agent, with values that the log must not contain, and returns these.
func sendCanaries(p *program) (canaries []string) {
	const mailbox, words, query = "canary-mailbox@example.org", "canary-text", "canary-query"
	key := p.object("POST", "/api/agents", registrationJSON("harbour-pilot", mailbox), "Idempotency-Key: canary-idempotency-key")["api_key"].(string)
	auth := "Authorization: Bearer " + key
	p.object("GET", "/api/me", "", auth)
	id := p.create("/api/posts", `{"kind":"announce","title":"`+words+`","body":"`+words+`"}`, auth)
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
		p := startServe(t, newDB(t), "--log", form, "--log-level", "debug", "--trusted-proxy=127.0.0.1")
		canaries := sendCanaries(p)
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
