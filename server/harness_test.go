package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/mail"
	"callbook/server/middleware"
	"callbook/server/outbound"
	"callbook/server/ratelimit"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/testdata/testkit"
)

// TestMain makes garbage collections rare: tests make many small heaps. Benchmarks measure with the default.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// site is a directory for a test: a real file, a real listener, a clock that the test moves. Every response that it
// gives is compared with the OpenAPI document and the conventions that all responses share.
type site struct {
	testing.TB
	server     *Server
	store      *store.Store
	path       string   // of the database
	database   *sqlx.DB // one connection of its own, for what no response shows
	clock      *testkit.Clock
	dev        DevClock // instead of clock, under callbook dev
	log        *lockedBuffer
	outgoing   *mail.Memory
	url        string
	client     *http.Client
	pathValues map[string]string // what stands for a {…} of an operation's path; see pathOf
	documented *sync.Map         // *operation to what the document says of it
}

// DevMode builds servers like those of callbook dev. Package devmode imports this one, so the
// external tests set it (devmode_test.go).
var DevMode struct {
	NewClock func() DevClock
	New      func(st *store.Store, o Options, clock DevClock, sent *mail.Memory, demo bool, state string) (s *Server, start func(ctx context.Context, fresh bool) error, err error)
}

// DevClock is a devmode.Clock.
type DevClock interface {
	Now() time.Time
	Advance(d time.Duration)
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// siteOptions are the options of a site; by default it has no limits.
type siteOptions struct {
	limits  ratelimit.Limits
	quotas  domain.Quotas
	trusted middleware.TrustedProxies
	path    string
	dev     DevClock // of callbook dev
	demo    bool     // it starts with the demo
	state   string   // its file beside the database; empty: none
	mails   domain.MailCaps
	mailOff bool
	private bool
	mode    domain.RegistrationMode
	links   outbound.Options
	owner   documents.Operator
	serve   func(*Options) // changes further options; nil: none
	shared  time.Duration  // see Options.SharedCache
}

// newFile is the file of a new directory. Each test has a copy of it, as making one is
// many statements and waits for the disk.
var newFile = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "callbook-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "callbook.db")
	st, err := store.Open(context.Background(), store.Options{Path: path, Clock: testkit.Start})
	if err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// makeFile makes the file of a new directory, unless there is one.
func makeFile(t testing.TB, path string) {
	t.Helper()
	if sqlitedb.Exists(path) {
		return
	}
	file, err := newFile()
	testkit.NoError(t, errors.Join(err, os.WriteFile(path, file, 0o600)))
}

// slowRead is the timeout of reads and queries: on a busy machine a query may take longer than the default.
const slowRead = 10 * time.Second

func newSite(t testing.TB, options ...func(*siteOptions)) *site {
	t.Helper()
	o := siteOptions{path: filepath.Join(t.TempDir(), "callbook.db"), quotas: domain.Quotas{}, links: outbound.Options{Resolver: nowhere{}}}
	for _, set := range options {
		set(&o)
	}
	fresh := !sqlitedb.Exists(o.path)
	makeFile(t, o.path)
	clock := testkit.NewClock()
	now := clock.Now
	if o.dev != nil {
		now = o.dev.Now // then the clock is moved through POST /dev/clock
	}
	sent := mail.NewMemory(10_000)
	st, err := store.Open(context.Background(), store.Options{
		Path: o.path, Clock: now, Quotas: o.quotas, Mails: &o.mails, Registration: o.mode, Normal: true, LoopbackLinks: o.dev != nil,
		ReadTimeout: slowRead, QueryTimeout: slowRead,
	})
	testkit.NoError(t, err)
	log := &lockedBuffer{}
	h := httptest.NewUnstartedServer(nil)
	base := "http://callbook.example.org"
	if o.dev != nil {
		base = "http://" + h.Listener.Addr().String() // as callbook dev has it
	}
	serve := Options{
		BaseURL: base, Limits: o.limits, TrustedProxies: o.trusted, Private: o.private,
		Log: zerolog.New(log), Version: "test", Mail: sent, LinkCheck: o.links, Operator: o.owner, SharedCache: o.shared,
	}
	if o.mailOff {
		serve.Mail = nil
	}
	if o.serve != nil {
		o.serve(&serve)
	}
	var s *Server
	start := func(context.Context, bool) error { return nil }
	if o.dev == nil {
		s, err = New(st, serve)
	} else {
		s, start, err = DevMode.New(st, serve, o.dev, sent, o.demo, o.state)
	}
	if err == nil {
		err = start(context.Background(), fresh)
	}
	testkit.NoError(t, err)
	h.Config.Handler = s
	h.Config.ConnState = s.connections.Track
	h.Listener = s.connections.Limit(h.Listener)
	h.Start()
	db := testkit.Must(sqlx.Open("sqlite", "file:"+o.path+"?_pragma=busy_timeout(5000)"))(t)
	db.SetMaxOpenConns(1) // data_version belongs to a connection
	t.Cleanup(func() {
		h.Close()
		if err := errors.Join(db.Close(), st.Close()); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return &site{TB: t, server: s, store: st, path: o.path, database: db, clock: clock, dev: o.dev, log: log, outgoing: sent, url: h.URL, client: h.Client(), pathValues: map[string]string{}, documented: &sync.Map{}}
}

// version returns a number that changes with every commit of another connection.
func (s *site) version() (version int64) {
	s.Helper()
	testkit.NoError(s, s.database.Get(&version, `PRAGMA data_version`))
	return version
}

// state returns all that is stored, except the times of the last requests of agents and what is derived from the rest.
func (s *site) state() string {
	s.Helper()
	var tables []string
	err := s.database.Select(&tables, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%search%' AND name NOT LIKE 'sqlite%' ORDER BY name`)
	testkit.NoError(s, err)
	var b strings.Builder
	for _, table := range tables {
		rows := testkit.Must(s.database.Queryx(`SELECT * FROM ` + table))(s)
		for rows.Next() {
			row := map[string]any{}
			testkit.NoError(s, rows.MapScan(row))
			delete(row, "last_active_at")
			fmt.Fprintln(&b, table, row)
		}
		testkit.NoError(s, rows.Err())
	}
	return b.String()
}

// nowhere is a resolver that knows no name, so that no test fetches a page from the Internet.
type nowhere struct{}

func (nowhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such name")
}

// equal fails the test unless two values are equal. The format describes them.
func equal(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// contains fails the test unless a text has all of these parts.
func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

type result struct {
	testing.TB
	Status int
	Header http.Header
	Body   []byte
}

// send sends one request. body is JSON as text, or a value that is marshalled, or nil; headers are "Name: value".
func (s *site) send(method, path, key string, body any, headers ...string) *result {
	s.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	default:
		text := testkit.Must(json.Marshal(b))(s)
		reader = bytes.NewReader(text)
	}
	r := testkit.Must(http.NewRequest(method, s.url+path, reader))(s)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return s.do(addHeaders(r, headers))
}

// addHeaders adds lines "Name: value" to the headers of a request.
func addHeaders(r *http.Request, lines []string) *http.Request {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	return r
}

// receive reads a response.
func receive(t testing.TB, response *http.Response) *result {
	t.Helper()
	defer response.Body.Close()
	return &result{t, response.StatusCode, response.Header, testkit.Must(io.ReadAll(response.Body))(t)}
}

// handle returns the response to a request without a connection.
func (s *site) handle(r *http.Request) *result {
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return &result{s.TB, w.Code, w.Result().Header, w.Body.Bytes()}
}

func (s *site) do(request *http.Request) *result {
	s.Helper()
	r := receive(s.TB, testkit.Must(s.client.Do(request))(s))
	for _, problem := range s.responseProblems(request.Method, request.URL.Path, r) {
		s.Errorf("%s %s: %s\n%s", request.Method, request.URL.Path, problem, r.Body)
	}
	return r
}

// status fails the test unless the response has this status.
func (r *result) status(want int) *result {
	r.Helper()
	if r.Status != want {
		r.Fatalf("status %d, want %d: %s", r.Status, want, r.Body)
	}
	return r
}

// rejected fails the test unless the response is this error.
func (r *result) rejected(status int, code domain.Code) *result {
	r.Helper()
	r.status(status)
	if got := r.text("error", "code"); got != string(code) {
		r.Fatalf("code %q, want %q: %s", got, code, r.Body)
	}
	return r
}

// details returns the details of an error as "field code", sorted by field.
func (r *result) details() []string {
	r.Helper()
	var body api.ErrorBody
	r.into(&body)
	var problems []string
	for _, d := range body.Error.Details {
		problems = append(problems, d.Field+" "+string(d.Code))
	}
	return problems
}

func (r *result) into(v any) *result {
	r.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		r.Fatalf("%v: %s", err, r.Body)
	}
	return r
}

// value walks into the response by keys (string) and places (int).
func (r *result) value(path ...any) any {
	r.Helper()
	var v any
	r.into(&v)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := v.(map[string]any)
			if !ok {
				r.Fatalf("no object at %v of %v: %s", step, path, r.Body)
			}
			v = object[step]
		case int:
			list, ok := v.([]any)
			if !ok || step >= len(list) {
				r.Fatalf("no item %d at %v: %s", step, path, r.Body)
			}
			v = list[step]
		}
	}
	return v
}

func (r *result) text(path ...any) string {
	r.Helper()
	s, _ := r.value(path...).(string)
	return s
}

func (r *result) len(path ...any) int {
	r.Helper()
	list, _ := r.value(path...).([]any)
	return len(list)
}

func (s *site) agent(handle string, more ...any) string {
	s.Helper()
	body := registrationOf(handle)
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return s.send("POST", "/api/agents", "", body).status(201).text("api_key")
}

func registrationOf(handle string) map[string]any {
	return map[string]any{
		"handle": handle, "name": "Agent " + handle, "owner": "Someone", "mailbox": handle + "@example.org",
		"description_en": "An agent for a test.", "accept_rules": true,
	}
}

func (s *site) post(key, title string, more ...any) string {
	s.Helper()
	body := map[string]any{"kind": "seeking", "title": title, "body": "The body of a call."}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return s.send("POST", "/api/posts", key, body).status(201).text("post", "id")
}

// mail delivers queued mails, and returns the newest one to an address.
func (s *site) mail(to string) mail.Message {
	s.Helper()
	testkit.NoError(s, s.server.DeliverMail(context.Background()))
	for _, m := range s.outgoing.Messages() {
		if m.To == to {
			return m
		}
	}
	s.Fatalf("no mail to %s", to)
	return mail.Message{}
}

// verified registers an agent and verifies its mailbox, and returns its key.
func (s *site) verified(handle string, more ...any) string {
	s.Helper()
	key := s.agent(handle, more...)
	s.verify(key)
	return key
}

func (s *site) verify(key string) {
	s.Helper()
	s.send("POST", "/api/me/verify", key, nil).status(202)
	mailbox := s.send("GET", "/api/me", key, nil).status(200).text("mailbox")
	s.send("POST", "/api/me/verify/confirm", key, map[string]any{"code": *s.mail(mailbox).Code}).status(200)
}

// claim has a person claim a verified agent by the mailed link, and returns the token of the owner's page.
func (s *site) claim(key, address string) (token string) {
	s.Helper()
	token = s.startClaim(key, address)
	s.actAsOwner(token, domain.OwnerSubmission{Act: domain.OwnerConfirm})
	return token
}

// startClaim mails a link to the owner of an agent, and returns its token.
func (s *site) startClaim(key, address string) (token string) {
	s.Helper()
	s.send("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": address}).status(202)
	return s.ownerToken(address)
}

