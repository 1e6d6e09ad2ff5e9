package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

const demoFolder = "../testdata/demo"

// demoSize is the number of agents of the demo, among them those that act by themselves.
const demoSize, demoCounterparts = 52, 6

// underDev makes a site like that of callbook dev.
func underDev(o *siteOptions) { o.dev = DevMode.NewClock() }

func newDevSite(t testing.TB, demo bool) *site {
	t.Helper()
	return newSite(t, underDev, func(o *siteOptions) { o.demo = demo })
}

type devAgent struct {
	Handle string `json:"handle"`
	APIKey string `json:"api_key"`
	Level  int    `json:"level"`
}

func (s *site) devAgents() []devAgent {
	s.Helper()
	var response struct{ Agents []devAgent }
	s.send("GET", "/dev/agents", "", nil).status(200).into(&response)
	return response.Agents
}

func TestDev_RejectsForeignHostsAndOrigins(t *testing.T) {
	s := newDevSite(t, false)
	tests := []struct {
		host, origin string
		passes       bool
	}{
		{"", "", true}, // the listener's own
		{"localhost", "", true}, {"localhost:8080", "", true}, {"127.0.0.1", "", true}, {"127.0.0.1:9", "", true},
		{"127.8.9.1:80", "", true}, {"[::1]", "", true}, {"[::1]:8080", "", true}, {"my-agent.localhost:8080", "", true},
		{"evil.example.org", "", false}, {"evil.example.org:8080", "", false}, {"localhost.evil.example.org", "", false},
		{"127.0.0.1.evil.example.org", "", false}, {"192.168.1.7:8080", "", false}, {"0.0.0.0:8080", "", false}, {"[2001:db8::1]", "", false},
		{"notlocalhost", "", false},
		{"localhost", "http://localhost:3000", true}, {"localhost", "http://127.0.0.1:8080", true}, {"localhost", "https://[::1]", true},
		{"localhost", "http://evil.example.org", false}, {"localhost", "null", false}, {"localhost", "http://localhost.evil.example.org", false},
		{"localhost", "http://evil.example.org:80/?localhost", false}, {"localhost", "file://", false}, {"localhost", "http://localhost@evil.example.org", false},
		{"evil.example.org", "http://localhost", false},
	}
	for _, tt := range tests {
		for _, call := range []string{"GET /dev", "GET /dev/agents", "GET /dev/mail", "GET /api", "POST /dev/reset", "POST /dev/clock", "OPTIONS /api", "GET /nowhere"} {
			method, path, _ := strings.Cut(call, " ")
			headers := []string{"Host: " + tt.host}
			if tt.origin != "" {
				headers = append(headers, "Origin: "+tt.origin)
			}
			a := s.sendRaw(method, path, headers...)
			if passes := !strings.Contains(string(a.Body), "--allow-host NAME"); passes != tt.passes || passes != (a.Status != 403) {
				t.Errorf("%s for host %q from origin %q: %d", call, tt.host, tt.origin, a.Status)
			}
			if a.Header.Get("X-Request-Id") == "" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d without the headers of all answers: %v", call, a.Status, a.Header)
			}
			if strings.HasPrefix(path, "/dev") && a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s can be read from other origins", call)
			}
		}
	}
}

func TestDev_ListsItsEndpoints(t *testing.T) {
	s := newDevSite(t, false)
	var index struct {
		Endpoints []struct{ Method, Path, Summary string }
	}
	s.send("GET", "/dev", "", nil, "Accept: application/json, */*").status(200).into(&index)
	for _, e := range index.Endpoints {
		if a := s.send("GET", e.Path, "", nil); e.Summary == "" || a.Status != 200 && (e.Method == "GET" || a.Status != 405) {
			t.Errorf("%+v: %d", e, a.Status)
		}
	}
	equal(t, 11, len(index.Endpoints), "endpoints")
	contains(t, "the home page", string(s.send("GET", "/", "", nil).status(200).Body), `/dev"`)
	for _, path := range []string{"/dev/", "/dev/nowhere", "/dev/agents/x"} {
		contains(t, path, s.send("GET", path, "", nil).rejected(404, domain.CodeNotFound).text("error", "message_zh"), "GET /dev ")
	}
	for request, allowed := range map[string]string{"POST /dev": "GET, HEAD, OPTIONS", "DELETE /dev/clock": "GET, HEAD, OPTIONS, POST"} {
		method, path, _ := strings.Cut(request, " ")
		if a := s.send(method, path, "", nil).rejected(405, api.CodeMethodNotAllowed); !strings.Contains(a.text("error", "message_en"), allowed+". GET /dev lists") || strings.Contains(string(a.Body), "/api") {
			t.Errorf("%s: %s", request, a.Body)
		}
	}
	for query, want := range map[string]string{
		"mail?from=x": "to, lang", "calls?key=x": "handle, operation, status", "calls?operation=getYou": "operation: getIndex, ", "calls?status=ok": "status: 0", "calls?status=600": "status: 0", "report?x": "lang",
	} {
		contains(t, query, s.send("GET", "/dev/"+query, "", nil).rejected(400, domain.CodeInvalidQuery).text("error", "message_en"), want)
	}
}

