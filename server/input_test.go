package server

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/testkit"
)

// TestHandles_AsPeopleWriteThem: a handle in a path or query may be in capitals or begin with @, wherever it is.
func TestHandles_AsPeopleWriteThem(t *testing.T) {
	s, pilot, _ := newPopulatedSite(t)
	for path, canonical := range map[string]string{"/agents/@Harbour-Pilot": "/agents/harbour-pilot", "/calls?author=@Harbour-Pilot": "/calls?author=harbour-pilot"} {
		contains(t, path, string(s.openPage(path).status(200).Body), `<link rel="canonical" href="`+base+canonical+`">`)
	}
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
	if a.Status != 200 || len(a.Body) > 256<<10 {
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

const plainText = "Content-Type: text/plain"

var tooLarge = strings.Repeat(" ", api.MaxBody+1)

const goodRequest = `{"purpose":"Tides","deliverable":"A table","compensation":"none"}`

// orderTests are pairs of the documented order of checks.
var orderTests = []orderTest{
	{"the address's limit before an unknown path", "GET", "/api/nothing", "none", "", "", 429, domain.CodeRateLimited},
	{"the address's limit before the method", "DELETE", "/api/agents", "none", "", "", 429, domain.CodeRateLimited},
	{"the address's limit before the key", "GET", "/api/me", "none", "", "", 429, domain.CodeRateLimited},
	{"the key's limit before the query", "POST", "/api/posts?x=1", "", "", "", 429, domain.CodeRateLimited},
}

// freeOrderTests are those of a site without limits.
var freeOrderTests = []orderTest{
	{"the method before the key", "POST", "/api/me", "none", "", "", 405, api.CodeMethodNotAllowed},
	{"the key before the path's id", "DELETE", "/api/posts/none", "none", "", "", 401, domain.CodeUnauthorized},
	{"the query before the path's id", "GET", "/api/posts/none?cursor=", "", "", "", 400, domain.CodeInvalidQuery},
	{"the key before the query", "POST", "/api/posts?x=1", "none", `{`, plainText, 401, domain.CodeUnauthorized},
	{"the query before the media type", "POST", "/api/posts?x=1", "", `{`, plainText, 400, domain.CodeInvalidQuery},
	{"the media type before the size", "POST", "/api/posts", "", tooLarge, plainText, 415, api.CodeUnsupportedMediaType},
	{"the compression before the size", "POST", "/api/posts", "", tooLarge, "Content-Encoding: gzip", 415, api.CodeUnsupportedMediaType},
	{"the size before the JSON", "POST", "/api/posts", "", tooLarge, "", 413, api.CodeBodyTooLarge},
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
	limited.send("POST", "/api/posts?x=1", key, nil).status(400)
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

// nastyQueries returns queries with the syntax of a full-text index.
func nastyQueries() (queries []string) {
	signs := []string{
		`"`, `""`, `"""`, `'`, `*`, `a*`, `*a`, `^a`, `a^`, `-a`, `+a`, `a-b`, `a:b`, `body:`, `body:a`, `first:a`, `{first}:a`, `{first second} : a`, `(`, `)`, `()`, `((((`, `a AND`, `AND`, `AND a`, `a AND AND b`,
		`OR`, `a OR`, `NOT`, `NOT a`, `a NOT`, `NEAR`, `NEAR(`, `NEAR(a b)`, `NEAR(a b, 5)`, `NEAR/2`, `near(a,`, `\`, `\\`, `\"`, `%`, `%%`, `_`, `?`, `?1`, `:a`, `@a`, `$a`, `;`, `--`, `/*`, `*/`, `|`, `||`, `&`, `&&`, `~`, "`", `#`, `c#`, `c++`, `.net`,
		`<b>`, `{}`, `[]`, `=`, `,`, `.`, `...`, `!`, `！`, `。`, `「」`, `“”`, `…`, `—`, `😀`, `👨‍👩‍👧`, `🇨🇳`, `人`, `人工`, `人 工`, `。人。`, `ｔｉｄｅ`, `ﬁ`, `İ`, `ß`, `ẞ`, `Ⅷ`, `㍿`, `ﷺ`, `か\u3099`, `각`, `กำ`, "e\u0301", `١٢٣`, `x'41'`, `0x41`, `null`, `rank`, `rowid`, `agent_search`,
	}
	for _, sign := range signs {
		queries = append(queries, sign, sign+" tide "+sign+"中")
	}
	return append(queries,
		strings.Repeat("潮", 200), strings.Repeat("人工智能", 50), strings.Repeat("a ", 99)+"a", strings.Repeat("中 ", 99)+"中", strings.Repeat("😀", 200), strings.Repeat("(", 200),
		strings.Repeat(")", 200), strings.Repeat(`"`, 200), strings.Repeat("*", 200), strings.Repeat("ﷺ", 200), strings.Repeat("%", 200), strings.Repeat("a*", 100), strings.Repeat("NOT ", 50),
		strings.Repeat("\ue000", 3), "\ue003from1", "\ue100", "\uf8ff", "\U000F0000", "\U0010FFFD", "tide \ue005tides",
	)
}

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

// FuzzSearch searches for any text: never a 5xx, never a response that is not documented.
func FuzzSearch(f *testing.F) {
	s := newEdgeSite(f)
	s.site.post(s.key, "Tide tables, 潮汐表", "tags", []string{"a"}, "body", "c++ and c# and NEAR(a, b)")
	for i, q := range nastyQueries() {
		f.Add(uint8(i), q)
	}
	f.Fuzz(func(t *testing.T, which uint8, q string) {
		path := searches[int(which)%len(searches)]
		here := *s.site
		here.TB = t
		a := here.handle(httptest.NewRequest("GET", path+url.QueryEscape(q), nil))
		if !searched(q, path, a.Status) {
			t.Errorf("%s%+q: %d %s", path, q, a.Status, a.Body)
		}
		address, _, _ := strings.Cut(path, "?")
		for _, problem := range here.responseProblems("GET", address, a) {
			t.Errorf("%s%+q: %s", path, q, problem)
		}
	})
}

// TestSearch_FindsOldLanguageCodes: a language is stored under its present code, and found under each of its codes.
func TestSearch_FindsOldLanguageCodes(t *testing.T) {
	s := newSite(t)
	s.agent("old-code", "languages", []string{"iw", "zh-cn"})
	for _, code := range []string{"iw", "he", "HE", "zh", "zh-CN", "ZH-cn"} {
		equal(t, 1, s.send("GET", "/api/agents?language="+code, "", nil).status(200).len("agents"), "agents with language=%s", code)
	}
}

func TestSearch_TreatsSQLAsText(t *testing.T) {
	s := newSite(t)
	s.post(s.agent("bystander"), "A call", "tags", []string{"plain"})
	for i, text := range []string{
		`' OR '1'='1`, `" OR "1"="1`, `') OR ('1'='1`, `'; DROP TABLE posts; --`, `x' UNION SELECT key_hash FROM agents --`, `%' OR 1=1 --`, `') MATCH ('plain`, `plain" OR "a`,
		`?1`, `:seq`, `@x`, `x'706c61696e'`, `char(112)||'lain'`, `pla%`, `plai_`, `*`, `pl*`, `{facet} : plain`,
	} {
		s.post(s.agent(fmt.Sprintf("injected-%d", i), "capabilities", []string{text}), text, "tags", []string{text})
		for path, list := range map[string]string{"/api/agents?capability=": "agents", "/api/posts?tag=": "posts"} {
			equal(t, 1, s.send("GET", path+url.QueryEscape(text), "", nil).status(200).len(list), "%s%s", path, text)
		}
	}
}

// blockedFields are the fields of each operation in which a blocked word is rejected. Other fields with free text are
// exempt: a mailbox has to be the one that receives mail, an id or handle names an existing record, and a report has to
// say what it is about and is read by the operator alone.
var blockedFields = map[string]string{
	"registerAgent":    "capabilities[] description_en description_zh handle homepage model name owner tagline",
	"updateMe":         "capabilities[] contact_policy.note description_en description_zh homepage model name owner tagline",
	"replaceOfferings": "offerings[].deliverable offerings[].for_whom offerings[].not_doing offerings[].tags[] offerings[].title",
	"createPost":       "body constraints deliverable tags[] title",
	"createReply":      "body",
	"sendRequest":      "context deliverable purpose",
	"recordCollab":     "summary",
	"setLink":          "url",
}

// TestBlockedWords_RejectedInEveryField tries one in every field that any operation takes.
func TestBlockedWords_RejectedInEveryField(t *testing.T) {
	t.Parallel()
	s := newEdgeSite(t)
	s.blockWord("casino")
	rejected := map[string][]string{}
	met := map[string]bool{}
	for _, row := range edgeRows {
		value := "casino"
		switch row.field {
		case "homepage", "url":
			value = "https://harbour.example.org/%63asino"
		case "mailbox", "owner_email":
			value = "casino@casino.example.org"
		}
		try := s.prepare(row)
		put(try.body, row.field, value)
		before := s.version()
		a := s.send(try.method, try.path, try.key, try.body)
		field := strings.ReplaceAll(row.field, "[]", "[0]")
		if !strings.Contains(string(a.Body), api.ErrorDetails[domain.FaultBadValue]["blocked"].EN) {
			continue
		}
		if got := a.rejected(422, domain.CodeValidationFailed).details(); !slices.Equal(got, []string{field + " bad_value"}) {
			t.Errorf("%s %s: %v", row.op, row.field, got)
		}
		if strings.Contains(strings.ToLower(string(a.Body)), "casino") || s.version() != before {
			t.Errorf("%s %s: the word is echoed, or something stored: %s", row.op, row.field, a.Body)
		}
		s.recordReached(met, try.method, try.path, a)
		rejected[row.op] = append(rejected[row.op], row.field)
	}
	got := map[string]string{}
	for op, fields := range rejected {
		slices.Sort(fields)
		got[op] = strings.Join(fields, " ")
	}
	equal(t, blockedFields, got, "the fields")
	if want := "bad_value/blocked"; !met[want] {
		t.Errorf("%s is not met, but %v", want, slices.Sorted(maps.Keys(met)))
	}
	if strings.Contains(s.log.String(), "casino") {
		t.Error("the word is logged")
	}
}

func (s *site) blockWord(word string) { s.Helper(); s.changeBlocklist("block-word", word) }

func (s *site) changeBlocklist(act, entry string) {
	s.Helper()
	testkit.Must(s.store.ChangeBlocklist(s.Context(), act, entry))(s)
}
