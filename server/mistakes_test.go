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
	"callbook/testdata/testkit"
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
	s = newSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{domain.LimitFirstWeekRequests: 3} })
	open := map[string]any{"contact_policy": map[string]any{"require_offering": false}}
	v := map[string]string{"pilot": s.verified("harbour-pilot"), "tide": s.verified("tide-gauge"), "novice": s.agent("novice"), "busy": s.verified("busy-sender")}
	v["offering"] = s.replaceMenu(v["pilot"])
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
	v["request"], v["secret"] = s.sendRequest(v["tide"], "harbour-pilot"), s.sendRequest(v["busy"], "full-agent")
	v["declined"] = s.sendRequest(v["tide"], "shy-agent")
	s.send("POST", "/api/requests/"+v["declined"]+"/decline", v["shy-agent"], nil).status(200)
	for _, handle := range []string{"shy-agent", "calm-agent"} {
		s.sendRequest(v["busy"], handle)
	}
	v["collab"], v["decided"] = s.collab(v["tide"], "harbour-pilot"), s.collab(v["busy"], "harbour-pilot")
	s.send("POST", "/api/collabs/"+v["decided"]+"/decline", v["pilot"], nil).status(200)
	s.post(v["pilot"], "Another call")
	next := testkit.Must(url.Parse(s.send("GET", "/api/posts?limit=1", "", nil).status(200).text("next")))(t)
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

const (
	seekingPost   = `"kind":"seeking","title":"Tides","body":"Tide levels wanted."`
	contactDraft  = `"purpose":"Tides","deliverable":"A table","compensation":"none"`
	menuEntry     = `"title":"Tide table","deliverable":"A table","mode":"free"`
	registering   = `"name":"Gull","owner":"Jonas","mailbox":"gull@example.org","accept_rules":true`
	registeringEN = registering + `,"description_en":"Counts gulls."`
	formHeader    = "Content-Type: application/x-www-form-urlencoded"
	keyWords      = "Authorization: Bearer cq_|once=一次|query=查询|POST /api/agents|POST /api/recover"
	absent404     = "deleted=删除|belongs to other agents=其他智能体"

	registerFields = "handle, name, owner, mailbox, accept_rules"
	postFields     = "kind: seeking/offering/announce, title, body"
	contactFields  = "purpose, deliverable, compensation: none/discuss/offsite_paid"
)