func TestDev_ListsAgentsWithKeys(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newDevSite(t, true)
	agents := s.devAgents()
	if len(agents) != demoSize {
		t.Fatalf("%d agents", len(agents))
	}
	levels := map[int]int{}
	for _, agent := range agents {
		me := s.send("GET", "/api/me", agent.APIKey, nil).status(200)
		if me.text("agent", "handle") != agent.Handle || me.value("agent", "trust", "level") != float64(agent.Level) {
			t.Errorf("%+v is %v of level %v", agent, me.text("agent", "handle"), me.value("agent", "trust", "level"))
		}
		levels[agent.Level]++
	}
	if levels[0] == 0 || levels[1] == 0 || levels[2] == 0 {
		t.Errorf("levels of the demo: %v", levels)
	}
	i := slices.IndexFunc(agents, func(a devAgent) bool { return a.Level == 0 })
	key := agents[i].APIKey
	sent := s.send("POST", "/api/me/verify", key, nil).status(202)
	for _, lang := range []string{"en", "zh"} {
		guide := string(s.send("GET", "/skill.md?lang="+lang, "", nil).status(200).Body)
		for where, text := range map[string]string{"the response": sent.text("how_" + lang), "the guide": guide} {
			contains(t, where+" in "+lang, text, "/dev/mail ")
		}
	}
	code := s.send("GET", "/dev/mail", "", nil).status(200).text("mail", 0, "code")
	s.send("POST", "/api/me/verify/confirm", key, map[string]any{"code": code}).status(200)
	if agents[i].Level = 1; !slices.Equal(s.devAgents(), agents) {
		t.Errorf("after the verification: %+v", s.devAgents())
	}
	s.send("DELETE", "/api/me?confirm="+agents[i].Handle, key, nil).status(204)
	if agents = slices.Delete(agents, i, i+1); !slices.Equal(s.devAgents(), agents) {
		t.Errorf("after it has left: %+v", s.devAgents())
	}
}

