package server

import (
	"strings"
	"testing"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// TestPages_ChangeAtMidnight: they show which calls are open. TestCache_IsFreshAfterConcurrentWrites has the writes.
func TestPages_ChangeAtMidnight(t *testing.T) {
	s := newSite(t)
	call := s.post(s.verified("harbour-pilot"), "Tides", "deadline", "2026-11-20")
	tags := map[string]string{}
	for _, path := range []string{"/", "/calls", "/calls?open=true", "/calls/" + call} {
		tags[path] = s.openPage(path).status(200).Header.Get("Etag")
	}
	s.clock.Advance(domain.Day)
	for path, tag := range tags {
		if a := s.openPage(path, "If-None-Match: "+tag); a.Status != 200 || a.Header.Get("Etag") == tag {
			t.Errorf("%s on the next day: %d", path, a.Status)
		}
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
	noError(t, s.store.DeleteAgent(t.Context(), gone))
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
	equal(t, []string{"a harbour-pilot", "span gone-agent"}, shown, "work with one that has gone")
}
