// Package devmode wraps a Server for callbook dev: a demo directory whose keys are known, a clock
// that tests can move, and a reset. Its paths below /dev are not part of the API: they need no
// key, have no limits, and no document names them, except that the guide and the response to POST
// /api/me/verify name /dev/mail. Package server does not know it.
//
// A further path is a row of endpoints, which GET /dev lists.
//
// The page /dev shows all of that to people. A further section is a template in static/dev.html, a
// field of page, and forms whose fields are the members of the JSON that a path below /dev reads.
package devmode

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/julienschmidt/httprouter"
	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/server/api"
	"callbook/server/mail"
	"callbook/server/web"
	"callbook/store"
	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Server is a server for testing agents. It serves this machine, and others only by the names of
// Options.Hosts.
type Server struct {
	// Site serves the API and the pages; guard wraps its routes.
	Site    *server.Server
	options Options
	log     zerolog.Logger
	store   *store.Store
	router  *httprouter.Router
	pages   *web.Site
	faults  faults
	journal journal
	gate    sync.RWMutex // locked while the clock moves or the directory is reset
	agents  []Agent      // demo agents; guarded by gate
}

// Options are the settings of a Server beside those of the one that it wraps.
type Options struct {
	Clock *Clock       // clock of the store
	Demo  fs.FS        // has agents.json, counterparts.json and history.json
	Mail  *mail.Memory // receives the mails of the site
	Hosts []string     // names by which other machines, such as containers, reach the server
	Empty bool         // Start and a reset load no demo
	State string       // file for what a restart needs beside the database; empty for none
}

// New builds a Server. Its store has to allow links to this machine.
func New(st *store.Store, o server.Options, options Options) (*Server, error) {
	d := &Server{
		options: options,
		log:     o.Log,
		store:   st,
		journal: journal{counts: map[string]map[domain.Code]int{}},
	}

	d.router = d.routes()
	o.Mail = options.Mail
	o.LinkCheck.Loopback = true
	o.MailNote = api.Text{
		EN: " This directory is for tests and mails nothing: GET " + o.BaseURL + prefix +
			"mail lists the mails with their codes and links.",
		ZH: "这是测试用的通讯录，不会真正发出邮件：用 GET " + o.BaseURL + prefix + "mail 查看全部邮件及其中的验证码和链接。",
	}

	page := o.BaseURL + pagePath
	o.Operator.About = cmp.Or(
		o.Operator.About,
		"This directory is for tests: [API keys, mails, the clock and a reset]("+page+").\n\n"+
			"这是测试用的通讯录：[API 密钥、邮件、时钟与重置]("+page+")。",
	)
	o.Wrap = d.guard
	o.Uncrawled = []string{pagePath}

	var err error
	d.pages, err = web.New(web.Options{
		BaseURL: o.BaseURL,
		Name:    o.Operator.SiteName(),
		Notice:  pageNotice,
	})
	if err != nil {
		return nil, err
	}

	d.Site, err = server.New(st, o)
	return d, err
}

// Paths that a Server adds: all but that of its page begin with prefix.
const (
	prefix   = "/dev/"
	pagePath = "/dev"
)

// Agent is a demo agent with its key.
type Agent struct {
	Handle string `json:"handle"`
	APIKey string `json:"api_key"`
	Level  int    `json:"level"`
}

// Clock is the real time plus an offset.
type Clock struct{ offset atomic.Int64 }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())) //clock: the one source of callbook dev
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Agents returns the demo agents in order of registration, before the server serves.
func (d *Server) Agents() []Agent { return d.agents }

// listAgents lists the demo agents that still exist, with their present levels and their initial
// keys.
func (d *Server) listAgents(ctx context.Context, _ url.Values) ([]Agent, error) {
	agents := []Agent{}
	for _, agent := range d.agents {
		card, err := d.store.Card(ctx, agent.Handle)
		if errors.Is(err, api.NewError(domain.CodeNotFound, "")) {
			continue
		}
		if err != nil {
			return nil, err
		}

		agent.Level = card.Trust.Level
		agents = append(agents, agent)
	}

	return agents, nil
}

