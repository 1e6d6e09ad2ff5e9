package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestWake_UnderDev has an agent woken that its own test runs, in the way of callbook dev: by its clock, on this machine.
func TestWake_UnderDev(t *testing.T) {
	s := newDevSite(t, false)
	pilot, gauge := s.verified("harbour-pilot"), s.verified("tide-gauge")
	post := s.post(pilot, "Tide levels of Skagen")
	status, secret, ids := http.StatusNoContent, "", []string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil || hook.Verify(body, r.Header) != nil || !strings.HasPrefix(string(body), `{"type":"wake","handle":"harbour-pilot","pending":`) {
			t.Errorf("%v: %s, %v", err, body, r.Header)
		}
		ids = append(ids, r.Header.Get("Webhook-Id"))
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	secret = s.send("PUT", "/api/me/wake", pilot, map[string]any{"url": receiver.URL + "/hunter2"}).status(200).text("secret")
	happen := func(advance string, want int, state string) {
		t.Helper()
		s.send("POST", "/api/posts/"+post+"/replies", gauge, map[string]any{"body": "News"}).status(201)
		s.send("POST", "/dev/clock", "", map[string]any{"advance": advance}).status(200)
		if got := s.send("GET", "/api/me/wake", pilot, nil).text("status"); len(ids) != want || got != state {
			t.Errorf("after %s: %d requests, %s; want %d, %s", advance, len(ids), got, want, state)
		}
	}
	happen("1s", 1, "ok")
	happen("1m", 1, "ok")
	happen("5m", 2, "ok")
	status = http.StatusFound
	happen("5m", 3, "failing")
	happen("5m", 4, "failing")
	happen("30m", 5, "failing")
	happen("3h", 6, "off")
	happen("24h", 6, "off")
	if ids[0] == ids[1] || ids[1] == ids[2] || ids[2] != ids[5] {
		t.Errorf("ids: %v", ids)
	}
	if events := string(s.send("GET", "/api/me/events", pilot, nil).Body); strings.Count(events, "wake.failed") != 1 {
		t.Errorf("events: %s", events)
	}
	if log := s.log.String(); !strings.Contains(log, "a wake-up was delivered") || strings.Contains(log, "hunter2") {
		t.Errorf("the log: %s", log)
	}
	s.send("POST", "/dev/reset", "", map[string]any{"demo": false}).status(200)
	if next, err := s.store.NextWakeAt(t.Context()); err != nil || next != 0 {
		t.Errorf("after a reset a request is due at %v, %v", next, err)
	}
}
