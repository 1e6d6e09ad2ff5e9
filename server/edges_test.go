package server

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"callbook/server/api"
	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// edgeSite is a site with an agent that tries every value, and its neighbour, which has sent it a
// contact request and a collaboration. Both are claimed.
type edgeSite struct {
	*site
	key       string
	neighbour string // the neighbour's key
	tried     int
}

func newEdgeSite(t testing.TB) *edgeSite {
	t.Helper()
	s := &edgeSite{site: newSite(t)}
	s.neighbour = s.claimed("neighbour", "next@example.org")
	s.replaceMenu(s.neighbour)
	s.key = s.claimed("edges", "owner@example.org", "description_zh", "两种语言。")
	s.replaceMenu(s.key)
	call := s.site.post(s.key, "A call to reply to")
	s.pathValues = map[string]string{
		"{handle}": "edges", "/api/posts": call, "/api/replies": s.reply(s.key, call),
		"/api/requests": s.sendRequest(s.neighbour, "edges"), "/api/collabs": s.collab(s.neighbour, "edges"),
	}
	return s
}

// goodBody returns a body that the operation accepts, the least one.
func goodBody(op, handle string) map[string]any {
	switch op {
	case "registerAgent":
		body := registrationOf(handle)
		body["description_zh"] = "两种语言。"
		return body
	case "replaceOfferings":
		return map[string]any{"offerings": []any{map[string]any{"title": "Tide table", "deliverable": "A table", "mode": "free"}}}
	case "createPost":
		return map[string]any{"kind": "seeking", "title": "Tides for " + handle, "body": "Tide levels wanted by " + handle} // no two alike
	case "replaceWatches":
		return map[string]any{"watches": []any{map[string]any{"kind": "seeking", "q": "tides"}}}
	case "createReply":
		return map[string]any{"body": "I have them."}
	case "sendRequest":
		return map[string]any{"purpose": "Tides", "deliverable": "A table", "compensation": "none"}
	case "confirmVerify":
		return map[string]any{"code": "0000-0000"}
	case "claimOwner":
		return map[string]any{"owner_email": "owner@example.org"}
	case "setLink", "setWake":
		return map[string]any{"url": "https://harbour.example.org/about"}
	case "markInboxSeen":
		return map[string]any{"next": domain.EventID(1<<47, 1<<40)}
	case "startRecovery":
		return map[string]any{"handle": "neighbour"}
	case "confirmRecovery":
		return map[string]any{"handle": "neighbour", "code": "0000-0000"}
	case "recordCollab":
		return map[string]any{"partner": "neighbour", "summary": "Tide tables."}
	}
	return map[string]any{}
}

// put sets a field of a body; a step that ends in [] is a list of one.
func put(object map[string]any, path string, value any) {
	step, rest, deeper := strings.Cut(path, ".")
	name, inList := strings.CutSuffix(step, "[]")
	_, leaveOut := value.(absent)
	switch {
	case deeper && inList:
		put(object[name].([]any)[0].(map[string]any), rest, value)
	case deeper:
		child, ok := object[name].(map[string]any)
		if !ok {
			child = map[string]any{}
			object[name] = child
		}
		put(child, rest, value)
	case leaveOut:
		delete(object, name)
	case inList:
		object[name] = []any{value}
	default:
		object[name] = value
	}
}

// fieldAt returns the field that put sets.
func fieldAt(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		name, inList := strings.CutSuffix(step, "[]")
		object, _ := v.(map[string]any)
		v = object[name]
		if inList {
			list, _ := v.([]any)
			if len(list) == 0 {
				return absent{}
			}
			v = list[0]
		}
	}
	return v
}

// address returns the method and path of an operation with its parameters filled in.
func (s *edgeSite) address(id string) (method, path string) {
	for _, op := range s.server.engine.Operations {
		if op.ID == id {
			return op.Method, s.pathOf(op)
		}
	}
	s.Fatalf("no operation %s", id)
	return "", ""
}

// trial is a request that tries a value, in a state of the directory in which the operation accepts the valid body.
type trial struct {
	method, path string
	key          string // the caller's
	handle       string // the caller's
	other        string // key of the other side
	right        string // the value of the row's field that the state makes right
	body         map[string]any
}

