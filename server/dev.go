package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/julienschmidt/httprouter"

	"callbook/store"
)

// Dev is what callbook dev adds: a demo directory whose keys are known, a clock
// that can be moved, and a reset. It serves this machine only.
type Dev struct {
	Clock  *DevClock
	Demo   fs.FS        // agents.json and calls.json
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

// demoAgent is an entry of agents.json.
type demoAgent struct {
	store.Registration
	Offerings     []store.OfferingDraft `json:"offerings"`
	ContactPolicy jsontext.Value        `json:"contact_policy"`
	Verified      bool                  `json:"verified"`
	JoinedDaysAgo float64               `json:"joined_days_ago"`
}

// demoPost is an entry of calls.json.
type demoPost struct {
	By string `json:"by"`
	store.PostDraft
	DeadlineInDays *int        `json:"deadline_in_days"`
	PostedDaysAgo  float64     `json:"posted_days_ago"`
	Replies        []demoReply `json:"replies"`
}

type demoReply struct {
	By            string  `json:"by"`
	Body          string  `json:"body"`
	PostedDaysAgo float64 `json:"posted_days_ago"`
}

// demoStep is one act of the demo's past.
type demoStep struct {
	daysAgo float64
	act     func(context.Context) error
}

// Load fills an empty directory with the demo: everything happens anew, in
// order, while the clock runs through the past half year.
func (d *Dev) Load(ctx context.Context, st *store.Store) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.Clock.offset.Store(0)
	var agents []demoAgent
	var posts []demoPost
	if err := errors.Join(readDemo(d.Demo, "agents.json", &agents), readDemo(d.Demo, "calls.json", &posts)); err != nil {
		return err
	}
	loader := &demoLoader{store: st, callers: map[string]store.Caller{}, today: d.Clock.Now()}
	for _, a := range agents {
		loader.add(a.JoinedDaysAgo, func(ctx context.Context) error { return loader.join(ctx, a) })
	}
	for _, p := range posts {
		loader.addPost(p)
	}
	slices.SortStableFunc(loader.steps, func(a, b demoStep) int { return cmp.Compare(b.daysAgo, a.daysAgo) })
	for _, step := range loader.steps {
		d.Clock.offset.Store(-int64(step.daysAgo * float64(store.Day)))
		if err := step.act(ctx); err != nil {
			return fmt.Errorf("load the demo: %w", err)
		}
	}
	d.agents = loader.agents
	return nil
}

func readDemo(files fs.FS, name string, into any) error {
	data, err := fs.ReadFile(files, name)
	if err == nil {
		err = json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return fmt.Errorf("read the demo's %s: %w", name, err)
	}
	return nil
}

type demoLoader struct {
	store   *store.Store
	steps   []demoStep
	callers map[string]store.Caller
	agents  []DevAgent
	today   time.Time
}

func (l *demoLoader) add(daysAgo float64, act func(context.Context) error) {
	l.steps = append(l.steps, demoStep{daysAgo, act})
}

func (l *demoLoader) join(ctx context.Context, a demoAgent) error {
	a.AcceptRules = true
	r, _, err := l.store.Register(ctx, a.Registration, store.Once{})
	if err != nil {
		return fmt.Errorf("register %s: %w", a.Handle, err)
	}
	caller, err := l.store.Authenticate(ctx, r.Key)
	if err != nil {
		return err
	}
	l.callers[a.Handle] = caller
	agent := DevAgent{Handle: a.Handle, APIKey: r.Key}
	if len(a.Offerings) > 0 {
		if _, err := l.store.ReplaceOfferings(ctx, caller, store.Menu{Offerings: a.Offerings}); err != nil {
			return fmt.Errorf("menu of %s: %w", a.Handle, err)
		}
	}
	if len(a.ContactPolicy) > 0 {
		patch := append(append([]byte(`{"contact_policy":`), a.ContactPolicy...), '}')
		if _, err := l.store.UpdateAgent(ctx, caller, func(s *store.Settings) error { return parsePatch(patch, s) }); err != nil {
			return fmt.Errorf("policy of %s: %w", a.Handle, err)
		}
	}
	if a.Verified {
		agent.Level = 1
		if err := l.store.Verify(ctx, a.Handle); err != nil {
			return fmt.Errorf("verify %s: %w", a.Handle, err)
		}
	}
	l.agents = append(l.agents, agent)
	return nil
}

