package systemtest

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/server/api"
	"callbook/store"
	"callbook/store/domain"
)

// The service is killed while clients send the requests of a session, which holds every writing operation. What is
// stored after each of these requests is known from an uninterrupted session. So a killed service must
// leave what is stored after the last request with a response, and the request without a response completely or not at
// all. That request is sent again, and then is stored once.

// crashStep is a request of the session.
type crashStep struct {
	operation    string // its id in the OpenAPI document, if it is there
	agent        string // agent whose key it carries; empty for none
	request      string // method, path and body; values of the run are in braces
	value        string // value of the run that the response gives
	repeatStatus int    // status of a repeat of what is stored; 0 for success
	twoWrites    bool   // is two writes: the first may be stored alone
}

// crashScript has the agents a, b and c, which the operator has verified, and n, which registers.
var crashScript = []crashStep{
	{"registerAgent", "", `POST /api/agents {"handle":"{n}","name":"N","owner":"B","mailbox":"{n}@example.org","description_en":"D","accept_rules":true}`, "key of n", 0, false},
	{"updateMe", "a", `PATCH /api/me {"name":"A2","tagline":"Tides of {a}","contact_policy":{"note":"Mornings."}}`, "", 0, false},
	{"replaceOfferings", "b", `PUT /api/me/offerings {"offerings":[{"title":"Levels","deliverable":"D","mode":"free"}]}`, "", 0, false},
	{"replaceOfferings", "b", `PUT /api/me/offerings {"offerings":[{"title":"Currents","deliverable":"D","mode":"free"},{"title":"Winds","deliverable":"D","mode":"free"}]}`, "off", 0, false},
	{"startVerify", "n", `POST /api/me/verify`, "", 429, false},
	{"confirmVerify", "n", `POST /api/me/verify/confirm {"code":"{code for n}"}`, "", 409, false},
	{"claimOwner", "a", `POST /api/me/owner-claim {"owner_email":"owner-{a}@example.org"}`, "", 429, false},
	{"the owner's page", "", `POST {link for owner-a} form={form}&act=confirm`, "", 409, false},
	{"setLink", "a", `POST /api/me/links {"url":"https://{a}.localhost/"}`, "", 0, true}, // is not contacted
	{"setWake", "b", `PUT /api/me/wake {"url":"https://{b}.localhost/"}`, "", 0, false},
	{"markInboxSeen", "a", `POST /api/me/inbox/seen {"next":"{beyond}"}`, "", 0, false},
	{"replaceWatches", "a", `PUT /api/me/watches {"watches":[{"q":"lighthouses"}]}`, "", 0, false},
	{"sendRequest", "c", `POST /api/agents/{b}/requests {"purpose":"P1","deliverable":"D","compensation":"none","offering_id":"{off}"}`, "req", 0, false},
	{"acceptRequest", "b", `POST /api/requests/{req}/accept`, "", 0, false},
	{"sendRequest", "a", `POST /api/agents/{b}/requests {"purpose":"P2","deliverable":"D","compensation":"none","offering_id":"{off}"}`, "req", 0, false},
	{"declineRequest", "b", `POST /api/requests/{req}/decline {"reason":"busy"}`, "", 0, false},
	{"sendRequest", "n", `POST /api/agents/{b}/requests {"purpose":"P3","deliverable":"D","compensation":"none","offering_id":"{off}"}`, "req", 0, false},
	{"withdrawRequest", "n", `POST /api/requests/{req}/withdraw`, "", 0, false},
	{"replaceOfferings", "c", `PUT /api/me/offerings {"offerings":[{"title":"Maps","deliverable":"D","mode":"free"}]}`, "off", 0, false},
	{"sendRequest", "b", `POST /api/agents/{c}/requests {"purpose":"P4","deliverable":"D","compensation":"none","offering_id":"{off}"}`, "req", 0, false},
	{"reportRequest", "c", `POST /api/requests/{req}/report {"reason":"R"}`, "", 0, false},
	{"recordCollab", "a", `POST /api/collabs {"partner":"{b}","summary":"Tables."}`, "col", 0, false},
	{"confirmCollab", "b", `POST /api/collabs/{col}/confirm`, "", 0, false},
	{"recordCollab", "c", `POST /api/collabs {"partner":"{a}","summary":"Charts."}`, "col", 0, false},
	{"declineCollab", "a", `POST /api/collabs/{col}/decline`, "", 0, false},
	{"createPost", "a", `POST /api/posts {"kind":"seeking","title":"Tides","body":"Levels of {a}."}`, "pst", 0, false},
	{"createReply", "b", `POST /api/posts/{pst}/replies {"body":"From {b}."}`, "rpl", 0, false},
	{"reportPost", "", `POST /api/posts/{pst}/report {"reason":"R"}`, "", 0, false},
	{"reportReply", "", `POST /api/replies/{rpl}/report {"reason":"R"}`, "", 0, false},
	{"reportAgent", "", `POST /api/agents/{b}/report {"reason":"R"}`, "", 0, false},
	{"createReply", "n", `POST /api/posts/{pst}/replies {"body":"From {n}."}`, "rpl of n", 0, false},
	{"deleteReply", "n", `DELETE /api/replies/{rpl of n}`, "", 404, false},
	{"deletePost", "a", `DELETE /api/posts/{pst}`, "", 404, false},
	{"createPost", "c", `POST /api/posts {"kind":"announce","title":"Maps","body":"Maps of {c}."}`, "pst of c", 0, false},
	{"createReply", "n", `POST /api/posts/{pst of c}/replies {"body":"Again from {n}."}`, "rpl of n", 0, false},
	{"deleteWake", "b", `DELETE /api/me/wake`, "", 0, false},
	{"startRecovery", "", `POST /api/recover {"handle":"{b}"}`, "", 0, false},
	{"confirmRecovery", "", `POST /api/recover/confirm {"handle":"{b}","code":"{code for b}"}`, "key of b", 410, false},
	{"rotateKey", "a", `POST /api/me/rotate-key`, "key of a", 401, false},
	{"deleteMe", "n", `DELETE /api/me?confirm={n}`, "", 401, false},
}

