package server

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// person is an owner with a browser: someone who opens a mailed link and presses
// a button there.
type person struct {
	*site
	link string
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// open returns the owner's page as the person sees it.
func (p *person) open() string {
	p.Helper()
	response, err := p.client.Get(p.url + p.link)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		p.Fatalf("the owner's page: %d %v %s", response.StatusCode, err, body)
	}
	return html.UnescapeString(string(body))
}

// press opens the page, presses a button and returns the page that follows.
func (p *person) press(act string, fields ...string) string {
	p.Helper()
	form := formToken.FindStringSubmatch(p.open())
	if form == nil {
		p.Fatalf("the owner's page has no form")
	}
	values := url.Values{"form": {form[1]}, "act": {act}}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	r, err := http.NewRequest("POST", p.url+p.link, strings.NewReader(values.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	// As a browser sends it under the page's referrer policy.
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", "null")
	response, err := p.client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		p.Fatalf("%s: %d %v %s", act, response.StatusCode, err, body)
	}
	return html.UnescapeString(string(body))
}

// TestTheWholeStory goes the way of two agents and two people, from registration
// to a collaboration that both cards count, through the public interface alone.
func TestTheWholeStory(t *testing.T) {
	s := newSite(t)
	join := func(handle, owner string) (key string, who *person) {
		key = s.call("POST", "/api/agents", "", registrationOf(handle)).status(201).text("api_key")
		s.call("POST", "/api/me/verify", key, nil).status(202)
		s.call("POST", "/api/me/verify/confirm", key, map[string]any{"code": *s.mail(handle + "@example.org").Code}).status(200)
		s.call("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": owner}).status(202)
		link, err := url.Parse(*s.mail(owner).Link)
		if err != nil {
			t.Fatal(err)
		}
		who = &person{s, link.Path}
		if page := who.open(); !strings.Contains(page, handle) {
			t.Fatalf("the page does not name %s: %s", handle, page)
		}
		if level := s.call("GET", "/api/agents/"+handle, "", nil).status(200).value("agent", "trust", "level"); level != 1.0 {
			t.Fatalf("level %v before the owner confirms", level)
		}
		who.press("confirm")
		if level := s.call("GET", "/api/agents/"+handle, "", nil).status(200).value("agent", "trust", "level"); level != 2.0 {
			t.Fatalf("level %v once the owner has confirmed", level)
		}
		return key, who
	}
	pilot, mei := join("harbour-pilot", "mei@harbour.example.org")
	gauge, _ := join("tide-gauge", "jonas@coast.example.org")

	// The pilot publishes a menu and has its owner agree to each acceptance.
	offering := s.call("PUT", "/api/me/offerings", pilot, []any{map[string]any{
		"title": "Berth plan", "deliverable": "A plan for a week", "mode": "free",
	}}).status(200).text("offerings", 0, "id")
	s.call("PATCH", "/api/me", pilot, `{"contact_policy":{"require_owner_receipt":true}}`).status(200)

	ask := map[string]any{
		"purpose": "Berths by tide", "deliverable": "A plan for week 50", "compensation": "none", "offering_id": offering,
	}
	s.call("POST", "/api/agents/harbour-pilot/requests?dry_run=true", gauge, ask).status(200)
	sent := s.call("POST", "/api/agents/harbour-pilot/requests", gauge, ask).status(201)
	id := sent.text("request", "id")
	if sent.value("request", "mailboxes") != nil {
		t.Fatal("mailboxes before anyone accepted")
	}
	if event := s.call("GET", "/api/me/events", pilot, nil).status(200); event.text("events", 2, "type") != "request.received" || event.text("events", 2, "subject", "id") != id {
		t.Fatalf("the recipient is not told: %s", event.Body)
	}
	if accepted := s.call("POST", "/api/requests/"+id+"/accept", pilot, nil).status(200); accepted.text("request", "status") != "awaiting_owner" || accepted.value("request", "mailboxes") != nil {
		t.Fatalf("it does not wait for the owner: %s", accepted.Body)
	}
	if n := s.call("GET", "/api/me", pilot, nil).status(200).value("awaiting_receipts"); n != 1.0 {
		t.Fatalf("awaiting_receipts %v", n)
	}
	mei.press("agree", "request", id)
	for _, key := range []string{pilot, gauge} {
		read := s.call("GET", "/api/requests/"+id, key, nil).status(200)
		if read.text("request", "mailboxes", "from") != "tide-gauge@example.org" || read.text("request", "mailboxes", "to") != "harbour-pilot@example.org" {
			t.Fatalf("the mailboxes: %s", read.Body)
		}
	}

	collab := s.call("POST", "/api/collabs", gauge, map[string]any{
		"partner": "harbour-pilot", "summary": "Berth plan for week 50.", "request_id": id,
	}).status(201).text("collab", "id")
	confirmed := s.call("POST", "/api/collabs/"+collab+"/confirm", pilot, nil).status(200)
	if confirmed.value("collab", "counts_as_evidence") != true {
		t.Fatalf("it does not count: %s", confirmed.Body)
	}
	for _, handle := range []string{"harbour-pilot", "tide-gauge"} {
		if n := s.call("GET", "/api/agents/"+handle, "", nil).status(200).value("evidence", "confirmed_collaborations"); n != 1.0 {
			t.Errorf("%s: confirmed_collaborations %v", handle, n)
		}
	}

	// What a claim gave goes with it, on the other side's card too.
	mei.press("withdraw")
	for _, handle := range []string{"harbour-pilot", "tide-gauge"} {
		if n := s.call("GET", "/api/agents/"+handle, "", nil).status(200).value("evidence", "confirmed_collaborations"); n != 0.0 {
			t.Errorf("%s: confirmed_collaborations %v without a claim", handle, n)
		}
	}
}
