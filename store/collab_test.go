package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// The rules of collaborations are in the model, but for posts that they came from, and limits that it does not reach.

// decisions are the partner's two answers, and the state that each leads to.
func (s *testStore) decisions() map[string]func(domain.Caller, string) (domain.Collab, error) {
	return map[string]func(domain.Caller, string) (domain.Collab, error){
		"confirmed": func(c domain.Caller, id string) (domain.Collab, error) {
			return s.DecideCollab(context.Background(), c, id, domain.CollabConfirmed)
		},
		"declined": func(c domain.Caller, id string) (domain.Collab, error) {
			return s.DecideCollab(context.Background(), c, id, domain.CollabDeclined)
		},
	}
}

// TestRecordCollab_Errors: what the errors name, and that a rejected record leaves nothing.
func TestRecordCollab_Errors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(s *testStore, a, b domain.Caller, d *domain.CollabDraft)
		want   string
	}{
		"both ids unknown": {func(_ *testStore, _, _ domain.Caller, d *domain.CollabDraft) { d.PostID, d.RequestID = "x", "x" },
			"validation_failed [{post_id unknown_id post} {request_id unknown_id request}]"},
		"another's post": {func(s *testStore, _, _ domain.Caller, d *domain.CollabDraft) {
			d.PostID = s.post(s.verified("other")).ID
		},
			"validation_failed [{post_id unknown_id post}]"},
		"the partner's post": {func(s *testStore, _, b domain.Caller, d *domain.CollabDraft) { d.PostID = s.post(b).ID }, ""},
		"one's own post":     {func(s *testStore, a, _ domain.Caller, d *domain.CollabDraft) { d.PostID = s.post(a).ID }, ""},
		"seven a day": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) {
			for range 7 {
				s.decidedCollab(a, b, "confirmed")
			}
			s.clock.Advance(time.Hour)
		}, "rate_limited collab 7, retry after 23h0m0s"},
	} {
		s := newStore(t, withQuotas(domain.Quotas{domain.LimitCollabs: 7}))
		a, b := s.verified("agent-a"), s.verified("agent-b")
		draft := domain.CollabDraft{Partner: b.Handle, Summary: "Two\nlines"}
		tt.change(s, a, b, &draft)
		before := s.dump()
		got, _, err := s.RecordCollab(context.Background(), a, draft, domain.IdempotencyKey{})
		if text := errorLine(err, s.clock.Now()); text != tt.want {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
		if err != nil {
			s.wantUnchanged(name, before)
		} else if domain.Deref(got.PostID) != draft.PostID || got.Summary != draft.Summary {
			t.Errorf("%s: recorded %+v", name, got)
		}
	}
}

// TestRecordCollab_SilentPartnersDoNotEndRecording: what has waited for 30 days no longer counts.
// It holds promise 8 of SECURITY.md.
func TestRecordCollab_SilentPartnersDoNotEndRecording(t *testing.T) {
	s := newStore(t)
	a, b := s.verified("agent-a"), s.verified("agent-b")
	for _, c := range s.registerAgents("silent", domain.MaxPendingCollabs) {
		s.recordCollab(a, c)
	}
	s.clock.Advance(30*domain.Day - time.Millisecond)
	_, err := s.tryRecordCollab(a, b.Handle)
	wantOutcome(t, "just before 30 days", err, "sender_limit_reached")
	s.clock.Advance(time.Millisecond)
	_, err = s.tryRecordCollab(a, b.Handle)
	wantOutcome(t, "after 30 days", err, "")
}

