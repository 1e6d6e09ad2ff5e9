package server

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// ownerPages returns the page in every state, the responses of its buttons, and its errors, in one language.
func (s *ownerSite) ownerPages(lang string) map[string]*result {
	s.Helper()
	pages := map[string]*result{}
	query := "?lang=" + lang
	sender := s.verified("sender-" + lang)
	handles := 0
	enter := func(state string) (handle, token string) {
		handles++
		handle = fmt.Sprintf("agent-%s-%d", lang, handles)
		return handle, ownerStates[state](s, handle)
	}
	for state := range ownerStates {
		handle, token := enter(state)
		pages[state] = s.open("/owner/"+token, lang).status(200)
		if !strings.HasPrefix(state, "pending") && state != "about to be deleted" {
			s.waits(handle, sender)
			pages[state+", a request waits"] = s.open("/owner/"+token, lang).status(200)
		}
	}
	for _, act := range []domain.OwnerAction{
		domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerRotateKey,
		domain.OwnerRetire, domain.OwnerAgree, domain.OwnerRefuse,
	} {
		state := "claimed"
		if act == domain.OwnerConfirm || act == domain.OwnerReject {
			state = "pending"
		}
		handle, token := enter(state)
		pages["done: "+string(act)] = s.submit(token, query, "form", s.form(token), "act", string(act), "confirm", handle, "request", s.waits(handle, sender)).status(200)
	}
	_, token := enter("about to be deleted")
	pages["done: keep"] = s.submit(token, query, "form", s.form(token), "act", "keep").status(200)
	handle, token := enter("claimed")
	s.database.MustExec(`UPDATE agents SET require_owner_receipt = TRUE WHERE id = (SELECT id FROM handles WHERE handle = ?)`, handle)
	pages["receipts required"] = s.open("/owner/"+token, lang).status(200)
	pages["done: waive"] = s.submit(token, query, "form", s.form(token), "act", "waive-receipts").status(200)
	_, token = enter("mailbox changed and verified")
	pages["done: rotate-key after a change"] = s.submit(token, query, "form", s.form(token), "act", "rotate-key").status(200)

	_, token = enter("claimed")
	pages["stale"] = s.submit(token, query, "act", "withdraw").status(409)
	pages["mistyped"] = s.submit(token, query, "form", s.form(token), "act", "retire", "confirm", "other").status(422)
	pages["unknown act"] = s.submit(token, query, "form", s.form(token), "act", "sell").status(422)
	pages["forbidden"] = s.send("POST", "/owner/"+token+query, "", "act=withdraw", formType, "Sec-Fetch-Site: cross-site").status(403)
	pages["media type"] = s.send("POST", "/owner/"+token+query, "", "{}", "Content-Type: application/json").status(415)
	pages["too large"] = s.send("POST", "/owner/"+token+query, "", strings.Repeat("x", 70_000), formType).status(413)
	pages["bad form"] = s.send("POST", "/owner/"+token+query, "", "%", formType).status(400)
	pages["compressed"] = s.send("POST", "/owner/"+token+query, "", "act=withdraw", formType, "Content-Encoding: gzip").status(415)
	pages["fields as a query"] = s.send("POST", "/owner/"+token+query+"&act=withdraw&form="+s.form(token), "", "", formType).status(422)
	pages["method"] = s.send("DELETE", "/owner/"+token+query, "", nil).status(405)
	pages["gone"] = s.open("/owner/gone", lang).status(404)
	mails := strings.TrimPrefix(stopLink(s, s.outgoing.Messages()[0].Text), "/owner/")
	pages["mails"] = s.open("/owner/"+mails, lang).status(200)
	pages["mails, unknown act"] = s.submit(mails, query, "act", "sell").status(422)
	pages["mails, ended"] = s.submit(mails, query, "act", "stop").status(200)
	pages["mails, again"] = s.submit(mails, query, "act", "resume").status(200)
	pages["mails, gone"] = s.open("/owner/mails/gone", lang).status(404)
	_, token = enter("pending, not verified")
	pages["not verified"] = s.submit(token, query, "form", s.form(token), "act", "confirm").status(403)
	for _, code := range []domain.Code{domain.CodeUnavailable, domain.CodeStorageFull, domain.CodeRateLimited, api.CodeInternal} {
		pages[string(code)] = s.errorPage("/owner/x"+query, code)
	}
	return pages
}

// errorPage returns the page of an error that is hard to bring about.
func (s *ownerSite) errorPage(path string, code domain.Code) *result {
	w := httptest.NewRecorder()
	fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.server.pages.RenderError(w, r, api.NewError(code, "")) })
	s.server.observer.Observe(fails, w, httptest.NewRequest("GET", path, nil))
	return &result{TB: s.TB, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
}

