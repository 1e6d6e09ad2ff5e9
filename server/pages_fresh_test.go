package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// madeOf maps pages to the responses of the API that they are built from.
type madeOf map[string][]string

// dated reports whether a page shows which calls are open today.
func dated(page string) bool {
	return page == "/" || strings.HasPrefix(page, "/calls") && !strings.HasPrefix(page, "/calls.atom")
}

// tags returns the present ETags and statuses of the pages and of the API's responses.
func (s *site) tags(pages madeOf) map[string]string {
	s.Helper()
	tags := map[string]string{}
	note := func(path string, headers ...string) {
		a := s.sendRaw("GET", path, headers...)
		tags[path+strings.Join(headers, "")] = a.Header.Get("Etag") + fmt.Sprint(a.Status)
		if path == "/api/stats" { // a page shows the counts, not when they were counted
			var counts map[string]any
			a.into(&counts)
			delete(counts, "as_of")
			tags[path] = fmt.Sprint(counts)
		}
	}
	for page, responses := range pages {
		note(page)
		note(page, "Accept-Language: zh")
		note(inLanguage(page, "en"))
		for _, response := range responses {
			note(response)
		}
	}
	return tags
}

// changed returns the pages that changed between, in whatever language.
func (pages madeOf) changed(t testing.TB, when string, before, after map[string]string, newDay bool) (changed []string) {
	t.Helper()
	for page, responses := range pages {
		due := newDay && dated(page)
		for _, response := range responses {
			due = due || before[response] != after[response]
		}
		for _, form := range []string{page, page + "Accept-Language: zh", inLanguage(page, "en")} {
			if (before[form] != after[form]) != due {
				t.Errorf("%s: %s changed: %t, what it is made from: %t", when, form, !due, due)
			}
		}
		if due {
			changed = append(changed, page)
		}
	}
	slices.Sort(changed)
	return changed
}

func TestPages_ETagFollowsTheContent(t *testing.T) {
	s := newSite(t)
	pilot, gauge := s.verified("harbour-pilot"), s.agent("tide-gauge")
	call := s.post(pilot, "Tide data wanted")
	s.post(gauge, "Tides", "kind", "offering", "deadline", "2026-11-20")
	work := s.collab(pilot, "tide-gauge")
	pages := madeOf{
		"/":                        {"/api/agents?limit=6&view=brief", "/api/posts?limit=4", "/api/stats"},
		"/agents":                  {"/api/agents?limit=20&view=brief"},
		"/agents?q=pilot":          {"/api/agents?limit=20&q=pilot&view=brief"},
		"/agents?min_level=1":      {"/api/agents?limit=20&min_level=1&view=brief"},
		"/agents/harbour-pilot":    {"/api/agents/harbour-pilot", "/api/collabs?handle=harbour-pilot&limit=5"},
		"/agents/tide-gauge":       {"/api/agents/tide-gauge", "/api/collabs?handle=tide-gauge&limit=5"},
		"/calls":                   {"/api/posts?limit=20"},
		"/calls?kind=seeking":      {"/api/posts?kind=seeking&limit=20"},
		"/calls?open=true":         {"/api/posts?limit=20&open=true"},
		"/calls/" + call:           {"/api/posts/" + call + "?limit=20"},
		"/calls.atom?kind=seeking": {"/api/posts?kind=seeking&limit=20"},
	}
	agents, calls := []string{"/", "/agents", "/agents?min_level=1", "/agents?q=pilot"}, []string{"/", "/calls", "/calls.atom?kind=seeking", "/calls/" + call, "/calls?kind=seeking", "/calls?open=true"}
	cards := []string{"/agents/harbour-pilot", "/agents/tide-gauge"}
	all := slices.Concat(agents, calls[1:], cards)
	without := func(list []string, less ...string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(page string) bool { return slices.Contains(less, page) })
	}
	before := s.tags(pages)
	for _, act := range []struct {
		name   string
		act    func()
		want   []string
		newDay bool
	}{
		{"nothing", func() {}, nil, false},
		{"a profile", func() { s.send("PATCH", "/api/me", pilot, `{"tagline":"Berths"}`).status(200) }, append(agents, cards[0]), false},
		{"a name", func() { s.send("PATCH", "/api/me", gauge, `{"name":"Gauge"}`).status(200) }, without(all, "/agents?q=pilot", "/agents?min_level=1", "/agents/harbour-pilot", "/calls.atom?kind=seeking", "/calls/"+call, "/calls?kind=seeking"), false},
		{"a call", func() { s.post(pilot, "Another") }, append(without(calls, "/calls/"+call), cards[0]), false},
		{"a reply", func() {
			s.send("POST", "/api/posts/"+call+"/replies", gauge, `{"body":"Here."}`).status(201)
		}, calls, false},
		{"work", func() { s.send("POST", "/api/collabs/"+work+"/confirm", gauge, nil).status(200) }, cards, false},
		{"a verification", func() { s.verify(gauge) }, without(all, "/agents?q=pilot", "/calls.atom?kind=seeking", "/calls?kind=seeking"), false},
		{"a link", func() { s.link(gauge, "https://harbour.example.org/about").status(200) }, cards[1:], false},
		{"a suspension", func() { s.suspend("tide-gauge") }, without(all, "/agents?q=pilot"), false}, // its reply does not count
		{"its end", func() { must(true, s.store.Unsuspend(t.Context(), "tide-gauge"))(t) }, without(all, "/agents?q=pilot"), false},
		{"a look by the service", func() { must(true, s.store.RunJobs(t.Context()))(t) }, nil, false},
		{"the next day", func() { s.clock.Advance(domain.Day) }, without(calls, "/calls.atom?kind=seeking"), true},
		{"the same counts later", func() { s.clock.Advance(domain.StatsAge) }, nil, false},
		{"a deletion", func() { s.send("DELETE", "/api/me?confirm=tide-gauge", gauge, nil).status(204) }, without(all, "/agents?q=pilot"), false}, // its reply goes too
	} {
		act.act()
		after := s.tags(pages)
		if diff := cmp.Diff(slices.Sorted(slices.Values(act.want)), pages.changed(t, act.name, before, after, act.newDay)); diff != "" {
			t.Errorf("%s (-want +changed):\n%s", act.name, diff)
		}
		before = after
	}
}