// prepare makes the state for one try. What an operation may do once only, it does with another agent each time.
func (s *edgeSite) prepare(row edgeRow) *trial {
	s.Helper()
	s.tried++
	fresh := fmt.Sprintf("edge-%d", s.tried)
	method, path := s.address(row.op)
	try := &trial{method: method, path: path, key: s.key, handle: "edges", body: goodBody(row.op, fresh)}
	switch row.op {
	case "reportAgent":
		s.agent(fresh)
		try.path = "/api/agents/" + fresh + "/report"
	case "reportReply":
		try.path = "/api/replies/" + s.reply(s.key, s.pathValues["/api/posts"]) + "/report"
	case "reportPost":
		try.path = "/api/posts/" + s.site.post(s.key, "To be reported "+rand.Text()) + "/report" // an address counts once for a call
	case "sendRequest":
		try.path, try.other = "/api/agents/"+fresh+"/requests", s.agent(fresh)
		try.right = s.replaceMenu(try.other)
		try.body["offering_id"] = try.right
	case "declineRequest", "reportRequest":
		s.nextDay() // a policy admits some a week only
		try.other = s.verified(fresh)
		try.path = strings.Replace(path, s.pathValues["/api/requests"], s.sendRequest(try.other, "edges"), 1)
	case "confirmVerify":
		try.key, try.handle = s.agent(fresh), fresh
		s.send("POST", "/api/me/verify", try.key, nil).status(202)
		try.right = *s.mail(fresh + "@example.org").Code
	case "claimOwner", "setWake":
		try.key, try.handle = s.verified(fresh), fresh
	case "markInboxSeen":
		try.key, try.handle = s.verified(fresh), fresh // which is an event
		try.right = s.send("GET", "/api/me/inbox", try.key, nil).text("next")
	case "setLink":
		try.key, try.handle = s.agent(fresh), fresh // a card shows some links only
	case "startRecovery":
		try.right = "neighbour"
	case "confirmRecovery":
		s.verified(fresh)
		s.send("POST", "/api/recover", "", map[string]any{"handle": fresh}).status(202)
		code := *s.mail(fresh + "@example.org").Code
		try.body = map[string]any{"handle": fresh, "code": code}
		if row.field != "end_claim" {
			try.right = try.body[row.field].(string)
		}
	case "recordCollab":
		s.prepareCollab(row, try, fresh)
	}
	if try.key != s.key {
		s.send("GET", "/api/me", try.key, nil).status(200) // the first use of a key is kept
	}
	s.send("GET", "/readyz", "", nil).status(200) // waits for what else requests leave for the background
	return try
}

func (s *edgeSite) prepareCollab(row edgeRow, try *trial, fresh string) {
	s.Helper()
	try.key, try.handle, try.other = s.agent(fresh), fresh, s.neighbour
	switch row.field {
	case "partner":
		try.right = "neighbour"
	case "post_id":
		try.right = s.site.post(s.neighbour, "A call of the neighbour "+rand.Text())
	case "request_id":
		s.nextDay()
		s.verify(try.key)
		try.right = s.sendRequest(try.key, "neighbour")
	}
}

// nextDay moves the clock and updates the times of the last requests.
func (s *edgeSite) nextDay() {
	s.Helper()
	s.clock.Advance(domain.Day)
	s.send("GET", "/api/me", s.key, nil).status(200)
	s.send("GET", "/api/me", s.neighbour, nil).status(200)
}

// at returns an edge's value in the state of a try.
func (try *trial) at(value any) any {
	if made, ok := value.(func(*trial) string); ok {
		return made(try)
	}
	return value
}

func TestFields_AreCheckedAtTheirLimits(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	rows := map[string][]edgeRow{}
	for _, row := range edgeRows {
		rows[row.op] = append(rows[row.op], row)
	}
	for op, rows := range rows {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			s := newEdgeSite(t)
			for _, row := range rows {
				for _, e := range row.edges {
					s.tryBody(row, e)
				}
			}
		})
	}
}

