package server

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/proof"
)

func TestValidation_ReportsEveryFieldAtOnce(t *testing.T) {
	s := newSite(t)
	a := s.send("POST", "/api/agents", "", map[string]any{
		"handle": "A", "name": strings.Repeat("n", 61), "mailbox": "nobody", "accept_rules": false, "tagline": "a\nb",
		"contact_public": "yes", "capabilities": []any{"a", "A", "", 7}, "languages": []any{"xx-unknown-code"}, "homepage": "ftp://example.org/",
		"model": []any{}, "trust": 2, "verified": true,
	}).rejected(422, domain.CodeValidationFailed)
	want := []string{
		"accept_rules bad_value", "capabilities duplicate_item", "capabilities[2] too_short", "capabilities[3] wrong_type", "contact_public wrong_type",
		"description_en required", "handle too_short", "homepage bad_format", "languages[0] bad_format", "mailbox bad_format", "model wrong_type",
		"name too_long", "owner required", "tagline forbidden_character", "trust unknown_field", "verified unknown_field",
	}
	if diff := cmp.Diff(want, a.details()); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	want = []string{"capability too_long", "limit out_of_range", "min_level wrong_type", "nonsense unknown_field", "offset out_of_range", "verified wrong_type", "view bad_value"}
	a = s.send("GET", "/api/agents?capability="+strings.Repeat("c", 61)+"&limit=0&min_level=a&nonsense=1&offset=-1&verified=T&view=x", "", nil).rejected(400, domain.CodeInvalidQuery)
	if diff := cmp.Diff(want, a.details()); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

// TestHandles_AsPeopleWriteThem: a handle in a path or query may be in capitals or begin with @, wherever it is.
func TestHandles_AsPeopleWriteThem(t *testing.T) {
	s, pilot, _ := newPopulatedSite(t)
	s.openPage("/agents/@Harbour-Pilot").status(200)
	s.submitForm("/agents/@Harbour-Pilot/report", url.Values{"reason": {"spam"}}).status(200)
	lamp := s.verified("lamp-lighter")
	body := s.requestTo("harbour-pilot")
	first := s.send("POST", "/api/agents/harbour-pilot/requests", lamp, body, onceKey).status(201)
	again := s.send("POST", "/api/agents/@Harbour-Pilot/requests", lamp, body, onceKey).status(201)
	if again.Header.Get("Idempotent-Replayed") != "true" || again.text("request", "id") != first.text("request", "id") {
		t.Errorf("the same request by another spelling: %s", again.Body)
	}
	s.send("DELETE", "/api/me?confirm=@Harbour-Pilots", pilot, nil).rejected(400, domain.CodeInvalidQuery)
	s.send("DELETE", "/api/me?confirm=@Harbour-Pilot", pilot, nil).status(204)
}

// TestErrors_AreBounded: however much is wrong, a response stays a response.
func TestErrors_AreBounded(t *testing.T) {
	s := newSite(t)
	var query strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&query, "x%d&", i)
	}
	a := s.send("GET", "/api/agents?"+query.String(), "", nil).status(400)
	if n := len(a.value("error", "details").([]any)); n != api.MaxDetails || len(a.Body) > 256<<10 {
		t.Errorf("%d details, %d bytes", n, len(a.Body))
	}
	arguments := strings.ReplaceAll(strings.TrimSuffix(query.String(), "&"), "&", `":1,"`)
	a = s.send("POST", "/mcp", "", []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_stats","arguments":{"`+arguments+`":1}}}`))
	if a.Status != 400 || len(a.Body) > 4<<10 {
		t.Errorf("%d, %d bytes", a.Status, len(a.Body))
	}
}

// orderTest is a request that two checks would reject; the earlier one must. The limits allow one
// request, which the test has sent already.
type orderTest struct {
	name         string
	method, path string
	key          string // added to the right key; "none" for no key
	body         string
	header       string
	status       int
	code         domain.Code
}

const (
	plainText = "Content-Type: text/plain"
	zipped    = "Content-Encoding: gzip"
)

