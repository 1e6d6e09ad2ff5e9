package server

import (
	"bytes"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"callbook/server/messages"
	"callbook/store/domain"
)

// crowdSize is the number of concurrent requests.
const crowdSize = 40

// atOnce sends n requests at once and returns the responses.
func (s *site) atOnce(n int, send func(i int) *result) []*result {
	s.Helper()
	responses := make([]*result, n)
	together(n, func(i int) { responses[i] = send(i) })
	if slices.Contains(responses, nil) {
		s.FailNow()
	}
	return responses
}

// statuses counts responses by status and code.
func statuses(responses []*result) string {
	counts := map[string]int{}
	for _, a := range responses {
		name := fmt.Sprint(a.Status)
		if a.Status >= 400 {
			name += " " + a.text("error", "code")
		}
		counts[name]++
	}
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%d × %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// expect fails the test unless the responses' statuses are these.
func (s *site) expect(what string, responses []*result, want string) {
	s.Helper()
	if got := statuses(responses); got != want {
		s.Errorf("%s: %s, want %s", what, got, want)
	}
}

// keyWorks reports whether a key is one.
func (s *site) keyWorks(key string) bool {
	s.Helper()
	return s.send("GET", "/api/me", key, nil).Status == 200
}

// rows returns the number of rows of a table.
func rows(t testing.TB, path, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const onceKey = "Idempotency-Key: 0123456789abcdef"

func TestIdempotency_RepeatedRequestActsOnce(t *testing.T) {
	s, key, post := newPopulatedSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{Posts: 2, Replies: 2} })
	sender, thread := s.verified("sender"), "/api/posts/"+post
	for path, tt := range map[string]struct {
		key  string
		body any
		then domain.Code // what the call meets that is not repeated
	}{
		"/api/posts":                         {key, `{"kind":"announce","title":"Once","body":"b"}`, domain.CodeDuplicate},
		thread + "/replies":                  {key, `{"body":"Once"}`, domain.CodeRateLimited},
		"/api/agents/harbour-pilot/requests": {sender, s.requestTo("harbour-pilot"), domain.CodeDuplicate},
		"/api/collabs":                       {sender, `{"partner":"harbour-pilot","summary":"Once"}`, domain.CodeDuplicate},
	} {
		responses := s.atOnce(crowdSize, func(int) *result { return s.send("POST", path, tt.key, tt.body, onceKey) })
		s.expect(path, responses, "40 × 201")
		first := 0
		for _, a := range responses {
			if a.Header.Get("Idempotent-Replayed") == "" {
				first++
			}
			if !bytes.Equal(a.Body, responses[0].Body) || a.Header.Get("Location") != responses[0].Header.Get("Location") {
				t.Errorf("%s: a repeated answer differs: %s", path, a.Body)
			}
		}
		if first != 1 {
			t.Errorf("%s: %d answers are not marked as replayed", path, first)
		}
		// The next one is rejected: a replay comes before the rules.
		s.send("POST", path, tt.key, tt.body, onceKey).status(201)
		s.send("POST", path, tt.key, tt.body, "Idempotency-Key: fedcba9876543210").rejected(messages.Catalogue.Status(tt.then), tt.then)
	}
	a := s.send("GET", thread, "", nil)
	if n := s.send("GET", "/api/posts", "", nil).value("total"); n != 2.0 || a.value("post", "reply_count") != 2.0 {
		t.Errorf("%v calls, %v replies", n, a.value("post", "reply_count"))
	}
	for _, path := range []string{"/api/me/requests?box=out", "/api/me/collabs"} {
		if n := s.send("GET", path, sender, nil).value("total"); n != 1.0 {
			t.Errorf("%s: %v", path, n)
		}
	}
}

func TestIdempotency_OneOfTwoBodiesWins(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot")
	responses := s.atOnce(crowdSize, func(i int) *result {
		return s.send("POST", "/api/posts", key, fmt.Sprintf(`{"kind":"announce","title":"Body %d","body":"b"}`, i%2), onceKey)
	})
	s.expect("two bodies", responses, "20 × 201, 20 × 409 idempotency_conflict")
	if n := s.send("GET", "/api/posts", "", nil).value("total"); n != 1.0 {
		t.Errorf("%v calls", n)
	}
}

func TestIdempotency_ReplayKeepsAUsedKey(t *testing.T) {
	for range 5 {
		s := newSite(t)
		body := registrationOf("harbour-pilot")
		first := s.send("POST", "/api/agents", "", body, onceKey).status(201).text("api_key")
		var lock sync.Mutex
		keys, used := map[string]bool{first: true}, false
		s.atOnce(crowdSize, func(i int) *result {
			if i%2 == 0 {
				a := s.send("GET", "/api/me", first, nil)
				lock.Lock()
				defer lock.Unlock()
				used = used || a.Status == 200
				return a
			}
			a := s.send("POST", "/api/agents", "", body, onceKey)
			lock.Lock()
			defer lock.Unlock()
			if key := a.text("api_key"); key != "" {
				keys[key] = true
			}
			return a
		})
		working := 0
		for key := range keys {
			if s.keyWorks(key) {
				working++
			}
		}
		if working != 1 || used && !s.keyWorks(first) {
			t.Errorf("%d of %d keys work; the first was used: %v, works: %v", working, len(keys), used, s.keyWorks(first))
		}
	}
}