func (s *edgeSite) tryBody(row edgeRow, e edge) {
	s.Helper()
	try := s.prepare(row)
	put(try.body, row.field, try.at(e.value))
	before := s.version()
	a := s.send(try.method, try.path, try.key, try.body)
	label := row.op + " " + row.field + ", " + e.name
	_, idle := e.stored.(nothing)
	// A wrong code that verifies a mailbox changes the state too: it counts as a try. A change to the same stores nothing.
	same := e.code == "" && (row.op == "updateMe" || row.op == "setLink")
	if got, want := s.version() != before, e.code == "" && !idle || e.code == "wrong_code" && row.op == "confirmVerify"; got != want && !same {
		s.Errorf("%s: the state changed: %v, want %v", label, got, want)
	}
	_, whole := api.ErrorMessages[domain.Code(e.code)]
	switch {
	case e.code == "" && a.Status < 300:
		switch e.stored.(type) {
		case absent, nothing:
		default: // compared with a later read
			equal(s, plain(s, try.at(e.stored)), plain(s, s.shown(row, a, try)), "%s", label)
		}
	case e.code == "":
		s.Errorf("%s: refused: %.300s", label, a.Body)
	case whole:
		if a.Status != api.ErrorMessages[domain.Code(e.code)].Status || a.text("error", "code") != e.code {
			s.Errorf("%s: %d %.300s; want %s", label, a.Status, a.Body, e.code)
		}
	default:
		if want := []string{strings.ReplaceAll(row.field, "[]", "[0]") + " " + e.code}; a.Status != 422 || !slices.Equal(a.details(), want) {
			s.Errorf("%s: %d %.300s; want %v", label, a.Status, a.Body, want)
		}
	}
}

// shown returns the field where it is read back: by its agent or, of what concerns others, by the other party, the recipient
// of the mail or the operator.
func (s *edgeSite) shown(row edgeRow, a *result, try *trial) any {
	s.Helper()
	handle, key := try.handle, try.key
	if row.op == "registerAgent" {
		handle, key = a.text("agent", "handle"), a.text("api_key")
	}
	read := func(path, key string, at ...any) any { return s.send("GET", path, key, nil).value(at...) }
	switch {
	case row.field == "mailbox":
		return read("/api/me", key, "mailbox")
	case row.field == "contact_public":
		return read("/api/me/export", key, "tables", "agents", 0, "contact_public") // cards show a verified mailbox only
	}
	switch row.op {
	case "registerAgent", "updateMe", "replaceOfferings":
		return fieldAt(read("/api/agents/"+handle, "", "agent"), row.field)
	case "replaceWatches":
		return fieldAt(read("/api/me/watches", key), row.field)
	case "createPost":
		return fieldAt(read("/api/posts/"+a.text("post", "id"), "", "post"), row.field)
	case "createReply":
		thread := s.send("GET", "/api/posts/"+s.pathValues["/api/posts"], "", nil)
		return thread.value("replies", thread.len("replies")-1, "body")
	case "setWake":
		return read("/api/me/wake", key, "url")
	case "setLink":
		return fieldAt(read("/api/agents/"+handle, "", "agent"), "trust.links[].url")
	case "claimOwner":
		to, _ := try.body["owner_email"].(string)
		return s.mail(storetext.CanonicalMailbox(strings.TrimSpace(to))).To
	case "sendRequest":
		return read("/api/requests/"+a.text("request", "id"), try.other, "request", row.field)
	case "declineRequest":
		return read("/api/requests/"+a.text("request", "id"), try.other, "request", "decline_reason")
	case "recordCollab":
		return fieldAt(read("/api/me/collabs", try.other, "collabs", 0), strings.Replace(row.field, "partner", "partner.handle", 1))
	}
	var reason *string
	if err := s.database.Get(&reason, `SELECT reason FROM reports ORDER BY seq DESC LIMIT 1`); err != nil {
		s.Errorf("read the report: %v", err)
	}
	return reason
}

// plain returns a value as JSON reads it.
func plain(t testing.TB, v any) (read any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	testkit.NoError(t, err)
	return read
}

func TestQueries_AreCheckedAtTheirLimits(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newEdgeSite(t)
	for _, row := range queryRows {
		for _, e := range row.edges {
			before := s.version()
			s.tryQuery(row, e)
			sent := row.field == "dry_run" && e.value == "false"
			equal(t, sent, s.version() != before, "%s %s, %s: the state changed", row.op, row.field, e.name)
		}
	}
	s.send("DELETE", "/api/me?confirm=%20edges%0A", s.key, nil).status(204)
}

