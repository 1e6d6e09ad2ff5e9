package server

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// unreachable are the errors that no script can cause, by the reason.
var unreachable = map[string]string{
	"a body that breaks off on its way":                         "invalid_json/general",
	"65 header fields, which TestHeader_FieldsAreLimited sends": "header_too_large/general",
	"a bug, by its meaning":                                     "internal/general",
	"a site that is overloaded or shutting down":                "unavailable/general",
	"a full disk":                                            "storage_full/general",
	"only the operator suspends":                             "suspended/general",
	"a site where the operator approves agents":              "awaiting_approval/general",
	"a site where agents register by invitation":             "invite_required/general",
	"a site where registration is closed":                    "registration_closed/general",
	"only the operator blocks words":                         "bad_value/blocked",
	"only the operator blocks domains":                       "bad_value/provider",
	"only the operator blocks hosts":                         "bad_value/host",
	"only the operator blocks networks":                      "forbidden/network",
	"of the operator's page and commands, not of the API":    "bad_format/entry_name bad_format/entry_network",
	"a site that sends no mail":                              "mail_unavailable/general",
	"200 mails a day, of 40 agents at least":                 "rate_limited/mails_site",
	"50 collaborations a day, of which 5 may wait":           "rate_limited/collab",
	"100 calls a day, of 10 agents at least":                 "rate_limited/post_network",
	"300 replies a day":                                      "rate_limited/reply_network",
	"100 collaborations a day, of 2 agents at least":         "rate_limited/collab_network",
	"50 reports a day, of things that are there":             "rate_limited/report_network",
	"120 calls that write in a minute, of 4 agents at least": "rate_limited/network_writes",
	"of the owner's page, not of the API":                    "forbidden/general",
	"of plain http beside https":                             "forbidden/plain",
	"of a site that is private":                              "forbidden/host",
	"of callbook dev, not of the API":                        "forbidden/dev invalid_query/dev not_found/dev method_not_allowed/dev bad_format/duration unknown_field/reset unknown_field/clock unknown_field/fault bad_value/fault",
	"of ARD, not of the API":                                 "invalid_query/ard_search invalid_query/ard_explore invalid_query/ard_filter invalid_query/ard_values",
	"of pages, not of the API":                               "method_not_allowed/page",
	"of badges, not of the API":                              "bad_value/style",
	"no list has a least number of items":                    "too_few",
}