var crashAgents = []string{"a", "b", "c", "n"}

// crashRun is a client's run of the session.
type crashRun struct {
	name       string
	values     map[string]string // keys and ids
	done       int               // steps with a response
	checked    int               // of these, when they were last checked
	unanswered bool              // the next step was sent, and has no response
	mail       message           // the last one from which a code or a link was taken
	keyLost    bool              // a key was lost with a response: the run ends
}

func (r *crashRun) handle(agent string) string { return r.name + "-" + agent }

func (r *crashRun) finished() bool { return r.keyLost || r.done == len(crashScript) }

// newCrashRun registers the agents that the operator verifies.
func newCrashRun(t testing.TB, st *store.Store, name string) *crashRun {
	t.Helper()
	r := &crashRun{name: name, values: map[string]string{"beyond": domain.EventID(1<<47, 1<<40)}}
	for _, agent := range crashAgents {
		r.values[agent] = r.handle(agent)
		if agent == "n" {
			continue
		}
		made, _, err := st.Register(t.Context(), domain.Registration{
			Handle: r.handle(agent), Name: "A", Owner: "B", Mailbox: r.handle(agent) + "@example.org", AcceptRules: true, Profile: domain.Profile{DescriptionEN: "D"},
		}, domain.IdempotencyKey{})
		if err = errors.Join(err, st.ActOnAgent(t.Context(), domain.OperatorVerify, r.handle(agent))); err != nil {
			t.Fatal(err)
		}
		r.values["key of "+agent] = made.Key
	}
	return r
}

// crashCounts holds the results of all runs.
type crashCounts struct {
	cycles, acknowledged, lost, broken, repeated, doubled atomic.Int64

	ready time.Duration // the longest from a start after a kill until it is ready
}

// crashClient sends the requests of runs, one after the other.
type crashClient struct {
	*crashDirectory
	http        *http.Client
	base        string
	mailTimeout time.Duration // how long it waits for a mail; 0: a mail that does not arrive is an error
}

func (c *crashClient) connect(base string) {
	c.base, c.http = base, &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}}
}

func (c *crashClient) send(method, path, key, body, once string) (status int, text string, err error) {
	var headers []string
	if strings.HasPrefix(body, "form=") {
		headers = append(headers, "Content-Type: application/x-www-form-urlencoded")
	}
	if key != "" {
		headers = append(headers, "Authorization: Bearer "+key)
	}
	if once != "" {
		headers = append(headers, "Idempotency-Key: "+once)
	}
	return exchange(c.http, method, c.base+path, body, headers...)
}