func (s *edgeSite) tryQuery(row edgeRow, e edge) {
	s.Helper()
	method, path := s.address(row.op)
	var body any
	switch row.op {
	case "sendRequest":
		path, body = "/api/agents/neighbour/requests", s.requestTo("neighbour")
	case "listEvents": // there are some, so that no call waits
		e.value = (&trial{right: s.send("GET", path, s.key, nil).status(200).text("events", 0, "id")}).at(e.value)
	}
	if text, given := e.value.(string); given {
		path += "?" + row.field + "=" + url.QueryEscape(text)
	}
	a := s.send(method, path, s.key, body)
	label := row.op + " " + row.field + ", " + e.name
	if e.code == "" {
		if a.Status != 200 && (a.Status != 201 || e.value != "false") {
			s.Errorf("%s: %d %.300s", label, a.Status, a.Body)
		}
		if row.field == "limit" && row.op != "getPost" && fmt.Sprint(a.value("limit")) != e.value {
			s.Errorf("%s: the answer has limit %v", label, a.value("limit"))
		}
		return
	}
	if a.Status != 400 || a.text("error", "code") != "invalid_query" || !slices.Contains(a.details(), row.field+" "+e.code) || a.len("error", "details") != 1 {
		s.Errorf("%s: %d %.300s; want %s", label, a.Status, a.Body, e.code)
	}
}

// A field or constraint that the document has and the table has not, or holds to
// another number, would be a limit that no client tries.
func TestFields_TableMatchesTheDocument(t *testing.T) {
	s := newSite(t)
	var document map[string]any
	s.send("GET", "/openapi.json", "", nil).status(200).into(&document)
	got, want := documentedConstraints(document), []string{}
	for _, row := range slices.Concat(edgeRows, queryRows) {
		want = append(want, row.op+" "+row.field)
		for _, rule := range row.rules {
			want = append(want, row.op+" "+row.field+" "+rule)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, want, got, "the table (-) and the document (+) differ")
}

// documentedConstraints returns the constraints of bodies and queries in the document.
func documentedConstraints(document map[string]any) (all []string) {
	d := schemaWalk{document: document, found: &all}
	for _, path := range document["paths"].(map[string]any) {
		for _, op := range path.(map[string]any) {
			operation, ok := op.(map[string]any)
			if !ok {
				continue
			}
			d.op = operation["operationId"].(string)
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "query" {
					d.field(p["name"].(string), p["schema"], p["required"] == true)
				}
			}
			if body := fieldAt(operation, "requestBody.content"); body != nil {
				d.schema("", body.(map[string]any)["application/json"].(map[string]any)["schema"])
			}
		}
	}
	return all
}

// schemaWalk gathers the constraints of one operation's input.
type schemaWalk struct {
	document map[string]any
	op       string
	found    *[]string
}

// noConstraint are the keywords that hold no value back, or that the walk itself
// follows; types are tried by each row, and if and then by TestOpenAPI_RequiresOneDescription. int64 is the width of a number.
var noConstraint = []string{"if", "then", "type", "description", "examples", "default", "items", "properties", "required", "additionalProperties", "$ref", "readOnly"}

func (d schemaWalk) add(field, rule string) {
	*d.found = append(*d.found, strings.TrimSpace(d.op+" "+field+" "+rule))
}

func (d schemaWalk) field(name string, schema any, required bool) {
	d.add(name, "")
	if required {
		d.add(name, "required")
	}
	d.schema(name, schema)
}

func (d schemaWalk) schema(field string, v any) {
	schema := v.(map[string]any)
	if ref, ok := schema["$ref"].(string); ok {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		schema = fieldAt(d.document, "components.schemas."+name).(map[string]any)
	}
	for keyword, value := range schema {
		if !slices.Contains(noConstraint, keyword) && value != "int64" {
			d.add(field, fmt.Sprintf("%s=%v", keyword, value))
		}
	}
	names, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		path := name
		if field != "" {
			path = field + "." + name
		}
		d.field(path, property, slices.Contains(names, any(name)))
	}
	if items, ok := schema["items"].(map[string]any); ok {
		if _, object := items["$ref"]; !object {
			d.add(field+"[]", "")
		}
		d.schema(field+"[]", items)
	}
}