// TestScripts_ReachEveryOperationAndError runs testdata/api, each script on a fresh site, and proves that
// together they reach every operation and every error.
func TestScripts_ReachEveryOperationAndError(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../testdata/api/*.hurl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	proof.OneByOne(t)
	met := map[string]bool{}
	ran := 0
	var operations []*api.Operation
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".hurl"), func(t *testing.T) {
			ran++
			s := newScriptSite(t, path)
			operations = s.server.engine.Operations
			s.runScript(path, met)
		})
	}
	if ran < len(paths) || t.Failed() {
		return // a chosen few, or a failure that explains what is missing
	}
	for _, op := range operations {
		if !met[op.ID] {
			t.Errorf("no script in testdata/api calls %s with success", op.ID)
		}
	}
	unmet := slices.DeleteFunc(errorTopics(), func(name string) bool { return met[name] })
	equal(t, slices.Sorted(strings.FieldsSeq(strings.Join(slices.Collect(maps.Values(unreachable)), " "))), unmet, "the errors that no script meets")
}

// newScriptSite returns a site like that of callbook dev, so that the script can move the clock
// and read mails. A first line "# limits: normal" sets --limits=normal.
func newScriptSite(t *testing.T, path string) *site {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	return newSite(t, func(o *siteOptions) {
		o.dev = DevMode.NewClock()
		if bytes.HasPrefix(text, []byte("# limits: normal\n")) {
			o.limits, o.quotas, o.mails = DefaultLimits, domain.DefaultQuotas, domain.DefaultMailCaps
		}
	})
}

func (s *site) runScript(path string, met map[string]bool) {
	s.Helper()
	entries := testkit.Must(parseHurl(path))(s)
	variables := map[string]string{"base": s.url}
	for _, e := range entries {
		for range e.repeat {
			variables["newUuid"] = uuid.NewString() // as Hurl has it
			if problems := s.runEntry(e, variables, met); len(problems) > 0 {
				for _, problem := range problems {
					s.Errorf("%s:%s", path, problem)
				}
				s.FailNow() // what follows builds on it
			}
		}
	}
}

// runEntry sends a request, again as often as its option retry lets it. Where Hurl would wait, the clock is moved.
func (s *site) runEntry(e *hurlEntry, variables map[string]string, met map[string]bool) (problems []string) {
	s.Helper()
	s.dev.Advance(e.delay)
	for range 1 + e.retry {
		r := testkit.Must(e.newRequest(variables))(s)
		a := s.do(r)
		s.recordReached(met, r.Method, r.URL.Path, a)
		if problems = e.check(a, variables); len(problems) == 0 {
			return nil
		}
	}
	return problems
}

// recordReached writes down which operation or errors a response has reached. An error
// is known by its words, which must be the same one's in both languages.
func (s *site) recordReached(met map[string]bool, method, path string, a *result) {
	s.Helper()
	var body api.ErrorBody
	switch {
	case path == documents.MCPPath && a.Status == 200: // a tool's error is a response
		var tool struct {
			Result struct {
				StructuredContent api.ErrorBody `json:"structuredContent"`
			} `json:"result"`
		}
		_ = json.Unmarshal(a.Body, &tool) // what is no error has another shape
		body = tool.Result.StructuredContent
	case a.Status < 300:
		if op := s.operation(method, path); op != nil && op.Method == method {
			met[op.ID] = true
		}
		return
	case a.Status < 400 || len(a.Body) == 0 || a.Header.Get("Content-Type") != api.JSONType:
		return // pages tell people in words of their own
	default:
		a.into(&body)
	}
	if body.Error.Code == "" {
		return
	}
	met[s.wording(string(body.Error.Code), api.ErrorMessages[body.Error.Code].Texts, body.Error.MessageEN, body.Error.MessageZH)] = true
	for _, d := range body.Error.Details {
		met[string(d.Code)] = true
		if texts := api.ErrorDetails[d.Code]; texts != nil {
			met[s.wording(string(d.Code), texts, d.MessageEN, d.MessageZH)] = true
		}
	}
}

// wording finds the entry of a catalogue that a message was made from. Other texts may follow that of the entry.
func (s *site) wording(code string, texts map[string]api.Text, en, zh string) string {
	found, longest := code, 0
	for topic, t := range texts {
		if len(t.EN) > longest && matchesTemplate(t.EN, en) && matchesTemplate(t.ZH, zh) {
			found, longest = code+"/"+cmp.Or(topic, "general"), len(t.EN)
		}
	}
	return found
}

func matchesTemplate(template, message string) bool {
	pattern := strings.NewReplacer("%d", `\d+`, "%s", `[^"]+`, `%\[1\]s`, `[^" ]+`).Replace(regexp.QuoteMeta(template))
	return regexp.MustCompile(`(^|\S )` + pattern).MatchString(message)
}

// errorTopics returns all wordings of the catalogues as "code/topic", and all detail codes.
func errorTopics() []string {
	var names []string
	add := func(code string, texts map[string]api.Text) {
		for topic := range texts {
			names = append(names, code+"/"+cmp.Or(topic, "general"))
		}
	}
	for code, entry := range api.ErrorMessages {
		add(string(code), entry.Texts)
	}
	for code, texts := range api.ErrorDetails {
		add(string(code), texts)
	}
	field, _ := reflect.TypeFor[api.Detail]().FieldByName("Code")
	names = append(names, strings.Split(field.Tag.Get("enum"), ",")...)
	slices.Sort(names)
	return slices.Compact(names)
}
