package server

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/google/uuid"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/messages"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// unreachable are the errors that no script can cause, with reasons.
var unreachable = map[string]string{
	"invalid_json/general":        "a body that breaks off on its way",
	"header_too_large/general":    "65 header fields, which TestAbuse01_HeaderFieldsAreLimited sends",
	"internal/general":            "a bug, by its meaning",
	"unavailable/general":         "a site that is overloaded or shutting down",
	"unavailable/replica":         "a read-only replica",
	"storage_full/general":        "a full disk",
	"unavailable/read_only":       "a read-only disk",
	"suspended/general":           "only the operator suspends",
	"awaiting_approval/general":   "a site where the operator approves agents",
	"invite_required/general":     "a site where agents register by invitation",
	"registration_closed/general": "a site where registration is closed",
	"bad_value/blocked":           "only the operator blocks words",
	"bad_value/provider":          "only the operator blocks domains",
	"bad_value/host":              "only the operator blocks hosts",
	"forbidden/network":           "only the operator blocks networks",
	"bad_format/entry_name":       "of the operator's page and commands, not of the API",
	"bad_format/entry_network":    "of the operator's page and commands, not of the API",
	"mail_unavailable/general":    "a site that sends no mail",
	"rate_limited/mails_site":     "200 mails a day, of 40 agents at least",
	"rate_limited/collab":         "50 collaborations a day, of which 5 may wait",
	"rate_limited/post_network":   "100 calls a day, of 10 agents at least",
	"rate_limited/reply_network":  "300 replies a day",
	"rate_limited/collab_network": "100 collaborations a day, of 2 agents at least",
	"rate_limited/report_network": "50 reports a day, of things that are there",
	"rate_limited/network_writes": "120 calls that write in a minute, of 4 agents at least",
	"forbidden/general":           "of the owner's page, not of the API",
	"forbidden/plain":             "of plain http beside https",
	"forbidden/host":              "of a site that is private",
	"forbidden/dev":               "of callbook dev, not of the API",
	"invalid_query/dev":           "of callbook dev, not of the API",
	"not_found/dev":               "of callbook dev, not of the API",
	"method_not_allowed/page":     "of pages, not of the API",
	"bad_value/style":             "of badges, not of the API",
	"bad_format/duration":         "of callbook dev, not of the API",
	"bad_value/fault":             "of callbook dev, not of the API",
	"too_many/faults":             "of callbook dev, not of the API",
	"too_few":                     "no list has a least number of items",
}

// TestScripts_ReachEveryOperationAndError runs testdata/api, each script on a fresh site, and proves that
// together they reach every operation and every error.
func TestScripts_ReachEveryOperationAndError(t *testing.T) {
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
	names := refusals()
	for name := range unreachable {
		if !slices.Contains(names, name) {
			t.Errorf("%s stands among those that cannot be met, and is none", name)
		}
	}
	for _, name := range names {
		switch reason := unreachable[name]; {
		case met[name] && reason != "":
			t.Errorf("%s is met, though it stands among those that cannot be", name)
		case !met[name] && reason == "":
			t.Errorf("no script meets %s", name)
		}
	}
}

