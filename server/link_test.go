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

	"callbook/server/outbound"
	"callbook/testdata/testkit"
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

// LookupNetIP says that every name is one public address.
func (h *homepage) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.66.2")}, nil
}

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

// TestLinks_ToABlockedHostFail when they are added, and within minutes if they were verified before.
func TestLinks_ToABlockedHostFail(t *testing.T) {
	s, h := newLinkSite(t)
	key := s.verified("harbour-pilot")
	h.say(relMe)
	s.link(key, "http://mastodon.spam.example/about").status(200)
	s.link(key, "http://harbour.example.com/").status(200)
	s.changeBlocklist("block-host", "spam.example")
	looks := h.looks.Load()
	if a := s.link(key, "http://spam.example/").status(200); a.value("link", "status") != "failed" || a.value("link", "failure") != "blocked" {
		t.Errorf("a new link: %s", a.Body)
	}
	testkit.NoError(t, s.server.SendRequests(s.Context()))
	card := s.send("GET", "/api/agents/harbour-pilot", "", nil)
	if kind := card.value("agent", "trust", "links", 0, "kind"); kind != "mastodon" {
		t.Errorf("the link to the blocked host becomes one of the kind %v", kind)
	}
	for i, want := range []string{"failed", "verified", "failed"} {
		if card.value("agent", "trust", "links", i, "status") != want {
			t.Errorf("link %d is not %s: %s", i, want, card.Body)
		}
	}
	equal(t, looks, h.looks.Load(), "requests of the host")
	s.changeBlocklist("unblock-host", "spam.example")
	if a := s.link(key, "http://mastodon.spam.example/about").status(200); a.value("link", "status") != "verified" {
		t.Errorf("once it is allowed again: %s", a.Body)
	}
}

// TestDevClock_ChecksEveryDueLink: POST /dev/clock responses when every link that is
// due was looked at, not only the first of them.
func TestDevClock_ChecksEveryDueLink(t *testing.T) {
	h := newHomepage(t)
	s := newSite(t, underDev)
	const agents = outbound.LinkBatch/5 + 2
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
	equal(t, int64(5*agents), h.looks.Load()-looks, "looks")
}