// TestDemo_IsInUse: whatever client tests an agent finds requests and collaborations in every state, the mails of the
// owners, calls of the past, and agents that were active since their newest one.
func TestDemo_IsInUse(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newDevSite(t, true)
	found := map[string]int{}
	for _, agent := range s.devAgents() {
		for _, list := range []string{"requests", "collabs"} {
			own := s.send("GET", "/api/me/"+list+"?limit=100", agent.APIKey, nil).status(200)
			for i := range own.len(list) {
				found[list+" "+own.text(list, i, "status")]++
			}
		}
		card := s.send("GET", "/api/agents/"+agent.Handle, "", nil).status(200)
		posts := s.send("GET", "/api/posts?limit=1&author="+agent.Handle, "", nil).status(200)
		if posts.len("posts") > 0 {
			active := testkit.Must(time.Parse(time.RFC3339, card.text("agent", "last_active_at")))(t)
			posted := testkit.Must(time.Parse(time.RFC3339, posts.text("posts", 0, "created_at")))(t)
			if active.Add(time.Minute).Before(posted) { // a request is noted a little before it creates a call
				t.Errorf("%s was last active at %s, and posted at %s", agent.Handle, active, posted)
			}
		}
	}
	for list, states := range map[string]string{"requests": "pending awaiting_owner accepted declined withdrawn expired", "collabs": "pending confirmed declined"} {
		for state := range strings.FieldsSeq(states) {
			if found[list+" "+state] == 0 {
				t.Errorf("no %s are %s: %v", list, state, found)
			}
		}
	}
	if n := s.send("GET", "/api/stats", "", nil).status(200).value("confirmed_collaborations"); n == 0.0 {
		t.Error("no collaboration counts as evidence")
	}
	mails := s.send("GET", "/dev/mail", "", nil).status(200)
	to := mails.text("mail", 0, "to")
	for query, want := range map[string]int{"to=" + strings.ToUpper(to): 1, "to=": 0, "to=nobody@" + to: 0} {
		if n := s.send("GET", "/dev/mail?"+query, "", nil).status(200).len("mail"); n < want || want == 0 && n > 0 {
			t.Errorf("%s: %d mails", query, n)
		}
	}
	equal(t, "same-origin", mails.Header.Get("Cross-Origin-Resource-Policy"), "Cross-Origin-Resource-Policy")
	if !strings.Contains(mails.text("mail", 0, "link"), "/owner/") || mails.value("mail", 0, "code") != nil {
		t.Errorf("the newest mail: %s", mails.Body)
	}
	now := s.store.Now()
	first := now
	for path := "/api/posts?limit=100"; path != ""; {
		list := s.send("GET", path, "", nil).status(200)
		for i := range list.len("posts") {
			at, err := time.Parse(time.RFC3339, list.text("posts", i, "created_at"))
			if err != nil || at.After(now) || at.After(first) {
				t.Errorf("call %d was posted at %s, after the one before it or after now: %v", i, at, err)
			}
			first = at
		}
		path = list.text("next")
	}
	if age := now.Sub(first); age < 30*domain.Day {
		t.Errorf("the oldest call is only %s old", age)
	}
	open, all := s.send("GET", "/api/posts?open=true", "", nil).value("total"), s.send("GET", "/api/posts", "", nil).value("total")
	if open == all || open == 0.0 {
		t.Errorf("%v of %v calls are open", open, all)
	}
}

func TestDevClock_RejectsInvalidDurations(t *testing.T) {
	s := newDevSite(t, false)
	for _, body := range []string{
		``, `{}`, `{"advance":""}`, `{"advance":"soon"}`, `{"advance":"-1h"}`, `{"advance":"24"}`, `{"advance":24}`, `{"advance":null}`,
		`{"advance":"876001h"}`, `{"advance":"9999999999h"}`, `{"advance":"1h"`, `["1h"]`, `{"advance":"1h","advance":"2h"}`,
	} {
		a := s.send("POST", "/dev/clock", "", body).rejected(422, domain.CodeValidationFailed)
		if got := a.details(); !slices.Equal(got, []string{"advance bad_format"}) {
			t.Errorf("%s: %v", body, got)
		}
	}
	if ahead := time.Until(s.store.Now()); ahead > time.Minute {
		t.Errorf("a refused move moved the clock by %s", ahead)
	}
	if moved := s.send("POST", "/dev/clock", "", `{"advance":"600000h"}`).status(200); moved.text("offset") != "600000h0m0s" {
		t.Errorf("%s", moved.Body)
	}
	read := s.send("GET", "/dev/clock", "", nil).status(200)
	if now, err := time.Parse(time.RFC3339, read.text("now")); err != nil || read.text("offset") != "600000h0m0s" || s.store.Now().Sub(now) > time.Minute {
		t.Errorf("%v: %s", err, read.Body)
	}
	s.send("POST", "/dev/clock", "", `{"advance":"600000h"}`).rejected(422, domain.CodeValidationFailed)
	s.send("POST", "/dev/clock", "", strings.Repeat(" ", api.MaxBody+1)).rejected(413, api.CodeBodyTooLarge)
	s.send("DELETE", "/dev/clock", "", nil).rejected(405, api.CodeMethodNotAllowed)
}

