package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/testdata/proof"
)

// jsonTest is a body of PATCH /api/me. A rejected one has the code invalid_json
// with status 400, and validation_failed with 422.
type jsonTest struct {
	name    string
	body    string
	status  int
	details []string
}

func nested(depth int, open, inside, end string) string {
	return strings.Repeat(open, depth) + inside + strings.Repeat(end, depth)
}

var jsonTests = []jsonTest{
	{"empty object", `{}`, 200, nil},
	{"no body", ``, 200, nil},
	{"white space around", " \r\n\t{ \"tagline\" : \"a\" }\n", 200, nil},
	{"escaped key", `{"\u0074agline":"a"}`, 200, nil},
	{"surrogate pair", `{"tagline":"\ud83d\ude00"}`, 200, nil},
	{"every short escape", `{"description_en":"\"\\\/ \n\t"}`, 200, nil},

	{"a key twice", `{"tagline":"a","tagline":"b"}`, 400, []string{"tagline duplicate_item"}},
	{"a key twice, once escaped", `{"tagline":"a","t\u0061gline":"b"}`, 400, []string{"tagline duplicate_item"}},
	{"a key twice inside", `{"contact_policy":{"weekly_cap":1,"weekly_cap":2}}`, 400, []string{"contact_policy.weekly_cap duplicate_item"}},
	{"a key twice, deep and unknown", `{"x":[[{"y":{"z":1,"z":1}}]]}`, 400, []string{"x[0][0].y.z duplicate_item"}},
	{"the empty key twice", `{"":1,"":1}`, 400, []string{"(unnamed) duplicate_item"}},
	{"a key in capitals", `{"TAGLINE":"a"}`, 422, []string{"TAGLINE unknown_field"}},
	{"a key in both cases", `{"tagline":"a","Tagline":"b"}`, 422, []string{"Tagline unknown_field"}},
	{"a key with the Kelvin sign", "{\"\u212aey\":1}", 422, []string{"(unnamed) unknown_field"}},
	{"the empty key", `{"":"a"}`, 422, []string{"(unnamed) unknown_field"}},
	{"a key of 40", `{"` + strings.Repeat("k", 40) + `":1}`, 422, []string{strings.Repeat("k", 40) + " unknown_field"}},
	{"a key of 41", `{"` + strings.Repeat("k", 41) + `":1}`, 422, []string{"(unnamed) unknown_field"}},
	{"prototype", `{"__proto__":{"admin":true}}`, 422, []string{"__proto__ unknown_field"}},

	{"a list", `[]`, 400, nil},

	{"an exponent past the limit", `{"contact_policy":{"weekly_cap":1e2}}`, 422, []string{"contact_policy.weekly_cap out_of_range"}},
	{"a fraction", `{"contact_policy":{"weekly_cap":1.5}}`, 400, []string{"contact_policy.weekly_cap wrong_type"}},
	{"minus zero", `{"contact_policy":{"weekly_cap":-0}}`, 422, []string{"contact_policy.weekly_cap out_of_range"}},
	{"an exponent that leaves a fraction", `{"contact_policy":{"weekly_cap":15e-1}}`, 400, []string{"contact_policy.weekly_cap wrong_type"}},
	{"15 digits", `{"contact_policy":{"weekly_cap":999999999999999}}`, 422, []string{"contact_policy.weekly_cap out_of_range"}},
	{"past int64", `{"contact_policy":{"weekly_cap":9223372036854775808}}`, 400, []string{"contact_policy.weekly_cap wrong_type"}},
	{"1e400", `{"contact_policy":{"weekly_cap":1e400}}`, 400, []string{"contact_policy.weekly_cap wrong_type"}},
	{"a thousand digits", `{"contact_policy":{"weekly_cap":` + strings.Repeat("1", 1000) + `}}`, 400, []string{"contact_policy.weekly_cap wrong_type"}},

	{"high surrogate alone", `{"tagline":"a\ud800"}`, 400, []string{"tagline forbidden_character"}},
	{"surrogates turned round", `{"tagline":"\ude00\ud83d"}`, 400, []string{"tagline forbidden_character"}},
	{"high surrogate before a letter", `{"contact_policy":{"note":"\ud800\u0041"}}`, 400, []string{"contact_policy.note forbidden_character"}},
	{"surrogate in a list", `{"capabilities":["a","\ud800"]}`, 400, []string{"capabilities[1] forbidden_character"}},
	{"surrogate in an unknown field", `{"no thing":"\ud800"}`, 400, []string{"(unnamed) forbidden_character"}},
	{"surrogate in a key", `{"tag\ud800":"a"}`, 400, []string{"body forbidden_character"}},
	{"raw 0xff", "{\"tagline\":\"a\xff\"}", 400, []string{"tagline forbidden_character"}},
	{"overlong slash", "{\"tagline\":\"\xc0\xaf\"}", 400, []string{"tagline forbidden_character"}},
	{"surrogate in bytes", "{\"tagline\":\"\xed\xa0\x80\"}", 400, []string{"tagline forbidden_character"}},
	{"half a character", "{\"tagline\":\"\xe4\xb8\"}", 400, []string{"tagline forbidden_character"}},
	{"raw bytes in a key", "{\"tag\xfe\":\"a\"}", 400, []string{"body forbidden_character"}},
	{"escaped NUL", `{"tagline":"a\u0000"}`, 422, []string{"tagline forbidden_character"}},
	{"replacement character", `{"tagline":"\ufffd"}`, 200, nil},

	{"32 deep", `{"x":` + nested(31, "[", "", "]") + `}`, 422, []string{"x unknown_field"}},
	{"60,000 deep", strings.Repeat("[", 60000), 400, nil},
	{"900 values", `{"capabilities":[` + strings.Repeat(`1,`, 899) + `1]}`, 422, nil},
	{"34 deep", `{"x":` + nested(33, "[", "", "]") + `}`, 400, nil},
	{"1001 keys", `{` + manyKeys(1001) + `}`, 422, nil},
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = `"k` + strconv.Itoa(i) + `":1`
	}
	return strings.Join(keys, ",")
}

