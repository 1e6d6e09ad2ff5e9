package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// The rules of contact requests are in the model.

// requestActs are the acts on a request that are calls of an agent.
func (s *testStore) requestActs() map[string]func(c domain.Caller, id string) (domain.ContactRequest, error) {
	ctx := context.Background()
	return map[string]func(domain.Caller, string) (domain.ContactRequest, error){
		"accepts": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.ActOnRequest(ctx, c, id, domain.ActAccept, "")
		},
		"declines": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.ActOnRequest(ctx, c, id, domain.ActDecline, "")
		},
		"withdraws": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.ActOnRequest(ctx, c, id, domain.ActWithdraw, "")
		},
		"reports": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.ActOnRequest(ctx, c, id, domain.ActReport, "")
		},
	}
}

// requestScene is one request and all who may touch it.
type requestScene struct {
	*testStore
	sender, pilot, stranger domain.Caller
	token                   string // of the page of the pilot's owner
	id                      string
}

// newRequestScene sends a request from a new agent to another one, which has an owner.
func (s *testStore) newRequestScene() *requestScene {
	s.Helper()
	var n int
	db := s.connection("ro")
	s.ok(errors.Join(db.Get(&n, `SELECT COUNT(*) FROM handles`), db.Close()))
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, n) }
	p := &requestScene{testStore: s, sender: s.reachable(name("asker")), pilot: s.reachable(name("pilot")), stranger: s.reachable(name("stranger"))}
	p.token = s.claimBy(p.pilot, name("owner")+"@people.example.org")
	p.id = s.sendRequest(p.sender, p.pilot).ID
	return p
}

// do does what such as "asker withdraws" says, and returns how that ends.
func (p *requestScene) do(what string) string {
	who, act, _ := strings.Cut(what, " ")
	_, err := p.requestActs()[act](map[string]domain.Caller{"asker": p.sender, "pilot": p.pilot}[who], p.id)
	return outcome(err)
}

// requestIDs are the ids of the requests in a box.
func (s *testStore) requestIDs(c domain.Caller, f RequestFilter) (ids []string) {
	s.Helper()
	found, err := s.Requests(context.Background(), c, f, listing.Page{Limit: 100})
	s.ok(err)
	for _, r := range found.Items {
		ids = append(ids, r.ID)
	}
	if found.Total != len(ids) || !found.TotalIsExact {
		s.Errorf("%d requests, total %d", len(ids), found.Total)
	}
	return ids
}

// TestTryRequest_StoresNothing holds a dry run against the real request, which the model does for the other rules.
func TestTryRequest_StoresNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *testStore, asker, pilot domain.Caller, d *domain.ContactRequestDraft)
		want   string
	}{
		"admitted": {func(*testStore, domain.Caller, domain.Caller, *domain.ContactRequestDraft) {}, ""},
		"no offering": {func(s *testStore, _, pilot domain.Caller, _ *domain.ContactRequestDraft) {
			s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOffering = true })
		}, "validation_failed [{offering_id required offering}]"},
		"unknown offering": {func(_ *testStore, _, _ domain.Caller, d *domain.ContactRequestDraft) { d.OfferingID = "off_unknown" },
			"validation_failed [{offering_id unknown_id theirs}]"},
		"a deadline that has passed": {func(_ *testStore, _, _ domain.Caller, d *domain.ContactRequestDraft) { d.Deadline = "2026-11-18" },
			"validation_failed [{deadline bad_value deadline}]"},
		"after one that expired": {func(s *testStore, asker, pilot domain.Caller, _ *domain.ContactRequestDraft) {
			s.sendRequest(asker, pilot)
			s.clock.Advance(domain.RequestAge)
		}, ""},
	} {
		s := newStore(t)
		asker, pilot := s.reachable("asker"), s.reachable("harbour-pilot")
		draft, changes := plainDraft, 0
		tt.change(s, asker, pilot, &draft)
		s.OnCommit(func(Changes) { changes++ })
		before := s.dump()
		if got := errorLine(s.TryRequest(context.Background(), asker, pilot.Handle, draft), s.clock.Now()); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if s.wantUnchanged("the dry run: "+name, before); changes != 0 {
			t.Errorf("%s: the dry run wakes those who watch", name)
		}
		_, _, err := s.SendRequest(context.Background(), asker, pilot.Handle, draft, domain.IdempotencyKey{})
		if got := errorLine(err, s.clock.Now()); got != tt.want {
			t.Errorf("%s: %q for real, want %q", name, got, tt.want)
		}
	}
}