const goodRequest = `{"purpose":"Tides","deliverable":"A table","compensation":"none"}`

// orderTests are pairs of the documented order of checks. Package api tests those between the
// limits and the fields.
var orderTests = []orderTest{
	{"the address's limit before an unknown path", "GET", "/api/nothing", "none", "", "", 429, domain.CodeRateLimited},
	{"the address's limit before the method", "DELETE", "/api/agents", "none", "", "", 429, domain.CodeRateLimited},
	{"the address's limit before the key", "GET", "/api/me", "none", "", "", 429, domain.CodeRateLimited},
}

// freeOrderTests are those of a site without limits.
var freeOrderTests = []orderTest{
	{"the method before the key", "POST", "/api/me", "none", "", "", 405, api.CodeMethodNotAllowed},
	{"the key before the path's id", "DELETE", "/api/posts/none", "none", "", "", 401, domain.CodeUnauthorized},
	{"the query before the path's id", "GET", "/api/posts/none?cursor=", "", "", "", 400, domain.CodeInvalidQuery},
	{"the JSON before the rules", "POST", "/api/agents", "none", `{"handle":"order","handle":"order"}`, "", 400, api.CodeInvalidJSON},
	{"the fields before the handle", "POST", "/api/agents", "none", `{"handle":"order"}`, "", 422, domain.CodeValidationFailed},
	{"the fields before the call's id", "POST", "/api/posts/none/replies", "", `{}`, "", 422, domain.CodeValidationFailed},
	{"the key before the recipient", "POST", "/api/agents/nobody/requests", "none", goodRequest, "", 401, domain.CodeUnauthorized},
	{"the query before the fields", "POST", "/api/agents/nobody/requests?dry_run=yes", "", `{}`, "", 400, domain.CodeInvalidQuery},
	{"the fields before the recipient", "POST", "/api/agents/nobody/requests", "", `{}`, "", 422, domain.CodeValidationFailed},
	{"the recipient before the level", "POST", "/api/agents/nobody/requests", "", goodRequest, "", 404, domain.CodeNotFound},
	{"oneself before the level", "POST", "/api/agents/order/requests", "", goodRequest, "", 422, domain.CodeSelfRequest},
	{"the level before the offering", "POST", "/api/agents/neighbour/requests", "", goodRequest, "", 403, domain.CodeTrustTooLow},
	{"the fields before the code", "POST", "/api/me/verify/confirm", "", `{"code":""}`, "", 422, domain.CodeValidationFailed},
	{"the fields before the claim's level", "POST", "/api/me/owner-claim", "", `{"owner_email":"nobody"}`, "", 422, domain.CodeValidationFailed},
	{"the fields before the request's id", "POST", "/api/requests/none/decline", "", `{"reason":"none"}`, "", 422, domain.CodeValidationFailed},
	{"the fields before the level", "PATCH", "/api/me", "", `{"contact_policy":{"require_owner_receipt":true},"name":""}`, "", 422, domain.CodeValidationFailed},
}

func TestValidation_FollowsTheOrderOfChecks(t *testing.T) {
	one := ratelimit.Limit{Requests: 1, Period: time.Hour}
	limited := newSite(t, func(o *siteOptions) {
		o.limits = ratelimit.Limits{limitReads: one, limitRegistrations: one, limitReports: one, limitFailedKeys: one, limitCalls: one, limitWrites: one}
	})
	key := limited.agent("order")
	limited.send("GET", "/api", "", nil).status(200)
	limited.send("GET", "/api/me", "", nil).status(401)
	for _, tt := range orderTests {
		limited.checkOrder(tt, key)
	}
	free := newSite(t)
	free.agent("neighbour")
	key = free.agent("order")
	for _, tt := range freeOrderTests {
		free.checkOrder(tt, key)
	}
}

func (s *site) checkOrder(tt orderTest, key string) {
	s.Helper()
	key += tt.key
	if tt.key == "none" {
		key = ""
	}
	var headers []string
	if tt.header != "" {
		headers = []string{tt.header}
	}
	var body any
	if tt.body != "" {
		body = tt.body
	}
	if a := s.send(tt.method, tt.path, key, body, headers...); a.Status != tt.status || a.text("error", "code") != string(tt.code) {
		s.Errorf("%s: %d %.200s, want %d %s", tt.name, a.Status, a.Body, tt.status, tt.code)
	}
}

