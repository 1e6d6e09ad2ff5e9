package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func (s *site) fault(fault string) { s.Helper(); s.send("POST", "/dev/faults", "", fault).status(200) }

// statuses sends a request some times and returns the statuses, 0 for a closed connection.
func (s *site) statuses(times int, method, path, key string) (statuses []int) {
	s.Helper()
	for range times {
		r := testkit.Must(http.NewRequest(method, s.url+path, nil))(s)
		r.Header.Set("Authorization", "Bearer "+key)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.Error(err)
			}
			statuses = append(statuses, 0)
			continue
		}
		response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}
	return statuses
}

func TestDevFaults_FailTheNextRequests(t *testing.T) {
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	s.fault(`{"operation":"getMe","status":429}`)
	limited := s.send("GET", "/api/me", key, nil).rejected(429, domain.CodeRateLimited)
	if limited.Header.Get("Retry-After") != "1" || !strings.Contains(limited.text("error", "message_en"), "120 requests") || limited.text("error", "retry_at") == "" {
		t.Errorf("Retry-After %q: %s", limited.Header.Get("Retry-After"), limited.Body)
	}
	s.fault(`{"status":503}`)
	equal(t, "10", s.send("GET", "/api/me", key, nil).rejected(503, domain.CodeUnavailable).Header.Get("Retry-After"), "Retry-After")
	for _, status := range []int{401, 403, 404, 500} {
		s.fault(fmt.Sprintf(`{"status":%d}`, status))
		if got := s.statuses(1, "GET", "/api/me", key); got[0] != status {
			t.Errorf("status %d, not %d", got[0], status)
		}
	}
	s.fault(`{"operation":"getMe","status":503,"times":2}`)
	s.fault(`{"operation":"getMe","drop":"before"}`)
	if got := s.statuses(5, "GET", "/api/me", key); !slices.Equal(got, []int{503, 503, 0, 200, 200}) {
		t.Errorf("statuses %v", got)
	}
	if got := s.statuses(1, "GET", "/api/agents", ""); got[0] != 200 {
		t.Errorf("another operation: %v", got)
	}
	s.fault(`{"operation":"getMe","delay_ms":1}`)
	equal(t, "tide-reader", s.send("GET", "/api/me", key, nil).status(200).text("agent", "handle"), "the response with a delay")
	s.fault(`{"status":500}`)
	s.send("DELETE", "/dev/faults", "", nil).status(200)
	equal(t, 0, s.send("GET", "/dev/faults", "", nil).status(200).len("faults"), "faults")
}

func TestDevFaults_DropLosesTheResponse(t *testing.T) {
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	for posts, drop := range []string{"before", "after"} {
		s.fault(`{"operation":"createPost","drop":"` + drop + `"}`)
		r := testkit.Must(http.NewRequest("POST", s.url+"/api/posts", strings.NewReader(`{"kind":"announce","title":"Tides","body":"Of today."}`)))(t)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		if response, err := s.client.Do(r); err == nil {
			t.Errorf("%s: status %d", drop, response.StatusCode)
		}
		equal(t, posts, s.send("GET", "/api/posts", "", nil).status(200).len("posts"), "posts after drop %s", drop)
	}
}

func TestDevFaults_RepeatBySeed(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	untilUsedUp := func() (all []int) {
		s.fault(`{"operation":"getMe","rate":0.5,"status":503,"times":5,"seed":7}`)
		for failed := 0; failed < 5 && len(all) < 100; {
			all = append(all, s.statuses(1, "GET", "/api/me", key)...)
			if all[len(all)-1] == 503 {
				failed++
			}
		}
		return all
	}
	equal(t, untilUsedUp(), untilUsedUp(), "the next fault with the same seed goes on with the sequence")
	sequence := func(fault string, among func(i int)) (all []int) {
		s.fault(fault)
		for i := range 40 {
			among(i)
			all = append(all, s.statuses(1, "GET", "/api/me", key)...)
		}
		s.send("POST", "/dev/reset", "", nil).status(200)
		key = s.agent("tide-reader")
		return all
	}
	others := func(i int) {
		if i%3 == 0 {
			s.statuses(1, "GET", "/api/stats", "")
		}
	}
	for _, operation := range []string{`"operation":"getMe",`, ""} {
		const seven, eight = `"rate":0.5,"status":503,"times":1000,"seed":7}`, `"rate":0.5,"status":503,"times":1000,"seed":8}`
		alone := sequence("{"+operation+seven, func(int) {})
		if n := len(slices.DeleteFunc(slices.Clone(alone), func(status int) bool { return status == 503 })); n < 8 || n > 32 {
			t.Errorf("%d of 40 requests pass at a rate of one half", n)
		}
		equal(t, alone, sequence("{"+operation+seven, others), "requests to another operation shift the sequence of %q", operation)
		if slices.Equal(alone, sequence("{"+operation+eight, func(int) {})) {
			t.Errorf("another seed produces the same sequence of %q", operation)
		}
	}
}

