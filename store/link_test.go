package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// startLinkChecks are the links that the service takes up now.
func (s *testStore) startLinkChecks(limit int) (addresses []string) {
	s.Helper()
	links, err := s.StartLinkChecks(context.Background(), limit)
	s.ok(err)
	for _, l := range links {
		addresses = append(addresses, l.Handle+" "+l.URL)
	}
	return addresses
}

// linkStates are the ways into each state of a link.
var linkStates = map[string]func(s *testStore, c domain.Caller){
	"pending":  func(s *testStore, c domain.Caller) { s.addLink(c, harbourPage) },
	"verified": func(s *testStore, c domain.Caller) { s.addCheckedLink(c, harbourPage, foundIt) },
	"failed":   func(s *testStore, c domain.Caller) { s.addCheckedLink(c, harbourPage, notThere) },
	"expired": func(s *testStore, c domain.Caller) {
		s.addCheckedLink(c, harbourPage, foundIt)
		s.clock.Advance(180 * domain.Day)
		s.ok(s.RunJobs(context.Background()))
	},
	"verified, lately unreachable": func(s *testStore, c domain.Caller) {
		s.addCheckedLink(c, harbourPage, foundIt)
		s.storeLinkCheck(c, harbourPage, tooSlow, true)
	},
}

// TestLinkCheck_Results tries every finding in every state. What the agent's own request changes it sees in the response; of
// what the service finds it gets an event.
func TestLinkCheck_Results(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	passing := []string{"unreachable", "http_error", "timeout"} // what was verified once outlasts these
	for state, reach := range linkStates {
		for i, failure := range append([]string{"", "", "blocked", "too_large", "not_found_on_page", "not_found_on_page"}, passing...) {
			s := newStore(t)
			pilot, _ := s.register("harbour-pilot")
			reach(s, pilot)
			was := s.storeLinkCheck(pilot, "https://not.example.org", foundIt, false)[0]
			s.clock.Advance(time.Hour)
			now := domain.TimeOf(s.clock.Now())
			found := domain.LinkCheck{Kind: "mastodon", Failure: failure, Verified: failure == ""}
			want := domain.Link{URL: harbourPage, Kind: "mastodon", CheckedAt: &now, Status: "failed", Failure: &failure}
			expires, mention := now.Add(180*domain.Day), "mention"
			switch {
			case found.Verified:
				found.Proof = mention
				want.Status, want.Failure, want.Proof, want.VerifiedAt, want.ExpiresAt = "verified", nil, &mention, &now, &expires
			case was.VerifiedAt != nil && slices.Contains(passing, failure):
				want.Kind, want.Status, want.Proof, want.VerifiedAt, want.ExpiresAt = was.Kind, was.Status, was.Proof, was.VerifiedAt, was.ExpiresAt
			}
			byService, before := i%2 == 0, s.eventLines(pilot)
			for range 2 {
				if diff := cmp.Diff([]domain.Link{want}, s.storeLinkCheck(pilot, harbourPage, found, byService)); diff != "" {
					t.Errorf("%s, found %q (-want +got): %s", state, failure, diff)
				}
			}
			news := map[bool]string{true: "trust.changed harbour-pilot\n"}[byService && was.Status != want.Status]
			if got := strings.TrimPrefix(s.eventLines(pilot), before); got != news {
				t.Errorf("%s, found %q, by the service %v: notified of %q", state, failure, byService, got)
			}
			card, err := s.Card(context.Background(), pilot.Handle)
			if s.ok(err); card.Trust.Links[0].Status != want.Status {
				t.Errorf("%s, found %q: the card says %+v", state, failure, card.Trust.Links)
			}
		}
	}
}

// TestLink_LifeCycle looks at when the service takes it up, and when it expires.
func TestLink_LifeCycle(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.addCheckedLink(pilot, harbourPage, foundIt)
	start := s.clock.Now()
	for _, step := range []struct {
		at     time.Duration
		due    bool
		finds  *domain.LinkCheck // by the service
		status string
		told   bool // of a change that no call of its own brought
	}{
		{0, false, nil, "verified", false},
		{30*domain.Day - time.Millisecond, false, nil, "verified", false},
		{30 * domain.Day, true, &tooSlow, "verified", false},
		{31*domain.Day - time.Millisecond, false, nil, "verified", false},
		{31 * domain.Day, true, nil, "verified", false}, // the look is never finished
		{32*domain.Day - time.Millisecond, false, nil, "verified", false},
		{32 * domain.Day, true, &foundIt, "verified", false},
		{62*domain.Day - time.Millisecond, false, nil, "verified", false},
		{62 * domain.Day, true, &tooSlow, "verified", false},
		{212*domain.Day - time.Millisecond, true, &tooSlow, "verified", false}, // 180 days after the last success
		{212 * domain.Day, false, nil, "expired", true},
		{213 * domain.Day, false, &foundIt, "verified", true}, // by itself it is not taken up again
		{243*domain.Day - time.Millisecond, false, nil, "verified", false},
		{243 * domain.Day, true, &notThere, "failed", true},
		{270 * domain.Day, false, nil, "failed", false},
	} {
		s.clock.Advance(step.at - s.elapsed(start))
		s.ok(s.RunJobs(ctx))
		due := s.startLinkChecks(10)
		if want := map[bool][]string{true: {"harbour-pilot " + harbourPage}}[step.due]; !slices.Equal(due, want) {
			t.Errorf("after %v due: %v, want %v", step.at, due, want)
		}
		if again := s.startLinkChecks(10); len(again) != 0 {
			t.Errorf("after %v: due twice", step.at)
		}
		if step.finds != nil {
			s.storeLinkCheck(pilot, harbourPage, *step.finds, true)
		}
		if got := value[string](s, `SELECT links ->> '$[0].status' FROM agents`); got != step.status {
			t.Errorf("after %v: %s, want %s", step.at, got, step.status)
		}
		if n := value[int](s, `SELECT COUNT(*) FROM events WHERE type = 'trust.changed' AND at = ?`, domain.TimeOf(s.clock.Now())); (n == 1) != step.told {
			t.Errorf("after %v: told %d times", step.at, n)
		}
	}
}

