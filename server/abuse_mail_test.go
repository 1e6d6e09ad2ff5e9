package server

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"callbook/server/middleware"
	"callbook/store/domain"
)

// withMailCaps gives a site the default caps on mails, and clients an address by X-Forwarded-For.
func withMailCaps(o *siteOptions) {
	o.mails = domain.DefaultMailCaps
	o.trusted = middleware.TrustedProxies{netip.MustParsePrefix("127.0.0.1/32")}
}

// TestAbuse03_NetworkIsThatOfTheClient requests mails from one address, and from others behind the same proxy.
func TestAbuse03_NetworkIsThatOfTheClient(t *testing.T) {
	s := newSite(t, withMailCaps)
	for i := range 6 {
		key := s.agent(fmt.Sprintf("agent-%d", i))
		got := s.send("POST", "/api/me/verify", key, nil, "X-Forwarded-For: 192.0.2.7")
		if i < 5 {
			got.status(202)
			continue
		}
		got.rejected(429, domain.CodeRateLimited)
		if text := got.text("error", "message_en"); !strings.Contains(text, "Your network has asked for 5 mails") {
			t.Errorf("the sixth: %s", text)
		}
		s.send("POST", "/api/me/verify", key, nil, "X-Forwarded-For: 192.0.2.8").status(202)
	}
}

// provenAgent registers an agent whose mailbox the operator has verified, without a mail.
func (s *site) provenAgent(handle string) (key string) {
	s.Helper()
	key = s.agent(handle)
	if err := s.server.store.Verify(context.Background(), handle); err != nil {
		s.Fatal(err)
	}
	return key
}

// TestAbuse03_SpentPoolIsReported spends the mails for verifications: responses, the log, the metrics and the other
// pool show it.
func TestAbuse03_SpentPoolIsReported(t *testing.T) {
	s := newSite(t, withMailCaps, func(o *siteOptions) { o.mails.Site = 4 })
	logged := func() int {
		if err := s.server.reportSpentMails(context.Background()); err != nil {
			t.Fatal(err)
		}
		return strings.Count(s.log.String(), "all mails of this pool")
	}
	verify := func(i int) *result {
		return s.send("POST", "/api/me/verify", s.agent(fmt.Sprintf("agent-%d", i)), nil, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i))
	}
	verify(0).status(202)
	if n := logged(); n != 0 || !strings.Contains(s.figures(), "\ncallbook_mails_left{pool=\"new\"} 1\n") {
		t.Errorf("logged %d times, metrics %s", n, s.figures())
	}
	day := domain.TimeOf(s.clock.Now()).Add(domain.Day)
	if again := verify(1).status(202).text("resend_after"); again != day.String() {
		t.Errorf("the last of the pool: another after %s, want %s", again, day)
	}
	verify(2).rejected(429, domain.CodeRateLimited)
	for range 3 {
		if n := logged(); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
	}
	for _, want := range []string{`callbook_mails_left{pool="new"} 0`, `callbook_mails_left{pool="proven"} 2`} {
		if !strings.Contains(s.figures(), "\n"+want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	pilot := s.provenAgent("harbour-pilot")
	claim := s.send("POST", "/api/me/owner-claim", pilot, map[string]any{"owner_email": "mei@lin.example.org"}).status(202)
	if next := claim.text("resend_after"); next != domain.TimeOf(s.clock.Now()).Add(time.Minute).String() {
		t.Errorf("another claim after %s", next)
	}
	s.clock.Advance(domain.Day)
	if n := logged(); n != 1 {
		t.Errorf("logged %d times while there are mails", n)
	}
	verify(3).status(202)
	verify(4).status(202)
	if n := logged(); n != 2 {
		t.Errorf("logged %d times on the second day, want 2", n)
	}
}

// TestAbuse03_RecoveryAnswersAlike compares the responses for handles that exist and that do not, while mails are left
// and once they are spent.
func TestAbuse03_RecoveryAnswersAlike(t *testing.T) {
	s := newSite(t, withMailCaps, func(o *siteOptions) { o.mails.Site = 2 })
	s.provenAgent("harbour-pilot")
	s.agent("lighthouse")
	ask := func(handle, address string) string {
		return string(s.send("POST", "/api/recover", "", map[string]any{"handle": handle}, "X-Forwarded-For: "+address).status(202).Body)
	}
	seen := map[string]bool{}
	for i, handle := range []string{"nobody", "lighthouse", "harbour-pilot"} {
		seen[ask(handle, fmt.Sprintf("192.0.2.%d", i))] = true
	}
	if len(seen) != 1 {
		t.Errorf("responses differ: %v", seen)
	}
	// The pool's only mail is sent, and then the address has asked five times.
	for i, handle := range []string{"harbour-pilot", "nobody", "lighthouse", "harbour-pilot", "nobody", "lighthouse"} {
		body := ask(handle, "192.0.2.9")
		if want := domain.TimeOf(s.clock.Now()).Add(domain.Day).String(); !strings.Contains(body, `"resend_after":"`+want+`"`) {
			t.Errorf("request %d for %s: %s, want %s", i, handle, body, want)
		}
	}
}
