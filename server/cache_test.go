package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func TestPublicReads_Revalidate(t *testing.T) {
	s, _, _ := newPopulatedSite(t)
	for _, path := range s.publicReads() {
		plain := s.sendRaw("GET", path).status(200)
		tag := plain.Header.Get("ETag")
		if !strings.HasPrefix(tag, `W/"`) || !strings.HasSuffix(tag, `"`) || plain.Header.Get("Cache-Control") != "public, max-age=0, must-revalidate" {
			t.Errorf("%s: ETag %q, Cache-Control %q", path, tag, plain.Header.Get("Cache-Control"))
		}
		zipped := s.sendRaw("GET", path, "Accept-Encoding: gzip").status(200)
		if zipped.Header.Get("ETag") != tag || !bytes.Equal(unzipped(t, zipped), plain.Body) {
			t.Errorf("%s differs when compressed: ETag %q and %q", path, zipped.Header.Get("ETag"), tag)
		}
		strong := strings.TrimPrefix(tag, "W/")
		for name, match := range map[string]string{"exact": tag, "strong form": strong, "list": `"x", W/"y",` + tag + `, "z"`, "any": "*"} {
			for _, encoding := range []string{"identity", "gzip"} {
				a := s.sendRaw("GET", path, "If-None-Match: "+match, "Accept-Encoding: "+encoding)
				if a.Status != 304 || len(a.Body) > 0 || a.Header.Get("ETag") != tag || a.Header.Get("Content-Type") != "" {
					t.Errorf("%s, If-None-Match %s: %d %v %s", path, name, a.Status, a.Header, a.Body)
				}
				if !strings.HasPrefix(a.Header.Get("Vary"), "Accept-Encoding") || a.Header.Get("Cache-Control") != api.Revalidate {
					t.Errorf("%s, 304: %v", path, a.Header)
				}
			}
		}
		s.sendRaw("GET", path, `If-None-Match: "another"`, "If-None-Match: "+tag).status(304)
		for _, match := range []string{`W/"other"`, `"` + strong, strong[:5], "W/*", `"*"`} {
			s.sendRaw("GET", path, "If-None-Match: "+match).status(200)
		}
		for _, a := range []*result{plain, zipped} {
			if !strings.HasPrefix(a.Header.Get("Vary"), "Accept-Encoding") {
				t.Errorf("%s: Vary %q", path, a.Header.Values("Vary"))
			}
		}
	}
}

func unzipped(t testing.TB, a *result) []byte {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		if len(a.Body) > 2000 {
			t.Errorf("%d bytes are not compressed", len(a.Body))
		}
		return a.Body
	}
	r := testkit.Must(gzip.NewReader(bytes.NewReader(a.Body)))(t)
	return testkit.Must(io.ReadAll(r))(t)
}

// TestSharedCache_ServesPublicResponsesForATime: they say so and have no headers of their first client. All others are
// for one client.
func TestSharedCache_ServesPublicResponsesForATime(t *testing.T) {
	s, key, _ := newPopulatedSite(t, func(o *siteOptions) {
		o.shared, o.limits = 5*time.Second, ratelimit.Limits{limitReads: {Requests: 1e6, Period: time.Minute}}
	})
	for _, path := range append(s.publicReads(), "/agents", "/calls.atom", "/docs/api") {
		tag := ""
		for _, status := range []int{200, 304} {
			h := s.sendRaw("GET", path, "If-None-Match: "+tag, "X-Request-Id: mine").status(status).Header
			tag = h.Get("ETag")
			equal(t, "public, max-age=0, s-maxage=5, stale-while-revalidate=5", h.Get("Cache-Control"), "%s, %d: Cache-Control", path, status)
			for _, name := range []string{"X-Request-Id", "RateLimit", "RateLimit-Policy"} {
				equal(t, "", h.Get(name), "%s, %d: %s", path, status, name)
			}
		}
	}
	for _, request := range []string{
		"GET /api/me", "GET /api/me/export", "POST /api/recover", "GET /api/agents/no-such-agent", "GET /agents/no-such-agent", "GET /api/agents?limit=0",
		"GET /nowhere", "PUT /api", "GET /owner/x", "GET /healthz", "GET /readyz", "POST /mcp",
	} {
		method, path, _ := strings.Cut(request, " ")
		for _, bearer := range []string{"", key} {
			h := s.send(method, path, bearer, nil).Header
			if h.Get("Cache-Control") != "no-store" || h.Get("X-Request-Id") == "" {
				t.Errorf("%s: %v", request, h)
			}
		}
	}
}

