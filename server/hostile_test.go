package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// hostileMark and hostileNumber are in values that violate a constraint: no error repeats them, and no log.
const (
	hostileMark   = "zq7hostile"
	hostileNumber = 717273747576777
)

// attempt is a request that is sent as it is.
type attempt struct {
	name    string
	op      *api.Operation // nil: of none
	method  string
	target  string
	headers []string
	body    []byte
	code    domain.Code // of a single broken constraint: what it is rejected with
	field   string      // what that refusal names
	repeats bool        // a text of it may have become the name of a field, which refusals tell
}

// hostileSite derives what it sends from the tables of constraints, which name every field
// and parameter of the document.
type hostileSite struct {
	*edgeSite
	singles   []attempt // each breaks one constraint
	conn      net.Conn
	responses *bufio.Reader
	failures  int
	broken    int                     // requests that were refused for their form, or failed
	rejected  map[*api.Operation]bool // operations that rejected one
}

func newHostileSite(t testing.TB) *hostileSite {
	t.Helper()
	h := &hostileSite{edgeSite: newEdgeSite(t), rejected: map[*api.Operation]bool{}}
	for _, op := range h.server.engine.Operations {
		h.breakOperation(op)
		for _, row := range edgeRows {
			if row.op == op.ID {
				h.breakField(op, row)
			}
		}
		for _, row := range queryRows {
			if row.op == op.ID {
				h.breakParameter(op, row)
			}
		}
	}
	slices.SortStableFunc(h.singles, func(a, b attempt) int { return strings.Compare(a.name, b.name) })
	h.log.Reset()
	return h
}

