package server

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"callbook/server/middleware"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// withMailCaps gives a site the default caps on mails, and clients an address by X-Forwarded-For.
func withMailCaps(o *siteOptions) {
	o.mails = domain.DefaultMailCaps
	o.trusted = middleware.TrustedProxies{netip.MustParsePrefix("127.0.0.1/32")}
}

// TestMailLimit_NetworkIsThatOfTheClient requests mails from one address, and from others behind the same proxy.
// It holds promise 3 of SECURITY.md.
func TestMailLimit_NetworkIsThatOfTheClient(t *testing.T) {
	s := newSite(t, withMailCaps)
	for i := range 6 {
		key := s.agent(fmt.Sprintf("agent-%d", i))
		got := s.send("POST", "/api/me/verify", key, nil, "X-Forwarded-For: 192.0.2.7")
		if i < 5 {
			got.status(202)
			continue
		}
		got.rejected(429, domain.CodeRateLimited)
		contains(t, "the sixth", got.text("error", "message_en"), "Your network has asked for 5 mails")
		s.send("POST", "/api/me/verify", key, nil, "X-Forwarded-For: 192.0.2.8").status(202)
	}
}

// TestMailPool_SpentPoolIsReported spends the mails for verifications: responses, the log, the metrics and the other
// pool show it.
// It holds promise 3 of SECURITY.md.
func TestMailPool_SpentPoolIsReported(t *testing.T) {
	s := newSite(t, withMailCaps, func(o *siteOptions) { o.mails.Site = 4 })
	logged := func() int {
		testkit.NoError(t, s.server.reportSpentMails(context.Background()))
		return strings.Count(s.log.String(), "all mails of this pool")
	}
	verify := func(i int) *result {
		return s.send("POST", "/api/me/verify", s.agent(fmt.Sprintf("agent-%d", i)), nil, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i))
	}
	verify(0).status(202)
	if n := logged(); n != 0 || !strings.Contains(s.metricsText(), "\ncallbook_mails_left{pool=\"new\"} 1\n") {
		t.Errorf("logged %d times, metrics %s", n, s.metricsText())
	}
	day := domain.TimeOf(s.clock.Now()).Add(domain.Day)
	equal(t, day.String(), verify(1).status(202).text("resend_after"), "the next code from the last of the pool")
	verify(2).rejected(429, domain.CodeRateLimited)
	for range 3 {
		equal(t, 1, logged(), "lines in the log")
	}
	hasLines(t, s.metricsText(), `callbook_mails_left{pool="new"} 0`, `callbook_mails_left{pool="proven"} 2`)
	pilot := s.agent("harbour-pilot")
	testkit.NoError(t, s.store.ActOnAgent(t.Context(), domain.OperatorVerify, "harbour-pilot")) // without a mail
	claim := s.send("POST", "/api/me/owner-claim", pilot, map[string]any{"owner_email": "mei@lin.example.org"}).status(202)
	equal(t, domain.TimeOf(s.clock.Now()).Add(time.Minute).String(), claim.text("resend_after"), "the next claim")
	s.clock.Advance(domain.Day)
	equal(t, 1, logged(), "lines in the log while there are mails")
	verify(3).status(202)
	verify(4).status(202)
	equal(t, 2, logged(), "lines in the log on the second day")
}

// stopLink returns the link in a mail that ends all mails to its address.
func stopLink(t testing.TB, text string) string {
	t.Helper()
	link := regexp.MustCompile(`(?m)^http://\S+(/owner/mails/[\w-]{64})$`).FindStringSubmatch(text)
	if link == nil {
		t.Fatalf("no link ends the mails:\n%s", text)
	}
	return link[1]
}

// TestMails_HaveALinkThatEndsMails follows that of every kind of mail.
// It holds promise 17 of SECURITY.md.
func TestMails_HaveALinkThatEndsMails(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot", "mailbox", "pilot@harbour.example.org")
	claim := func() {
		s.send("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": "mei@lin.example.org"}).status(202)
	}
	links := map[string]bool{}
	for _, send := range []func() string{
		func() string { s.verify(key); return "pilot@harbour.example.org" },
		func() string {
			s.send("POST", "/api/recover", "", `{"handle":"harbour-pilot"}`).status(202)
			return "pilot@harbour.example.org"
		},
		func() string { claim(); return "mei@lin.example.org" },
		func() string {
			s.actAsOwner(path.Base(*s.mail("mei@lin.example.org").Link), domain.OwnerSubmission{Act: domain.OwnerConfirm})
			claim()
			return "mei@lin.example.org"
		},
	} {
		links[stopLink(t, s.mail(send()).Text)] = true
	}
	equal(t, 2, len(links), "links for two addresses")
	page := stopLink(t, s.mail("mei@lin.example.org").Text)
	post := func(act string, headers ...string) *result {
		return s.send("POST", page, "", "act="+act, append(headers, "Content-Type: application/x-www-form-urlencoded")...)
	}
	post("stop", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").status(403)
	for range 2 { // opening it changes nothing
		contains(t, "the page", string(s.send("GET", page, "", nil).status(200).Body), "Send me no more mails")
	}
	contains(t, "the page", string(post("stop").status(200).Body), "Send mails again")
	sent := len(s.outgoing.Messages())
	claim()
	testkit.NoError(t, s.server.DeliverMail(context.Background()))
	equal(t, 0, len(s.outgoing.Messages())-sent, "mails to a person who wants none")
	post("resume").status(200)
	claim()
	s.mail("mei@lin.example.org")
	if strings.Contains(s.log.String(), page[len("/owner/mails/"):]) {
		t.Error("the log holds the token")
	}
}

// TestMails_HoldNoLinkOfTheAgent: its name becomes no link and no address in a mail.
// It holds promise 17 of SECURITY.md.
func TestMails_HoldNoLinkOfTheAgent(t *testing.T) {
	proof.OneByOne(t)
	s, n := newSite(t), 0
	for name, want := range map[string]string{
		"Win at https://evil.example/a?b":       "Win at https evil.example a?b",
		"mailto:x@evil.example now":             "mailto x evil.example now",
		"://@ a":                                "a",
		"潮汐：水位":                                 "潮汐：水位",
		"{stop} {secret} {link} //evil.example": "{stop} {secret} {link} evil.example",
	} {
		n++
		handle := fmt.Sprint("agent-", n)
		s.send("POST", "/api/me/verify", s.agent(handle, "name", name), nil).status(202)
		text := s.mail(handle + "@example.org").Text
		if !strings.Contains(text, `"`+want+`" (`+handle+`)`) || !strings.Contains(text, `“`+want+`”（`+handle+`）`) {
			t.Errorf("%q is not named as %q:\n%s", name, want, text)
		}
	}
}