var idempotentStep = regexp.MustCompile(`^(register|send|record|create)`)

// next sends the next request of a run. It returns false if there is no response.
func (c *crashClient) next(r *crashRun, p *process) bool {
	step := crashScript[r.done]
	request, ok := c.fill(r, p, step.request)
	if !ok {
		return false
	}
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	once := ""
	if idempotentStep.MatchString(step.operation) {
		once = fmt.Sprintf("step-%03d-of-%s-once", r.done, r.name)
	}
	status, text, err := c.send(method, path, r.values["key of "+step.agent], body, once)
	again := r.unanswered && status == step.repeatStatus
	switch {
	case err != nil || status >= 500:
		r.unanswered = true
		if err == nil && !c.failing {
			c.reportDamage("%s: %d %s", step.operation, status, text)
		}
		return false
	case again:
		r.keyLost = step.value != ""
		delete(r.values, step.value)
	case strings.Contains(text, `"wrong_code"`), status == 404 && strings.Contains(step.request, "{link "):
		c.mails.setVoid(r.mail)
		return c.next(r, p)
	case status/100 != 2:
		c.reportDamage("%s of %s: %d %s", step.operation, r.name, status, text)
		r.keyLost = true
		return false
	default:
		r.remember(step.value, text)
	}
	if r.unanswered {
		c.counts.repeated.Add(1)
	}
	c.counts.acknowledged.Add(1)
	r.done, r.unanswered = r.done+1, false
	return true
}

func (r *crashRun) remember(value, text string) {
	switch {
	case value == "":
	case strings.HasPrefix(value, "key of "):
		r.values[value] = firstSubmatch(apiKeyInJSON, text)
	default:
		prefix, _, _ := strings.Cut(value, " ")
		r.values[value] = firstSubmatch(regexp.MustCompile(`"id":"(`+prefix+`_\w+)"`), text)
	}
}

var (
	crashBraces = regexp.MustCompile(`\{[a-z][\w -]*\}`)
	crashForm   = regexp.MustCompile(`name="form" value="(\w+)"`)
)

// fill puts the values of a run into a request. It returns false if a mail, or the owner's page, does not arrive.
func (c *crashClient) fill(r *crashRun, p *process, request string) (text string, ok bool) {
	ok = true
	page := ""
	text = crashBraces.ReplaceAllStringFunc(request, func(name string) string {
		what, to, _ := strings.Cut(strings.Trim(name, "{}"), " for ")
		switch what {
		case "code", "link":
			l, received := c.mails.wait(p, r.mailbox(to), c.mailTimeout)
			ok, r.mail = ok && received, l
			page = strings.TrimPrefix(mailedLink.FindString(l.text), site)
			if what == "link" {
				return page
			}
			return l.code()
		case "form":
			_, text, err := c.send("GET", page, "", "", "")
			form := firstSubmatch(crashForm, text)
			ok = ok && err == nil && form != ""
			return form
		}
		return r.values[what]
	})
	return text, ok
}

// mailbox returns the address of an agent of the session, or of its owner.
func (r *crashRun) mailbox(of string) string {
	if agent, owner := strings.CutPrefix(of, "owner-"); owner {
		return "owner-" + r.handle(agent) + "@example.org"
	}
	return r.handle(of) + "@example.org"
}

// crashMails holds the delivered mails by address. A request that is repeated after a kill mails another code or link
// while the first mail is on its way, or after it has been delivered and before that was stored. The code or link of the
// first mail is void then, and that of the second one is valid.
type crashMails struct {
	*mailServer
	mu       sync.Mutex
	received map[string]message
	void     map[string]string // texts of mails with void codes
}

func newCrashMails(t testing.TB) *crashMails {
	return &crashMails{mailServer: newMailServer(t), received: map[string]message{}, void: map[string]string{}}
}

// newest returns the newest mail to an address.
func (m *crashMails) newest(address string) message {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		select {
		case l := <-m.delivered:
			m.received[l.to] = l
		default:
			return m.received["<"+address+">"]
		}
	}
}

// setVoid records that the code of a mail is void, so that wait waits for another one.
func (m *crashMails) setVoid(l message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.void[l.to] = l.text
}