// validAttempt returns a request that the operation reads without a problem.
func (h *hostileSite) validAttempt(op *api.Operation) attempt {
	method, path := h.address(op.ID)
	a := attempt{name: op.ID, op: op, method: method, target: path}
	switch op.ID {
	case "deleteMe":
		a.target += "?confirm=edges"
	case "sendRequest":
		a.target = "/api/agents/neighbour/requests"
	}
	if op.Keyed {
		a.headers = []string{"Authorization: Bearer " + h.key}
	}
	if op.Input.Body != nil {
		a.body = encoded(goodBody(op.ID, "hostile"))
	}
	return a
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (h *hostileSite) single(op *api.Operation, name string, code domain.Code, field string, change func(*attempt)) {
	a := h.validAttempt(op)
	a.name, a.code, a.field = op.ID+" "+name, code, field
	change(&a)
	h.singles = append(h.singles, a)
}

// breakOperation derives the requests that break something other than the constraint of a field or query parameter.
func (h *hostileSite) breakOperation(op *api.Operation) {
	for _, f := range op.Input.Path {
		h.breakPath(op, f.Name)
	}
	for name, query := range map[string]string{
		"unknown parameter": "unknown=" + hostileMark, "without a value": "unknown", "in capitals": "LIMIT=1", "in brackets": "limit[]=1", "without a name": "=" + hostileMark,
		"bad escape": "q=%zz" + hostileMark, "bad UTF-8": "q=" + hostileMark + "%ff", "a surrogate": "q=%ed%a0%80", "semicolon": "a=" + hostileMark + ";b", "10,001 parameters": strings.Repeat("&", 10_001),
	} {
		h.single(op, name, domain.CodeInvalidQuery, "", func(a *attempt) { a.target = withQuery(a.target, query) })
	}
	for _, name := range unnameable {
		h.single(op, fmt.Sprintf("parameter %.20q", name), domain.CodeInvalidQuery, "", func(a *attempt) { a.target = withQuery(a.target, url.QueryEscape(name)+"=1") })
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get", "QUERY"} {
		if !slices.ContainsFunc(h.server.engine.Operations, func(o *api.Operation) bool { return o.Path == op.Path && o.Method == method }) {
			h.single(op, "method "+method, api.CodeMethodNotAllowed, "", func(a *attempt) { a.op, a.method = nil, method })
		}
	}
	if op.Reads() {
		return
	}
	for name, body := range brokenBodies {
		h.single(op, "body: "+name, api.CodeInvalidJSON, "", func(a *attempt) { a.body = []byte(body) })
	}
	h.single(op, "body too large", api.CodeBodyTooLarge, "", func(a *attempt) { a.body = bytes.Repeat([]byte(" "), api.MaxBody+1) })
	for _, header := range []string{
		"Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json; charset=utf-16", "Content-Type: json",
		"Content-Type: multipart/form-data; boundary=" + hostileMark, "Content-Encoding: gzip", "Content-Encoding: " + hostileMark, "Content-Encoding: gzip, identity",
	} {
		h.single(op, header, api.CodeUnsupportedMediaType, "", func(a *attempt) {
			a.headers, a.body = append(a.headers, header), append([]byte(" "), a.body...)
		})
	}
	for _, name := range unnameable {
		h.single(op, fmt.Sprintf("member %.20q", name), domain.CodeValidationFailed, "", func(a *attempt) {
			body := goodBody(op.ID, "hostile")
			body[name] = 1
			a.body = encoded(body)
		})
	}
	if op.Input.Body == nil {
		h.single(op, "unknown member", domain.CodeValidationFailed, "unknown_member", func(a *attempt) { a.body = []byte(`{"unknown_member":"` + hostileMark + `"}`) })
	}
	if op.Idempotent {
		for about, value := range map[string]string{"too short": hostileMark, "too long": hostileMark + strings.Repeat("a", 128), "a tab": hostileMark + "\t" + hostileMark, "not ASCII": hostileMark + "潮汐潮汐", "a comma": "\t" + hostileMark, "empty": ""} {
			h.single(op, "Idempotency-Key "+about, domain.CodeValidationFailed, "Idempotency-Key", func(a *attempt) { a.headers = append(a.headers, "Idempotency-Key: "+value) })
		}
		h.single(op, "two Idempotency-Keys", domain.CodeValidationFailed, "Idempotency-Key", func(a *attempt) { a.headers = append(a.headers, onceKey, onceKey) })
	}
}

// unnameable are names of fields that no error repeats.
var unnameable = []string{hostileMark + strings.Repeat("a", 40), hostileMark + " a", "<b>" + hostileMark, hostileMark + "\u202e", hostileMark + "é", hostileMark + "."}

// brokenBodies are bodies that no operation accepts. A list is a menu.
var brokenBodies = map[string]string{
	"null": `null`, "text": `"` + hostileMark + `"`, "number": `7`, "cut": `{"` + hostileMark, "white space": " \n",
	"trailing": `{} {"a":"` + hostileMark + `"}`, "comment": `{}/*` + hostileMark + `*/`, "form": "a=" + hostileMark, "NaN": `{"a":NaN}`,
	"twice": `{"a":1,"a":"` + hostileMark + `"}`, "too deep": nested(33, `{"a":`, "1", "}"),
	"surrogate": `{"a":"` + hostileMark + `\ud800"}`, "bad UTF-8": `{"a":"` + hostileMark + "\xff\"}", "NUL": "{}\x00", "XML": "<a>" + hostileMark + "</a>", "gzip": "\x1f\x8b\x08\x00",
}

func withQuery(target, query string) string {
	if strings.Contains(target, "?") {
		return target + "&" + query
	}
	return target + "?" + query
}

// oddPaths are values of path parameters that name no record.
var oddPaths = []string{
	"%00", "a%00b", "%ff", "%c0%af", "%C0%AF", "%ed%a0%80", "%2f", "%2F", "a%2fb", "..", "..%2f..", "%2e%2e", "%2e", "%2e%2e%2f" + hostileMark, "%20", "%0a", "%0d%0aX-A:" + hostileMark, "%25", "%3f", "%3Fx=1", "%23",
	"%E0%A4%A", "%", "%zz", "%E2%80%AE", "%F3%A0%81%81", "%E4%B8%AD", "%F0%9F%98%80", "edges%20", "edges%00", "edges;x=1", ":handle", "{handle}", "*", ":", "'", "'%20OR%201=1", "%22", "%5c", "-1", "0", "null", "undefined",
	hostileMark, strings.Repeat(hostileMark, 500), strings.Repeat("%00", 3000),
}

func (h *hostileSite) breakPath(op *api.Operation, name string) {
	for _, value := range oddPaths {
		h.single(op, "path "+value[:min(len(value), 20)], domain.CodeNotFound, "", func(a *attempt) {
			a.target = strings.Replace(op.Path, "{"+name+"}", value, 1)
			if u, err := url.ParseRequestURI(a.target); err != nil {
				a.op, a.code = nil, ""
			} else if strings.Count(u.Path, "/") != strings.Count(op.Path, "/") {
				a.op = nil
			}
		})
	}
}

// breakParameter derives a request from each invalid value of a query parameter.
func (h *hostileSite) breakParameter(op *api.Operation, row edgeRow) {
	for _, e := range row.edges {
		text, ok := e.value.(string)
		if e.code == "" || !ok {
			continue
		}
		h.single(op, "?"+row.field+" "+e.name, domain.CodeInvalidQuery, row.field, func(a *attempt) {
			path, _, _ := strings.Cut(a.target, "?")
			a.target = path + "?" + row.field + "=" + url.QueryEscape(text)
		})
	}
	h.single(op, "?"+row.field+" twice", domain.CodeInvalidQuery, row.field, func(a *attempt) {
		a.target = withQuery(a.target, row.field+"="+hostileMark+"&"+row.field+"="+hostileMark)
	})
}

// breakField derives a request from each invalid value of a field of the body, and from some with a mark. It leaves out
// values that depend on the state of the directory.
func (h *hostileSite) breakField(op *api.Operation, row edgeRow) {
	const marked = hostileMark + " é\x07\"<" + hostileMark
	edges := append(slices.Clone(row.edges), bad("marked", marked, "marked"), bad("marked and long", strings.Repeat(hostileMark, 500), "marked"),
		bad("marked list", []any{marked, []any{hostileNumber}}, "marked"), bad("marked object", map[string]any{hostileMark + "-": marked}, "marked"))
	for _, e := range edges {
		_, dependent := e.value.(func(*trial) string)
		_, whole := api.ErrorMessages[domain.Code(e.code)]
		if e.code == "" || e.code == "unknown_id" || dependent || whole {
			continue
		}
		h.single(op, row.field+" "+e.name, domain.CodeValidationFailed, strings.ReplaceAll(row.field, "[]", "[0]"), func(a *attempt) {
			body := goodBody(op.ID, "hostile")
			put(body, row.field, e.value)
			a.body = encoded(body)
		})
	}
}

// direct sends a request to the handler without a connection; false for an invalid request line.
func (h *hostileSite) direct(a attempt) (*result, bool) {
	at, err := url.ParseRequestURI(a.target)
	if err != nil {
		return nil, false
	}
	r := &http.Request{
		Method: a.method, URL: at, RequestURI: a.target, Host: "callbook.example.org", RemoteAddr: "192.0.2.1:1234", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}
	return h.handle(addHeaders(r, a.headers).WithContext(h.Context())), true
}

// byListener sends the bytes of a request over a connection. own reports that net/http responded before any handler.
func (h *hostileSite) byListener(a attempt) (r *result, own bool) {
	h.Helper()
	lines := append([]string{a.method + " " + a.target + " HTTP/1.1", "Host: callbook.example.org", fmt.Sprint("Content-Length: ", len(a.body))}, a.headers...)
	raw := append([]byte(strings.Join(lines, "\r\n")+"\r\n\r\n"), a.body...)
	if h.conn == nil {
		conn := testkit.Must(net.Dial("tcp", strings.TrimPrefix(h.url, "http://")))(h)
		h.Cleanup(func() { _ = conn.Close() })
		h.conn, h.responses = conn, bufio.NewReader(conn)
	}
	_ = h.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := h.conn.Write(raw); err != nil {
		h.Fatalf("%s: %v", a.name, err)
	}
	response, err := http.ReadResponse(h.responses, &http.Request{Method: a.method})
	if err != nil {
		h.Fatalf("%s: no answer: %v\n%.600q", a.name, err, raw)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.Errorf("%s: half an answer: %v", a.name, err)
	}
	if response.Close {
		_ = h.conn.Close()
		h.conn = nil
	}
	own = response.StatusCode == 400 && response.Close && response.Header.Get("X-Request-Id") == ""
	return &result{TB: h.TB, Status: response.StatusCode, Header: response.Header, Body: body}, own
}

// refusesForm are the statuses of malformed requests, whatever the key, the limits and the state.
var refusesForm = []int{400, 404, 405, 413, 415, 422}

func (h *hostileSite) try(a attempt, listener bool) {
	h.Helper()
	var r *result
	own, sent := false, true
	if !listener {
		r, sent = h.direct(a)
	}
	if listener || !sent {
		r, own = h.byListener(a)
	}
	if r.Status >= 500 {
		h.failures++
	}
	if r.Header.Get("Content-Encoding") == "gzip" && a.method != "HEAD" {
		r.Body = unzipped(h, r)
	}
	if r.Status >= 500 || slices.Contains(refusesForm, r.Status) && !bytes.Contains(r.Body, []byte(domain.CodeWrongCode)) {
		h.broken++
		h.rejected[a.op] = true
	}
	if own {
		return
	}
	path, _, _ := strings.Cut(a.target, "?")
	problems := append(h.responseProblems(a.method, path, r), h.errorProblems(a, path, r)...)
	for _, problem := range problems {
		h.Errorf("%s: %s\n%s %.300q %.200q\n%.600q\n%d %.600s", a.name, problem, a.method, a.target, a.headers, a.body, r.Status, r.Body)
	}
}

func (h *hostileSite) errorProblems(a attempt, path string, r *result) (problems []string) {
	var body api.ErrorBody
	switch {
	case r.Status < 400 && a.code != "":
		return []string{"it is accepted"}
	case r.Status < 400 || a.method == "HEAD":
		return nil
	case !a.repeats && (bytes.Contains(bytes.ToLower(r.Body), []byte(hostileMark)) || bytes.Contains(r.Body, []byte(fmt.Sprint(hostileNumber)))):
		problems = append(problems, "the refusal repeats what was sent")
	}
	if !strings.HasPrefix(path, "/api/") {
		return problems
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return append(problems, err.Error())
	}
	e := body.Error
	if entry, known := api.ErrorMessages[e.Code]; !known || entry.Status != r.Status || e.MessageEN == "" || e.MessageZH == "" {
		problems = append(problems, "not the form of a refusal")
	}
	if a.code != "" && e.Code != a.code {
		problems = append(problems, "not refused as "+string(a.code))
	}
	named := a.code != domain.CodeValidationFailed && a.code != domain.CodeInvalidQuery || a.field == ""
	for _, d := range e.Details {
		named = named || strings.HasPrefix(d.Field, a.field)
		if d.Field == "" || d.Code == "" || d.MessageEN == "" || d.MessageZH == "" {
			problems = append(problems, fmt.Sprintf("not the form of a detail: %+v", d))
		}
	}
	if !named {
		problems = append(problems, "it does not name "+a.field)
	}
	return problems
}

// loggedPath is the path of a request in the log.
var loggedPath = regexp.MustCompile(`"path":"(\\.|[^"\\])*"`)

// checkLog fails the test if the log reports panics or errors of the service, or repeats a mark but in paths, and clears it.
func (h *hostileSite) checkLog() {
	h.Helper()
	if log := loggedPath.ReplaceAllString(h.log.String(), ""); strings.Contains(log, `"level":"error"`) || strings.Contains(log, "panic") || strings.Contains(log, hostileMark) {
		h.failures++
		h.Errorf("the log tells of failures: %.3000s", log)
	}
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.log.Reset()
}

// hostileHeaders go with any request.
var hostileHeaders = []string{
	"Content-Type: text/plain", "Content-Type: application/json; charset=" + hostileMark, "Content-Type: a/b;;=", "Content-Type: ", "Content-Encoding: br", "Accept-Encoding: gzip;q=0, *;q=" + hostileMark, "Accept-Encoding: gzip",
	"Accept-Language: zh;q=9,;;," + hostileMark, "If-None-Match: *", `If-None-Match: W/"` + hostileMark, "X-Request-Id: " + hostileMark + "\xff", "X-Forwarded-For: " + hostileMark + ", ::1%lo", "Forwarded: for=" + hostileMark,
	"Origin: https://" + hostileMark + ".example", "Idempotency-Key: " + hostileMark + "-0123456789", "Idempotency-Key: " + hostileMark, "Cookie: a=" + hostileMark, "Range: bytes=0-1,-1", "Mcp-Method: tools/call", "Mcp-Protocol-Version: 2026-07-28",
	"Sec-Fetch-Site: cross-site", "Access-Control-Request-Method: POST", "X-Http-Method-Override: DELETE", "Accept: " + strings.Repeat("a/b,", 300), "Authorization: Basic " + hostileMark,
}

// elsewhere are addresses that the document does not name.
var elsewhere = []string{
	"/mcp", "/mcp", "/mcp", "/ard/search", "/ard/explore", "/ard/agents?pageToken=" + hostileMark, "/ard/agents/urn:air:callbook.example.org:agent:" + hostileMark, "/agents", "/agents/edges", "/agents/%ff", "/calls", "/calls/pst_" + hostileMark, "/calls.atom", "/owner/" + hostileMark, "/owner/%00", "/owner/", "/", "/skill.md", "/llms.txt", "/healthz", "/openapi.json",
	"/API/agents", "/api/", "/api/agents/", "//api/agents", "/api/../api/me", "/api/me/../../owner/x", "/%61pi/agents", "/api/agents/edges/requests/" + hostileMark, "/metrics", "/dev/clock", "/.git/config", "/static/../main.go", "http://" + hostileMark + "/api",
}

var hostileMessages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_agents","arguments":{"q":"` + hostileMark + `","limit":1}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_agent","arguments":{"handle":"edges"}}}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + hostileMark + `","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`,
	`{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"callbook://agents/%00"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "form=a&act=confirm&handle=" + hostileMark, "%zz&&=;",
	`{"query":{"text":"` + hostileMark + `","filter":{"tags":["` + hostileMark + `",1],"metadata.trustLevel":1}},"pageSize":3,"pageToken":"3.AAAA"}`,
	`{"query":{"text":"edges","filter":{"type":"` + hostileMark + `"}},"resultType":{"facets":[{"field":"tags","limit":3,"minCount":1}]}}`,
}

// hostile makes requests by chance of those that are right and those that are not.
type hostile struct {
	*hostileSite
	*rand.Rand
}

func pick[T any](h hostile, from []T) T { return from[h.IntN(len(from))] }

func (h hostile) next() attempt {
	op := pick(h, h.server.engine.Operations)
	a := h.validAttempt(op)
	switch h.IntN(10) {
	case 0, 1, 2:
		a = pick(h, h.singles)
	case 3, 4, 5, 6:
		a.body, a.repeats = h.mutated(pick(h, []attempt{a, pick(h, h.singles)}).body), true
	case 7:
		a = attempt{name: "elsewhere", method: pick(h, []string{"GET", "POST", "POST", "HEAD", "OPTIONS", "PUT", "DELETE"}), target: pick(h, elsewhere), body: h.mutated([]byte(pick(h, hostileMessages))), repeats: true}
		if a.method == "GET" || a.method == "HEAD" {
			a.body = nil
		}
	}
	a.code, a.field = "", ""
	a.headers = h.keys(op, a)
	for range max(0, h.IntN(5)-2) {
		a.headers = append(a.headers, pick(h, hostileHeaders))
	}
	for range max(0, h.IntN(5)-3) {
		a.target, a.repeats = withQuery(a.target, pick(h, []string{"q=%00", "limit=-1", "a", "%ff=%fe", "=" + hostileMark, "cursor=" + hostileMark, "%E2%80%AE=1", "lang=zh", "&&;", strings.Repeat("x=1&", 500)})), true
	}
	return a
}

// keys returns the headers of a request with a random kind of key. A request that would end the
// valid key does not get it.
func (h hostile) keys(op *api.Operation, a attempt) []string {
	headers := slices.DeleteFunc(slices.Clone(a.headers), func(line string) bool { return strings.HasPrefix(line, "Authorization: ") })
	if a.op != nil {
		op = a.op
	}
	kinds := []string{"", "Authorization: Bearer cb_" + hostileMark, "Authorization: Bearer " + h.key[:len(h.key)-1], "Authorization: " + hostileMark, "Authorization: Bearer \xff"}
	if op.ID != "deleteMe" && op.ID != "rotateKey" && op.ID != "deletePost" {
		kinds = append(kinds, slices.Repeat([]string{"Authorization: Bearer " + h.key}, 8)...)
	}
	if kind := pick(h, kinds); kind != "" {
		headers = append(headers, kind)
	}
	return headers
}

// mutated returns a body with some bytes changed, lost, doubled or moved.
func (h hostile) mutated(body []byte) []byte {
	body = slices.Clone(body)
	for range 1 + h.IntN(4) {
		if len(body) == 0 {
			return []byte{byte(h.Uint32())}
		}
		i := h.IntN(len(body))
		j := min(len(body), i+h.IntN(12))
		switch h.IntN(6) {
		case 0:
			body[i] = byte(h.Uint32())
		case 1:
			body[i] ^= 1 << h.IntN(8)
		case 2:
			body = slices.Delete(body, i, j)
		case 3:
			body = slices.Insert(body, h.IntN(len(body)), slices.Clone(body[i:j])...)
		case 4:
			body = slices.Insert(body, i, []byte(pick(h, []string{`"`, `\`, "{", "}", "[", "]", ",", ":", "null", "1e9", `\ud83d`, "\x00", "\xf0\x9f", "\u202e", "\ufeff"}))...)
		case 5:
			body = body[:j]
		}
	}
	return body
}

