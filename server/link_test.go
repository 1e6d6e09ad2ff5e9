package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"callbook/server/linkcheck"
	"callbook/store/domain"
)

// homepage is a real server for the pages that links lead to.
type homepage struct {
	*httptest.Server
	content atomic.Pointer[string] // of every page; none responses 503
	looks   atomic.Int64
}

func newHomepage(t *testing.T) *homepage {
	h := &homepage{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.looks.Add(1)
		content := h.content.Load()
		if content == nil {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, *content)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *homepage) say(content string) { h.content.Store(&content) }
func (h *homepage) goAway()            { h.content.Store(nil) }

// LookupNetIP says that every name is one public address.
func (h *homepage) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.66.2")}, nil
}

// dial reaches the page's server, whatever the address.
func (h *homepage) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, h.Listener.Addr().String())
}

// newLinkSite returns a site for which every name leads to the homepage.
func newLinkSite(t *testing.T) (*site, *homepage) {
	h := newHomepage(t)
	return newSite(t, behindProxy(nil), func(o *siteOptions) {
		o.links.Resolver, o.links.Dial = h, h.dial
	}), h
}

const relMe = `<p>I am <a rel="me" href="http://callbook.example.org/agents/harbour-pilot">on the callbook</a>.</p>`

func (s *site) link(key, address string, headers ...string) *result {
	s.Helper()
	return s.send("POST", "/api/me/links", key, map[string]any{"url": address}, headers...)
}

func TestLinks_AreChecked(t *testing.T) {
	for _, tt := range []struct {
		name, content          string
		status, proof, failure any
	}{
		{"rel=me", relMe, "verified", "rel_me", nil},
		{"a mention", "<p>http://callbook.example.org/agents/harbour-pilot</p>", "verified", "mention", nil},
		{"nothing of the agent", "<p>Welcome</p>", "failed", nil, "not_found_on_page"},
		{"another agent", "<p>http://callbook.example.org/agents/harbour-pilot-2</p>", "failed", nil, "not_found_on_page"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, h := newLinkSite(t)
			key := s.agent("harbour-pilot")
			h.say(tt.content)
			a := s.link(key, "http://harbour.example.com/about").status(200)
			for field, want := range map[string]any{"status": tt.status, "proof": tt.proof, "failure": tt.failure, "kind": "website"} {
				if got := a.value("link", field); got != want {
					t.Errorf("%s is %v, want %v", field, got, want)
				}
			}
			if card := s.send("GET", "/api/agents/harbour-pilot", "", nil); card.value("agent", "trust", "links", 0, "status") != tt.status {
				t.Errorf("the card: %s", card.Body)
			}
		})
	}
}