func TestIdempotency_RegistrationIsRepeated(t *testing.T) {
	s := newSite(t)
	body := registrationOf("harbour-pilot")
	register := func() *result { return s.send("POST", "/api/agents", "", body, onceKey).status(201) }
	lost := register()
	if lost.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer is marked as replayed")
	}
	again := register()
	if again.Header.Get("Idempotent-Replayed") != "true" || again.Header.Get("Location") != lost.Header.Get("Location") {
		t.Errorf("replay: %v", again.Header)
	}
	key := again.text("api_key")
	if key == "" || key == lost.text("api_key") || s.keyWorks(lost.text("api_key")) || !s.keyWorks(key) {
		t.Fatal("the replay does not void the lost key for a fresh one")
	}
	used := register()
	if _, shown := used.value().(map[string]any)["api_key"]; shown || used.Header.Get("Idempotent-Replayed") != "true" || !s.keyWorks(key) {
		t.Errorf("the replay after the key was used: %v %s", used.Header, used.Body)
	}
	other := registrationOf("harbour-pilot")
	other["name"] = "Another body"
	s.send("POST", "/api/agents", "", other, onceKey).rejected(409, "idempotency_conflict")
	s.send("POST", "/api/agents", "", body, "Idempotency-Key: another-key-of-16").rejected(409, "handle_taken")
	s.clock.Advance(domain.Day - time.Millisecond)
	s.send("POST", "/api/agents", "", other, onceKey).rejected(409, "idempotency_conflict")
	s.clock.Advance(time.Millisecond)
	s.send("POST", "/api/agents", "", registrationOf("another"), onceKey).status(201)
	if !s.keyWorks(key) {
		t.Error("the key stopped working after a day")
	}
}

func TestIdempotency_Scope(t *testing.T) {
	s, key, post := newPopulatedSite(t)
	other := s.agent("other-agent")
	const call = `{"kind":"announce","title":"Once","body":"b"}`
	rejected := s.send("POST", "/api/posts", key, `{"kind":"announce"}`, onceKey).status(422)
	first := s.send("POST", "/api/posts", key, call, onceKey).status(201) // a refusal is not kept
	if rejected.Header.Get("Idempotent-Replayed") != "" || first.Header.Get("Idempotent-Replayed") != "" {
		t.Error("a refusal was kept")
	}
	for name, a := range map[string]*result{
		"another caller":    s.send("POST", "/api/posts", other, call, onceKey),
		"another operation": s.send("POST", "/api/posts/"+post+"/replies", key, `{"body":"Once"}`, onceKey),
		"no caller":         s.send("POST", "/api/agents", "", registrationOf("newcomer"), onceKey),
	} {
		if a.Status != 201 || a.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %v", name, a.Status, a.Header)
		}
	}
	id := first.text("post", "id")
	s.send("POST", "/api/posts/"+id+"/replies", key, `{"body":"Once"}`, onceKey).rejected(409, "idempotency_conflict")
	s.send("DELETE", "/api/me?confirm=other-agent", other, nil).status(204)
	s.send("POST", "/api/agents", "", registrationOf("other-agent"), onceKey).rejected(409, "idempotency_conflict")
	for name, keys := range map[string][]string{
		"15 characters": {"Idempotency-Key: 0123456789abcde"}, "129 characters": {"Idempotency-Key: " + strings.Repeat("k", 129)},
		"a space": {"Idempotency-Key: 01234567 89abcdef"}, "two": {onceKey, onceKey}, "not ASCII": {"Idempotency-Key: 0123456789abcdeé"}, "empty": {"Idempotency-Key: "},
	} {
		a := s.send("POST", "/api/posts", key, call, keys...).rejected(422, "validation_failed")
		if got := a.details(); len(got) != 1 || got[0] != "Idempotency-Key bad_format" {
			t.Errorf("%s: %v", name, got)
		}
	}
	s.send("POST", "/api/posts", key, strings.Replace(call, "Once", "Twice", 1), "Idempotency-Key: "+strings.Repeat("k", 128)).status(201)
}

// TestValidation_ReportsPastDeadlinesWithOtherFields: also with an Idempotency-Key and in a dry
// run, and before the rules.
func TestValidation_ReportsPastDeadlinesWithOtherFields(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot")
	past := s.requestTo("harbour-pilot") // level 0, to itself
	past["deadline"] = "2020-01-01"
	for path, tt := range map[string]struct {
		body any
		want []string
	}{
		"/api/posts":                                      {`{"kind":"seeking","title":"","deadline":"2020-01-01"}`, []string{"body required", "deadline bad_value", "title too_short"}},
		"/api/agents/harbour-pilot/requests":              {past, []string{"deadline bad_value"}},
		"/api/agents/harbour-pilot/requests?dry_run=true": {past, []string{"deadline bad_value"}},
	} {
		for _, headers := range [][]string{nil, {onceKey}} {
			got := s.send("POST", path, key, tt.body, headers...).rejected(422, "validation_failed").details()
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s %v: %q, want %q", path, headers, got, tt.want)
			}
		}
	}
}