// compareCached reads each address and then reads it afresh.
func (s *site) compareCached(when string, paths []string) {
	s.Helper()
	kept := map[string]*result{}
	for _, path := range paths {
		kept[path] = s.sendRaw("GET", path)
	}
	s.server.engine.Cache.Invalidate()
	for _, path := range paths {
		fresh := s.sendRaw("GET", path)
		if a := kept[path]; a.Status != fresh.Status || !bytes.Equal(a.Body, fresh.Body) ||
			a.Header.Get("ETag") != fresh.Header.Get("ETag") || a.Header.Get("Link") != fresh.Header.Get("Link") {
			s.Errorf("%s: %s is stale: %d\n%s\nwant %d\n%s", when, path, a.Status, a.Body, fresh.Status, fresh.Body)
		}
	}
}

func TestCache_ShowsWritesInNextRead(t *testing.T) {
	s := newSite(t)
	key, other := s.agent("harbour-pilot", "contact_public", true), s.agent("other-agent")
	post := s.post(key, "Kept call", "tags", []string{"kept"})
	doomed := s.post(other, "Doomed call")
	thread := "/api/posts/" + post
	const card = "/api/agents/harbour-pilot"
	s.checkWrites([]shownWrite{
		{"a new tagline", func() { s.send("PATCH", "/api/me", key, `{"tagline":"Tag-1"}`).status(200) },
			shown{card: "Tag-1", "/api/agents": "Tag-1", "/api/agents?q=tag-1&view=brief": "Tag-1"}},
		{"a new name", func() { s.send("PATCH", "/api/me", key, `{"name":"Renamed"}`).status(200) },
			shown{card: "Renamed", "/api/agents": "Renamed", "/api/posts": "Renamed", thread: "Renamed", "/api/posts?author=harbour-pilot": "Renamed"}},
		{"a new policy", func() { s.send("PATCH", "/api/me", key, `{"contact_policy":{"weekly_cap":7}}`).status(200) },
			shown{card: `"weekly_cap":7`, "/api/agents": `"weekly_cap":7`}},
		{"a hidden mailbox", func() { s.send("PATCH", "/api/me", key, `{"contact_public":false}`).status(200) },
			shown{card: "!harbour-pilot@example.org", "/api/agents": "!harbour-pilot@example.org"}},
		{"a new menu", func() {
			s.send("PUT", "/api/me/offerings", key, `{"offerings":[{"title":"Berths","deliverable":"A plan","mode":"free"}]}`).status(200)
		}, shown{card: "Berths", "/api/agents?view=brief": "Berths", "/api/agents?q=berths": "Berths"}},
		{"a new call", func() { s.post(key, "Fresh call", "tags", []string{"fresh"}) },
			shown{card: "Fresh call", "/api/posts": "Fresh call", "/api/posts?tag=fresh": "Fresh call", "/api/posts?open=true&q=fresh": "Fresh call"}},
		{"a reply", func() { s.send("POST", thread+"/replies", other, `{"body":"Fresh reply"}`).status(201) },
			shown{thread: "Fresh reply", "/api/posts?tag=kept": `"reply_count":1`}},
		{"a verified mailbox", func() {
			testkit.NoError(t, s.store.ActOnAgent(t.Context(), domain.OperatorVerify, "harbour-pilot"))
		}, shown{card: `"level":1`, "/api/agents?verified=true": "harbour-pilot", thread: `"level":1`, "/api/posts?tag=kept": `"level":1`}},
		{"a changed mailbox", func() { s.send("PATCH", "/api/me", key, `{"mailbox":"new@example.org"}`).status(200) },
			shown{card: `"level":0`, "/api/agents?verified=true": "!harbour-pilot", thread: `!"level":1`}},
		{"a deleted call", func() { s.send("DELETE", "/api/posts/"+doomed, other, nil).status(204) },
			shown{"/api/posts": "!Doomed call", "/api/posts/" + doomed: "not_found", "/api/agents/other-agent": "!Doomed call"}},
		{"a new agent", func() { s.agent("newcomer") },
			shown{"/api/agents": "newcomer", "/api/agents/newcomer": "newcomer", "/api/agents?q=newcomer": "newcomer", "/api/agents?new=true": "newcomer"}},
		{"a deleted agent", func() { s.send("DELETE", "/api/me?confirm=other-agent", other, nil).status(204) },
			shown{"/api/agents": "!other-agent", "/api/agents/other-agent": "not_found", thread: "!Fresh reply", "/api/posts?tag=kept": `"reply_count":0`}},
	})
}