// TestScripts_ErrorsOfOtherSettings causes the errors of sites with other settings.
func TestScripts_ErrorsOfOtherSettings(t *testing.T) {
	met := map[string]bool{}
	proof.OneByOne(t)
	s := newSite(t, func(o *siteOptions) { o.mailOff = true })
	key := s.agent("harbour-pilot")
	for path, body := range map[string]string{
		"/api/me/verify": "", "/api/me/owner-claim": `{"owner_email":"mei@lin.example.org"}`, "/api/recover": `{"handle":"harbour-pilot"}`,
	} {
		s.recordReached(met, "POST", path, s.send("POST", path, key, body).rejected(503, messages.CodeMailUnavailable))
	}
	s = newSite(t, func(o *siteOptions) { o.mails = domain.MailCaps{Site: 4} })
	for i := range 2 {
		s.send("POST", "/api/me/verify", s.agent(fmt.Sprintf("agent-%d", i)), nil).status(202)
	}
	key = s.agent("one-too-many")
	a := s.send("POST", "/api/me/verify", key, nil).rejected(429, domain.CodeRateLimited)
	if a.text("error", "retry_at") != "2026-11-21T09:30:00.000Z" || a.Header.Get("Retry-After") != "86400" {
		t.Errorf("Retry-After %q: %s", a.Header.Get("Retry-After"), a.Body)
	}
	s.recordReached(met, "POST", "/api/me/verify", a)
	s.clock.Advance(domain.Day)
	s.send("POST", "/api/me/verify", key, nil).status(202)
	s = newSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{Collabs: 1} })
	key = s.verified("harbour-pilot")
	s.agent("tide-gauge")
	s.agent("museum-archive")
	s.collab(key, "tide-gauge")
	s.recordReached(met, "POST", "/api/collabs", s.send("POST", "/api/collabs", key, `{"partner":"museum-archive","summary":"Photographs."}`).rejected(429, domain.CodeRateLimited))
	s = newSite(t, func(o *siteOptions) { o.mode = domain.RegistrationApprove })
	a = s.send("POST", "/api/posts", s.agent("harbour-pilot"), `{"kind":"announce","title":"T","body":"B"}`)
	s.recordReached(met, "POST", "/api/posts", a.rejected(403, domain.CodeAwaitingApproval))
	for mode, code := range map[domain.RegistrationMode]domain.Code{
		domain.RegistrationInvite: domain.CodeInviteRequired, domain.RegistrationClosed: domain.CodeRegistrationClosed,
	} {
		s = newSite(t, func(o *siteOptions) { o.mode = mode })
		s.recordReached(met, "POST", "/api/agents", s.send("POST", "/api/agents", "", registrationOf("harbour-pilot")).rejected(403, code))
	}
	one := ratelimit.Limits{limitNetworkWrites: {Requests: 1, Period: time.Minute}}
	s, key, post := newPopulatedSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{NetworkPosts: 1, NetworkReplies: 1} })
	for _, path := range []string{"/api/posts", "/api/posts/" + post + "/replies"} {
		body := map[bool]string{true: `{"kind":"announce","title":"T","body":"B"}`, false: `{"body":"B"}`}[path == "/api/posts"]
		s.recordReached(met, "POST", path, s.sendUntilLimited("POST", path, key, body))
	}
	s.server.engine.Limiter = ratelimit.New(one)
	s.recordReached(met, "PATCH", "/api/me", s.sendUntilLimited("PATCH", "/api/me", key, `{}`))
	s = newSite(t, func(o *siteOptions) { o.quotas = domain.Quotas{NetworkCollabs: 1, NetworkReports: 1} })
	key = s.verified("harbour-pilot")
	s.agent("tide-gauge")
	s.agent("museum-archive")
	s.collab(key, "tide-gauge")
	s.recordReached(met, "POST", "/api/collabs", s.send("POST", "/api/collabs", key, `{"partner":"museum-archive","summary":"Photographs."}`).rejected(429, domain.CodeRateLimited))
	s.send("POST", "/api/agents/tide-gauge/report", "", `{}`).status(202)
	s.recordReached(met, "POST", "/api/agents/museum-archive/report", s.send("POST", "/api/agents/museum-archive/report", "", `{}`).rejected(429, domain.CodeRateLimited))
	s = newSite(t)
	key = s.agent("harbour-pilot")
	s.change("block-domain", "mail.example")
	s.change("block-host", "spam.example")
	a = s.send("PATCH", "/api/me", key, `{"mailbox":"a@mail.example","homepage":"https://spam.example/"}`).rejected(422, domain.CodeValidationFailed)
	s.recordReached(met, "PATCH", "/api/me", a)
	s.change("block-network", "127.0.0.1")
	s.recordReached(met, "POST", "/api/agents", s.send("POST", "/api/agents", "", registrationOf("other")).rejected(403, domain.CodeForbidden))
	for _, name := range []string{
		"bad_value/provider", "bad_value/host", "forbidden/network",
		"mail_unavailable/general", "rate_limited/mails_site", "rate_limited/collab",
		"rate_limited/post_network", "rate_limited/reply_network", "rate_limited/network_writes",
		"rate_limited/collab_network", "rate_limited/report_network",
		"awaiting_approval/general", "invite_required/general", "registration_closed/general",
	} {
		if !met[name] {
			t.Errorf("%s is not met, but %v", name, met)
		}
	}
}