func TestLink_AtMostFive(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	light, _ := s.register("lighthouse")
	for i := range 5 {
		s.addLink(pilot, fmt.Sprintf("https://page-%d.example.org", i))
	}
	for _, step := range []struct {
		name    string
		address string
		remove  bool
		want    string
		links   string
	}{
		{"a sixth", "https://page-5.example.org", false, "validation_failed", "01234"},
		{"one that is there", "https://page-3.example.org", false, "", "01234"},
		{"the same, written otherwise", "https://PAGE-3.Example.ORG", false, "", "01234"},
		{"removing one that is not there", "https://page-7.example.org", true, "", "01234"},
		{"removing one, written otherwise", "https://Page-1.example.org", true, "", "0234"},
		{"the sixth again", "https://page-5.example.org", false, "", "02345"},
		{"the first again", "https://page-1.example.org", false, "validation_failed", "02345"},
	} {
		var err error
		if step.remove {
			_, err = s.RemoveLink(ctx, pilot, step.address)
		} else {
			_, err = s.AddLink(ctx, pilot, step.address, "website")
		}
		wantOutcome(t, step.name, err, step.want)
		if faults := errorOf(err).Fields; err != nil && (len(faults) != 1 || faults[0] != (domain.FieldError{Field: "url", Code: domain.FaultTooMany, Topic: "links"})) {
			t.Errorf("%s: %v", step.name, faults)
		}
		links := ""
		for _, l := range s.storeLinkCheck(pilot, "https://not.example.org", foundIt, false) {
			links += strings.TrimSuffix(strings.TrimPrefix(l.URL, "https://page-"), ".example.org")
		}
		if links != step.links {
			t.Errorf("%s: links %s, want %s", step.name, links, step.links)
		}
	}
	wantOutcomes(t, "at once", testkit.Together(rush, func(i int) error {
		_, err := s.AddLink(ctx, light, fmt.Sprintf("https://page-%d.example.org", i%50), "website")
		return err
	}), map[string]int{"": 10, "validation_failed": 90})
	if n := value[int](s, `SELECT json_array_length(links) FROM agents WHERE id = ?`, light.ID); n != 5 {
		t.Errorf("%d links, want 5", n)
	}
}

// TestLinkCheck_OfARemovedLink finds its link gone.
func TestLinkCheck_OfARemovedLink(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		meanwhile func(s *testStore, c domain.Caller)
		links     []string
	}{
		"removed": {func(s *testStore, c domain.Caller) { _, err := s.RemoveLink(ctx, c, harbourPage); s.ok(err) }, []string{codePage + " pending"}},
		"removed and added again": {func(s *testStore, c domain.Caller) {
			s.ok(errOf(s.RemoveLink(ctx, c, harbourPage)))
			s.addLink(c, harbourPage)
		}, []string{codePage + " pending", harbourPage + " verified"}},
		"nothing": {func(*testStore, domain.Caller) {}, []string{harbourPage + " verified", codePage + " pending"}},
	} {
		s := newStore(t)
		pilot, _ := s.register("harbour-pilot")
		s.addLink(pilot, harbourPage)
		s.addLink(pilot, codePage)
		tt.meanwhile(s, pilot)
		for _, byService := range []bool{true, false} {
			var links []string
			for _, l := range s.storeLinkCheck(pilot, harbourPage, foundIt, byService) {
				links = append(links, l.URL+" "+l.Status)
			}
			if !slices.Equal(links, tt.links) {
				t.Errorf("%s: links %v, want %v", name, links, tt.links)
			}
		}
	}
	s := newStore(t)
	gone, _ := s.register("gone")
	s.addLink(gone, harbourPage)
	s.ok(s.DeleteAgent(ctx, gone))
	_, err := s.StoreLinkCheck(ctx, gone.ID, harbourPage, foundIt, false)
	wantOutcome(t, "a finding for a deleted agent", err, "unauthorized")
}

// TestLinkCheck_DueLinksComeInOrder takes the longest due first, in portions, and leaves
// out hidden agents.
func TestLinkCheck_DueLinksComeInOrder(t *testing.T) {
	s := newStore(t)
	var want []string
	for _, c := range s.registerAgents("agent", 7) {
		s.addLink(c, harbourPage) // nobody looked: the service does, a day later
		want = append(want, c.Handle+" "+harbourPage)
		s.clock.Advance(time.Minute)
	}
	if due := s.startLinkChecks(10); len(due) != 0 {
		t.Errorf("due at once: %v", due)
	}
	s.execSQL(`UPDATE agents SET suspended_at = 1 WHERE id = 3`)
	want = slices.Delete(want, 2, 3)
	s.clock.Advance(domain.Day)
	var got []string
	for portion := s.startLinkChecks(2); len(portion) > 0; portion = s.startLinkChecks(2) {
		if len(portion) > 2 {
			t.Errorf("a portion of %d", len(portion))
		}
		got = append(got, portion...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("due: %v, want %v", got, want)
	}
}