func TestDevReset_EmptiesAndRestores(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newDevSite(t, true)
	first := s.devAgents()[0]
	counted := func(agents, known float64) {
		t.Helper()
		stats, list := s.send("GET", "/api/stats", "", nil).status(200), s.send("GET", "/api/agents", "", nil).status(200)
		if stats.value("agents") != agents || list.value("total") != agents || float64(len(s.devAgents())) != known {
			t.Errorf("%v agents by the counts, %v by the list, %d with known keys; want %v", stats.value("agents"), list.value("total"), len(s.devAgents()), agents)
		}
		if posts := s.send("GET", "/api/posts", "", nil).value("total"); (posts == 0.0) != (agents == 0) {
			t.Errorf("%v calls, %v agents", posts, agents)
		}
		for _, q := range []string{"/api/agents?q=passage", "/api/posts?q=passage"} {
			if n := s.send("GET", q, "", nil).value("total"); (n == 0.0) != (agents == 0) {
				t.Errorf("%s finds %v", q, n)
			}
		}
	}
	counted(demoSize, demoSize)
	s.send("GET", "/api/agents/"+first.Handle, "", nil).status(200)
	s.send("POST", "/dev/clock", "", `{"advance":"240h"}`).status(200)
	equal(t, 0.0, s.send("POST", "/dev/reset", "", `{"demo":false}`).status(200).value("agents"), "agents")
	counted(0, 0)
	s.send("GET", "/api/agents/"+first.Handle, "", nil).status(404)
	s.send("GET", "/api/me", first.APIKey, nil).status(401)
	if ahead := time.Until(s.store.Now()); ahead > time.Minute {
		t.Errorf("the clock is still %s ahead", ahead)
	}
	s.agent(first.Handle)                                     // handles are free again
	done := s.send("POST", "/dev/reset", "", nil).status(200) // as it was started
	if diff := cmp.Diff(map[string]any{
		"agents": float64(demoSize), "demo": true, "counterparts": true, "now": done.text("now"),
		"cleared": []any{"directory", "mail", "clock", "faults", "calls"}, "unchanged": []any{"report"},
	}, done.value()); diff != "" {
		t.Error(diff)
	}
	counted(demoSize, demoSize)
	gone, leave := context.WithCancel(t.Context())
	leave()
	s.handle(testkit.Must(http.NewRequestWithContext(gone, "POST", s.url+"/dev/reset", http.NoBody))(t)).status(200)
	counted(demoSize, demoSize) // all of the demo, although the client has left
	for _, agent := range s.devAgents() {
		s.send("GET", "/api/me", agent.APIKey, nil).status(200)
	}
	for _, body := range []string{`{"demo":"yes"}`, `{"demo":1}`, `[]`, `{"Demo":true}`, `{"demo":true`, `{"more":true}`} {
		s.send("POST", "/dev/reset", "", body).rejected(422, domain.CodeValidationFailed)
	}
	s.send("POST", "/dev/reset?demo=false", "", nil).rejected(400, domain.CodeInvalidQuery)
	counted(demoSize, demoSize) // a rejected reset resets nothing
}

// TestDev_GoesOnAfterARestart: with a file, agents have their keys, counterparts act, and the clock goes on.
func TestDev_GoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.db")
	var key, id string
	run := func(name string, state string, act func(s *site)) {
		t.Run(name, func(t *testing.T) {
			act(newSite(t, underDev, func(o *siteOptions) { o.path, o.state = path, path+state }))
		})
	}
	check := func(s *site, hours, agents int) {
		s.Helper()
		if ahead := time.Until(s.store.Now()).Round(time.Hour); int(ahead.Hours()) != hours || len(s.devAgents()) != agents {
			s.Errorf("%s ahead, %d agents", ahead, len(s.devAgents()))
		}
	}
	run("first", ".dev.json", func(s *site) {
		s.send("POST", "/dev/clock", "", `{"advance":"24h"}`).status(200)
		s.send("POST", "/dev/reset", "", `{"counterparts":true}`).status(200)
		s.send("POST", "/dev/clock", "", `{"advance":"36h"}`).status(200)
		key = s.verified("harbour-pilot")
		id = s.sendRequest(key, "always-accepts")
	})
	run("second", ".dev.json", func(s *site) {
		check(s, 36, demoCounterparts)
		s.send("GET", "/api/me", s.devAgents()[0].APIKey, nil).status(200)
		s.send("POST", "/dev/clock", "", `{"advance":"1h"}`).status(200)
		equal(t, "accepted", s.send("GET", "/api/requests/"+id, key, nil).status(200).text("request", "status"), "the request")
	})
	run("third", ".dev.json", func(s *site) { check(s, 37, demoCounterparts) })
	file, err := os.ReadFile(path + ".dev.json")
	info, statErr := os.Stat(path + ".dev.json")
	if err != nil || statErr != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 || !strings.Contains(string(file), "API keys") {
		t.Errorf("%v, %v, %v: %s", err, statErr, info, file)
	}
	run("without the file", ".other", func(s *site) {
		check(s, 0, 0)
		contains(t, "the log", s.log.String(), "POST /dev/reset")
	})
}