func (l *demoLoader) addPost(p demoPost) {
	var id string
	if p.DeadlineInDays != nil {
		p.Deadline = l.today.UTC().AddDate(0, 0, *p.DeadlineInDays).Format(time.DateOnly)
	}
	l.add(p.PostedDaysAgo, func(ctx context.Context) error {
		doc, _, err := l.store.CreatePost(ctx, l.callers[p.By], p.PostDraft, store.Once{})
		if err != nil {
			return fmt.Errorf("a call of %s: %w", p.By, err)
		}
		id = doc.ID
		return nil
	})
	for _, r := range p.Replies {
		l.add(r.PostedDaysAgo, func(ctx context.Context) error {
			if _, _, err := l.store.CreateReply(ctx, l.callers[r.By], id, store.ReplyDraft{Body: r.Body}, store.Once{}); err != nil {
				return fmt.Errorf("a reply of %s: %w", r.By, err)
			}
			return nil
		})
	}
}

// Agents returns the demo agents in order of joining.
func (d *Dev) Agents() []DevAgent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.agents)
}

// routes mounts what callbook dev adds. It is not part of the API: no key, no
// limits, not in the documents.
func (d *Dev) routes(s *Server, router *httprouter.Router) {
	get := func(path string, h httprouter.Handle) {
		router.GET(path, h)
		router.HEAD(path, h)
	}
	get("/dev/agents", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
		agents := d.Agents()
		if agents == nil {
			agents = []DevAgent{}
		}
		d.reply(w, map[string]any{"agents": agents})
	})
	get("/dev/mail", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
		d.reply(w, map[string]any{"mail": []DevMail{}})
	})
	router.POST("/dev/clock", d.handle(s, d.advance))
	router.POST("/dev/reset", d.handle(s, d.reset))
}

// DevMail is a mail that the site would have sent.
type DevMail struct {
	To      string     `json:"to"`
	Subject string     `json:"subject"`
	Text    string     `json:"text"`
	Code    *string    `json:"code"`
	Link    *string    `json:"link"`
	At      store.Time `json:"at"`
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
			s.writeError(w, r, refuse(codeBodyTooLarge, ""))
			return
		}
		result, err := act(r.Context(), s, body)
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		d.reply(w, result)
	}
}

// maxAdvance bounds how far the clock moves in all, so that times stay in the
// years that answers can write.
const maxAdvance = 100 * 365 * store.Day

func (d *Dev) advance(ctx context.Context, s *Server, body []byte) (any, error) {
	d.gate.Lock()
	defer d.gate.Unlock()
	var in struct {
		Advance string `json:"advance"`
	}
	err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true))
	step, parseErr := time.ParseDuration(in.Advance)
	total := time.Duration(d.Clock.offset.Load()) + step
	if err != nil || parseErr != nil || step < 0 || step > maxAdvance || total > maxAdvance {
		return nil, &store.Error{Code: store.CodeValidationFailed, Faults: []store.Fault{
			{Field: "advance", Code: store.FaultBadFormat, Topic: "duration"},
		}}
	}
	d.Clock.offset.Add(int64(step))
	if err := s.store.RunDue(ctx); err != nil {
		return nil, err
	}
	return map[string]any{"now": store.Time(s.store.Now().UnixMilli())}, nil
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
	if in.Demo {
		if err := d.Load(ctx, s.store); err != nil {
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
		if !localHost(r.Host) || origin != "" && !localOrigin(origin) {
			s.writeError(w, r, refuse(store.CodeForbidden, "dev"))
			return
		}
		if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/dev/") {
			d.gate.RLock()
			defer d.gate.RUnlock()
		}
		next.ServeHTTP(w, r)
	})
}

func localOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && localHost(u.Host)
}

func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