// sendUntilLimited sends a request until a limit of few rejects it.
func (s *site) sendUntilLimited(method, path, key, body string) *result {
	s.Helper()
	for range 3 {
		if a := s.send(method, path, key, body); a.Status != 200 && a.Status != 201 {
			return a.rejected(429, domain.CodeRateLimited)
		}
	}
	s.Fatalf("%s %s is not limited", method, path)
	return nil
}

// newScriptSite returns a site like that of callbook dev, so that the script can move the clock
// and read mails. A first line "# limits: on" sets --limits=on.
func newScriptSite(t *testing.T, path string) *site {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return newSite(t, func(o *siteOptions) {
		o.dev = DevMode.NewClock()
		if bytes.HasPrefix(text, []byte("# limits: on\n")) {
			o.limits, o.quotas, o.mails = DefaultLimits, domain.DefaultQuotas, domain.DefaultMailCaps
		}
	})
}

func (s *site) runScript(path string, met map[string]bool) {
	s.Helper()
	entries, err := parseHurl(path)
	if err != nil {
		s.Fatal(err)
	}
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

// runEntry sends a request, again as often as its option retry lets it. Where
// Hurl would wait, the clock is moved.
func (s *site) runEntry(e *hurlEntry, variables map[string]string, met map[string]bool) (problems []string) {
	s.Helper()
	s.dev.Advance(e.delay)
	for range 1 + e.retry {
		r, err := e.newRequest(variables)
		if err != nil {
			s.Fatal(err)
		}
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
	met[s.wording(string(body.Error.Code), messages.Errors[body.Error.Code].Texts, body.Error.MessageEN, body.Error.MessageZH)] = true
	for _, d := range body.Error.Details {
		met[string(d.Code)] = true
		if texts := messages.Details[d.Code]; texts != nil {
			met[s.wording(string(d.Code), texts, d.MessageEN, d.MessageZH)] = true
		}
	}
}

// wording finds the entry of a catalogue that a message was made from. Other texts may follow that of the entry.
func (s *site) wording(code string, texts map[string]api.Text, en, zh string) string {
	found, longest := code, 0
	for topic, t := range texts {
		if len(t.EN) > longest && saidAs(t.EN, en) && saidAs(t.ZH, zh) {
			found, longest = code+"/"+cmp.Or(topic, "general"), len(t.EN)
		}
	}
	return found
}

func saidAs(template, message string) bool {
	pattern := strings.NewReplacer("%d", `\d+`, "%s", `[^"]+`, `%\[1\]s`, `[^" ]+`).Replace(regexp.QuoteMeta(template))
	return regexp.MustCompile(`(^|\S )` + pattern).MatchString(message)
}

// refusals returns all wordings of the catalogues as "code/topic", and all detail codes.
func refusals() []string {
	var names []string
	add := func(code string, texts map[string]api.Text) {
		for topic := range texts {
			names = append(names, code+"/"+cmp.Or(topic, "general"))
		}
	}
	for code, entry := range messages.Errors {
		add(string(code), entry.Texts)
	}
	for code, texts := range messages.Details {
		add(string(code), texts)
	}
	field, _ := reflect.TypeFor[api.Detail]().FieldByName("Code")
	names = append(names, strings.Split(field.Tag.Get("enum"), ",")...)
	slices.Sort(names)
	return slices.Compact(names)
}