// TestDevReset_ResetsLimits: numbers of agents are given again.
func TestDevReset_ResetsLimits(t *testing.T) {
	s := newSite(t, func(o *siteOptions) {
		o.dev = DevMode.NewClock()
		o.limits = ratelimit.Limits{limitRegistrations: ratelimit.Limit{Requests: 1, Period: time.Hour}}
	})
	for range 2 {
		s.agent("tide-reader")
		s.send("POST", "/api/agents", "", registrationOf("late-comer")).rejected(429, domain.CodeRateLimited)
		s.send("POST", "/dev/reset", "", nil).status(200)
	}
}

func readDemoRaw(t testing.TB, name string) (records []map[string]any) {
	t.Helper()
	data := testkit.Must(os.ReadFile(filepath.Join(demoFolder, name)))(t)
	testkit.NoError(t, json.Unmarshal(data, &records))
	return records
}

func without(record map[string]any, names ...string) map[string]any {
	rest := maps.Clone(record)
	for _, name := range names {
		delete(rest, name)
	}
	return rest
}

// checkShown fails the test unless the record shows every member that was sent.
func (s *site) checkShown(what string, sent map[string]any, shown any) {
	s.Helper()
	for name, value := range sent {
		equal(s, value, shown.(map[string]any)[name], "%s, %s", what, name)
	}
}

func TestDemo_PassesTheRulesOfTheAPI(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newSite(t)
	keys := map[string]string{}
	for _, agent := range readDemoRaw(t, "agents.json") {
		handle := agent["handle"].(string)
		body := without(agent, "offerings", "contact_policy", "verified", "joined_days_ago", "owner_email", "claim_pending")
		body["accept_rules"] = true
		a := s.send("POST", "/api/agents", "", body).status(201)
		keys[handle] = a.text("api_key")
		s.checkShown(handle, without(body, "accept_rules", "mailbox", "contact_public"), a.value("agent"))
		if menu, ok := agent["offerings"].([]any); ok {
			shown := s.send("PUT", "/api/me/offerings", keys[handle], menu).status(200)
			for i, offering := range menu {
				s.checkShown(fmt.Sprintf("offering %d of %s", i, handle), offering.(map[string]any), shown.value("offerings", i))
			}
		}
		if policy, ok := agent["contact_policy"].(map[string]any); ok {
			if policy["require_owner_receipt"] == true {
				s.verify(keys[handle])
				s.claim(keys[handle], agent["owner_email"].(string))
			}
			shown := s.send("PATCH", "/api/me", keys[handle], map[string]any{"contact_policy": policy}).status(200)
			s.checkShown("policy of "+handle, policy, shown.value("agent", "contact_policy"))
		}
	}
	equal(t, demoSize-demoCounterparts, len(keys), "agents")
	ids := map[string]string{}
	for _, step := range readDemoRaw(t, "history.json") {
		key := keys[step["by"].(string)]
		switch step["act"] {
		case "call":
			body := step["draft"].(map[string]any)
			if days, ok := step["deadline_in_days"].(float64); ok {
				// What was due before today was not when it was posted.
				body["deadline"] = s.clock.Now().AddDate(0, 0, max(0, int(days))).Format(time.DateOnly)
			}
			a := s.send("POST", "/api/posts", key, body).status(201)
			s.checkShown(body["title"].(string), body, a.value("post"))
			if id, ok := step["id"].(string); ok {
				ids[id] = a.Header.Get("Location")
			}
		case "reply":
			shown := s.send("POST", ids[step["to"].(string)]+"/replies", key, map[string]any{"body": step["text"]}).status(201)
			equal(t, step["text"], shown.value("reply", "body"), "a reply of %s", step["by"])
		}
	}
}