func TestJSON_IsParsedStrictly(t *testing.T) {
	s := newSite(t)
	key := s.agent("strict")
	before := s.send("GET", "/api/me", key, nil).Body
	for _, tt := range jsonTests {
		a := s.send("PATCH", "/api/me", key, tt.body)
		if a.Status != tt.status {
			t.Errorf("%s: status %d, want %d: %.300s", tt.name, a.Status, tt.status, a.Body)
			continue
		}
		if a.Status == 200 {
			before = s.send("GET", "/api/me", key, nil).Body
			continue
		}
		if want := map[int]string{400: "invalid_json", 422: "validation_failed"}[tt.status]; a.text("error", "code") != want {
			t.Errorf("%s: %.300s, want %s", tt.name, a.Body, want)
		}
		if diff := cmp.Diff(tt.details, a.details()); diff != "" && (tt.details != nil || a.Status == 400) {
			t.Errorf("%s: details (-want +got): %s", tt.name, diff)
		}
		if after := s.send("GET", "/api/me", key, nil).Body; !bytes.Equal(before, after) {
			t.Errorf("%s: refused, but the state changed", tt.name)
			before = after
		}
	}
}

// Some clients write every number as a float.
func TestJSON_IntegralFloatIsAnInteger(t *testing.T) {
	s := newSite(t)
	key := s.agent("floating")
	for number, want := range map[string]float64{"20.0": 20, "1e1": 10, "0.5e1": 5, "700E-2": 7} {
		a := s.send("PATCH", "/api/me", key, `{"contact_policy":{"weekly_cap":`+number+`}}`).status(200)
		equal(t, want, a.value("agent", "contact_policy", "weekly_cap"), "%s in a merge patch", number)
		for _, menu := range []string{`{"offerings":[%s]}`, `[%s]`} {
			entry := `{"title":"Tides","deliverable":"A table","mode":"free","turnaround_days":` + number + `}`
			a := s.send("PUT", "/api/me/offerings", key, fmt.Sprintf(menu, entry)).status(200)
			equal(t, want, a.value("offerings", 0, "turnaround_days"), "%s in %s", number, menu)
		}
	}
}