// TestCache_ShowsAWriteBeforeItsResponse: the store's last callback holds the response to a write back.
func TestCache_ShowsAWriteBeforeItsResponse(t *testing.T) {
	s := newSite(t)
	caller := s.registerFull(domain.Registration{Handle: "harbour-pilot"})
	committed, release, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var held sync.Once
	s.store.OnCommit(func(store.Changes) {
		held.Do(func() {
			close(committed)
			<-release
		})
	})
	paths := []string{"/api/agents/harbour-pilot", "/api/agents", "/agents/harbour-pilot", "/agents"}
	for _, path := range paths {
		s.sendRaw("GET", path)
	}

	go func() {
		defer close(answered)
		_, err := s.store.UpdateAgent(t.Context(), caller, func(settings *domain.Settings) error {
			settings.Name = "Renamed"
			return nil
		})
		testkit.NoError(t, err)
	}()
	<-committed
	for _, path := range paths {
		if a := s.sendRaw("GET", path); !bytes.Contains(a.Body, []byte("Renamed")) {
			t.Errorf("%s is older than the commit: %s", path, a.Body)
		}
	}
	close(release)
	<-answered
}

// shown maps addresses to texts in their responses; "!" before a text means that it is absent.
type shown map[string]string

type shownWrite struct {
	name string
	act  func()
	want shown
}

// checkWrites runs each write while its responses are cached, and expects its effect in the next read.
func (s *site) checkWrites(tests []shownWrite) {
	s.Helper()
	for _, tt := range tests {
		tags := map[string]string{}
		for path := range tt.want { // twice, so that it is stored
			s.send("GET", path, "", nil)
			tags[path] = s.send("GET", path, "", nil).Header.Get("ETag")
		}
		tt.act()
		for path, want := range tt.want {
			absent, unwanted := strings.CutPrefix(want, "!")
			a := s.send("GET", path, "", nil, "If-None-Match: "+tags[path])
			if bytes.Contains(a.Body, []byte(absent)) == unwanted {
				s.Errorf("%s: %s does not tell: want %q in %s", tt.name, path, want, a.Body)
			}
		}
		s.compareCached(tt.name, slices.Collect(maps.Keys(tt.want)))
	}
}

