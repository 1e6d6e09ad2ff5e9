package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/httpcache"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// service is an engine with operations on books, which no other package knows.
type service struct {
	testing.TB
	engine *api.Engine
	router *httprouter.Router
	reads  int // runs of the handler of listBooks
}

const (
	reads  ratelimit.Class = "reads"
	writes ratelimit.Class = "writes"
	failed ratelimit.Class = "failed"

	bookData api.TagKind = 1
)

type bookQuery struct {
	Author string `query:"author" minLength:"1" maxLength:"20"`
	View   string `query:"view" enum:"full,brief" default:"full"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type bookList struct {
	View  string   `json:"view" enum:"full"`
	Books []string `json:"books"`
}

type briefList struct {
	View  string `json:"view" enum:"brief"`
	Count int    `json:"count"`
}

type bookInput struct {
	Shelf string `path:"shelf" example:"a1"`
	Body  book   `notpast:"due"`
}

type book struct {
	Title string   `json:"title" minLength:"1" maxLength:"10"`
	Tags  []string `json:"tags,omitempty" maxItems:"2"`
	Due   string   `json:"due,omitempty" format:"date"`
	Low   int      `json:"low,omitempty" minimum:"0"`
	High  int      `json:"high,omitempty" minimum:"0"`
}

func (book) Check(body map[string]any, c *api.Checker) {
	low, _ := body["low"].(int64)
	if high, ok := body["high"].(int64); ok && high < low {
		c.Fault("high", domain.FaultBadValue, "order")
	}
}

var catalogue = &api.Catalogue{
	Codes: map[domain.Code]api.ErrorTexts{
		api.CodeInvalidJSON:            {Status: 400, Texts: texts},
		api.CodeBodyTooLarge:           {Status: 413, Texts: texts},
		api.CodeUnsupportedMediaType:   {Status: 415, Texts: texts},
		api.CodeInternal:               {Status: 500, Texts: texts},
		domain.CodeInvalidQuery:        {Status: 400, Texts: texts},
		domain.CodeUnauthorized:        {Status: 401, Texts: texts},
		domain.CodeSuspended:           {Status: 403, Texts: texts},
		domain.CodeNotFound:            {Status: 404, Texts: texts},
		domain.CodeValidationFailed:    {Status: 422, Texts: texts},
		domain.CodeRateLimited:         {Status: 429, Texts: texts},
		domain.CodeUnavailable:         {Status: 503, Texts: texts},
		domain.CodeHandleTaken:         {Status: 409, Texts: texts},
		domain.CodeIdempotencyConflict: {Status: 409, Texts: texts},
	},
	General: []domain.Code{
		api.CodeInvalidJSON, api.CodeBodyTooLarge, api.CodeUnsupportedMediaType, api.CodeInternal, domain.CodeInvalidQuery, domain.CodeUnauthorized,
		domain.CodeSuspended, domain.CodeNotFound, domain.CodeValidationFailed, domain.CodeRateLimited, domain.CodeUnavailable,
	},
}

var texts = map[string]api.Text{"": {EN: "An error.", ZH: "错误。"}}

func newService(t testing.TB, limits ratelimit.Limits) *service {
	s := &service{TB: t, router: httprouter.New()}
	clock := func() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }
	s.engine = api.New(api.Config{
		Clock: clock, Limiter: ratelimit.New(limits), Cache: httpcache.New[api.Tag, *api.Cached](1 << 20),
		Authenticate: func(_ context.Context, key string) (domain.Caller, error) {
			if key != "valid" {
				return domain.Caller{}, api.NewError(domain.CodeUnauthorized, "")
			}
			return domain.Caller{ID: 7}, nil
		},
		FailedKeys: failed, KeyLimits: func(class ratelimit.Class) []ratelimit.Class { return []ratelimit.Class{class} },
		Errors: catalogue, Document: api.Document{Title: "Books", Version: "1", Tags: []api.DocumentTag{{Name: "books"}}, Limits: limits},
	}, []*api.Operation{
		api.Public[bookQuery, bookList]("listBooks", "GET", "/api/books", "List books", reads, s.listBooks).
			AsTool("list_books", "List books").HasBriefForm("view", "brief", briefList{}),
		api.Keyed[bookInput, book]("addBook", "POST", "/api/shelves/{shelf}/books", "Add a book", writes, s.addBook, domain.CodeHandleTaken).Creates(),
	})
	s.engine.OpenAPI()
	for _, op := range s.engine.Operations {
		s.router.Handle(op.Method, strings.NewReplacer("{", ":", "}", "").Replace(op.Path), s.engine.Handler(op))
	}
	return s
}

func (s *service) listBooks(_ *api.Request, q bookQuery) (api.Response, error) {
	s.reads++
	switch {
	case q.Author == "nobody":
		return api.Response{}, api.NewError(domain.CodeNotFound, "")
	case q.View == "brief":
		return api.Response{Body: api.Marshal(briefList{View: q.View, Count: q.Limit})}, nil
	}
	return api.Response{Body: api.Marshal(bookList{View: q.View, Books: []string{q.Author}}), Tags: []api.Tag{{Kind: bookData}}}, nil
}

func (s *service) addBook(_ *api.Request, _ domain.Caller, in bookInput) (api.Response, error) {
	return api.Response{Body: api.Marshal(in.Body), Location: "/api/shelves/" + in.Shelf}, nil
}

// send sends a request; headers are "Name: value".
func (s *service) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.router.ServeHTTP(w, r)
	return w
}

// code returns the error code of a response, and its details as "field code".
func (s *service) code(w *httptest.ResponseRecorder) (code string, details []string) {
	s.Helper()
	var body api.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		s.Fatalf("%v: %s", err, w.Body)
	}
	for _, d := range body.Error.Details {
		details = append(details, d.Field+" "+string(d.Code))
	}
	return string(body.Error.Code), details
}

const (
	keyHeader  = "Authorization: Bearer valid"
	jsonHeader = "Content-Type: application/json"
)

// TestHandler_ChecksInTheOrderOfTheContract sends requests with more and more corrected.
func TestHandler_ChecksInTheOrderOfTheContract(t *testing.T) {
	s := newService(t, ratelimit.Limits{})
	const path = "/api/shelves/a1/books"
	tooLarge := strings.Repeat(" ", api.MaxBody+1)
	for _, tt := range []struct {
		name, path, body string
		headers          []string
		status           int
		code             string
	}{
		{"no key", path + "?x=1", "{", []string{"Content-Type: text/plain"}, 401, "unauthorized"},
		{"unknown parameter", path + "?x=1", "{", []string{keyHeader, "Content-Type: text/plain"}, 400, "invalid_query"},
		{"media type", path, tooLarge, []string{keyHeader, "Content-Type: text/plain"}, 415, "unsupported_media_type"},
		{"compression", path, tooLarge, []string{keyHeader, jsonHeader, "Content-Encoding: gzip"}, 415, "unsupported_media_type"},
		{"size", path, tooLarge, []string{keyHeader, jsonHeader}, 413, "body_too_large"},
		{"JSON", path, `{"title":1,"title":2}`, []string{keyHeader, jsonHeader}, 400, "invalid_json"},
		{"fields", path, `{"title":1}`, []string{keyHeader, jsonHeader, "Idempotency-Key: short"}, 422, "validation_failed"},
		{"idempotency key", path, `{"title":"Tides"}`, []string{keyHeader, jsonHeader, "Idempotency-Key: short"}, 422, "validation_failed"},
	} {
		w := s.send("POST", tt.path, tt.body, tt.headers...)
		if code, _ := s.code(w); w.Code != tt.status || code != tt.code {
			t.Errorf("%s: %d %s, want %d %s", tt.name, w.Code, code, tt.status, tt.code)
		}
	}
	if w := s.send("POST", path, `{"title":"Tides"}`, keyHeader, jsonHeader); w.Code != 201 || w.Header().Get("Location") != "/api/shelves/a1" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestHandler_CountsAgainstLimitsFirst(t *testing.T) {
	one := ratelimit.Limit{Requests: 1, Period: time.Hour}
	s := newService(t, ratelimit.Limits{reads: one, writes: one, failed: one})
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		first              int
	}{
		{"public", "GET", "/api/books?limit=0", nil, 400},
		{"invalid key", "POST", "/api/shelves/a1/books", []string{"Authorization: Bearer invalid"}, 401},
		{"valid key", "POST", "/api/shelves/a1/books?x=1", []string{keyHeader}, 400},
	} {
		if w := s.send(tt.method, tt.path, "", tt.headers...); w.Code != tt.first {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.first)
		}
		if w := s.send(tt.method, tt.path, "", tt.headers...); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %v, want 429", tt.name, w.Code, w.Header())
		}
	}
}

func TestHandler_ReportsEveryInvalidField(t *testing.T) {
	s := newService(t, ratelimit.Limits{})
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"missing", `{}`, []string{"title required"}},
		{"all at once", `{"title":"","tags":["a","A","b"],"due":"2026-02-30","low":-1,"x":1}`,
			[]string{"due bad_format", "low out_of_range", "tags duplicate_item", "tags too_many", "title too_short", "x unknown_field"}},
		{"null", `{"title":null}`, []string{"title wrong_type"}},
		{"a date in the past", `{"title":"Tides","due":"2026-11-18"}`, []string{"due bad_value"}},
		{"fields together", `{"title":"Tides","low":2,"high":1}`, []string{"high bad_value"}},
		{"a control character", `{"title":"a\u0000"}`, []string{"title forbidden_character"}},
	} {
		w := s.send("POST", "/api/shelves/a1/books", tt.body, keyHeader, jsonHeader)
		_, got := s.code(w)
		if diff := cmp.Diff(tt.want, got); w.Code != 422 || diff != "" {
			t.Errorf("%s: %d, details (-want +got):\n%s", tt.name, w.Code, diff)
		}
	}
}

func TestHandler_CachesPublicReads(t *testing.T) {
	s := newService(t, ratelimit.Limits{})
	first := s.send("GET", "/api/books?author=mei", "")
	again := s.send("GET", "/api/books?author=mei", "")
	if s.reads != 1 || first.Body.String() != again.Body.String() || first.Header().Get("ETag") == "" {
		t.Errorf("%d reads, %s and %s", s.reads, first.Body, again.Body)
	}
	if w := s.send("GET", "/api/books?author=mei", "", "If-None-Match: "+first.Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Errorf("%d, want 304", w.Code)
	}
	s.engine.Cache.Invalidate(api.Tag{Kind: bookData})
	if s.send("GET", "/api/books?author=mei", ""); s.reads != 2 {
		t.Errorf("%d reads after the invalidation", s.reads)
	}
	if s.send("GET", "/api/books?author=nobody", ""); s.send("GET", "/api/books?author=nobody", "").Code != 404 || s.reads != 4 {
		t.Errorf("an error is cached: %d reads", s.reads)
	}
}

func TestRunTool_ReturnsTheBriefForm(t *testing.T) {
	s := newService(t, ratelimit.Limits{})
	op := s.engine.Operation("listBooks")
	for args, want := range map[string]string{
		``: `{"view":"brief","count":10}`, `null`: `{"view":"brief","count":10}`, `{"limit":3}`: `{"view":"brief","count":3}`, `{"limit":3.0}`: `{"view":"brief","count":3}`, `{"author":null}`: `{"view":"brief","count":10}`,
	} {
		body, rejected, err := s.engine.RunTool(t.Context(), op, []byte(args))
		if string(body) != want || rejected != nil || err != nil {
			t.Errorf("%s: %s %v %v, want %s", args, body, rejected, err, want)
		}
	}
	for args, want := range map[string][]string{
		`{"view":"full"}`:         {"view unknown_field"},
		`{"limit":0,"author":""}`: {"author too_short", "limit out_of_range"},
		`{"limit":[],"x":1}`:      {"limit wrong_type", "x unknown_field"},
	} {
		_, rejected, err := s.engine.RunTool(t.Context(), op, []byte(args))
		if rejected == nil || err != nil {
			t.Errorf("%s: not rejected: %v", args, err)
			continue
		}
		var got []string
		for _, d := range rejected.Details {
			got = append(got, d.Field+" "+string(d.Code))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
}

// TestCatalogue_HidesUnknownErrors: nothing of an error that is not in the catalogue is sent.
func TestCatalogue_HidesUnknownErrors(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, &domain.Error{Code: "secret"}} {
		status, object, rejected := catalogue.Describe(err, "id")
		if status != 500 || object.Code != api.CodeInternal || object.RequestID != "id" || rejected {
			t.Errorf("%v: %d %+v, rejected %v", err, status, object, rejected)
		}
	}
}

// TestOpenAPI_DocumentsTheOperation: statuses, the short form, and the fields of the body.
func TestOpenAPI_DocumentsTheOperation(t *testing.T) {
	s := newService(t, ratelimit.Limits{})
	add, list := s.engine.Describe(s.engine.Operation("addBook")), s.engine.Describe(s.engine.Operation("listBooks"))
	for _, status := range []string{"201", "400", "401", "404", "409", "413", "415", "422", "429", "500", "503"} {
		if add.Responses[status] == nil {
			t.Errorf("%s is not documented", status)
		}
	}
	views := list.Responses["200"].Content["application/json"].Schema
	want := &huma.Discriminator{PropertyName: "view", Mapping: map[string]string{"full": api.SchemaPrefix + "BookList", "brief": api.SchemaPrefix + "BriefList"}}
	if diff := cmp.Diff(want, views.Discriminator); diff != "" || len(views.AnyOf) != 2 {
		t.Errorf("%d views of a list are documented, want 2 (-want +got): %s", len(views.AnyOf), diff)
	}
	if list.Responses["400"].Description != "Rejected: invalid_query." {
		t.Errorf("a read without a body: %s", list.Responses["400"].Description)
	}
	body := api.Resolve(s.engine.Registry, add.RequestBody.Content["application/json"].Schema)
	if body.Properties["title"] == nil || !slices.Contains(body.Required, "title") {
		t.Errorf("the body: %+v", body)
	}
}
