package server

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

const crowdSize = 40

func (s *site) atOnce(n int, send func(i int) *result) []*result {
	s.Helper()
	responses := make([]*result, n)
	testkit.Together(n, func(i int) error {
		responses[i] = send(i)
		return nil
	})
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
	db := testkit.Must(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	defer db.Close()
	testkit.NoError(t, db.QueryRow(`SELECT COUNT(*) FROM `+table).Scan(&n))
	return n
}

const onceKey = "Idempotency-Key: a key with spaces in it"

func TestIdempotency_RepeatedRequestActsOnce(t *testing.T) {
	s, key, post := newPopulatedSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{domain.LimitPosts: 2, domain.LimitReplies: 2} })
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
		s.send("POST", path, tt.key, tt.body, "Idempotency-Key: fedcba9876543210").rejected(api.ErrorMessages[tt.then].Status, tt.then)
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

const contenders = 100

type contest struct{ *site }

func newContest(t testing.TB, options ...func(*siteOptions)) *contest {
	t.Helper()
	s := newSite(t, options...)
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = contenders
	return &contest{s}
}

func (c *contest) stored(want int, query string, args ...any) {
	c.Helper()
	var n int
	if err := c.database.Get(&n, query, args...); err != nil {
		c.Fatalf("%s: %v", query, err)
	}
	equal(c, want, n, "%s", query)
}

type party struct {
	domain.Caller
	key string
}

func (c *contest) party(handle string) party {
	c.Helper()
	key := c.verified(handle)
	return party{c.caller(key), key}
}

// The maximum weekly_cap of a contact policy, and what of it senders of level 1 may use.
const (
	maxWeeklyCap = 50
	mostWeekly   = 40
)

// host returns an agent that takes requests without an offering.
func (c *contest) host(handle string) party {
	c.Helper()
	p := c.party(handle)
	c.send("PATCH", "/api/me", p.key, fmt.Sprintf(`{"contact_policy":{"require_offering":false,"weekly_cap":%d}}`, maxWeeklyCap)).status(200)
	return p
}

// outcomeOf is the result of a request as a party sees it.
type outcomeOf struct {
	Status    string
	Mailboxes any
	Decided   string
}

func (c *contest) outcome(by party, id string) outcomeOf {
	c.Helper()
	a := c.send("GET", "/api/requests/"+id, by.key, nil).status(200)
	return outcomeOf{a.text("request", "status"), a.value("request", "mailboxes"), a.text("request", "decided_at")}
}

// TestContactRequest_ConcurrentAcceptDeclineWithdraw: one of them happens. Its repetitions response
// the same, the others are rejected, and both sides see the same.
func TestContactRequest_ConcurrentAcceptDeclineWithdraw(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	var host party
	won := map[string]int{}
	acts := []string{"accept", "decline", "withdraw"}
	states := map[string]string{"accept": "accepted", "decline": "declined", "withdraw": "withdrawn"}
	races := proof.Rounds(8, 100, 2000)
	proof.Figure(t, "act rounds", races)
	for round := range races {
		if round%mostWeekly == 0 {
			host = c.host(fmt.Sprintf("host-%d", round))
		}
		sender := c.party(fmt.Sprintf("sender-%d", round))
		id := c.requestWithoutOffering(sender.key, host.Handle)
		responses := c.atOnce(contenders, func(i int) *result {
			act := acts[i%len(acts)]
			return c.actOnRequest(act, id, map[bool]party{true: sender, false: host}[act == "withdraw"].key)
		})
		end := c.outcome(host, id)
		won[end.Status]++
		if other := c.outcome(sender, id); !cmp.Equal(end, other) {
			t.Errorf("the recipient sees %v, the sender %v", end, other)
		}
		for i, a := range responses {
			if states[acts[i%len(acts)]] != end.Status {
				a.rejected(409, domain.CodeInvalidState)
			} else if got := a.status(200).text("request", "status"); got != end.Status {
				t.Errorf("%s answers %s, not %s", acts[i%len(acts)], got, end.Status)
			}
		}
		c.exchanged(id, end, sender, host)
	}
	t.Logf("%d rounds of %d: %v", races, contenders, won)
}

// exchanged fails the test unless mailboxes are shared and stored exactly if the request is
// accepted, and one event reports the result.
func (c *contest) exchanged(id string, end outcomeOf, from, to party) {
	c.Helper()
	var want any
	kept := 0
	if end.Status == "accepted" {
		want, kept = map[string]any{"from": from.Handle + "@example.org", "to": to.Handle + "@example.org"}, 1
	}
	if diff := cmp.Diff(want, end.Mailboxes); diff != "" || end.Decided == "" {
		c.Errorf("%s at %q, mailboxes (-want +got):\n%s", end.Status, end.Decided, diff)
	}
	c.stored(kept, `SELECT COUNT(*) FROM requests WHERE id = ? AND from_mailbox IS NOT NULL AND to_mailbox IS NOT NULL`, id)
	c.stored(1-kept, `SELECT COUNT(*) FROM requests WHERE id = ? AND from_mailbox IS NULL AND to_mailbox IS NULL`, id)
	c.stored(1, `SELECT COUNT(*) FROM events WHERE subject LIKE ? AND type <> 'request.received'`, "%"+id+"%")
	c.stored(1, `SELECT COUNT(*) FROM events WHERE subject LIKE ? AND type = ?`, "%"+id+"%", "request."+end.Status)
}

// TestContactRequest_ConcurrentDeletionAndAccept: in either order, no mailbox of the deleted
// party remains, and the other party sees a final status.
func TestContactRequest_ConcurrentDeletionAndAccept(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	races, ends := proof.Rounds(6, 70, 1400), map[string]int{}
	proof.Figure(t, "act rounds", races)
	for round := range races {
		host, sender := c.host(fmt.Sprintf("host-%d", round)), c.party(fmt.Sprintf("sender-%d", round))
		id := c.requestWithoutOffering(sender.key, host.Handle)
		gone, left, instead := host, sender, "declined"
		if round%2 == 0 {
			gone, left, instead = sender, host, "withdrawn"
		}
		responses := c.atOnce(contenders, func(i int) *result {
			if i%2 == 0 {
				return c.send("DELETE", "/api/me?confirm="+gone.Handle, gone.key, nil)
			}
			return c.actOnRequest("accept", id, host.key)
		})
		end := c.outcome(left, id)
		ends[end.Status]++
		deleted, accepted := 0, 0
		for i, a := range responses {
			switch {
			case i%2 == 0 && a.Status == 204:
				deleted++
			case i%2 == 1 && a.Status == 200:
				accepted++
			case a.Status == 401 && (i%2 == 0 || gone == host), a.Status == 409 && i%2 == 1 && gone == sender:
			default:
				t.Errorf("call %d answers %d: %s", i, a.Status, a.Body)
			}
		}
		equal(t, 1, deleted, "deletions")
		if end.Status != "accepted" && end.Status != instead || (end.Status == "accepted") != (accepted > 0) {
			t.Errorf("%d were told that it is accepted, and it is %s", accepted, end.Status)
		}
		c.stored(0, `SELECT COUNT(*) FROM requests WHERE id = ? AND status IN ('pending', 'awaiting_owner')`, id)
		c.stored(0, `SELECT COUNT(*) FROM requests WHERE from_mailbox = ?1 OR to_mailbox = ?1`, gone.Handle+"@example.org")
	}
	t.Logf("%d rounds of %d: %v", races, contenders, ends)
}