// A canary is a value that is rejected and found nowhere else. Its letters read
// the same raw, escaped and percent-encoded.
const (
	canary       = "zqCanary17"
	canaryText   = canary + " é\u202e\"<" + canary
	canaryNumber = "717273747576777"
)

func (s *edgeSite) rejectsWithoutEcho(label string, a *result) (rejected bool) {
	s.Helper()
	if a.Status < 400 {
		return false
	}
	if body := string(a.Body); strings.Contains(body, canary) || strings.Contains(body, canaryNumber) {
		s.Errorf("%s: the error repeats what was sent: %.400s", label, body)
	}
	return true
}

func TestErrors_DoNotRepeatInput(t *testing.T) {
	s := newEdgeSite(t)
	number, _ := strconv.Atoi(canaryNumber)
	for _, row := range edgeRows {
		method, path := s.address(row.op)
		rejected := 0
		for _, value := range []any{canaryText, strings.Repeat(canary, 500), number, []any{canaryText}, map[string]any{canary + "-": canaryText}, []any{number, number}} {
			body := goodBody(row.op, "canary")
			put(body, row.field, value)
			if s.rejectsWithoutEcho(row.op+" "+row.field, s.send(method, path, s.key, body)) {
				rejected++
			}
		}
		if rejected < 4 {
			t.Errorf("%s %s: only %d were refused", row.op, row.field, rejected)
		}
	}
	for _, row := range queryRows {
		method, path := s.address(row.op)
		for _, value := range []string{canaryText, strings.Repeat(canary, 500), canaryNumber + "\t" + canary, canary + "\xff", canary + "\x00"} {
			if label := row.op + " " + row.field; !s.rejectsWithoutEcho(label, s.send(method, path+"?"+row.field+"="+url.QueryEscape(value), s.key, nil)) {
				t.Errorf("%s: accepted", label)
			}
		}
	}
	s.sendCanariesAnywhere()
	if log := s.log.String(); strings.Contains(log, canary) || strings.Contains(log, canaryNumber) {
		t.Error("the log repeats what was sent")
	}
	// The log tells of paths, and so these come last.
	for _, op := range s.server.engine.Operations {
		path := strings.NewReplacer("{id}", canary+"%E9", "{handle}", canary+"%E9").Replace(op.Path)
		if path != op.Path && !s.rejectsWithoutEcho(op.ID, s.send(op.Method, path, s.key, goodBody(op.ID, "canary"))) {
			t.Errorf("%s: found", op.ID)
		}
	}
}

// sendCanariesAnywhere puts canaries in names, headers, keys and broken JSON.
func (s *edgeSite) sendCanariesAnywhere() {
	s.Helper()
	quoted := strconv.Quote(canary + "-")
	for _, body := range []string{
		`{` + quoted + `:1}`, `{"contact_policy":{` + quoted + `:1}}`, `{` + quoted + `:1,` + quoted + `:2}`, `{` + quoted + `:"\ud800"}`,
		`{"tagline":` + canary + `}`, canary, `{} ` + canary, "{\"" + canary + "\xff\":1}", `{"` + strings.Repeat(canary, 5) + `":1}`, `{"x":` + canaryNumber + `.5}`,
	} {
		s.rejectsWithoutEcho(body, s.send("PATCH", "/api/me", s.key, body))
	}
	post := `{"kind":"seeking","title":"t","body":"b"}`
	for _, header := range []string{
		"Idempotency-Key: " + canary, "Idempotency-Key: " + canary + " " + canary, "Content-Type: text/" + canary, "Content-Encoding: " + canary,
		"Authorization: Bearer cq_" + canary, "Authorization: " + canary, "Content-Type: application/json; charset=" + canary, "X-Request-Id: " + canary + "é",
	} {
		s.rejectsWithoutEcho(header, s.send("POST", "/api/posts?x=1", s.key, post, header))
		s.rejectsWithoutEcho(header, s.send("POST", "/api/posts", s.key, post, header))
		s.rejectsWithoutEcho(header, s.send("GET", "/api/me", "", nil, header))
	}
	for _, query := range []string{canary + "-=1", canary + "%20=1", canary + "%zz", canary + ";=1", strings.Repeat(canary, 5) + "=1", "limit=1&limit=" + canary} {
		s.rejectsWithoutEcho(query, s.send("GET", "/api/agents?"+query, "", nil))
	}
	if a := s.send("PATCH", "/api/me", s.key, `{"Fine_name_1":"`+canary+`","not-fine":1}`); !slices.Equal(a.details(), []string{"(unnamed) unknown_field", "Fine_name_1 unknown_field"}) {
		s.Errorf("unknown fields: %s", a.Body)
	}
}

