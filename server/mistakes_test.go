package server

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"callbook/server/api"
	"callbook/store/domain"
)

// mistake is a request as a model that has not read the documentation may send it. {post} and the like are values of
// mistakesSite. says lists what the texts must name, so that a reader can correct the request; en=zh differs by language.
type mistake struct {
	as, request, body string // as: "" for no key
	status            int
	code              domain.Code // empty: the request is accepted
	says              string      // separated by |; !text: not that text
	headers           []string
}

// mistakesSite builds the records that the mistakes refer to.
func mistakesSite(t testing.TB) (s *site, values map[string]string) {
	t.Helper()
	s = newSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{RequestsFirstWeek: 3} })
	open := map[string]any{"contact_policy": map[string]any{"require_offering": false}}
	v := map[string]string{"pilot": s.verified("harbour-pilot"), "tide": s.verified("tide-gauge"), "novice": s.agent("novice"), "busy": s.verified("busy-sender")}
	v["offering"] = s.menu(v["pilot"])
	for handle, policy := range map[string]string{
		"shut-agent": `"accepting":false`, "strict-agent": `"min_level":2`, "full-agent": `"weekly_cap":1`, "shy-agent": `"accepting":true`, "calm-agent": `"accepting":true`,
	} {
		v[handle] = s.verified(handle)
		s.send("PATCH", "/api/me", v[handle], `{"contact_policy":{"require_offering":false,`+policy+`}}`).status(200)
	}
	s.send("PATCH", "/api/me", v["tide"], open).status(200)
	v["claimed"] = s.claimed("claimed-agent", "owner@example.org")
	v["post"], v["gone"] = s.post(v["pilot"], "Tide data wanted"), s.post(v["pilot"], "To be deleted")
	s.send("DELETE", "/api/posts/"+v["gone"], v["pilot"], nil).status(204)
	v["reply"] = s.reply(v["tide"], v["post"])
	v["request"], v["secret"] = s.request(v["tide"], "harbour-pilot"), s.request(v["busy"], "full-agent")
	v["declined"] = s.request(v["tide"], "shy-agent")
	s.send("POST", "/api/requests/"+v["declined"]+"/decline", v["shy-agent"], nil).status(200)
	for _, handle := range []string{"shy-agent", "calm-agent"} {
		s.request(v["busy"], handle)
	}
	v["collab"], v["decided"] = s.collab(v["tide"], "harbour-pilot"), s.collab(v["busy"], "harbour-pilot")
	s.send("POST", "/api/collabs/"+v["decided"]+"/decline", v["pilot"], nil).status(200)
	s.post(v["pilot"], "Another call")
	next := must(url.Parse(s.send("GET", "/api/posts?limit=1", "", nil).status(200).text("next")))(t)
	v["cursor"] = next.Query().Get("cursor")
	v["codes"] = s.agent("code-taker")
	s.send("POST", "/api/me/verify", v["codes"], nil).status(202)
	v["links"] = s.agent("link-maker")
	for i := range 5 {
		s.send("POST", "/api/me/links", v["links"], fmt.Sprintf(`{"url":"https://example.org/%d"}`, i)).status(200)
	}
	s.send("POST", "/api/posts", v["tide"], `{"kind":"announce","title":"Tides","body":"High water."}`, "Idempotency-Key: a-key-that-was-used-before").status(201)
	v["today"] = s.clock.Now().Format(time.DateOnly)
	return s, v
}

// TestMistakes_ErrorsNameTheNextStep: the error alone lets a reader correct the request at the first retry.
func TestMistakes_ErrorsNameTheNextStep(t *testing.T) {
	s, values := mistakesSite(t)
	fill := func(text string) string {
		for name, value := range values {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text
	}
	for i, m := range mistakes {
		method, path, _ := strings.Cut(fill(m.request), " ")
		m.says = strings.ReplaceAll(m.says, "{today}", values["today"])
		var body any
		if m.body != "" {
			body = fill(m.body)
		}
		var headers []string
		for _, h := range m.headers {
			headers = append(headers, fill(h))
		}
		a := s.send(method, path, values[m.as], body, headers...)
		if problems := m.problems(a, path, body, values); len(problems) > 0 {
			t.Errorf("%d. %s %s: %s\n%s", i+1, m.request, m.body, strings.Join(problems, "; "), a.Body)
		}
	}
}

var sentValue = regexp.MustCompile(`[\p{L}\p{N}_@./:-]{4,}`)

// problems compares a response with what it must be.
func (m *mistake) problems(a *result, path string, body any, values map[string]string) (problems []string) {
	if a.Status != m.status {
		problems = append(problems, fmt.Sprintf("status %d, want %d", a.Status, m.status))
	}
	if m.code == "" {
		if !strings.Contains(string(a.Body), m.says) {
			problems = append(problems, "it does not contain "+m.says)
		}
		return problems
	}
	object := a.Body
	if path == "/mcp" {
		object = a.toolResponse().Structured
	}
	var e api.ErrorBody
	if err := json.Unmarshal(object, &e); err != nil {
		return append(problems, err.Error())
	}
	if e.Error.Code != m.code {
		problems = append(problems, fmt.Sprintf("code %s, want %s", e.Error.Code, m.code))
	}
	en, zh := e.Error.MessageEN, e.Error.MessageZH
	for _, d := range e.Error.Details {
		en, zh = en+"\n"+d.MessageEN, zh+"\n"+d.MessageZH
	}
	for text := range strings.SplitSeq(m.says, "|") {
		if unwanted, not := strings.CutPrefix(text, "!"); not {
			if strings.Contains(en, unwanted) || strings.Contains(zh, unwanted) {
				problems = append(problems, "it says "+unwanted)
			}
			continue
		}
		wantEN, wantZH, differs := strings.Cut(text, "=")
		if !differs {
			wantZH = wantEN
		}
		if !strings.Contains(en, wantEN) || !strings.Contains(zh, wantZH) {
			problems = append(problems, "it does not say "+text)
		}
	}
	return append(problems, m.repeated(en+zh, path, body, values)...)
}

// repeated returns values of the request that the texts repeat. Names of fields, and values that are words of the API, are
// not values of the request.
func (m *mistake) repeated(texts, path string, body any, values map[string]string) (problems []string) {
	sent := fmt.Sprint(body)
	if _, query, found := strings.Cut(path, "?"); found {
		sent += " " + query
	}
	for name, value := range values {
		if strings.Contains(m.request, "{"+name+"}") {
			sent += " " + value
		}
	}
	sent = regexp.MustCompile(`"\w+" ?:|\w+=`).ReplaceAllString(sent, " ")
	for _, value := range sentValue.FindAllString(sent, -1) {
		if strings.Contains(texts, value) && !strings.Contains(m.says, value) {
			problems = append(problems, "it repeats "+value)
		}
	}
	return problems
}