func TestPages_EveryVariantHasItsETag(t *testing.T) {
	s := newPeopleSite(t)
	proof.OneByOne(t)
	for name, path := range s.paths() {
		forms := map[string]string{}
		for _, form := range [][2]string{{path, "en"}, {path, "zh"}, {inLanguage(path, "en"), "zh"}, {inLanguage(path, "zh"), "en"}} {
			a := s.sendRaw("GET", form[0], "Accept-Language: "+form[1]).status(200)
			tag := a.Header.Get("Etag")
			if other, taken := forms[tag]; taken {
				t.Errorf("%s: %v has the tag of %s", name, form, other)
			}
			forms[tag] = strings.Join(form[:], " in ")
			for _, match := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
				known := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+match).status(304)
				if len(known.Body) > 0 || known.Header.Get("Etag") != tag || known.Header.Get("Vary") == "" || known.Header.Get("Cache-Control") != api.Revalidate || known.Header.Get("Content-Security-Policy") != policyOfPages {
					t.Errorf("%s, 304: %v", name, known.Header)
				}
			}
			for other := range forms {
				if other != tag {
					s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+other).status(200)
				}
			}
			if again := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "Accept-Encoding: gzip"); again.Header.Get("Etag") != tag || string(unzipped(t, again)) != string(a.Body) {
				t.Errorf("%s: compressed it is another", name)
			}
		}
	}
	plain := s.openPage("/agents?min_level=1").Header.Get("Etag")
	for _, same := range []string{"/agents?min_level=1&utm_source=x", "/agents?utm_source=x&min_level=1&q=", "/agents?min_level=1&q=+&capability=%09", "/%61gents?min_level=1", "/agents?min_level=1&min_level=2&lang=fr"} {
		if tag := s.openPage(same).status(200).Header.Get("Etag"); tag != plain {
			t.Errorf("%s has another tag", same)
		}
	}
}

// TestPages_OmitDeletedAndSuspendedAgents: no page shows or links to deleted or suspended agents
// and their texts.
func TestPages_OmitDeletedAndSuspendedAgents(t *testing.T) {
	s := newSite(t)
	pilot := s.register(domain.Registration{Handle: "harbour-pilot"})
	mark := domain.Profile{Tagline: "Canary text", Capabilities: []string{"canary"}}
	gone, fog := s.register(domain.Registration{Handle: "gone-agent", Name: "Canary", Profile: mark}), s.register(domain.Registration{Handle: "fog-horn", Name: "Canary", Profile: mark})
	call := s.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: "A call", Body: "b"})
	pages := []string{"/", "/agents", "/agents?q=canary", "/agents?capability=canary", "/calls", "/calls?q=canary", "/calls.atom", "/agents/harbour-pilot", "/calls/" + call}
	for _, other := range []domain.Caller{gone, fog} {
		pages = append(pages, "/agents/"+other.Handle, "/calls/"+s.createPost(other, domain.PostDraft{Kind: "offering", Title: "Canary call", Body: "b"}))
		s.createReply(other, call, "Canary reply")
		s.recordCollab(pilot, other, "Work")
	}
	for _, page := range pages {
		if a := s.openPage(page).status(200); !strings.Contains(string(a.Body), "anary") && page != "/agents/harbour-pilot" {
			t.Fatalf("%s shows nothing of them", page)
		}
	}
	must(true, s.store.DeleteAgent(t.Context(), gone))(t)
	s.suspend("fog-horn")
	for _, page := range pages {
		for _, lang := range []string{"en", "zh"} {
			a := s.openPage(inLanguage(page, lang))
			if wantGone := strings.HasPrefix(page, "/agents/") && page != "/agents/harbour-pilot" || strings.HasPrefix(page, "/calls/") && page != "/calls/"+call; (a.Status == 404) != wantGone {
				t.Errorf("%s: %d", page, a.Status)
			}
			text := strings.ReplaceAll(string(a.Body), "q=canary", "")
			text = strings.ReplaceAll(strings.ReplaceAll(text, "capability=canary", ""), `value="canary"`, "")
			if strings.Contains(text, "anary") || strings.Contains(text, "/agents/gone-agent") || strings.Contains(text, "fog-horn") {
				t.Errorf("%s shows who has gone: %s", page, text)
			}
		}
	}
	card := parsePage(t, s.openPage("/agents/harbour-pilot").Body)
	var shown []string
	for _, n := range elements(card) {
		if hasClass(n, "callsign") && inSection(n, "evidence") {
			shown = append(shown, n.Data+" "+innerText(n))
		}
	}
	if diff := cmp.Diff([]string{"a harbour-pilot", "span gone-agent"}, shown); diff != "" {
		t.Errorf("work with one that has gone (-want +got):\n%s", diff)
	}
}
