package server

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
)

// edgeSite is a site with one agent that tries every edge, and its neighbour.
type edgeSite struct {
	*site
	key, post string
	database  *sqlx.DB // one connection of its own: sees what no answer shows
	tried     int
}

func newEdgeSite(t testing.TB) *edgeSite {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	s := &edgeSite{site: newSite(t, func(o *siteOptions) { o.path = path })}
	s.agent("neighbour")
	s.key = s.agent("edges", "description_zh", "两种语言。")
	s.post = s.site.post(s.key, "A call to reply to")
	db, err := sqlx.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	s.database = db
	return s
}

// goodBody is a body that the operation accepts, the least one.
func goodBody(op, handle string) map[string]any {
	switch op {
	case "registerAgent":
		body := registrationOf(handle)
		body["description_zh"] = "两种语言。"
		return body
	case "replaceOfferings":
		return map[string]any{"offerings": []any{map[string]any{"title": "Tide table", "deliverable": "A table", "mode": "free"}}}
	case "createPost":
		return map[string]any{"kind": "seeking", "title": "Tides", "body": "Tide levels wanted."}
	case "createReply":
		return map[string]any{"body": "I have them."}
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

// fieldAt reads what put has set.
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

// address is the method and path of an operation with its parameters filled in.
func (s *edgeSite) address(id string) (method, path string) {
	for _, op := range s.server.operations {
		if op.id == id {
			return op.method, strings.NewReplacer("{id}", s.post, "{handle}", "edges").Replace(op.path)
		}
	}
	s.Fatalf("no operation %s", id)
	return "", ""
}

// state is a number that every commit to the database changes. A refused call
// must not change it.
func (s *edgeSite) state() (version int64) {
	s.Helper()
	if err := s.database.Get(&version, `PRAGMA data_version`); err != nil {
		s.Fatal(err)
	}
	return version
}

func TestEveryLimitAtItsEdge(t *testing.T) {
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
	s.tried++
	handle := fmt.Sprintf("edge-%d", s.tried)
	body := goodBody(row.op, handle)
	put(body, row.field, e.value)
	method, path := s.address(row.op)
	if row.op == "reportPost" {
		path = "/api/posts/" + s.site.post(s.key, "To be reported") + "/report" // an address counts once for a call
	}
	before := s.state()
	a := s.call(method, path, s.key, body)
	label := row.op + " " + row.field + ", " + e.name
	switch {
	case e.fault == "" && a.Status < 300:
		if s.state() == before {
			s.Errorf("%s: accepted, but nothing was written", label)
		}
		s.checkStored(label, row, e, a, body)
	case e.fault == "":
		s.Errorf("%s: refused: %.300s", label, a.Body)
	default:
		if want := []string{strings.ReplaceAll(row.field, "[]", "[0]") + " " + e.fault}; a.Status != 422 || !slices.Equal(a.faults(), want) {
			s.Errorf("%s: %d %.300s; want %v", label, a.Status, a.Body, want)
		}
		if s.state() != before {
			s.Errorf("%s: refused, but the state changed", label)
		}
	}
}

// checkStored holds the answer, and what is read back, against the edge.
func (s *edgeSite) checkStored(label string, row edgeRow, e edge, a *result, body map[string]any) {
	s.Helper()
	if _, hidden := e.stored.(absent); hidden {
		return
	}
	for from, got := range s.shown(row, a, body) {
		if diff := cmp.Diff(plain(s, e.stored), plain(s, got)); diff != "" {
			s.Errorf("%s: %s differs (-sent +stored): %.300s", label, from, diff)
		}
	}
}

// shown is the field in the answer and where it is read back.
func (s *edgeSite) shown(row edgeRow, a *result, body map[string]any) map[string]any {
	s.Helper()
	handle, key := "edges", s.key
	if row.op == "registerAgent" {
		handle, key = a.text("agent", "handle"), a.text("api_key")
	}
	card := func() any { return s.call("GET", "/api/agents/"+handle, "", nil).value("agent") }
	switch {
	case row.field == "mailbox":
		return map[string]any{"the own card": s.call("GET", "/api/me", key, nil).value("mailbox")}
	case row.field == "contact_public":
		return map[string]any{"the answer": a.value("agent", "contact", "email_public"), "the card": fieldAt(card(), "contact.email_public")}
	case row.op == "registerAgent", row.op == "updateMe":
		return map[string]any{"the answer": fieldAt(a.value("agent"), row.field), "the card": fieldAt(card(), row.field)}
	case row.op == "replaceOfferings":
		return map[string]any{"the answer": fieldAt(a.value(), row.field), "the card": fieldAt(card(), row.field)}
	case row.op == "createPost":
		read := s.call("GET", "/api/posts/"+a.text("post", "id"), "", nil).value("post")
		return map[string]any{"the answer": fieldAt(a.value("post"), row.field), "the call": fieldAt(read, row.field)}
	case row.op == "createReply":
		thread := s.call("GET", "/api/posts/"+s.post, "", nil)
		return map[string]any{"the answer": a.value("reply", "body"), "the thread": thread.value("replies", thread.len("replies")-1, "body")}
	}
	var reason *string
	if err := s.database.Get(&reason, `SELECT reason FROM reports ORDER BY seq DESC LIMIT 1`); err != nil {
		s.Errorf("read the report: %v", err)
	}
	return map[string]any{"the report": reason}
}

// plain is a value as JSON reads it.
func plain(t testing.TB, v any) (read any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestEveryQueryParameterAtItsEdge(t *testing.T) {
	s := newEdgeSite(t)
	before := s.state()
	for _, row := range queryRows {
		for _, e := range row.edges {
			s.tryQuery(row, e)
		}
	}
	if s.state() != before {
		t.Error("a query changed the state")
	}
	s.call("DELETE", "/api/me?confirm=%20edges%0A", s.key, nil).status(204)
}

func (s *edgeSite) tryQuery(row edgeRow, e edge) {
	s.Helper()
	method, path := s.address(row.op)
	if text, given := e.value.(string); given {
		path += "?" + row.field + "=" + url.QueryEscape(text)
	}
	a := s.call(method, path, s.key, nil)
	label := row.op + " " + row.field + ", " + e.name
	if e.fault == "" {
		if a.Status != 200 {
			s.Errorf("%s: %d %.300s", label, a.Status, a.Body)
		}
		if row.field == "limit" && fmt.Sprint(a.value("limit")) != e.value {
			s.Errorf("%s: the answer has limit %v", label, a.value("limit"))
		}
		return
	}
	if a.Status != 400 || a.text("error", "code") != "invalid_query" || !slices.Contains(a.faults(), row.field+" "+e.fault) || a.len("error", "details") != 1 {
		s.Errorf("%s: %d %.300s; want %s", label, a.Status, a.Body, e.fault)
	}
}

// Beyond offset 10000 the error tells of the way that goes further.
func TestAnOffsetTooFarPointsToNext(t *testing.T) {
	s := newSite(t)
	a := s.call("GET", "/api/agents?offset=10001", "", nil).refused(400, "invalid_query")
	for _, language := range []string{"message_en", "message_zh"} {
		if text := a.text("error", "details", 0, language); !strings.Contains(text, "next") || !strings.Contains(text, "10000") {
			t.Errorf("%s: %s", language, text)
		}
	}
}

// A field or constraint that the document has and the table has not, or holds to
// another number, would be a limit that nobody tries.
func TestEveryDocumentedConstraintHasARow(t *testing.T) {
	s := newSite(t)
	var document map[string]any
	s.call("GET", "/openapi.json", "", nil).status(200).into(&document)
	got, want := documentedConstraints(document), []string{}
	for _, row := range slices.Concat(edgeRows, queryRows) {
		want = append(want, row.op+" "+row.field)
		for _, rule := range row.rules {
			want = append(want, row.op+" "+row.field+" "+rule)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-) and the document (+) differ:\n%s", diff)
	}
}

// documentedConstraints lists what the document says of bodies and queries.
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
// follows; types are tried by each row. int64 is the width of a number.
var noConstraint = []string{"type", "description", "examples", "default", "items", "properties", "required", "additionalProperties", "$ref", "readOnly"}

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