// endpoint is a path of a Server with one method, as GET /dev lists it.
type endpoint struct {
	Method  string   `json:"method"`
	Path    string   `json:"path"`
	Query   []string `json:"query,omitempty"`
	Summary string   `json:"summary"`
	act     func(r *http.Request, body []byte) (any, error)
}

// endpoints returns the paths below /dev.
func (d *Server) endpoints() []endpoint {
	const get, post = http.MethodGet, http.MethodPost
	return []endpoint{
		{
			get,
			prefix + "agents",
			nil,
			"List the demo agents with their API keys and trust levels",
			list("agents", d.listAgents),
		},
		{
			get,
			prefix + "mail",
			[]string{"to"},
			"List the mails with their codes and links, newest first",
			list("mail", d.listMail),
		},
		{get, prefix + "clock", nil, "Read the clock, and how far it is ahead", d.readClock},
		{post, prefix + "clock", nil, `Advance the clock: {"advance": "24h"}`, d.advance},
		{get, prefix + "faults", nil, "List the faults", list("faults", d.listFaults)},
		{
			post,
			prefix + "faults",
			nil,
			"Make the next requests fail: status, delay_ms or drop; operation, times, rate and seed",
			d.addFault,
		},
		{http.MethodDelete, prefix + "faults", nil, "Remove all faults", d.clearFaults},
		{post, prefix + "faults/clear", nil, "Remove all faults, for a form", d.clearFaults},
		{
			get,
			prefix + "calls",
			[]string{"handle", "operation", "status"},
			"List the newest requests with what was wrong",
			list("calls", d.listCalls),
		},
		{
			get,
			prefix + "report",
			nil,
			"Count requests and errors by operation since the start, and list the operations never called",
			d.report,
		},
		{
			post,
			prefix + "reset",
			nil,
			`Start over, as after the start, or with {"demo": true}, {"demo": false} or {"counterparts": true}`,
			d.reset,
		},
	}
}

// refreshAgents drops the demo agents that no longer exist, and reads the levels of the others.
func (d *Server) refreshAgents(ctx context.Context) (err error) {
	d.agents, err = d.listAgents(ctx, nil)
	return err
}

// routes returns the router of the endpoints and the page.
func (d *Server) routes() *httprouter.Router {
	router := &httprouter.Router{
		HandleMethodNotAllowed: true, HandleOPTIONS: true,
		MethodNotAllowed: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.Site.WriteError(
				w,
				r,
				&domain.Error{
					Code:  api.CodeMethodNotAllowed,
					Topic: "dev",
					Names: []any{w.Header().Get("Allow")},
				},
			)
		}),
		NotFound: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.Site.WriteError(w, r, api.NewError(domain.CodeNotFound, "dev"))
		}),
	}

	for _, e := range d.endpoints() {
		router.Handle(e.Method, e.Path, d.handle(e))
		if e.Method == http.MethodGet {
			router.HEAD(e.Path, d.handle(e))
		}
	}

	router.GET(pagePath, d.showPage)
	router.HEAD(pagePath, d.showPage)
	return router
}

// list returns an action that reads a list, which is the one member of its result.
func list[T any](
	name string,
	read func(ctx context.Context, query url.Values) ([]T, error),
) func(*http.Request, []byte) (any, error) {
	return func(r *http.Request, _ []byte) (any, error) {
		items, err := read(r.Context(), r.URL.Query())
		return map[string]any{name: items}, err
	}
}

// invalidQuery returns the error of a query with a parameter that is not allowed.
func invalidQuery(allowed string) error {
	return &domain.Error{Code: domain.CodeInvalidQuery, Topic: "dev", Names: []any{allowed}}
}

// Mail is a mail of the site as GET /dev/mail lists it.
type Mail struct {
	mail.Message
	At domain.Time `json:"at"`
}