// TestOwnerPage_IsValidInEveryState and in both languages.
func TestOwnerPage_IsValidInEveryState(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newOwnerSite(t)
	want := ownerPageHeaders.and("Allow", "", "Retry-After", "")
	own := slices.Concat(chineseKeeps, []string{"中文"})
	foreign := map[string]*regexp.Regexp{"en": regexp.MustCompile(`[\p{Han}，。：；（）]+`), "zh": regexp.MustCompile(`[A-Za-z]{2,}`)}
	for _, lang := range []string{"en", "zh"} {
		for name, page := range s.ownerPages(lang) {
			doc := parsePage(t, page.Body)
			for _, problem := range append(pageProblems(doc, ownAddress.MatchString), loadProblems(doc)...) {
				t.Errorf("%s, %s: %s", name, lang, problem)
			}
			if !bytes.HasPrefix(page.Body, []byte("<!DOCTYPE html>\n<html lang=\""+lang+"\">")) {
				t.Errorf("%s, %s: begins with %.60q", name, lang, page.Body)
			}
			text := regexp.MustCompile(`agent-zh-\d+`).ReplaceAllString(ownWords(doc), "")
			for _, keep := range own {
				text = strings.ReplaceAll(text, keep, "")
			}
			if left := foreign[lang].FindAllString(text, -1); len(left) > 0 {
				t.Errorf("%s, %s: left in the other language: %q", name, lang, left)
			}
			if at := bytes.IndexByte(page.Body, '@'); at >= 0 {
				t.Errorf("%s: an address: %s", name, page.Body[max(0, at-40):at+20])
			}
			got := headersOf(page).and("Allow", "", "Retry-After", "", "Vary", want["Vary"], "Content-Encoding", "")
			equal(t, want.and("Content-Language", lang), got, "%s, %s: headers", name, lang)
		}
	}
	for state, enter := range ownerStates {
		token := enter(s, "agent-"+regexp.MustCompile(`[^a-z]`).ReplaceAllString(state, ""))
		if page := s.open("/owner/"+token, "en"); bytes.Contains(page.Body, []byte(token)) {
			t.Errorf("%s: the page holds its token", state)
		}
	}
}

// ownAddress is where a page may lead: a path of the site, its own query, its own parts.
var ownAddress = regexp.MustCompile(`^(/([a-z.]*|docs/reference)(\?lang=(en|zh))?(#operator)?|\?lang=(en|zh)|#[a-z]+)$`)

// hostilePages are the pages of two agents that write text wherever they can:
// one whose claim waits, one whose owner has a request to response.
type hostilePages struct {
	*ownerSite
	pending, claimed, sender string // keys
	page                     string // token of the claimed one
}

func newHostilePages(t testing.TB) *hostilePages {
	s := &hostilePages{ownerSite: newOwnerSite(t)}
	s.pending = s.verified("tide-reader")
	s.claimed, s.page = s.inForce("harbour-pilot")
	s.sender = s.verified("lantern-keeper")
	s.send("PATCH", "/api/me", s.claimed, `{"contact_policy":{"require_owner_receipt":true}}`).status(200)
	return s
}

// write has all agents write a text into every field, and returns the pages.
func (s *hostilePages) write(text string) map[string]*result {
	s.Helper()
	for _, key := range []string{s.pending, s.claimed, s.sender} {
		s.send("PATCH", "/api/me", key, map[string]any{"owner": text}).status(200)
		s.rename(s.caller(key), text)
	}
	if page, err := s.store.OwnerPage(s.Context(), s.page); err != nil || !page.Claimed {
		s.actAsOwner(s.page, domain.OwnerSubmission{Act: domain.OwnerConfirm})
	}
	pending := s.startClaim(s.pending, "mei@harbour.example.org")
	menu := map[string]any{"offerings": []any{map[string]any{
		"title": text, "deliverable": text, "mode": "free", "for_whom": text, "not_doing": text, "turnaround_days": 3, "tags": []any{text},
	}}}
	offering := s.send("PUT", "/api/me/offerings", s.claimed, menu).status(200).text("offerings", 0, "id")
	id := s.send("POST", "/api/agents/harbour-pilot/requests", s.sender, map[string]any{
		"purpose": text, "deliverable": text, "context": text + "\n\n" + text, "compensation": "none", "offering_id": offering, "deadline": "2099-12-31",
	}).status(201).text("request", "id")
	s.send("POST", "/api/requests/"+id+"/accept", s.claimed, nil).status(200)
	pages := map[string]*result{
		"pending": s.open("/owner/"+pending, "en").status(200),
		"claimed": s.open("/owner/"+s.page, "zh").status(200),
		"stale":   s.submit(s.page, "?lang=en", "act", "withdraw").status(409),
	}
	s.actAsOwner(s.page, domain.OwnerSubmission{Act: domain.OwnerAgree, Request: id})
	s.clock.Advance(domain.Day) // so that no weekly cap is met
	return pages
}

func TestOwnerPage_HostileTextStaysText(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newHostilePages(t)
	benign := map[string][]string{}
	for name, page := range s.write("Plain words") {
		benign[name] = structure(parsePage(t, page.Body))
	}
	texts := variedHostileTexts()
	if len(texts) < proof.Rounds(25, 300, 300) {
		t.Fatalf("only %d hostile texts", len(texts))
	}
	pages := 0
	for _, text := range texts {
		for name, page := range s.write(text) {
			pages++
			doc := parsePage(t, page.Body)
			equal(t, benign[name], structure(doc), "%s: %q changes the page", name, text)
			quoted := elements(doc, "q", "blockquote")
			for _, q := range quoted {
				if got := innerText(q); got != text && got != text+"\n\n"+text {
					t.Errorf("%s: %q is shown as %q", name, text, got)
				}
			}
			if want := map[bool]int{true: 2, false: 10}[name == "pending"]; len(quoted) != want {
				t.Errorf("%s: %d quotations, want %d", name, len(quoted), want)
			}
		}
	}
	proof.Figure(t, "texts on owners pages", len(texts))
	proof.Figure(t, "pages", pages)
}