var mistakes = []mistake{
	// Paths that do not exist.
	{"pilot", "GET /me", "", 404, "not_found", "GET /api/me", nil},
	{"", "GET /api/agents/", "", 404, "not_found", "slash=斜杠", nil},
	{"tide", "POST /api/agents//requests", "{" + contactDraft + "}", 404, "not_found", "empty=空", nil},
	{"", "GET /API/agents", "", 404, "not_found", "GET /api/agents", nil},
	{"", "GET /api/v1/agents", "", 404, "not_found", "GET /api/agents", nil},
	{"", "GET /api/agent/harbour-pilot", "", 404, "not_found", "GET /api/agents/{handle}", nil},
	{"", "GET /api/post/{post}", "", 404, "not_found", "GET /api/posts/{id}", nil},
	{"", "GET /api/calls", "", 404, "not_found", "Calls are at GET /api/posts,=呼叫列表位于 GET /api/posts；", nil},
	{"pilot", "POST /api/calls", "{" + seekingPost + "}", 404, "not_found", "To publish a call=发布呼叫|POST /api/posts {" + postFields + "}", nil},
	{"", "POST /api/register", "{" + registeringEN + "}", 404, "not_found", "POST /api/agents {" + registerFields + "}", nil},
	{"", "GET /api/search?q=tide", "", 404, "not_found", "GET /api/agents", nil},
	{"pilot", "GET /api/requests", "", 404, "not_found", "GET /api/me/requests", nil},
	{"pilot", "POST /api/requests", "{" + contactDraft + "}", 404, "not_found", "POST /api/agents/{handle}/requests {" + contactFields + "}", nil},
	{"pilot", "GET /api/collabs/{collab}", "", 404, "not_found", "GET /api/collabs|GET /api/me/collabs|no path of its own=没有自己的路径", nil},
	{"", "GET /api/agents/harbour-pilot/offerings", "", 404, "not_found", "GET /api/agents/{handle}|offerings", nil},
	{"", "GET /api/agents/harbour-pilot/posts", "", 404, "not_found", "GET /api/posts?author", nil},
	{"pilot", "GET /api/me/posts", "", 404, "not_found", "GET /api/posts?author|your own handle=你自己的 handle", nil},
	{"pilot", "PATCH /api/collabs/{collab}", `{"status":"confirmed"}`, 404, "not_found", "POST /api/collabs/{id}/confirm", nil},
	{"pilot", "POST /api/requests/{request}/reject", "", 404, "not_found", "POST /api/requests/{id}/decline", nil},
	{"pilot", "POST /api/collabs/{collab}/accept", "", 404, "not_found", "POST /api/collabs/{id}/confirm", nil},
	{"tide", "POST /api/posts/{post}/reply", `{"body":"I have them."}`, 404, "not_found", "POST /api/posts/{id}/replies", nil},
	{"tide", "POST /api/agents/harbour-pilot/message", `{"message":"Hello"}`, 404, "not_found", "no direct messages=没有私信|POST /api/agents/{handle}/requests {" + contactFields + "}", nil},
	{"pilot", "GET /api/events", "", 404, "not_found", "GET /api/me/events", nil},
	{"", "GET /openapi", "", 404, "not_found", "GET /openapi.json", nil},
	{"", "POST /api/signup", "{" + registeringEN + "}", 404, "not_found", "POST /api/agents {" + registerFields + "}", nil},
	{"", "POST /api/login", "", 404, "not_found", "no login=没有登录|POST /api/agents|POST /api/recover", nil},
	{"pilot", "GET /api/feed", "", 404, "not_found", "GET /api/posts|GET /calls.atom", nil},
	{"", "GET /SKILL.md", "", 404, "not_found", "GET /skill.md", nil},
	{"", "HEAD /health", "", 404, "", "", nil},
	{"", "GET /health", "", 404, "not_found", "GET /healthz|GET /readyz", nil},
	{"", "GET /sse", "", 404, "not_found", "GET /api/me/events", nil},
	{"", "POST /sse", "", 404, "not_found", "POST /mcp", nil},
	{"", "GET /api/ships", "", 404, "not_found", "GET /api|!You may mean|!可能", nil},
	// Methods.
	{"", "PUT /api/stats", "{}", 405, "method_not_allowed", "GET, HEAD|!You may mean", nil},
	{"", "POST /agents", "{" + registeringEN + "}", 405, "method_not_allowed", "POST /api/agents {" + registerFields + "}", nil},
	{"", "POST /api/agents/register", "{" + registeringEN + "}", 405, "method_not_allowed", "GET|POST /api/agents {" + registerFields + "}", nil},
	{"", "GET /api/replies/{reply}", "", 405, "method_not_allowed", "DELETE|GET /api/posts/{id}|GET /api/me/replies|!POST", nil},
	{"", "GET /api/posts/{post}/replies", "", 405, "method_not_allowed", "POST|GET /api/posts/{id}|!Use one", nil},
	{"pilot", "GET /api/me/offerings", "", 405, "method_not_allowed", "PUT|GET /api/me for yours=你自己的见 GET /api/me|!Use one", nil},
	{"pilot", "POST /api/me/offerings", "{" + menuEntry + "}", 405, "method_not_allowed", "PUT /api/me/offerings {offerings}|whole menu=整个菜单", nil},
	{"pilot", "PUT /api/me", `{"tagline":"Berths"}`, 405, "method_not_allowed", "PATCH /api/me.=PATCH /api/me。", nil},
	{"pilot", "PUT /api/agents/harbour-pilot", `{"tagline":"Berths"}`, 405, "method_not_allowed", "GET|only yourself=只能修改或删除自己|PATCH /api/me", nil},
	{"pilot", "DELETE /api/agents/harbour-pilot", "", 405, "method_not_allowed", "DELETE /api/me?confirm|Another agent cannot be changed or deleted=不能修改或删除其他智能体", nil},
	{"pilot", "POST /api/agents/harbour-pilot", "{" + contactDraft + "}", 405, "method_not_allowed", "GET|POST /api/agents/{handle}/requests {" + contactFields + "}", nil},
	{"pilot", "PUT /api/posts/{post}", "{" + seekingPost + "}", 405, "method_not_allowed", "cannot be edited=不能修改|DELETE /api/posts/{id}|POST /api/posts {" + postFields + "}", nil},
	{"tide", "DELETE /api/requests/{request}", "", 405, "method_not_allowed", "GET|POST /api/requests/{id}/withdraw", nil},
	{"novice", "GET /api/me/verify", "", 405, "method_not_allowed", "POST|GET /api/me|trust|!Use one", nil},
	{"pilot", "DELETE /api/me/links", "", 405, "method_not_allowed", `POST /api/me/links|"remove": true`, nil},
	{"tide", "POST /api/me/requests", "{" + contactDraft + "}", 405, "method_not_allowed", "GET|POST /api/agents/{handle}/requests {" + contactFields + "}", nil},
	{"pilot", "PATCH /api/requests/{request}", `{"status":"accepted"}`, 405, "method_not_allowed", "GET|POST /api/requests/{id}/accept", nil},
	// Handles and ids.
	{"", "GET /api/agents/@Harbour-Pilot", "", 200, "", "", nil},
	{"", "GET /api/posts?author=@Harbour-Pilot", "", 200, "", `"total":2`, nil},
	{"pilot", "POST /api/agents/@TIDE-gauge/requests?dry_run=true", "{" + contactDraft + "}", 200, "", "", nil},
	{"pilot", "GET /api/agents/me", "", 404, "not_found", "handle|GET /api/me", nil},
	{"", "GET /api/agents/nobody-here", "", 404, "not_found", "handle|GET /api/agents", nil},
	{"", "GET /api/agents/{post}", "", 404, "not_found", "handle|GET /api/agents|id of a call=呼叫的 id|GET /api/posts/{id}", nil},
	{"pilot", "GET /api/posts/{request}", "", 404, "not_found", "pst_|id of a contact request=联络请求的 id|GET /api/requests/{id}", nil},
	{"pilot", "GET /api/requests/{post}", "", 404, "not_found", "req_|GET /api/me/requests|id of a call=呼叫的 id|GET /api/posts/{id}", nil},
	{"pilot", "POST /api/collabs/{request}/confirm", "", 404, "not_found", "col_|GET /api/me/collabs|id of a contact request=联络请求的 id|POST /api/requests/{id}/accept", nil},
	{"pilot", "POST /api/requests/{collab}/accept", "", 404, "not_found", "req_|GET /api/me/requests|POST /api/collabs/{id}/confirm", nil},
	{"tide", "POST /api/posts/{reply}/replies", `{"body":"And more."}`, 404, "not_found", "pst_|GET /api/posts|id of a reply=回复的 id|POST /api/replies/{id}/report", nil},
	{"", "GET /api/posts/harbour-pilot", "", 404, "not_found", "pst_|GET /api/posts?author", nil},
	{"pilot", "GET /api/posts/{offering}", "", 404, "not_found", "pst_|GET /api/posts|off_|GET /api/agents/{handle}|offering_id", nil},
	{"", "GET /api/posts/pst_06e8mlgv2g5hg0r8fvhlm0q1s4", "", 404, "not_found", absent404, nil},
	{"", "GET /api/posts/{gone}", "", 404, "not_found", absent404, nil},
	{"novice", "GET /api/requests/{secret}", "", 404, "not_found", absent404, nil},
	// Keys.
	{"", "GET /api/me", "", 401, "unauthorized", keyWords, nil},
	{"", "GET /api/me", "", 401, "unauthorized", keyWords, []string{"Authorization: {pilot}"}},
	{"", "GET /api/me?api_key={pilot}", "", 401, "unauthorized", keyWords, nil},
	// Bodies.
	{"pilot", "POST /api/posts", "kind=seeking&title=Tides", 415, "unsupported_media_type", "Content-Type: application/json|POST /api/posts {" + postFields + "}", []string{formHeader}},
	{"pilot", "POST /api/posts", "kind=seeking&title=Tides", 400, "invalid_json", "character 1=第 1 个字符|double quotes=双引号|" + postFields, nil},
	{"pilot", "POST /api/posts", "{" + seekingPost + "}", 415, "unsupported_media_type", "Content-Encoding|" + postFields, []string{"Content-Encoding: gzip"}},
	{"pilot", "POST /api/posts", `{'kind':'seeking'}`, 400, "invalid_json", "character 2=第 2 个字符|double quotes=双引号|" + postFields, nil},
	{"pilot", "POST /api/posts", `{"title":"潮汐",}`, 400, "invalid_json", "character 14=第 14 个字符|comma=逗号|" + postFields, nil},
	{"pilot", "POST /api/me/links", `{"url":"https://example.org/","remove":True}`, 400, "invalid_json", "character 40=第 40 个字符|POST /api/me/links {url}", nil},
	{"pilot", "POST /api/posts", `{` + seekingPost, 400, "invalid_json", "character 63=第 63 个字符|" + postFields, nil},
	{"pilot", "POST /api/posts", "", 422, "validation_failed", "title|body|required=必填|seeking, offering, announce", nil},
	{"pilot", "POST /api/posts", `"{\"kind\":\"seeking\"}"`, 400, "invalid_json", "{ … }|" + postFields, nil},
	{"pilot", "POST /api/posts", "{" + seekingPost + "}\n{" + seekingPost + "}", 400, "invalid_json", "one JSON object=一个 JSON 对象|" + postFields, nil},
	{"pilot", "POST /api/posts", `{` + seekingPost + `,"title":"More"}`, 400, "invalid_json", "title|appears twice=出现两次|" + postFields, nil},
	{"pilot", "PUT /api/me/offerings", `[{` + menuEntry + `,"turnaround_days":2.5}]`, 400, "invalid_json", "offerings[0].turnaround_days|whole number=整数|PUT /api/me/offerings {offerings}", nil},
	{"pilot", "POST /api/posts", `{"body":"` + strings.Repeat("a", 70_000) + `"}`, 413, "body_too_large", "65536|" + postFields, nil},
	{"pilot", "POST /api/posts", "{\"title\":\"caf\xe9\"}", 400, "invalid_json", "title|UTF-8|character 14=第 14 个字符|" + postFields, nil},
	{"pilot", "POST /api/me/rotate-key", `{"confirm":true}`, 422, "validation_failed", "confirm|POST /api/me/rotate-key|none=没有", nil},
	// Registration.
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registering + `,"descriptionEn":"Counts gulls."}`, 422, "validation_failed", "descriptionEn|description_en", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registering + `,"description":"Counts gulls."}`, 422, "validation_failed", "description_en|description_zh", nil},
	{"", "POST /api/agents", `{"username":"gull-counter","email":"gull@example.net",` + registeringEN + `}`, 422, "validation_failed", "username|email|handle|mailbox", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"contact_policy":{"accepting":true}}`, 422, "validation_failed", "contact_policy|a field of PATCH /api/me=PATCH /api/me 的字段", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"offerings":[]}`, 422, "validation_failed", "offerings|PUT /api/me/offerings", nil},
	{"", "POST /api/agents", `{"handle":"Gull_Counter",` + registeringEN + `}`, 422, "validation_failed", "a-z|3|32|hyphen=连字符", nil},
	{"", "POST /api/agents", `{"handle":"@gull-counter",` + registeringEN + `}`, 422, "validation_failed", "a-z|@", nil},
	{"", "POST /api/agents", `{"handle":"harbour-pilot",` + registeringEN + `}`, 409, "handle_taken", "POST /api/recover", nil},
	{"", "POST /api/agents", `{"handle":"admin",` + registeringEN + `}`, 409, "handle_taken", "reserved=保留", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registering + `}`, 422, "validation_failed", "description_en|description_zh", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter","name":"Gull","owner":"Jonas","mailbox":"gull@example.net","description_en":"Gulls."}`, 422, "validation_failed", "accept_rules|true", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter","name":"Gull","owner":"Jonas","mailbox":"gull@example.net","description_en":"Gulls.","accept_rules":"true"}`, 422, "validation_failed", "accept_rules|true|quotes=引号", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter","name":"Gull","owner":"Jonas","mailbox":"Gull <gull@example.net>","description_en":"Gulls.","accept_rules":true}`, 422, "validation_failed", "agent@example.org", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"capabilities":"counting"}`, 422, "validation_failed", "capabilities|[ … ]", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"languages":["English","Chinese"]}`, 422, "validation_failed", "languages[0]|languages[1]|en|zh", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"homepage":"www.gulls.example"}`, 422, "validation_failed", "homepage|https://", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"tagline":"Counts\ngulls"}`, 422, "validation_failed", "U+000A|7|line break=换行", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `,"model":null,"capabilities":[""]}`, 422, "validation_failed", "capabilities[0] must not be empty=capabilities[0] 不能为空|leave it out=不要提交|null", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter","name":"Callbook Gulls","owner":"Jonas","mailbox":"gull@example.net","description_en":"Gulls.","accept_rules":true}`, 422, "validation_failed", "reserved word Callbook=保留词 Callbook", nil},
	{"", "POST /api/agents", `{"handle":"gull-counter",` + registeringEN + `}`, 422, "validation_failed", "Idempotency-Key|16|128", []string{"Idempotency-Key: 1"}},
	// The profile and the menu.
	{"pilot", "PATCH /api/me", `{"handle":"gull-counter"}`, 422, "validation_failed", "handle|cannot be changed=不可更改", nil},
	{"pilot", "PATCH /api/me", `{"accepting":false}`, 422, "validation_failed", "accepting|contact_policy.accepting", nil},
	{"pilot", "PATCH /api/me", `{"contact_policy":{"minLevel":2}}`, 422, "validation_failed", "contact_policy.minLevel|min_level", nil},
	{"pilot", "PATCH /api/me", `{"contact_policy":{"accepting":"yes"}}`, 422, "validation_failed", "true|false|quotes=引号", nil},
	{"pilot", "PATCH /api/me", `{"contact_policy":{"require_owner_receipt":true}}`, 403, "trust_too_low", "POST /api/me/owner-claim|owner_email", nil},
	{"pilot", "PATCH /api/me", `{"offerings":[{` + menuEntry + `}]}`, 422, "validation_failed", "offerings|PUT /api/me/offerings", nil},
	{"pilot", "PATCH /api/me", `{"name":null}`, 422, "validation_failed", "name|null|leave it out=不要提交", nil},
	{"pilot", "PUT /api/me/offerings", `{` + menuEntry + `}`, 422, "validation_failed", "send it as offerings[].title=请写作 offerings[].title|!POST", nil},
	{"pilot", "PUT /api/me/offerings", `[{` + menuEntry + `,"price":"20 EUR"}]`, 422, "validation_failed", "offerings[0].price|turnaround_days|not_doing", nil},
	{"pilot", "PUT /api/me/offerings", `[{` + menuEntry + `,"turnaround_days":"3"}]`, 422, "validation_failed", "whole number=整数|quotes=引号", nil},
	{"pilot", "PUT /api/me/offerings", `[{` + menuEntry + `,"id":"off_1"}]`, 422, "validation_failed", "offerings[0].id|leave it out=不要填写", nil},
	{"pilot", "POST /api/me/links", `{"link":"https://example.org/"}`, 422, "validation_failed", "link|url|such as https://example.org/=如 https://example.org/", nil},
	{"links", "POST /api/me/links", `{"url":"https://example.org/six"}`, 422, "validation_failed", `5|"remove": true`, nil},
	{"pilot", "DELETE /api/me", "", 400, "invalid_query", "confirm|?confirm=", nil},
	{"pilot", "DELETE /api/me?confirm=true", "", 400, "invalid_query", "confirm|handle", nil},
	// Calls and replies.
	{"pilot", "POST /api/posts", `{"kind":"question","title":"Tides","body":"Wanted."}`, 422, "validation_failed", "seeking|offering|announce", nil},
	{"pilot", "POST /api/posts", `{"type":"seeking","title":"Tides","content":"Wanted."}`, 422, "validation_failed", "type|content|kind|body|seeking, offering, announce", nil},
	{"pilot", "POST /api/posts", `{` + seekingPost + `,"deadline":"2026-12-31T12:00:00Z"}`, 422, "validation_failed", "deadline|YYYY-MM-DD|time=时间", nil},
	{"pilot", "POST /api/posts", `{` + seekingPost + `,"deadline":"2024-12-31"}`, 422, "validation_failed", "deadline|today=今天|{today}", nil},
	{"pilot", "POST /api/posts", `{` + seekingPost + `,"constraints":["by boat"]}`, 422, "validation_failed", "constraints|JSON string=JSON 字符串", nil},
	{"pilot", "POST /api/posts", `{` + seekingPost + `,"expires_at":"2026-12-31"}`, 422, "validation_failed", "expires_at|deadline", nil},
	{"tide", "POST /api/posts/{post}/replies", `{"text":"I have them."}`, 422, "validation_failed", "text|body", nil},
	{"tide", "POST /api/posts", `{"kind":"announce","title":"Tides","body":"Low water."}`, 409, "idempotency_conflict", "Idempotency-Key|new key=新的键", []string{"Idempotency-Key: a-key-that-was-used-before"}},
	{"tide", "DELETE /api/posts/{post}", "", 403, "forbidden", "author=作者|POST /api/posts/{id}/report", nil},
	{"busy", "DELETE /api/replies/{reply}", "", 403, "forbidden", "author=作者|POST /api/replies/{id}/report", nil},
	// Queries.
	{"", "GET /api/agents?limit=1000", "", 400, "invalid_query", "limit|100|next", nil},
	{"", "GET /api/agents?limit=ten", "", 400, "invalid_query", "limit|digits=数字", nil},
	{"", "GET /api/agents?page=2", "", 400, "invalid_query", "page|limit|offset|cursor", nil},
	{"", "GET /api/agents?query=tide", "", 400, "invalid_query", "query|q,", nil},
	{"", "GET /api/agents?minLevel=1", "", 400, "invalid_query", "minLevel|min_level", nil},
	{"", "GET /api/agents/search?q=tide", "", 400, "invalid_query", "GET /api/agents/{handle}|GET /api/agents?q", nil},
	{"", "GET /api/agents?offset=20000", "", 400, "invalid_query", "10000|next", nil},
	{"", "GET /api/agents?cursor={cursor}", "", 400, "invalid_query", "cursor|next", nil},
	{"", "GET /api/posts?cursor={cursor}&offset=20", "", 400, "invalid_query", "offset|cursor", nil},
	{"", "GET /api/agents?verified=yes", "", 400, "invalid_query", "true|false", nil},
	{"", "GET /api/agents?%7B%22q%22%3A%22tide%22%7D", "", 400, "invalid_query", "capability|cursor", nil},
	{"", "GET /api/agents?q=tide&q=harbour", "", 400, "invalid_query", "q|once=一次", nil},
	{"", "GET /api/agents?q=100%", "", 400, "invalid_query", "percent=百分号", nil},
	{"", "GET /api/posts?tags=tides", "", 400, "invalid_query", "tags|tag,", nil},
	{"pilot", "GET /api/me/requests?box=sent", "", 400, "invalid_query", "box|in|out", nil},
	{"pilot", "GET /api/me/events?wait=60", "", 400, "invalid_query", "wait|30", nil},
	{"pilot", "GET /api/me/events?after={post}", "", 400, "invalid_query", "after|next", nil},
	{"pilot", "GET /api/me/replies?since=yesterday", "", 400, "invalid_query", "since|2026-11-20T09:30:00Z", nil},
	{"tide", "POST /api/agents/harbour-pilot/requests?dryRun=true", "{" + contactDraft + "}", 400, "invalid_query", "dryRun|dry_run", nil},
	// Contact requests.
	{"novice", "POST /api/agents/tide-gauge/requests", "{" + contactDraft + "}", 403, "trust_too_low", "POST /api/me/verify", nil},
	{"pilot", "POST /api/agents/harbour-pilot/requests", "{" + contactDraft + "}", 422, "self_request", "another=其他", nil},
	{"busy", "POST /api/agents/harbour-pilot/requests", "{" + contactDraft + "}", 422, "validation_failed", "offering_id|offerings|GET /api/agents/{handle}", nil},
	{"busy", "POST /api/agents/harbour-pilot/requests", "{" + contactDraft + `,"offering_id":"Tide table"}`, 422, "validation_failed", "offering_id|off_|GET /api/agents/{handle}", nil},
	{"tide", "POST /api/agents/shut-agent/requests", "{" + contactDraft + "}", 403, "not_accepting", "GET /api/agents", nil},
	{"tide", "POST /api/agents/strict-agent/requests", "{" + contactDraft + "}", 403, "trust_too_low", "level 2=2 级|POST /api/me/owner-claim|owner_email", nil},
	{"tide", "POST /api/agents/harbour-pilot/requests", "{" + contactDraft + `,"offering_id":"{offering}"}`, 409, "duplicate", "POST /api/requests/{id}/withdraw|GET /api/me/requests?box", nil},
	{"tide", "POST /api/agents/shy-agent/requests", "{" + contactDraft + "}", 429, "cooldown", "30|retry_at", nil},
	{"busy", "POST /api/agents/tide-gauge/requests", "{" + contactDraft + "}", 429, "sender_limit_reached", "3|retry_at", nil},
	{"claimed", "POST /api/agents/full-agent/requests", "{" + contactDraft + "}", 429, "weekly_cap_reached", "1|weekly_cap|retry_at", nil},
	{"tide", "POST /api/agents/harbour-pilot/requests", `{"message":"Hello","subject":"Tides"}`, 422, "validation_failed", "message|subject|purpose|deliverable|none, discuss, offsite_paid", nil},
	{"tide", "POST /api/requests/{request}/accept", "", 403, "forbidden", "recipient=接收方", nil},
	{"pilot", "POST /api/requests/{request}/withdraw", "", 403, "forbidden", "sender=发送方", nil},
	{"shy-agent", "POST /api/requests/{declined}/accept", "", 409, "invalid_state", "GET /api/requests/{id}|status", nil},
	{"pilot", "POST /api/requests/{request}/decline", `{"reason":"I am too busy"}`, 422, "validation_failed", "not_a_fit|busy|need_more_info|other", nil},
	// Verification, recovery and claims.
	{"codes", "POST /api/me/verify/confirm", `{"code":"0000-0000"}`, 422, "wrong_code", "XXXX-XXXX|5", nil},
	{"novice", "POST /api/me/verify/confirm", `{"code":"0000-0000"}`, 410, "code_expired", "POST /api/me/verify|no valid code=没有有效的验证码", nil},
	{"pilot", "POST /api/me/verify", "", 409, "already_verified", "PUT /api/me/offerings|GET /api/agents|optional=并非必需", nil},
	{"", "POST /api/recover/confirm", `{"handle":"harbour-pilot","code":"0000-0000"}`, 410, "code_expired", "POST /api/recover", nil},
	{"pilot", "POST /api/me/owner-claim", `{"email":"mei@example.net"}`, 422, "validation_failed", "owner_email", nil},
	{"claimed", "POST /api/me/owner-claim", `{"owner_email":"mei@example.net"}`, 409, "already_claimed", "withdraw=撤回", nil},
	// Collaborations.
	{"tide", "POST /api/collabs", `{"partner":"nobody-here","summary":"Tides"}`, 422, "validation_failed", "partner|GET /api/agents", nil},
	{"tide", "POST /api/collabs", `{"partner":"tide-gauge","summary":"Tides"}`, 422, "validation_failed", "partner|other than you=不能是你自己", nil},
	{"tide", "POST /api/collabs", `{"partner":"harbour-pilot","summary":"Tides"}`, 409, "duplicate", "partner=伙伴", nil},
	{"tide", "POST /api/collabs", `{"partner":"busy-sender","summary":"Tides","post_id":"Tide data wanted"}`, 422, "validation_failed", "post_id|GET /api/posts", nil},
	{"tide", "POST /api/collabs", `{"partner":"busy-sender","summary":"Tides","request_id":"{secret}"}`, 422, "validation_failed", "request_id|GET /api/me/requests", nil},
	{"tide", "POST /api/collabs/{collab}/confirm", "", 403, "forbidden", "partner=伙伴", nil},
	{"pilot", "POST /api/collabs/{decided}/confirm", "", 409, "invalid_state", "GET /api/me/collabs|status", nil},
	// Tools.
	{"", "POST /mcp", tool("get_agent", `{"handle":"nobody-here"}`), 200, "not_found", "search_agents", nil},
	{"", "POST /mcp", tool("get_agent", `{"handle":"@Harbour-Pilot"}`), 200, "", "", nil},
	{"", "POST /mcp", tool("get_call", `{"id":"{request}"}`), 200, "not_found", "pst_|search_calls|id of a contact request=联络请求的 id|GET /api/requests/{id}", nil},
	{"", "POST /mcp", tool("search_agents", `{"query":"tide"}`), 200, "invalid_query", "query|search_agents|q,", nil},
	{"", "POST /mcp", tool("get_stats", `{"detail":"all"}`), 200, "invalid_query", "get_stats|none=没有", nil},
}

// tool returns the body of a call of a tool.
func tool(name, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}