// listMail lists the mails of the site, newest first: all of them, or those to the address that
// the parameter to of the query has. It delivers queued mails before, so that a client finds the
// mail that it requested.
func (d *Server) listMail(ctx context.Context, query url.Values) ([]Mail, error) {
	if err := d.Site.DeliverMail(ctx); err != nil {
		return nil, err
	}

	mails := []Mail{}
	for _, m := range d.options.Mail.Messages() {
		if !query.Has("to") || strings.EqualFold(m.To, query.Get("to")) {
			mails = append(mails, Mail{m, domain.Time(m.At.UnixMilli())})
		}
	}

	return mails, nil
}

// handle returns a handler that responds with the result of an endpoint. A form of the page has
// the members of the JSON as its fields, and leads back to the page.
func (d *Server) handle(e endpoint) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		w.Header().Set("Cache-Control", "no-store")
		form := isForm(r)
		result, err := e.run(w, r, form)
		switch {
		case err != nil:
			d.Site.WriteError(w, r, err)

		case form:
			http.Redirect(w, r, d.pages.View(r).To(pagePath), http.StatusSeeOther)

		default:
			_ = api.WriteJSON(w, http.StatusOK, append(api.Marshal(result), '\n'))
		}
	}
}

// run checks the query, reads the body, and does the action of the endpoint.
func (e endpoint) run(w http.ResponseWriter, r *http.Request, form bool) (any, error) {
	// The forms of the page have the parameter lang.
	known := append(slices.Clone(e.Query), "lang")
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			return nil, invalidQuery(strings.Join(known, ", "))
		}
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxBody))
	if err != nil {
		return nil, api.NewError(api.CodeBodyTooLarge, "")
	}

	if form {
		body = formJSON(body)
	}

	return e.act(r, body)
}

// maxAdvance limits the offset of the clock, so that responses can express its times.
const maxAdvance = 100 * 365 * domain.Day

// advance handles POST /dev/clock.
func (d *Server) advance(r *http.Request, body []byte) (any, error) {
	if err := d.move(context.WithoutCancel(r.Context()), body); err != nil {
		return nil, err
	}

	// Outside the gate: a link may lead to this very server, and an agent that is woken may use it
	// before it responds.
	if err := d.Site.SendRequests(r.Context()); err != nil {
		return nil, err
	}

	return d.readClock(r, nil)
}

// readClock handles GET /dev/clock.
func (d *Server) readClock(*http.Request, []byte) (any, error) {
	// During a reset the clock runs through the past.
	d.gate.RLock()
	defer d.gate.RUnlock()

	return map[string]any{
		"now":    domain.Time(d.store.Now().UnixMilli()),
		"offset": time.Duration(d.options.Clock.offset.Load()).String(),
	}, nil
}

// move advances the clock and runs the due jobs, except requests to other servers.
func (d *Server) move(ctx context.Context, body []byte) error {
	d.gate.Lock()
	defer d.gate.Unlock()

	var in struct {
		Advance string `json:"advance"`
	}

	invalid := domain.FieldError{Field: "advance", Code: domain.FaultBadFormat, Topic: "duration"}
	if err := decode(body, &in, "clock", invalid); err != nil {
		return err
	}

	step, err := domain.ParseDuration(in.Advance)
	total := time.Duration(d.options.Clock.offset.Load()) + step
	if err != nil || step < 0 || step > maxAdvance || total > maxAdvance {
		return domain.Invalid(invalid)
	}

	// Counterparts act before requests to them expire.
	soon := min(step, reactionTime)
	d.options.Clock.Advance(soon)
	err = d.act(ctx)
	d.options.Clock.Advance(step - soon)

	return errors.Join(err, d.act(ctx), d.Site.RunLocalJobs(ctx), d.save())
}