func TestJSON_BodyMayBeEmptyWithoutFields(t *testing.T) {
	proof.OneByOne(t)
	s := newSite(t)
	key := s.agent("bodiless")
	for i, body := range []any{nil, "", "{}", " {}\n"} {
		s.send("DELETE", "/api/posts/"+s.post(key, fmt.Sprint("To be deleted ", i)), key, body).status(204)
	}
	for body, want := range map[string]int{`null`: 400, `[]`: 400, ` `: 400, `{`: 400, `{"a":1,"a":1}`: 400, `{"a":1}`: 422, `{"confirm":"bodiless"}`: 422} {
		s.send("POST", "/api/me/rotate-key", key, body).status(want)
		s.send("DELETE", "/api/me?confirm=bodiless", key, body).status(want)
	}
	s.send("GET", "/api/me", key, nil).status(200)
}

func TestJSON_MenuMayBeABareList(t *testing.T) {
	s := newSite(t)
	key := s.agent("menu")
	const entry = `{"title":"Tide table","deliverable":"A table","mode":"free"}`
	for _, tt := range []jsonTest{
		{"empty", `[]`, 200, nil},
		{"one", `[` + entry + `]`, 200, nil},
		{"white space around", " [ " + entry + " ] ", 200, nil},
		{"four", `[` + entry + strings.Repeat(`,`+entry, 3) + `]`, 422, []string{"offerings too_many"}},
		{"faults in it", `[{"title":"","deliverable":"d","mode":"x","more":1}]`, 422, []string{"offerings[0].mode bad_value", "offerings[0].more unknown_field", "offerings[0].title too_short"}},
		{"a list in a list", `[[]]`, 422, []string{"offerings[0] wrong_type"}},
		{"nulls", `[null,null]`, 422, []string{"offerings[0] wrong_type", "offerings[1] wrong_type"}},
		{"two lists", `[][]`, 400, nil},
		{"a key twice", `[{"title":"a","title":"b"}]`, 400, []string{"[0].title duplicate_item"}},
		{"a surrogate", `[{"title":"\ud800"}]`, 400, []string{"[0].title forbidden_character"}},
		{"no list", `"[]"`, 400, nil},
		{"none at all", ``, 422, []string{"offerings required"}},
	} {
		a := s.send("PUT", "/api/me/offerings", key, tt.body)
		if a.Status != tt.status || tt.status >= 400 && cmp.Diff(tt.details, a.details()) != "" {
			t.Errorf("%s: %d %.400s", tt.name, a.Status, a.Body)
		}
	}
}

// FuzzWrites sends any bytes to every write: never a 5xx, never a response that is not documented.
func FuzzWrites(f *testing.F) {
	s := newEdgeSite(f)
	var writing []*api.Operation
	for _, op := range s.server.engine.Operations {
		if op.Method != "GET" && op.ID != "rotateKey" && op.ID != "deleteMe" { // these two would end the key
			writing = append(writing, op)
		}
	}
	for i, op := range writing {
		if body, err := json.Marshal(goodBody(op.ID, "fuzzed")); err == nil {
			f.Add(uint8(i), body)
		}
		f.Add(uint8(i), []byte(`{"unknown":[null,{"":-7}],"\ud83d\ude00":"\u0000"}`))
	}
	for i, tt := range jsonTests {
		f.Add(uint8(i), []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		op := writing[int(which)%len(writing)]
		method, path := s.address(op.ID)
		if op.ID == "deletePost" {
			path = "/api/posts/pst_none" // the other calls need theirs
		}
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+s.key)
		here := *s.site
		here.TB = t
		a := here.handle(r)
		for _, problem := range here.responseProblems(method, path, a) {
			t.Errorf("%s %s: %s\n%s", method, path, problem, a.Body)
		}
	})
}