func TestLinks_PrivateAddressesAreRejected(t *testing.T) {
	h := newHomepage(t)
	s := newSite(t, func(o *siteOptions) { o.links.Dial = h.dial }) // the system's resolver: no name here leads anywhere public
	key := s.agent("harbour-pilot")
	for _, address := range []string{
		h.URL, "http://127.0.0.1/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/",
		"http://localhost/", "http://2130706433/", "file:///etc/passwd", "http://user@harbour.example.com/",
	} {
		if a := s.link(key, address).rejected(422, domain.CodeValidationFailed); a.text("error", "details", 0, "field") != "url" {
			t.Errorf("%s: %s", address, a.Body)
		}
	}
	if n := h.looks.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestLinks_AreRecheckedAndExpire(t *testing.T) {
	s, h := newLinkSite(t)
	key := s.verified("harbour-pilot")
	h.say(relMe)
	const address = "http://harbour.example.com/about"
	s.link(key, address).status(200)
	status := func() (status, failure any) {
		t.Helper()
		card := s.send("GET", "/api/agents/harbour-pilot", "", nil).status(200)
		return card.value("agent", "trust", "links", 0, "status"), card.value("agent", "trust", "links", 0, "failure")
	}
	due := func(d time.Duration) {
		t.Helper()
		s.clock.Advance(d)
		if err := s.server.RunJobs(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	looks := h.looks.Load()
	due(29 * domain.Day)
	if h.looks.Load() != looks {
		t.Error("looked again before it was due")
	}
	due(domain.Day)
	if got, _ := status(); got != "verified" || h.looks.Load() != looks+1 {
		t.Errorf("after 30 days: %v, %d looks", got, h.looks.Load()-looks)
	}
	h.goAway()
	due(30 * domain.Day)
	if got, why := status(); got != "verified" || why != "http_error" {
		t.Errorf("while the page is away: %v %v", got, why)
	}
	due(180 * domain.Day)
	if got, _ := status(); got != "expired" {
		t.Errorf("after 180 days without a look that succeeded: %v", got)
	}
	events := s.send("GET", "/api/me/events", key, nil).status(200)
	if events.len("events") != 1 || events.text("events", 0, "type") != "trust.changed" {
		t.Errorf("the agent is not told once: %s", events.Body)
	}
	h.say("<p>All is new</p>")
	if a := s.link(key, address).status(200); a.text("link", "failure") != "not_found_on_page" || a.len("links") != 1 {
		t.Errorf("looked at again by hand: %s", a.Body)
	}
	s.send("POST", "/api/me/links", key, map[string]any{"url": address, "remove": true}).status(200)
	if a := s.send("POST", "/api/me/links", key, map[string]any{"url": address, "remove": true}).status(200); a.value("link") != nil || a.len("links") != 0 {
		t.Errorf("removed twice: %s", a.Body)
	}
}

// TestLinks_ChecksOfOneHostAreLimited: a client could use links to send requests to others.
// TestLinks_ToABlockedHostFail when they are added, and within minutes if they were verified before.
func TestLinks_ToABlockedHostFail(t *testing.T) {
	s, h := newLinkSite(t)
	key := s.verified("harbour-pilot")
	h.say(relMe)
	s.link(key, "http://www.spam.example/about").status(200)
	s.link(key, "http://harbour.example.com/").status(200)
	s.change("block-host", "spam.example")
	looks := h.looks.Load()
	if a := s.link(key, "http://spam.example/").status(200); a.value("link", "status") != "failed" || a.value("link", "failure") != "blocked" {
		t.Errorf("a new link: %s", a.Body)
	}
	if err := s.server.RecheckLinks(s.Context()); err != nil {
		t.Fatal(err)
	}
	card := s.send("GET", "/api/agents/harbour-pilot", "", nil)
	for i, want := range []string{"failed", "verified", "failed"} {
		if card.value("agent", "trust", "links", i, "status") != want {
			t.Errorf("link %d is not %s: %s", i, want, card.Body)
		}
	}
	if h.looks.Load() != looks {
		t.Error("the host was requested")
	}
	s.change("unblock-host", "spam.example")
	if a := s.link(key, "http://www.spam.example/about").status(200); a.value("link", "status") != "verified" {
		t.Errorf("once it is allowed again: %s", a.Body)
	}
}

func TestLinks_ChecksOfOneHostAreLimited(t *testing.T) {
	s, h := newLinkSite(t)
	h.say("<p>Welcome</p>")
	found := map[string]int{}
	for i := range linkcheck.AddressLimit.Requests + 20 {
		key := s.agent(fmt.Sprintf("agent-%d", i))
		from := fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)
		found[s.link(key, fmt.Sprintf("http://host-%d.example.com/", i), from).status(200).text("link", "status")]++
	}
	if found["failed"] != linkcheck.AddressLimit.Requests || found["pending"] != 20 || h.looks.Load() != int64(linkcheck.AddressLimit.Requests) {
		t.Errorf("%v, %d looks", found, h.looks.Load())
	}
	// The service comes back to those that it has not looked at.
	s.clock.Advance(domain.Day)
	if err := s.server.RunJobs(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := h.looks.Load(); n != int64(linkcheck.AddressLimit.Requests)+20 {
		t.Errorf("%d looks a day later", n)
	}
}

// TestAbuse13_OneNetworkLeavesChecksToOthers: a few keys must not use up the checks of a host that many agents link to. The
// links that the service checks by itself have a share, too.
func TestAbuse13_OneNetworkLeavesChecksToOthers(t *testing.T) {
	s, h := newLinkSite(t)
	h.say("<p>Welcome</p>")
	share := linkcheck.AddressShare.Requests
	check := func(network string, n int) (looks int) {
		before := h.looks.Load()
		for i := range n {
			key := s.agent(fmt.Sprintf("agent-%s-%d", network, i))
			s.link(key, fmt.Sprintf("http://host-%d.example.com/", i), fmt.Sprintf("X-Forwarded-For: 2001:db8:%s:%x::1", network, i<<4)).status(200)
		}
		return int(h.looks.Load() - before)
	}
	if n := check("1", share+10); n != share {
		t.Errorf("%d looks for one network, want %d", n, share)
	}
	s.clock.Advance(domain.Day)
	if n := check("2", share) + check("3", share); n != 2*share {
		t.Errorf("%d looks for two others, want %d", n, 2*share)
	}
	before := h.looks.Load()
	if err := s.server.RunJobs(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := h.looks.Load() - before; n != 10 {
		t.Errorf("%d looks by the service, want those that got none", n)
	}
}

// TestDevClock_ChecksEveryDueLink: POST /dev/clock responses when every link that is
// due was looked at, not only the first of them.
func TestDevClock_ChecksEveryDueLink(t *testing.T) {
	h := newHomepage(t)
	s := newSite(t, underDev)
	const agents = linkcheck.BatchSize/5 + 2
	for i := range agents {
		handle := fmt.Sprintf("agent-%d", i)
		key := s.agent(handle)
		h.say(`<a rel="me" href="` + s.server.options.BaseURL + "/agents/" + handle + `">me</a>`)
		for n := range 5 {
			if a := s.link(key, fmt.Sprintf("%s/%d/%d", h.URL, i, n)).status(200); a.text("link", "status") != "verified" {
				t.Fatalf("%s", a.Body)
			}
		}
	}
	looks := h.looks.Load()
	s.send("POST", "/dev/clock", "", `{"advance":"720h"}`).status(200)
	if n := h.looks.Load() - looks; n != 5*agents {
		t.Errorf("%d looks, want %d", n, 5*agents)
	}
}

// TestDev_LinksMayBeLocal: under callbook dev a link may lead to any port here.
func TestDev_LinksMayBeLocal(t *testing.T) {
	h := newHomepage(t)
	s := newSite(t, underDev)
	key := s.agent("harbour-pilot")
	h.say(`<a rel="me" href="` + s.server.options.BaseURL + `/agents/harbour-pilot">me</a>`)
	if a := s.link(key, h.URL+"/about").status(200); a.text("link", "status") != "verified" {
		t.Errorf("%s", a.Body)
	}
	s.link(key, "http://10.0.0.1:8080/").rejected(422, domain.CodeValidationFailed)
}
