package server

import (
	"bytes"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"callbook/server/messages"
	"callbook/store/domain"
)

const crowdSize = 40

func (s *site) atOnce(n int, send func(i int) *result) []*result {
	s.Helper()
	responses := make([]*result, n)
	together(n, func(i int) { responses[i] = send(i) })
	if slices.Contains(responses, nil) {
		s.FailNow()
	}
	return responses
}

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
	equal(s, want, statuses(responses), "%s", what)
}

func rows(t testing.TB, path, table string) (n int) {
	t.Helper()
	db := must(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	defer db.Close()
	noError(t, db.QueryRow(`SELECT COUNT(*) FROM `+table).Scan(&n))
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
		equal(t, 1, first, "%s: responses that are not marked as replayed", path)
		// The next one is rejected: a replay comes before the rules.
		s.send("POST", path, tt.key, tt.body, onceKey).status(201)
		s.send("POST", path, tt.key, tt.body, "Idempotency-Key: fedcba9876543210").rejected(messages.Catalogue.Status(tt.then), tt.then)
	}
	a := s.send("GET", thread, "", nil)
	if n := s.send("GET", "/api/posts", "", nil).value("total"); n != 2.0 || a.value("post", "reply_count") != 2.0 {
		t.Errorf("%v calls, %v replies", n, a.value("post", "reply_count"))
	}
	for _, path := range []string{"/api/me/requests?box=out", "/api/me/collabs"} {
		equal(t, 1.0, s.send("GET", path, sender, nil).value("total"), "%s", path)
	}
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
			equal(t, tt.want, got, "%s %v", path, headers)
		}
	}
}