func TestQueries_MalformedAreRejected(t *testing.T) {
	s := newEdgeSite(t)
	for _, query := range []string{
		"limit=1&limit=2", "limit=1&limit=1", "q=a&q=b", "verified=true&verified=true", "limit=%zz", "limit=%", "limit=%4", "q=%zz", "%zz=1", "limit=%00", "q=%00", "q=a%00b",
		"q=%ff", "q=%c0%af", "q=%ed%a0%80", "q=%f4%90%80%80", "capability=%ff", "limit=1;offset=2", "limit=1;", ";", "limit", "limit=", "=1", "nonsense", "nonsense=1",
		"Limit=1", "LIMIT=1", "limit[]=1", "limit%5B%5D=1", "limit.x=1", "%6Cimit=0", "limit=1%26offset=2", "limit=1e9", "limit=1000000000", "limit=-1",
		"offset=1000000000", "offset=-1", "offset=10001", "offset=9223372036854775808", "cursor=..%2F..", "cursor=%00", "cursor=" + strings.Repeat("A", 8000), "q=" + strings.Repeat("a", 8000),
		"view=brief&view=full", "new=1", "min_level=3", "_method=DELETE", "q=%E2%80%AE", "q=%F3%A0%81%81",
	} {
		for _, path := range []string{"/api/agents", "/api/posts", "/api/me/replies", "/api/posts/" + s.pathValues["/api/posts"], "/api/me", "/api", "/api/stats", "/api/agents/edges",
			"/api/me/requests", "/api/requests/" + s.pathValues["/api/requests"], "/api/me/events", "/api/collabs", "/api/me/collabs", "/api/me/export"} {
			if a := s.send("GET", path+"?"+query, s.key, nil); a.Status != 400 || a.text("error", "code") != "invalid_query" {
				t.Errorf("%s?%.80s: %d %.300s", path, query, a.Status, a.Body)
			}
		}
	}
	for _, query := range []string{"q=a;b", "q=%zz", strings.Repeat("&", 10_001)} { // each in its own way
		a := s.send("GET", "/api/agents?"+query, "", nil).rejected(400, domain.CodeInvalidQuery)
		for _, mend := range []string{"%3B", "%", "10000"} {
			if en, zh := a.text("error", "details", 0, "message_en"), a.text("error", "details", 0, "message_zh"); !strings.Contains(en, mend) || !strings.Contains(zh, mend) {
				t.Errorf("%.20s: not told of %s: %s %s", query, mend, en, zh)
			}
		}
	}
	for _, op := range s.server.engine.Operations {
		_, path := s.address(op.ID)
		s.send(op.Method, path+"?nonsense=1", s.key, goodBody(op.ID, "query")).rejected(400, domain.CodeInvalidQuery)
	}
	for _, query := range []string{"", "&", "&&limit=1&&", "%6Cimit=1", "limit=1&offset=0&view=full"} {
		s.send("GET", "/api/agents?"+query, "", nil).status(200)
	}
}