func TestSendRequest_ConcurrentRequestsKeepLimits(t *testing.T) {
	t.Parallel()
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitFirstWeekRequests: 2, domain.LimitRequests: 5}))
	many := s.reachableAgents("many", rush)
	for i, c := range many {
		s.claim(c, byte(i))
	}
	unlimited := func() { s.execSQL(`DELETE FROM usage`) }
	rounds := proof.Rounds(6, 200, 4000)
	proof.Figure(t, "limit rounds", 2*rounds)
	proof.Figure(t, "act rounds", rounds)
	for round := range rounds {
		unlimited()
		pilot := s.reachable(fmt.Sprintf("pilot-%d", round))
		wantOutcomes(t, "to one recipient", testkit.Together(rush, func(i int) error { return s.requestError(many[i], pilot) }),
			map[string]int{"": 10, "weekly_cap_reached": rush - 10})
		unlimited()
		asker := s.reachable(fmt.Sprintf("asker-%d", round))
		wantOutcomes(t, "from one sender", testkit.Together(rush, func(i int) error { return s.requestError(asker, many[i]) }),
			map[string]int{"": 2, "sender_limit_reached": rush - 2})
		other, mate := s.reachable(fmt.Sprintf("other-%d", round)), s.reachable(fmt.Sprintf("mate-%d", round))
		wantOutcomes(t, "between two", testkit.Together(rush, func(int) error { return s.requestError(other, mate) }),
			map[string]int{"": 1, "duplicate": rush - 1})
		if n := value[int](s, `SELECT COUNT(*) FROM requests`); n != 10+2+1 {
			t.Errorf("%d requests are stored", n)
		}
		s.execSQL(`DELETE FROM requests`) // the many would be full next time
		if t.Failed() {
			return
		}
	}
}

// TestReportRequest_IsNotSeenByTheSender: the operator hears of it once; the sender sees a decline, also in its export.
func TestReportRequest_IsNotSeenByTheSender(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	asker, pilot := s.reachable("asker"), s.reachable("harbour-pilot")
	sent := s.sendRequest(asker, pilot)
	for range 2 {
		_, err := s.ActOnRequest(ctx, pilot, sent.ID, domain.ActReport, "It sells things.")
		s.ok(err)
	}
	var got []string
	s.ok(s.db.Select(ctx, &got, ofTest+`SELECT about || ' ' || subject || ' ' || reporter_id || ' ' || reason || ' ' || (reporter IS NULL) FROM reports`))
	if want := []string{fmt.Sprintf("request %s %d It sells things. 1", sent.ID, pilot.ID)}; !slices.Equal(got, want) {
		t.Errorf("the reports of the operator: %q, want %q", got, want)
	}
	tables, err := s.Export(ctx, asker)
	export := fmt.Sprint(tables)
	if s.ok(err); !strings.Contains(export, sent.ID) || strings.Contains(export, "It sells") || strings.Contains(export, "blocked:") {
		t.Error("the sender's export tells of the report or the block")
	}
}