// ownerToken returns that of the owner's page whose link was mailed to an address last.
func (s *site) ownerToken(address string) string {
	s.Helper()
	_, token, _ := strings.Cut(*s.mail(address).Link, "/owner/")
	return token
}

// actAsOwner presses a button of the owner's page.
func (s *site) actAsOwner(token string, call domain.OwnerSubmission) domain.OwnerResult {
	s.Helper()
	page := testkit.Must(s.store.OwnerPage(context.Background(), token))(s)
	call.Token, call.Form = token, page.Form
	return testkit.Must(s.store.ActAsOwner(context.Background(), call))(s)
}

// claimed registers an agent whose mailbox is verified and whom a person has claimed, and returns its key.
func (s *site) claimed(handle, address string, more ...any) string {
	s.Helper()
	key := s.verified(handle, more...)
	s.claim(key, address)
	return key
}

func (s *site) replaceMenu(key string) string {
	s.Helper()
	menu := `{"offerings":[{"title":"Tide table","deliverable":"A table","mode":"free"}]}`
	return s.send("PUT", "/api/me/offerings", key, menu).status(200).text("offerings", 0, "id")
}

// requestTo returns a contact request as the recipient's policy wants it: for the first
// entry of the menu, if there is one.
func (s *site) requestTo(handle string, more ...any) map[string]any {
	s.Helper()
	body := map[string]any{"purpose": "Tide tables for two ports", "deliverable": "Two CSV files", "compensation": "none"}
	if card := s.send("GET", "/api/agents/"+handle, "", nil).status(200); card.len("agent", "offerings") > 0 {
		body["offering_id"] = card.text("agent", "offerings", 0, "id")
	}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return body
}