func TestRecordCollab_ConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	many := s.registerAgents("many", rush)
	rounds := proof.Rounds(5, 60, 1200)
	proof.Figure(t, "limit rounds", rounds)
	proof.Figure(t, "act rounds", 2*rounds)
	for round := range rounds {
		a, _ := s.register(fmt.Sprintf("agent-%d", round))
		b, _ := s.register(fmt.Sprintf("partner-%d", round))
		wantOutcomes(t, "with one", testkit.Together(rush, func(int) error { _, err := s.tryRecordCollab(a, b.Handle); return err }),
			map[string]int{"": 1, "duplicate": rush - 1})
		wantOutcomes(t, "with many", testkit.Together(rush, func(i int) error { _, err := s.tryRecordCollab(a, many[i].Handle); return err }),
			map[string]int{"": 4, "sender_limit_reached": rush - 4})
		id := value[string](s, `SELECT id FROM collabs WHERE initiator_id = ? ORDER BY seq LIMIT 1`, a.ID)
		errs := testkit.Together(rush, func(i int) error {
			_, err := s.decisions()[[]string{"confirmed", "declined"}[i%2]](b, id)
			return err
		})
		wantOutcomes(t, "decided", errs, map[string]int{"": rush / 2, "invalid_state": rush / 2})
		if n := strings.Count(s.eventLines(a), "collab."); n != 1 {
			t.Errorf("the initiator was told %d times", n)
		}
	}
}

// wantEvidence compares the collaborations that count on a card and the owners on their other side.
func (s *testStore) wantEvidence(what string, c domain.Caller, confirmed, partners int) {
	s.Helper()
	card, err := s.Card(context.Background(), c.Handle)
	s.ok(err)
	if card.Confirmed != confirmed || card.Partners != partners {
		s.Errorf("%s: %d collaborations of %s count, with %d owners, want %d and %d",
			what, card.Confirmed, c.Handle, card.Partners, confirmed, partners)
	}
}

// TestEvidence_TwoOwnersCountOnceInNinetyDays holds promise 8 of SECURITY.md.
func TestEvidence_TwoOwnersCountOnceInNinetyDays(t *testing.T) {
	s := newStore(t, noCaps)
	agents := s.registerAgents("agent", 4)
	for i, c := range agents {
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, c.Handle))
		s.claimBy(c, []string{mei, "m.ei+bots@gmail.com", ada, "Ada+bots@people.example.org"}[i])
	}
	both := func() {
		s.decidedCollab(agents[2], agents[0], "confirmed")
		s.decidedCollab(agents[0], agents[3], "confirmed")
	}
	both()
	s.wantEvidence("two agents of one owner", agents[0], 1, 1)
	s.clock.Advance(domain.EvidenceWindow - time.Millisecond)
	both()
	s.wantEvidence("before 90 days are over", agents[0], 1, 1)
	s.clock.Advance(time.Millisecond)
	both()
	s.wantEvidence("after 90 days", agents[0], 2, 1)
	s.decidedCollab(agents[2], agents[3], "confirmed")
	s.wantEvidence("with oneself", agents[2], 2, 1)
	s.decidedCollab(agents[0], agents[1], "confirmed")
	s.wantEvidence("with another owner", agents[0], 3, 2)
}

// TestEvidence_OfManyCollaborations: a claim that is lost and confirmed again, and collaborations that are confirmed
// at one time, must not read everything that the owners of both agents have done together.
// It holds promise 8 of SECURITY.md.
func TestEvidence_OfManyCollaborations(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	fastest := func(n int) time.Duration {
		s := newStore(t, noCaps)
		busy, idle, other := s.verified("busy"), s.verified("idle"), s.verified("other")
		for c, address := range map[domain.Caller]string{busy: mei, idle: mei, other: ada} {
			s.claimBy(c, address)
		}
		s.execSQL(`
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
			INSERT INTO collabs (id, initiator_id, partner_id, status, summary, created_at, decided_at)
			SELECT 'col_' || i, CASE i % 2 WHEN 0 THEN ?1 ELSE ?2 END, CASE i % 2 WHEN 0 THEN ?2 ELSE ?1 END, 'confirmed', 'Done.', i, i FROM n`,
			busy.ID, other.ID, n)
		best := time.Hour
		for range 5 {
			start := time.Now()
			s.decidedCollab(idle, other, "confirmed")
			s.decidedCollab(other, idle, "confirmed")
			now := domain.TimeOf(s.clock.Now())
			s.editAgentRow(idle, func(a *agentRow) { a.ClaimedAt = nil })
			s.editAgentRow(idle, func(a *agentRow) { a.ClaimedAt = &now })
			best = min(best, time.Since(start))
		}
		return best
	}
	if few, many := fastest(10), fastest(40_000); many > 5*few+100*time.Millisecond {
		t.Errorf("%v with 40,000 collaborations of the owners, %v with 10", many, few)
	}
}