// nastyQueries returns queries with the syntax of a full-text index.
func nastyQueries() (queries []string) {
	signs := []string{
		`"`, `""`, `"""`, `'`, `*`, `a*`, `*a`, `^a`, `a^`, `-a`, `+a`, `a-b`, `a:b`, `body:`, `body:a`, `first:a`, `{first}:a`, `{first second} : a`, `(`, `)`, `()`, `((((`, `a AND`, `AND`, `AND a`, `a AND AND b`,
		`OR`, `a OR`, `NOT`, `NOT a`, `a NOT`, `NEAR`, `NEAR(`, `NEAR(a b)`, `NEAR(a b, 5)`, `NEAR/2`, `near(a,`, `\`, `\\`, `\"`, `%`, `%%`, `_`, `?`, `?1`, `:a`, `@a`, `$a`, `;`, `--`, `/*`, `*/`, `|`, `||`, `&`, `&&`, `~`, "`", `#`, `c#`, `c++`, `.net`,
		`<b>`, `{}`, `[]`, `=`, `,`, `.`, `...`, `!`, `！`, `。`, `「」`, `“”`, `…`, `—`, `😀`, `👨‍👩‍👧`, `🇨🇳`, `人`, `人工`, `人 工`, `。人。`, `ｔｉｄｅ`, `ﬁ`, `İ`, `ß`, `ẞ`, `Ⅷ`, `㍿`, `ﷺ`, `か\u3099`, `각`, `กำ`, "e\u0301", `١٢٣`, `x'41'`, `0x41`, `null`, `rank`, `rowid`, `agent_search`,
	}
	each := proof.Rounds(3, 1, 1)
	for n, a := range signs {
		queries = append(queries, a)
		for i, b := range []string{`"`, `*`, ` AND `, `(`, `tide`, `中`} {
			if (n+i)%each == 0 {
				queries = append(queries, a+b, b+a, a+" "+b+" "+a)
			}
		}
	}
	return append(queries,
		strings.Repeat("潮", 200), strings.Repeat("人工智能", 50), strings.Repeat("a ", 99)+"a", strings.Repeat("中 ", 99)+"中", strings.Repeat("😀", 200), strings.Repeat("(", 200),
		strings.Repeat(")", 200), strings.Repeat(`"`, 200), strings.Repeat("*", 200), strings.Repeat("ﷺ", 200), strings.Repeat("%", 200), strings.Repeat("a*", 100), strings.Repeat("NOT ", 50),
		differentWords(66, "a"), differentWords(66, "中"), strings.Repeat("\ue000", 3), "\ue003from1", "\ue100", "\uf8ff", "\U000F0000", "\U0010FFFD", "tide \ue005tides",
	)
}