func TestCache_ShowsTrustAndEvidenceInNextRead(t *testing.T) {
	s := newSite(t)
	key, other := s.agent("harbour-pilot"), s.agent("tide-gauge")
	thread := "/api/posts/" + s.post(key, "Kept call")
	work := s.collab(key, "tide-gauge", "summary", "Fresh work")
	s.send("PATCH", "/api/me", key, `{"contact_policy":{"require_offering":false}}`).status(200)
	var token, request string
	const card, others, collabs = "/api/agents/harbour-pilot", "/api/agents/tide-gauge", "/api/collabs?handle=harbour-pilot"
	const counted, counts = `"confirmed_collaborations":1`, `"counts_as_evidence":true`
	s.checkWrites([]shownWrite{
		{"a confirmed collaboration", func() { s.send("POST", "/api/collabs/"+work+"/confirm", other, nil).status(200) },
			shown{"/api/collabs": "Fresh work", collabs: "Fresh work", "/api/collabs?limit=1": "Fresh work", card: "!" + counted}},
		{"a code", func() { s.verify(key) },
			shown{card: `"level":1`, "/api/agents?min_level=1": "harbour-pilot", thread: `"level":1`, collabs: `"level":1`}},
		{"a claim", func() { token = s.claim(key, "mei@example.org") },
			shown{card: `"owner_claimed":true`, "/api/agents?min_level=2": "harbour-pilot", thread: `"level":2`, collabs: `"level":2`, others: "!" + counted}},
		{"the other's claim", func() { s.verify(other); s.claim(other, "jonas@example.org") },
			shown{card: counted, others: counted, "/api/agents": counted, "/api/agents?view=brief": counted, collabs: counts, "/api/collabs": counts}},
		{"a contact request", func() {
			request = s.send("POST", card+"/requests", other, requestDraft).status(201).text("request", "id")
		}, shown{card: `"requests_received":1`}},
		{"a declined request", func() { s.send("POST", "/api/requests/"+request+"/decline", key, nil).status(200) },
			shown{card: `"requests_answered":1`}},
		{"another owner's name", func() { s.send("PATCH", "/api/me", other, `{"owner":"Somebody else"}`).status(200) },
			shown{card: "!" + counted, others: "!" + counted, "/api/agents?view=brief": "!" + counted, collabs: "!" + counts}},
		{"a new name", func() { s.send("PATCH", "/api/me", other, `{"name":"Renamed"}`).status(200) },
			shown{collabs: "Renamed", "/api/collabs": "Renamed"}},
		{"a link", func() {
			s.send("POST", "/api/me/links", key, `{"url":"https://harbour.example.org/about"}`).status(200)
		},
			shown{card: `"failure":"unreachable"`, "/api/agents": "harbour.example.org/about"}},
		{"no link", func() {
			s.send("POST", "/api/me/links", key, `{"url":"https://harbour.example.org/about","remove":true}`).status(200)
		}, shown{card: "!harbour.example.org/about", "/api/agents": "!harbour.example.org/about"}},
		{"a withdrawn claim", func() { s.actAsOwner(token, domain.OwnerSubmission{Act: domain.OwnerWithdraw}) },
			shown{card: `"owner_claimed":false`, "/api/agents?min_level=2": "!harbour-pilot", thread: `"level":1`}},
		{"a deleted partner", func() { s.remove("tide-gauge") },
			shown{collabs: "!Renamed", "/api/collabs": `"handle":"tide-gauge"`, "/api/collabs?handle=tide-gauge": "Fresh work"}},
	})
}

func TestCache_ExpiresTimeDependentResponses(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot")
	call := s.post(key, "Due today", "deadline", "2026-11-20")
	const open = "/api/posts?open=true"
	pages := map[string]string{"/": "", "/calls": "", "/calls?open=true": "", "/calls/" + call: ""}
	if n := s.send("GET", open, "", nil).status(200).len("posts"); n != 1 {
		t.Fatalf("%d open calls today", n)
	}
	before := s.send("GET", "/api/stats", "", nil).status(200)
	s.agent("newcomer")
	s.clock.Advance(10 * time.Second)
	if a := s.send("GET", "/api/stats", "", nil); a.value("agents") != 2.0 || before.value("agents") != 1.0 {
		t.Errorf("counts are older than 10 seconds: %s", a.Body)
	}
	s.clock.Advance(14*time.Hour + 29*time.Minute + 49*time.Second) // a second before midnight
	equal(t, 1, s.send("GET", open, "", nil).status(200).len("posts"), "open calls before midnight")
	for path := range pages {
		pages[path] = s.openPage(path).status(200).Header.Get("Etag")
	}
	s.clock.Advance(time.Minute)
	for path, tag := range pages {
		s.openPage(path, "If-None-Match: "+tag).status(200) // it shows which calls are open
	}
	equal(t, 0, s.send("GET", open, "", nil).status(200).len("posts"), "open calls a minute later")
	s.send("GET", "/api/agents?new=true", "", nil).status(200)
	s.clock.Advance(31 * domain.Day)
	equal(t, 0, s.send("GET", "/api/agents?new=true", "", nil).status(200).len("agents"), "new agents after a month")
}