// reset handles POST /dev/reset. Without a body, the directory is as after the start.
func (d *Server) reset(r *http.Request, body []byte) (any, error) {
	var in struct {
		Demo         *bool `json:"demo"`
		Counterparts bool  `json:"counterparts"`
	}

	if len(body) > 0 {
		invalid := domain.FieldError{Field: "demo", Code: domain.FaultWrongType, Topic: "boolean"}
		if err := decode(body, &in, "reset", invalid); err != nil {
			return nil, err
		}
	}

	// A client that disconnects does not leave half of a demo.
	ctx := context.WithoutCancel(r.Context())
	d.gate.Lock()
	defer d.gate.Unlock()

	if err := d.store.Clear(ctx); err != nil {
		return nil, err
	}

	d.Site.ResetLimits() // ids of agents are reused
	d.options.Mail.Clear()
	_, _ = d.clearFaults(r, nil) // it has no errors

	// The counts stay: a suite that resets between its tests reads them at its end.
	d.journal.mu.Lock()
	d.journal.entries = nil
	d.journal.mu.Unlock()

	demo := !d.options.Empty && !in.Counterparts

	if in.Demo != nil {
		demo = *in.Demo
	}

	if err := d.load(ctx, demo, demo || in.Counterparts); err != nil {
		return nil, err
	}

	return map[string]any{
		"agents":       len(d.agents),
		"demo":         demo,
		"counterparts": demo || in.Counterparts,
		"now":          domain.Time(d.store.Now().UnixMilli()),
		"cleared":      []string{"directory", "mail", "clock", "faults", "calls"},
		"unchanged":    []string{"report"},
	}, nil
}

// decode parses the body of an endpoint. The error of a member of the wrong type is invalid, with
// that member as its field if the parser names one; that of an unknown member has the topic.
func decode(body []byte, into any, topic string, invalid domain.FieldError) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}

	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && semantic.JSONPointer != "" {
		invalid.Field = semantic.JSONPointer.LastToken()
	}

	if errors.Is(err, json.ErrUnknownName) {
		invalid.Code = domain.FaultUnknownField
		invalid.Topic = topic
	}

	return domain.Invalid(invalid)
}

// guard rejects requests that do not come for this machine by one of its names, or for one of the
// allowed hosts. It records all but those below /dev.
func (d *Server) guard(next http.Handler) http.Handler {
	// A page elsewhere that a browser shows must not reach the keys, by its own name (DNS rebinding)
	// or as a foreign origin.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := d.operationOf(r)
		if !d.isOwn(r) {
			d.record(w, r, op, func(seen *tap, _ *Entry) {
				d.Site.WriteError(seen, r, api.NewError(domain.CodeForbidden, "dev"))
			})
			return
		}

		if strings.HasPrefix(r.URL.Path+"/", prefix) && r.URL.RawPath == "" {
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
			d.pass(d.router, w, r)
			return
		}

		d.record(w, r, op, func(seen *tap, entry *Entry) { d.serve(next, seen, r, op, entry) })
	})
}

// needsNoGate reports whether a request must not hold the gate: one that moves the clock, one that
// waits for events, which the move may cause, and a check of a link, which may lead to this very
// server.
func needsNoGate(r *http.Request) bool {
	paths := []string{"/dev/clock", "/dev/reset", "/api/me/events", "/api/me/links"}
	return slices.Contains(paths, r.URL.Path)
}

// isOwn reports whether a request comes for an own host, and not from a page of another site.
func (d *Server) isOwn(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	u, err := url.Parse(origin)

	switch {
	case !d.isOwnHost(r.Host):
		return false

	case origin == "":
		// Writes outside /dev are checked like those of any site.
		return site != "cross-site" || r.Method == http.MethodGet || r.Method == http.MethodHead ||
			!strings.HasPrefix(r.URL.Path+"/", prefix)

	case origin == "null":
		// The forms of the own pages, by their referrer policy.
		return site == "same-origin"

	default:
		return err == nil && d.isOwnHost(u.Host)
	}
}

// isOwnHost reports whether a host is this machine, or has one of the names that are allowed.
func (d *Server) isOwnHost(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	isName := func(allowed string) bool { return strings.EqualFold(allowed, name) }
	return storetext.IsLoopback(name) || slices.ContainsFunc(d.options.Hosts, isName)
}