func (s *site) sendRequest(key, handle string, more ...any) string {
	s.Helper()
	return s.send("POST", "/api/agents/"+handle+"/requests", key, s.requestTo(handle, more...)).status(201).text("request", "id")
}

func (s *site) collab(key, partner string, more ...any) string {
	s.Helper()
	body := map[string]any{"partner": partner, "summary": "Tide tables of two ports"}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return s.send("POST", "/api/collabs", key, body).status(201).text("collab", "id")
}

// pathOf returns the path of an operation with the values of pathValues for its parameters, by
// the name of a parameter or, for ids, by the path before it.
func (s *site) pathOf(op *api.Operation) string {
	path := op.Path
	for place, value := range s.pathValues {
		filled := value
		if strings.HasPrefix(place, "/") {
			place, filled = place+"/{id}", place+"/"+value
		}
		path = strings.Replace(path, place, filled, 1)
	}
	return path
}

// responseProblems returns deviations of a response from the document and from the conventions of all responses.
func (s *site) responseProblems(method, path string, a *result) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if a.Header.Get("X-Request-Id") == "" && !strings.Contains(a.Header.Get("Cache-Control"), "s-maxage") {
		add("no X-Request-Id")
	}
	if a.Header.Get("X-Content-Type-Options") != "nosniff" {
		add("no nosniff")
	}
	if a.Status >= 500 && a.Status != 503 {
		add("status %d: %s", a.Status, s.log)
	}
	if !strings.HasPrefix(path, "/api") {
		return problems
	}
	op := s.operation(method, path)
	if a.Status != 204 && a.Status != 304 && method != "HEAD" {
		if got := a.Header.Get("Content-Type"); got != api.JSONType && method != "OPTIONS" {
			add("Content-Type %q", got)
		}
		if bytes.Contains(a.Body, []byte(`"notice"`)) && a.Status < 300 && path != "/api" && !bytes.HasPrefix(a.Body, []byte(`{"notice":`)) {
			add("the notice is not the first key")
		}
	}
	if op == nil || method == "HEAD" {
		return problems
	}
	if op.Keyed && a.Header.Get("Cache-Control") != "no-store" {
		add("an answer to a key may be stored: %q", a.Header.Get("Cache-Control"))
	}
	if !op.Keyed && method == "GET" && a.Status == 200 {
		if cc := a.Header.Get("Cache-Control"); cc != api.Revalidate && s.server.options.SharedCache == 0 || !strings.HasPrefix(a.Header.Get("ETag"), `W/"`) || a.Header.Get("Access-Control-Allow-Origin") != "*" {
			add("a public answer cannot be revalidated: %v", a.Header)
		}
	}
	return append(problems, s.documentProblems(op, a)...)
}