// TestHostileInput_IsRejected sends requests that violate one constraint of the tables each, then random variants of
// them: none fails, malformed ones are rejected in the documented form, and no error repeats the input.
func TestHostileInput_IsRejected(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	const inRound = 20_000
	rounds, each := proof.Rounds(1, 1, 80), proof.Rounds(500, inRound, inRound)
	var requests, failures, operations atomic.Int64
	t.Run("rounds", func(t *testing.T) {
		for round := range rounds {
			t.Run(fmt.Sprint(round), func(t *testing.T) {
				t.Parallel()
				h := newHostileSite(t)
				seed := rand.Uint64()
				defer func() {
					if t.Failed() {
						t.Logf("seed %d", seed)
					}
					requests.Add(int64(h.broken))
					failures.Add(int64(h.failures))
				}()
				operations.Store(int64(h.eachAlone()))
				h.round(hostile{h, rand.New(rand.NewPCG(seed, 0))}, each)
			})
		}
	})
	proof.Figure(t, "inputs", int(requests.Load())) // beside those of the fuzz targets
	proof.Figure(t, "requests", int(requests.Load()))
	proof.Figure(t, "failures", int(failures.Load()))
	proof.Figure(t, "operations", int(operations.Load()))
}

const mostFailures = 20

// eachAlone sends the requests that break one constraint, and returns how many
// operations they were for: none of the server is left out.
func (h *hostileSite) eachAlone() int {
	h.Helper()
	for _, a := range h.singles {
		h.try(a, true)
	}
	h.checkLog()
	for _, op := range h.server.engine.Operations {
		if !h.rejected[op] {
			h.Errorf("%s has refused nothing malformed", op.ID)
		}
	}
	return len(h.server.engine.Operations)
}

func (h *hostileSite) round(chance hostile, n int) {
	h.Helper()
	for i := range n {
		h.try(chance.next(), i%20 == 0)
		if i%500 == 0 {
			h.checkLog()
		}
		if h.failures > mostFailures {
			h.FailNow()
		}
	}
	h.checkLog()
	h.send("GET", "/api/me", h.key, nil).status(200) // nothing took the key away
}