// TestContactRequest_AcceptanceNeedsBothMailboxesVerified: either may have changed after the request was sent.
// It holds promise 7 of SECURITY.md.
func TestContactRequest_AcceptanceNeedsBothMailboxesVerified(t *testing.T) {
	for _, receipt := range []bool{false, true} {
		for _, side := range []string{"asker", "pilot"} {
			p := newStore(t).newRequestScene()
			accept := func() string { return p.do("pilot accepts") }
			if receipt {
				p.update(p.pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
				accept()
				accept = func() string {
					_, err := p.tryOwnerAct(p.token, domain.OwnerAgree, aboutRequest(p.id))
					return outcome(err)
				}
			}
			changed := map[string]domain.Caller{"asker": p.sender, "pilot": p.pilot}[side]
			p.update(changed, func(a *domain.Settings) { a.Mailbox = "never-verified@agents.example.org" })
			if got := accept(); got != "invalid_state" || p.request(p.sender, p.id).Mailboxes != nil {
				t.Errorf("receipt %v, the mailbox of the %s is not verified: %q", receipt, side, got)
			}
			p.ok(p.ActOnAgent(context.Background(), domain.OperatorVerify, changed.Handle))
			if got := accept(); got != "" || p.request(p.sender, p.id).Mailboxes == nil {
				t.Errorf("receipt %v, once it is verified: %q", receipt, got)
			}
		}
	}
}

// TestContactRequest_ReportedRequestsLeaveRoomInTheCap, and so do requests that their sender withdrew and that was reported for another.
// It holds promise 12 of SECURITY.md.
func TestContactRequest_ReportedRequestsLeaveRoomInTheCap(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, askers := s.reachable("harbour-pilot"), s.reachableAgents("asker", 11)
	withdraw := func() {
		_, err := s.ActOnRequest(ctx, askers[0], s.sendRequest(askers[0], pilot).ID, domain.ActWithdraw, "")
		s.ok(err)
	}
	withdraw()
	withdraw() // which counts with the one before as one
	for _, c := range askers[1:10] {
		s.sendRequest(c, pilot)
	}
	wantOutcome(t, "the eleventh sender", s.requestError(askers[10], pilot), "weekly_cap_reached")
	for _, c := range askers[1:10] {
		_, err := s.ActOnRequest(ctx, pilot, s.requestIDs(c, RequestFilter{Sent: true})[0], domain.ActReport, "")
		s.ok(err)
	}
	reported := s.sendRequest(askers[0], pilot).ID
	_, err := s.ActOnRequest(ctx, pilot, reported, domain.ActReport, "")
	s.ok(err)
	s.ok(s.DeleteAgent(ctx, askers[0])) // does not make them count again
	own, err := s.Me(ctx, pilot)
	if s.ok(err); *own.Limits.RequestsReceived.Left != *own.Limits.RequestsReceived.Limit {
		t.Errorf("%d are left of %d", *own.Limits.RequestsReceived.Left, *own.Limits.RequestsReceived.Limit)
	}
}

// TestMe_HasTheFactsOfAHiddenAgent, whose card is built for it alone.
func TestMe_HasTheFactsOfAHiddenAgent(t *testing.T) {
	s := newStore(t)
	pilot := s.reachable("harbour-pilot")
	s.claimBy(pilot, mei)
	s.sendRequest(s.reachable("asker"), pilot)
	s.ok(s.DeleteAgent(context.Background(), pilot)) // which waits, for the owner
	_, err := s.Card(context.Background(), pilot.Handle)
	wantOutcome(t, "the card that is hidden", err, "not_found")
	if own, err := s.Me(context.Background(), pilot); err != nil || own.Card.Requests.Received != 1 {
		t.Errorf("%d requests, %v", own.Card.Requests.Received, err)
	}
}

// TestCard_FactsGoBackHalfAYear by whole days, which the model seldom reaches.
func TestCard_FactsGoBackHalfAYear(t *testing.T) {
	s := newStore(t)
	pilot := s.reachable("harbour-pilot")
	s.sendRequest(s.reachable("asker"), pilot)
	s.clock.Advance(domain.NextDay(testkit.Start()).Add(180*domain.Day).Sub(s.clock.Now()) - time.Millisecond)
	for _, want := range []int{1, 0} {
		card, err := s.Card(context.Background(), pilot.Handle)
		if s.ok(err); card.Requests.Received != want {
			t.Errorf("%d requests at %v, want %d", card.Requests.Received, s.clock.Now(), want)
		}
		s.clock.Advance(time.Millisecond)
	}
}