// TestDev_NamesUnknownMembers of the bodies of all endpoints.
func TestDev_NamesUnknownMembers(t *testing.T) {
	s := newDevSite(t, false)
	for body, path := range map[string]string{`{"advance":"1h","to":"x"}`: "clock", `{"Advance":"1h"}`: "clock", `{"counterpart":true}`: "reset", `{"status":429,"time":3}`: "faults"} {
		if got := s.send("POST", "/dev/"+path, "", body).rejected(422, domain.CodeValidationFailed).details(); len(got) != 1 || !strings.HasSuffix(got[0], " unknown_field") {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func TestDevFaults_RejectsInvalid(t *testing.T) {
	s := newDevSite(t, false)
	for fault, fields := range map[string][]string{
		`{}`: {"fault"}, `[]`: {"fault"}, `{"status":429,"drop":"after"}`: {"fault"}, `{"status":418}`: {"status"}, `{"status":"429"}`: {"status"},
		`{"delay_ms":0}`: {"fault"}, `{"delay_ms":-1}`: {"delay_ms"}, `{"delay_ms":60001}`: {"delay_ms"}, `{"drop":"never"}`: {"drop"}, `{"status":429,"rate":0}`: {"rate"},
		`{"status":429,"rate":1.1,"times":0}`: {"rate", "times"}, `{"status":429,"times":1001}`: {"times"}, `{"status":429,"seed":-1}`: {"seed"},
		`{"status":429,"operation":"getYou"}`: {"operation"}, `{"status":429,"chance":1}`: {"chance"},
	} {
		var got []string
		for _, d := range s.send("POST", "/dev/faults", "", fault).rejected(422, domain.CodeValidationFailed).details() {
			field, _, _ := strings.Cut(d, " ")
			got = append(got, field)
		}
		equal(t, fields, got, "%s: fields", fault)
	}
}

func TestDevJournal_ListsRequests(t *testing.T) {
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	s.send("POST", "/api/posts", key, `{"kind":"announce","title":""}`).status(422)
	s.send("GET", "/api/me", "cq_wrong", nil).status(401)
	s.send("GET", "/api/agents/"+key, "", nil).status(404)
	s.send("GET", "/owner/secret-token", "", nil, "Accept: text/html")
	s.fault(`{"operation":"getMe","drop":"after"}`)
	s.fault(`{"operation":"getMe","status":500}`)
	s.fault(`{"operation":"getMe","drop":"before"}`)
	s.statuses(4, "GET", "/api/me", key)
	s.statuses(1, "GET", "/api/stats?key="+key, "")
	list := s.send("GET", "/dev/calls", "", nil).status(200)
	var calls struct {
		Calls []struct {
			Method, Path, Operation, Handle string
			Status                          int
			Error                           struct {
				Code    string
				Details []struct{ Field string }
			}
		}
	}
	list.into(&calls)
	var got []string
	for _, c := range calls.Calls {
		line := fmt.Sprintf("%s %s|%s|%s|%d|%s", c.Method, c.Path, c.Operation, c.Handle, c.Status, c.Error.Code)
		for _, d := range c.Error.Details {
			line += " " + d.Field
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"GET /api/stats|getStats||400|invalid_query key", "GET /api/me|getMe|tide-reader|200|", "GET /api/me|getMe|tide-reader|0|", "GET /api/me|getMe|tide-reader|500|internal", "GET /api/me|getMe|tide-reader|200|", "GET …||…", "GET /api/agents/…|getAgent||404|not_found",
		"GET /api/me|getMe||401|unauthorized", "POST /api/posts|createPost|tide-reader|422|validation_failed body title", "POST /api/agents|registerAgent||201|",
	}, got, cmp.FilterValues(func(a, b string) bool { return strings.HasPrefix(a+b, "GET …") }, cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b[:6]) || strings.HasPrefix(b, a[:6]) }))); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(list.Body), key) || strings.Contains(string(list.Body), "secret-token") {
		t.Errorf("a secret in the journal: %s", list.Body)
	}
	for query, n := range map[string]int{"?handle=tide-reader": 5, "?handle=@Tide-Reader": 5, "?operation=getMe": 5, "?status=401": 1, "?status=0": 1, "?operation=getMe&handle=tide-reader&status=200": 2, "?handle=nobody": 0} {
		equal(t, n, s.send("GET", "/dev/calls"+query, "", nil).status(200).len("calls"), "requests in the journal with %s", query)
	}
	if log := s.log.String(); strings.Count(log, `"message":"a fault was injected"`) != 3 || strings.Contains(log, `"level":"error"`) {
		t.Errorf("the log: %s", log)
	}
	report := s.send("GET", "/dev/report", "", nil).status(200)
	var reports struct {
		Operations []struct {
			Operation string
			Calls     int
			Errors    map[string]int
		}
		Never []string `json:"never_called"`
	}
	report.into(&reports)
	for _, r := range reports.Operations {
		if r.Operation == "getMe" && (r.Calls != 5 || r.Errors["dropped"] != 2 || r.Errors["unauthorized"] != 1) {
			t.Errorf("%+v", r)
		}
	}
	if len(reports.Operations) != 5 || len(reports.Never) != len(s.server.engine.Operations)-5 || slices.Contains(reports.Never, "getMe") {
		t.Errorf("%s", report.Body)
	}
	s.send("POST", "/dev/reset", "", nil).status(200)
	equal(t, 0, s.send("GET", "/dev/calls", "", nil).status(200).len("calls"), "requests after a reset")
	equal(t, 5, s.send("GET", "/dev/report", "", nil).status(200).len("operations"), "operations in the report after a reset")
}

