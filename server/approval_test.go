package server

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// asOf is the time in the counts, and the random mark and id of a tool's response.
var asOf = regexp.MustCompile(`\\?"as_of\\?":\\?"[^"\\]*|[0-9a-f]{16,}`)

// TestApproval_NothingIsVisible: until the operator approves an agent, every public response is as if it
// did not exist, also to a request that names it or a text of its own.
func TestApproval_NothingIsVisible(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newSite(t, func(o *siteOptions) { o.mode = domain.RegistrationApprove })
	approve := func(handle string) {
		t.Helper()
		testkit.NoError(t, s.store.ActOnAgent(context.Background(), domain.OperatorApprove, handle))
	}
	other := s.agent("tide-gauge")
	approve("tide-gauge")
	s.verify(other)
	s.post(other, "Tides for all")
	texts := []string{"zqhandle", "zqname", "zqowner", "zqtagline", "zqenglish", "泊位", "zqability", "zqmodel", "zqmenu", "zqdeliver", "zqtag", "zqbox"}

	paths := s.publicReads()
	for _, text := range append(texts, "tides") {
		for _, list := range []string{"/api/agents?q=", "/api/agents?match=all&q=", "/api/agents?view=brief&q=", "/api/agents?capability=", "/agents?q=", "/api/posts?q=", "/api/posts?tag=", "/calls?q="} {
			paths = append(paths, list+url.QueryEscape(text))
		}
	}
	paths = append(paths, strings.Fields("/ /?lang=zh /agents /calls /calls.atom /llms.txt /skill.md /robots.txt /api/agents?new=true /api/agents?language=tlh "+
		"/api/agents?verified=true /api/agents?min_level=1 /agents/zqhandle /api/agents/zqhandle /api/collabs?handle=zqhandle /api/posts?author=zqhandle "+
		"/sitemap.xml /mcp/server-card /agents/zqhandle/badge.svg /calls.atom?author=zqhandle /calls.atom?q=zqtag")...)
	look := func() map[string]string {
		s.clock.Advance(2 * domain.StatsAge)
		all := map[string]string{}
		for _, path := range paths {
			for key, who := range map[string]string{"": "", other: " by another"} {
				a := s.send("GET", path, key, nil)
				all[path+who] = fmt.Sprint(a.Status, " ", string(asOf.ReplaceAll(a.Body, nil)))
			}
		}
		for name, arguments := range map[string]any{
			"search_agents": map[string]any{"q": "zqname"}, "get_agent": map[string]any{"handle": "zqhandle"}, "get_stats": nil,
			"list_collabs": map[string]any{"handle": "zqhandle"}, "search_calls": map[string]any{"author": "zqhandle"},
		} {
			r := s.tool(name, arguments)
			all[name] = fmt.Sprint(r.IsError, string(asOf.ReplaceAll(r.Structured, nil)))
		}
		for what, a := range map[string]*result{
			"the events of another": s.send("GET", "/api/me/events", other, nil),
			"a request":             s.send("POST", "/api/agents/zqhandle/requests?dry_run=true", other, requestDraft),
			"a collaboration":       s.send("POST", "/api/collabs", other, map[string]any{"partner": "zqhandle", "summary": "Tides"}),
			"a report":              s.send("POST", "/api/agents/zqhandle/report", "", nil),
		} {
			all[what] = fmt.Sprint(a.Status, string(a.Body))
		}
		return all
	}
	before := look()
	key := s.agent("zqhandle", "name", "Zqname", "owner", "Zqowner", "tagline", "zqtagline", "description_en", "zqenglish", "description_zh", "泊位。",
		"capabilities", []string{"zqability"}, "languages", []string{"tlh"}, "model", "zqmodel", "mailbox", "zqbox@example.org", "contact_public", true)
	if !s.send("GET", "/api/me", key, nil).status(200).value("awaiting_approval").(bool) {
		t.Fatal("the agent does not wait for approval")
	}
	s.send("PUT", "/api/me/offerings", key, `{"offerings":[{"title":"zqmenu","deliverable":"zqdeliver","mode":"free","tags":["zqtag"]}]}`).status(200)
	s.send("PATCH", "/api/me", key, `{"homepage":"https://zqpage.example.org"}`).status(200)
	s.send("POST", "/api/me/verify", key, nil).status(202)
	s.send("POST", "/api/me/verify/confirm", key, map[string]any{"code": *s.mail("zqbox@example.org").Code}).status(200)
	testkit.NoError(t, s.server.RunJobs(context.Background()))
	for path, now := range look() {
		if now != before[path] {
			t.Errorf("%s shows that there is an agent: %.600s\nwas %.600s", path, now, before[path])
		}
	}
	approve("zqhandle")
	shown := 0
	for path, now := range look() {
		if now != before[path] {
			shown++
		}
	}
	if shown < 60 {
		t.Errorf("only %d responses show the agent once it is approved", shown)
	}
	if s.send("GET", "/api/me", key, nil).status(200).value("awaiting_approval").(bool) {
		t.Error("the agent still waits")
	}
}

// TestRegistration_SaysWhoMayRegister in the index, in the guide in both languages, and to a new agent.
func TestRegistration_SaysWhoMayRegister(t *testing.T) {
	for mode, words := range map[domain.RegistrationMode][2]string{
		domain.RegistrationOpen:    {"open to everybody", "开放注册"},
		domain.RegistrationInvite:  {"`invite_required`", "凭邀请注册"},
		domain.RegistrationApprove: {"`awaiting_approval`", "须经运营者批准"},
		domain.RegistrationClosed:  {"`registration_closed`", "已停止注册"},
	} {
		s := newSite(t, func(o *siteOptions) { o.mode = mode })
		equal(t, string(mode), s.send("GET", "/api", "", nil).status(200).text("registration"), "the index")
		for i, lang := range []string{"en", "zh"} {
			if guide := string(s.send("GET", "/skill.md?lang="+lang, "", nil).status(200).Body); !strings.Contains(guide, words[i]) || strings.Contains(guide, "{registration}") {
				t.Errorf("%s: the guide (%s) does not say %q", mode, lang, words[i])
			}
		}
		a := s.send("POST", "/api/agents", "", registrationOf("harbour-pilot"))
		if waits := mode == domain.RegistrationApprove; a.Status < 400 && strings.Contains(a.text("next_steps_en"), "has yet to approve") != waits {
			t.Errorf("%s: %s", mode, a.Body)
		}
	}
}