func (s *site) operation(method, path string) *api.Operation {
	for _, op := range s.server.engine.Operations {
		if op.Method != method && (method != "HEAD" || op.Method != "GET") {
			continue
		}
		want, got := strings.Split(op.Path, "/"), strings.Split(path, "/")
		if len(want) == len(got) && !slices.ContainsFunc(want, func(part string) bool {
			i := slices.Index(want, part)
			return !strings.HasPrefix(part, "{") && part != got[i]
		}) {
			return op
		}
	}
	return nil
}

// documentProblems compares a response with the document.
func (s *site) documentProblems(op *api.Operation, a *result) []string {
	if a.Status == 304 {
		return nil
	}
	doc, known := s.documented.Load(op)
	if !known {
		doc, _ = s.documented.LoadOrStore(op, s.server.engine.Describe(op))
	}
	response, ok := doc.(*huma.Operation).Responses[strconv.Itoa(a.Status)]
	if !ok {
		return []string{fmt.Sprintf("status %d is not documented", a.Status)}
	}
	media := response.Content["application/json"]
	if media == nil {
		if len(a.Body) > 0 {
			return []string{"a body where none is documented"}
		}
		return nil
	}
	var v any
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return []string{err.Error()}
	}
	result := &huma.ValidateResult{}
	huma.Validate(s.server.engine.Registry, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, result)
	var problems []string
	for _, err := range result.Errors {
		problems = append(problems, "not as documented: "+err.Error())
	}
	if a.Status >= 400 {
		code := a.text("error", "code")
		if !strings.Contains(response.Description, code) {
			problems = append(problems, fmt.Sprintf("code %s with status %d is not documented", code, a.Status))
		}
	}
	return append(problems, s.undocumented(media.Schema, "", v)...)
}

// undocumented lists members of a response that the document does not name.
// (Documented responses are open to further members, for clients; not for tests.)
func (s *site) undocumented(schema *huma.Schema, path string, v any) []string {
	schema = api.Resolve(s.server.engine.Registry, schema)
	if len(schema.AnyOf) > 0 {
		least := s.undocumented(schema.AnyOf[0], path, v)
		for _, other := range schema.AnyOf[1:] {
			if problems := s.undocumented(other, path, v); len(problems) < len(least) {
				least = problems
			}
		}
		return least
	}
	var problems []string
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			property, ok := schema.Properties[name]
			if !ok {
				if _, free := schema.AdditionalProperties.(*huma.Schema); !free && len(schema.Properties) > 0 {
					problems = append(problems, "not documented: "+path+"."+name)
				}
				continue
			}
			problems = append(problems, s.undocumented(property, path+"."+name, member)...)
		}
	case []any:
		if schema.Items != nil {
			for _, item := range v {
				problems = append(problems, s.undocumented(schema.Items, path+"[]", item)...)
			}
		}
	}
	return problems
}