// differentWords returns as many words as the longest query holds.
func differentWords(n int, middle string) string {
	var words []string
	for i := range n {
		words = append(words, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	q := strings.Join(words, " ")
	return strings.Replace(q, " ", middle, 3)
}

// searches are the reads that take words.
var searches = []string{"/api/agents?q=", "/api/posts?q=", "/api/agents?view=brief&language=en&min_level=1&new=true&q=", "/api/posts?open=true&kind=seeking&tag=a&author=edges&q=",
	"/api/agents?capability=", "/api/posts?tag=", "/api/posts?author="}

// searched reports whether a status is right for a search: 200, or 400 if the text is too long or
// has a forbidden character.
func searched(q string, path string, status int) bool {
	text := storetext.Normalize(q)
	if !storetext.CheckLine(text) || text == "" || utf8.RuneCountInString(text) > 200 {
		return status == 400
	}
	return status == 200 || status == 400 && !strings.HasSuffix(path, "q=")
}

func TestSearch_AcceptsAnyText(t *testing.T) {
	proof.OneByOne(t)
	s := newEdgeSite(t)
	s.publishWords()
	for i, q := range nastyQueries() {
		// All of them each time would take long.
		for _, path := range []string{searches[0], searches[1], searches[2+i%(len(searches)-2)]} {
			if a := s.send("GET", path+url.QueryEscape(q), "", nil); !searched(q, path, a.Status) {
				t.Errorf("%s%+q: %d %.300s", path, q, a.Status, a.Body)
			}
		}
	}
	if n := s.send("GET", "/api/posts?q="+url.QueryEscape(`"tide" ( 潮汐 ) ^*`), "", nil).len("posts"); n != 1 {
		t.Errorf("words among signs find %d calls, want 1", n)
	}
}

// publishWords publishes a call with words of both scripts.
func (s *edgeSite) publishWords() {
	s.Helper()
	s.site.post(s.key, "Tide tables, 潮汐表", "tags", []string{"a"}, "body", "c++ and c# and NEAR(a, b)")
}

func FuzzSearch(f *testing.F) {
	s := newEdgeSite(f)
	s.publishWords()
	for i, q := range nastyQueries() {
		if i%16 == 0 { // the test before this one tries them all
			f.Add(uint8(i), q)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, q string) {
		path := searches[int(which)%len(searches)]
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, httptest.NewRequest("GET", path+url.QueryEscape(q), nil))
		if !searched(q, path, w.Code) {
			t.Errorf("%s%+q: %d %s", path, q, w.Code, w.Body)
		}
		here := *s.site
		here.TB = t
		address, _, _ := strings.Cut(path, "?")
		for _, problem := range here.responseProblems("GET", address, &result{TB: t, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}) {
			t.Errorf("%s%+q: %s", path, q, problem)
		}
	})
}

// TestSearch_FindsOldLanguageCodes: a language is stored under its present code, and found under
// each of its codes.
func TestSearch_FindsOldLanguageCodes(t *testing.T) {
	s := newSite(t)
	s.agent("old-code", "languages", []string{"iw", "zh-cn"})
	for _, code := range []string{"iw", "he", "HE", "zh", "zh-CN", "ZH-cn"} {
		if n := s.send("GET", "/api/agents?language="+code, "", nil).status(200).len("agents"); n != 1 {
			t.Errorf("language=%s finds %d", code, n)
		}
	}
}

func TestSearch_TreatsSQLAsText(t *testing.T) {
	s := newSite(t)
	key := s.agent("bystander")
	s.post(key, "A call", "tags", []string{"plain"})
	injections := []string{
		`' OR '1'='1`, `" OR "1"="1`, `') OR ('1'='1`, `1; DROP TABLE agents`, `'; DROP TABLE posts; --`, `x' UNION SELECT key_hash FROM agents --`, `%' OR 1=1 --`, `\' OR 1=1 --`,
		`' AND randomblob(999999999) --`, `') MATCH ('plain`, `plain" OR "a`, `plain' --`, `?1`, `:seq`, `@x`, `x'706c61696e'`, `char(112)||'lain'`, `pla%`, `plai_`, `*`, `pl*`, `{facet} : plain`,
	}
	for i, text := range injections {
		escaped := url.QueryEscape(text)
		for _, path := range []string{"/api/agents?capability=", "/api/posts?tag="} {
			if n := s.send("GET", path+escaped, "", nil).status(200).value("total"); n != 0.0 {
				t.Errorf("%s%s finds %v before there is one", path, text, n)
			}
		}
		s.send("GET", "/api/agents?q="+escaped, "", nil).status(200)
		s.send("GET", "/api/posts/"+url.PathEscape(text), "", nil).status(404)
		handle := fmt.Sprintf("injected-%d", i)
		s.post(s.agent(handle, "capabilities", []string{text}, "name", "7 "+text), text, "tags", []string{text})
		for path, list := range map[string]string{"/api/agents?capability=": "agents", "/api/posts?tag=": "posts"} {
			a := s.send("GET", path+escaped, "", nil).status(200)
			if n := a.len(list); n != 1 {
				t.Errorf("%s%s finds %d, want the one", path, text, n)
			}
		}
		if got := s.send("GET", "/api/agents/"+handle, "", nil).text("agent", "name"); got != "7 "+text {
			t.Errorf("stored %q, want %q", got, "7 "+text)
		}
	}
	if n := s.send("GET", "/api/agents", "", nil).value("total"); n != float64(len(injections)+1) {
		t.Errorf("%v agents in the end", n)
	}
	s.send("GET", "/api/me", key, nil).status(200)
}