// TestCache_ShowsThatCallsWereClosed by the job, which does not wait until their responses expire.
func TestCache_ShowsThatCallsWereClosed(t *testing.T) {
	s := newSite(t)
	s.post(s.agent("harbour-pilot"), "Due today", "deadline", "2026-11-20")
	s.clock.Advance(14*time.Hour + 29*time.Minute + 50*time.Second) // ten seconds before midnight
	const open = "/api/posts?open=true"
	equal(t, 1, s.send("GET", open, "", nil).status(200).len("posts"), "open calls before midnight")

	s.clock.Advance(11 * time.Second)
	testkit.NoError(t, s.store.RunJobs(t.Context()))
	equal(t, 0, s.send("GET", open, "", nil).status(200).len("posts"), "open calls after midnight")
}

// TestCache_UnchangedPagesKeepTheirETag although they are rendered again, and the counts on the home page have a time.
func TestCache_UnchangedPagesKeepTheirETag(t *testing.T) {
	s := newSite(t)
	call := s.post(s.agent("harbour-pilot"), "Kept call")
	for _, path := range []string{"/", "/agents", "/agents/harbour-pilot", "/calls", "/calls/" + call, "/calls.atom", "/docs/api", "/about"} {
		tag := s.openPage(path).status(200).Header.Get("Etag")
		s.clock.Advance(time.Minute)
		s.openPage(path, "If-None-Match: "+tag).status(304)
	}
}

var seenNumber = regexp.MustCompile(`seen-(\d+)-end`)

// TestReads_AreNeverOlderThanAcknowledgedWrites reads cards, searches and pages of agents that change all the time, each
// by a number that grows: no response has a lower number than the last one that was acknowledged before the request.
func TestReads_AreNeverOlderThanAcknowledgedWrites(t *testing.T) {
	s := newSite(t)
	const writers, readers = 3, 3
	var acknowledged [writers]atomic.Int64
	var checks, stale atomic.Int64
	var keys [writers]string
	for i := range writers {
		keys[i] = s.agent(fmt.Sprintf("writer-%d", i), "tagline", "seen-0-end")
	}

	wanted := int64(proof.Rounds(600, 20_000, 200_000))
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for n := int64(1); checks.Load() < wanted; n++ {
				r := testkit.Must(http.NewRequest("PATCH", s.url+"/api/me", strings.NewReader(fmt.Sprintf(`{"tagline":"seen-%d-end"}`, n))))(t)
				r.Header.Set("Authorization", "Bearer "+keys[i])
				if a := receive(t, testkit.Must(s.client.Do(r))(t)); a.Status == 200 {
					acknowledged[i].Store(n)
				}
			}
		})
	}
	for reader := range readers {
		group.Go(func() {
			for n := reader; checks.Load() < wanted; n++ {
				i := n % writers
				path := []string{"/api/agents/writer-%d", "/api/agents?match=all&q=writer-%d", "/agents/writer-%d"}[n/writers%3]
				least := acknowledged[i].Load()
				a := receive(t, testkit.Must(s.client.Get(s.url+fmt.Sprintf(path, i)))(t))
				seen := int64(-1)
				if found := seenNumber.FindSubmatch(a.Body); found != nil {
					seen, _ = strconv.ParseInt(string(found[1]), 10, 64)
				}
				if checks.Add(1); seen < least {
					stale.Add(1)
				}
			}
		})
	}
	group.Wait()

	proof.Figure(t, "checks", int(checks.Load()))
	proof.Figure(t, "stale", int(stale.Load()))
	if n := stale.Load(); n > 0 {
		t.Errorf("%d of %d responses are older than an acknowledged write", n, checks.Load())
	}
}