// TestDevJournal_MarksRejectedHostsAndReplays: a request for another host is listed, and spends no fault.
func TestDevJournal_MarksRejectedHostsAndReplays(t *testing.T) {
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	for range 2 {
		s.send("POST", "/api/posts", key, `{"kind":"announce","title":"Tides","body":"Levels."}`, onceKey).status(201)
	}
	s.fault(`{"operation":"getStats","status":503}`)
	for _, path := range []string{"/api/stats", "/dev/agents"} {
		r, err := http.NewRequest("GET", s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example.org"
		a, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
	}
	s.statuses(1, "GET", "/api/stats", "")
	list, got := s.send("GET", "/dev/calls", "", nil).status(200), []string{}
	for i := range list.len("calls") {
		call := list.value("calls", i).(map[string]any)
		code, _ := call["error"].(map[string]any)
		got = append(got, fmt.Sprint(call["path"], " ", call["operation"], " ", call["status"], " ", code["code"], " ", call["replayed"]))
	}
	if diff := cmp.Diff([]string{
		"/api/stats getStats 503 unavailable <nil>", "/dev/agents <nil> 403 forbidden <nil>", "/api/stats getStats 403 forbidden <nil>",
		"/api/posts createPost 201 <nil> true", "/api/posts createPost 201 <nil> <nil>", "/api/agents registerAgent 201 <nil> <nil>",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDevJournal_IsBounded(t *testing.T) {
	s := newDevSite(t, false)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range 280 {
				path := "/api/agents/%ff" + strings.Repeat("é", 120) // an error, and no UTF-8 at the end of what the journal has of it
				if i%20 == 19 {
					path = "/dev/report" // while others add to it
				}
				response, err := s.client.Get(s.url + path)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	clients.Wait()
	equal(t, 1000, s.send("GET", "/dev/calls", "", nil).status(200).len("calls"), "requests in the journal")
	equal(t, 1064.0, s.send("GET", "/dev/report", "", nil).status(200).value("operations", 0, "calls"), "requests in the report")
}

func TestDevCounterparts_Act(t *testing.T) {
	s := newDevSite(t, false)
	if n := s.send("POST", "/dev/reset", "", `{"counterparts":true}`).status(200).value("agents"); n != 6.0 {
		t.Fatalf("%v counterparts", n)
	}
	key := s.verified("harbour-pilot")
	s.replaceMenu(key)
	ids := map[string]string{}
	for _, agent := range s.devAgents() {
		ids[agent.Handle] = s.sendRequest(key, agent.Handle)
	}
	collab := s.collab(key, "confirms-all")
	s.collab(key, "never-answers")
	state := func(handle string) string {
		request := s.send("GET", "/api/requests/"+ids[handle], key, nil).status(200)
		reason, _ := request.value("request", "decline_reason").(string)
		return strings.TrimSpace(request.text("request", "status") + " " + reason)
	}
	s.send("POST", "/dev/clock", "", `{"advance":"59s"}`).status(200)
	for handle := range ids {
		equal(t, "pending", state(handle), "%s before its time", handle)
	}
	s.send("POST", "/dev/clock", "", `{"advance":"31d"}`).status(200)
	for handle, want := range map[string]string{
		"always-accepts": "accepted", "declines-busy": "declined busy", "asks-more": "declined need_more_info", "never-answers": "expired",
		"confirms-all": "accepted", "tries-injection": "declined other",
	} {
		equal(t, want, state(handle), "%s", handle)
	}
	orders := s.send("GET", "/api/me/requests", key, nil).status(200)
	if orders.len("requests") != 1 || orders.text("requests", 0, "from", "handle") != "tries-injection" {
		t.Errorf("received: %s", orders.Body)
	}
	confirmed := s.send("GET", "/api/me/collabs?status=confirmed", key, nil).status(200)
	if confirmed.len("collabs") != 1 || confirmed.text("collabs", 0, "id") != collab {
		t.Errorf("confirmed: %s", confirmed.Body)
	}
	s.send("POST", "/dev/reset", "", `{"counterparts":"yes"}`).rejected(422, domain.CodeValidationFailed)
}