// wait waits for a mail to an address. It returns false if the service ends first, or the mail is too late.
func (m *crashMails) wait(p *process, address string, most time.Duration) (l message, received bool) {
	for late := time.After(cmp.Or(most, patience)); ; {
		l = m.newest(address)
		m.mu.Lock()
		received = l.to != "" && l.text != m.void[l.to]
		m.mu.Unlock()
		if received {
			return l, true
		}
		select {
		case <-p.exited:
			return l, false
		case <-late:
			if most == 0 {
				m.Errorf("a mail to %s does not arrive: %s", address, p.err)
			}
			return l, false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// crashColumns are the columns of an agent's export that are the same in each run. A question mark asks whether there
// is a value; a point leads to one within.
var crashColumns = map[string]string{
	"agents":       "handle name tagline mailbox note verified_at? claimed_at?",
	"offerings":    "title deliverable mode",
	"links":        "url status failure",
	"owner_claims": "status",
	"codes":        "purpose mailbox", // a code that another one has replaced may have been tried
	"posts":        "kind title body",
	"replies":      "body",
	"requests":     "status from_handle to_handle purpose deliverable compensation offering.title decline_reason from_mailbox to_mailbox",
	"blocks":       "blocked",
	"collabs":      "status initiator partner summary",
	"events":       "type subject.handle",
	"wakes":        "url",
	"watches":      "q",
	"usage":        "act",
	"reports":      "about reason",
}

func crashValue(row map[string]any, column string) string {
	if outer, inner, ok := strings.Cut(column, "."); ok {
		of, _ := row[outer].(map[string]any)
		return crashValue(of, inner)
	}
	column, whether := strings.CutSuffix(column, "?")
	switch v := row[column]; {
	case whether:
		return fmt.Sprint(v != nil)
	case v == nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// storedRows returns what is stored about the agents of a run, without its name.
func (r *crashRun) storedRows(t testing.TB, st *store.Store, file *sql.DB) string {
	t.Helper()
	var rows []string
	for _, agent := range crashAgents {
		exported, err := st.ExportAgent(t.Context(), r.handle(agent))
		if errors.Is(err, &domain.Error{Code: domain.CodeNotFound}) {
			continue
		}
		var tables map[string][]map[string]any
		if err = errors.Join(err, json.Unmarshal(api.Marshal(exported), &tables)); err != nil {
			t.Fatal(err)
		}
		delete(tables, "mail_log") // notices, which no client waits for, are logged when they are sent
		for table, all := range tables {
			for _, row := range all {
				text := agent + " " + table
				for column := range strings.FieldsSeq(crashColumns[table]) {
					text += " | " + crashValue(row, column)
				}
				rows = append(rows, text)
			}
		}
	}
	reports := fmt.Sprintf(`SELECT 'reported', about FROM reports WHERE subject IN ('%s', '%s', '%s')`, r.handle("b"), r.values["pst"], r.values["rpl"])
	if err := queryPairs(file, reports, func(what, about string) { rows = append(rows, what+" "+about) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(rows)
	return strings.ReplaceAll(strings.Join(rows, "\n"), r.name, "run")
}

func queryPairs(file *sql.DB, query string, see func(x, y string)) error {
	rows, err := file.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var x, y string
		if err := rows.Scan(&x, &y); err != nil {
			return err
		}
		see(x, y)
	}
	return rows.Err()
}

var crashStates struct {
	sync.Once
	after []string // what is stored after so many steps
}

// crashStatesAfterSteps returns what is stored after each step of an uninterrupted session.
func crashStatesAfterSteps(t testing.TB) []string {
	t.Helper()
	skipUnlessRacing(t) // not within Do, which would count as done
	crashStates.Do(func() {
		d := newCrashDirectory(t, &crashCounts{})
		c, r := &crashClient{crashDirectory: d}, d.newRun("reference")
		p := spawn(t, d.db, d.mails.flags()...)
		c.connect(p.base)
		d.read(func(st *store.Store, file *sql.DB) {
			for crashStates.after = []string{r.storedRows(t, st, file)}; !r.finished(); {
				if !c.next(r, p) {
					t.Fatalf("step %d of the session has no response: %s", r.done, p.err)
				}
				crashStates.after = append(crashStates.after, r.storedRows(t, st, file))
			}
		})
		p.stopCleanly()
	})
	if len(crashStates.after) != len(crashScript)+1 {
		t.Fatal("the uninterrupted session did not finish")
	}
	return crashStates.after
}
