package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/julienschmidt/httprouter"

	"callbook/server/mail"
	"callbook/store"
	storetext "callbook/store/text"
)

// Dev is what callbook dev adds: a demo directory whose keys are known, a clock
// that can be moved, and a reset. It serves this machine only.
type Dev struct {
	Clock  *DevClock
	Demo   fs.FS        // agents.json, calls.json and contacts.json
	Mail   *mail.Memory // what the site would have sent
	gate   sync.RWMutex // held whole while the clock moves or the directory is made anew
	mu     sync.Mutex
	agents []DevAgent
}

// DevAgent is a demo agent with its key.
type DevAgent struct {
	Handle string `json:"handle"`
	APIKey string `json:"api_key"`
	Level  int    `json:"level"`
}

// DevClock is the real time plus an offset.
type DevClock struct{ offset atomic.Int64 }

// Now is the clock's time.
func (c *DevClock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())) //clock: the one source of callbook dev
}

// Agents returns the demo agents in order of joining.
func (d *Dev) Agents() []DevAgent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.agents)
}

// present are the demo agents that are still there, with the levels that they have now.
// The key is the one they began with.
func (d *Dev) present(ctx context.Context, s *Server) ([]DevAgent, error) {
	agents := []DevAgent{}
	for _, agent := range d.Agents() {
		card, err := s.store.Card(ctx, agent.Handle)
		if errors.Is(err, refuse(store.CodeNotFound, "")) {
			continue
		}
		if err != nil {
			return nil, err
		}
		agent.Level = card.Level
		agents = append(agents, agent)
	}
	return agents, nil
}

// mount mounts what callbook dev adds. It is not part of the API: no key, no
// limits, not in the documents.
func (d *Dev) mount(s *Server, r *routes) {
	r.get("/dev/agents", func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
		agents, err := d.present(req.Context(), s)
		if err != nil {
			s.engine.writeError(w, req, err)
			return
		}
		d.reply(w, map[string]any{"agents": agents})
	})
	r.get("/dev/mail", func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
		// What waits goes out first, so that a caller finds the mail it asked for.
		if err := s.mailer.deliver(req.Context()); err != nil {
			s.engine.writeError(w, req, err)
			return
		}
		d.reply(w, map[string]any{"mail": d.mails()})
	})
	r.handle(http.MethodPost, "/dev/clock", d.handle(s, d.advance))
	r.handle(http.MethodPost, "/dev/reset", d.handle(s, d.reset))
}

// DevMail is a mail that the site would have sent.
type DevMail struct {
	mail.Message
	At store.Time `json:"at"`
}

// mails are the site's own mails, newest first.
func (d *Dev) mails() []DevMail {
	mails := []DevMail{}
	for _, m := range d.Mail.Messages() {
		mails = append(mails, DevMail{m, store.Time(m.At.UnixMilli())})
	}
	return mails
}

func (d *Dev) reply(w http.ResponseWriter, v any) {
	w.Header().Set("Cache-Control", "no-store")
	_ = writeJSON(w, http.StatusOK, marshal(v))
}

// handle reads a small body and answers with what act returns.
func (d *Dev) handle(s *Server, act func(ctx context.Context, s *Server, body []byte) (any, error)) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			s.engine.writeError(w, r, refuse(codeBodyTooLarge, ""))
			return
		}
		result, err := act(r.Context(), s, body)
		if err != nil {
			s.engine.writeError(w, r, err)
			return
		}
		d.reply(w, result)
	}
}

// maxAdvance bounds how far the clock moves in all, so that times stay in the
// years that answers can write.
const maxAdvance = 100 * 365 * store.Day

func (d *Dev) advance(ctx context.Context, s *Server, body []byte) (any, error) {
	if err := d.move(ctx, s, body); err != nil {
		return nil, err
	}
	// Behind the gate: a link may lead to this very server.
	if err := s.links.recheckAll(ctx); err != nil {
		return nil, err
	}
	return map[string]any{"now": store.Time(s.store.Now().UnixMilli())}, nil
}

// move moves the clock and does what is then due, but for looks at links.
func (d *Dev) move(ctx context.Context, s *Server, body []byte) error {
	d.gate.Lock()
	defer d.gate.Unlock()
	var in struct {
		Advance string `json:"advance"`
	}
	err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true))
	step, parseErr := time.ParseDuration(in.Advance)
	total := time.Duration(d.Clock.offset.Load()) + step
	if err != nil || parseErr != nil || step < 0 || step > maxAdvance || total > maxAdvance {
		return &store.Error{Code: store.CodeValidationFailed, Faults: []store.Fault{
			{Field: "advance", Code: store.FaultBadFormat, Topic: "duration"},
		}}
	}
	d.Clock.offset.Add(int64(step))
	return s.runDueInside(ctx)
}

func (d *Dev) reset(ctx context.Context, s *Server, body []byte) (any, error) {
	var in struct {
		Demo bool `json:"demo"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
			return nil, &store.Error{Code: store.CodeValidationFailed, Faults: []store.Fault{
				{Field: "demo", Code: store.FaultWrongType, Topic: "boolean"},
			}}
		}
	}
	d.gate.Lock()
	defer d.gate.Unlock()
	if err := s.store.Clear(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.agents = nil
	d.mu.Unlock()
	d.Clock.offset.Store(0)
	s.engine.Limiter.forget() // numbers of agents are given again
	d.Mail.Clear()
	if in.Demo {
		if err := d.Load(ctx, s); err != nil {
			return nil, err
		}
	}
	return map[string]any{"agents": len(d.Agents())}, nil
}

// guard lets in only what comes for this machine by a name of this machine: a
// page elsewhere that a browser shows must not reach the keys, by its own name
// (DNS rebinding) or as a foreign origin.
func (d *Dev) guard(s *Server, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if !localHost(r.Host) || origin != "" && !localOrigin(origin) && !ownForm(r) {
			s.engine.writeError(w, r, refuse(store.CodeForbidden, "dev"))
			return
		}
		if err := readAhead(r); err != nil {
			s.engine.writeError(w, r, errors.Join(refuse(codeInvalidJSON, ""), err))
			return
		}
		if !holdsNothing(r) {
			d.gate.RLock()
			defer d.gate.RUnlock()
		}
		next.ServeHTTP(w, r)
	})
}

// readAhead reads a body whole before its call holds back a move of the clock: it
// may come slowly.
func readAhead(r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	}
	return err
}

// holdsNothing tells of calls that must not hold back a move of the clock: the
// move itself, one that waits for events, which may be what the move brings, and
// a look at a link, which may lead to this very server.
func holdsNothing(r *http.Request) bool {
	return slices.Contains([]string{"/dev/clock", "/dev/reset", "/api/me/events", "/api/me/links"}, r.URL.Path)
}

// ownForm tells of a form of this site: the pages' referrer policy lets browsers
// name no origin, but they say that it is the same.
func ownForm(r *http.Request) bool {
	return r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

func localOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && localHost(u.Host)
}

func localHost(host string) bool {
	return storetext.IsLoopback((&url.URL{Host: host}).Hostname())
}
