// Package wake sends the requests that wake agents: a POST to the URL of an agent that has new events.
//
// Nothing but the URL is chosen by the agent, and the URL is untrusted like that of a profile link; package linkcheck says
// which addresses may be reached. Redirects are not followed, and the body of a response is not read.
//
// An agent may name a host that does not respond, and there may be many such agents. Each request takes a slot for
// up to domain.WakeTimeout. The slots are shared: URLs whose last request did not succeed leave some of them to
// the others, and so does each registered domain and each network that a host resolves to. A request that finds no slot of its
// share is tried later, so that it does not delay those behind it.
package wake

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/net/publicsuffix"

	"callbook/server/linkcheck"
	"callbook/server/ratelimit"
	"callbook/server/webhook"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/text"
	"callbook/store/txn"
)

// Slots of concurrent requests: in all, of URLs whose last request did not succeed, of a registered domain, and of the
// networks of an address.
const (
	maxRequests  = 64
	maxUnproven  = 48
	maxPerDomain = 8
)

var networkShare = domain.Share{8, 12, 16}

// Worker sends the requests that are due.
type Worker struct {
	store    *store.Store
	client   *http.Client
	agent    string // user agent
	log      zerolog.Logger
	outcome  zerolog.Level // at which requests are logged
	loopback bool
	counts   [3]*metrics.Counter // by outcome
	networks *ratelimit.Pool

	mu       sync.Mutex
	running  int
	unproven int // of those running
	domains  map[string]int
	changed  chan struct{} // something may be due, or a slot is free
}

// New returns a worker. Its requests reach the addresses that checks with the options may reach.
func New(st *store.Store, o linkcheck.Options, log zerolog.Logger, set *metrics.Set) *Worker {
	w := &Worker{
		store: st, agent: o.UserAgent, log: log, outcome: zerolog.DebugLevel, loopback: o.Loopback, domains: map[string]int{}, changed: make(chan struct{}, 1),
		networks: ratelimit.NewPool(maxRequests, networkShare, 1),
	}
	for outcome, name := range outcomes {
		w.counts[outcome] = set.NewCounter(`callbook_wakes_total{outcome="` + name + `"}`)
	}
	if o.Loopback { // a developer wants to see them
		w.outcome = zerolog.InfoLevel
	}
	o.Timeout, o.Allow = domain.WakeTimeout, w.allow
	w.client = &http.Client{
		Timeout: domain.WakeTimeout, Transport: linkcheck.NewTransport(o),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// Notify is called after each commit.
func (w *Worker) Notify(c txn.Changes) {
	if c.Wake {
		w.wake()
	}
}

func (w *Worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // it is awake already
	}
}

// maxSleep limits how long the worker sleeps: the clock of the directory may differ from that of the machine.
const maxSleep = time.Minute

// Run sends requests when they are due, until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	for ctx.Err() == nil {
		nap := maxSleep
		if _, err := w.start(ctx, &sending); err != nil && ctx.Err() == nil {
			w.log.Error().Err(err).Msg("cannot read or write which agents to wake")
		} else if next, err := w.store.NextWakeAt(ctx); err == nil && next != 0 {
			nap = min(max(next.Time().Sub(w.store.Now()), time.Second), maxSleep)
		}
		select {
		case <-w.changed:
		case <-time.After(nap):
		case <-ctx.Done():
		}
	}
	return nil
}

// Deliver sends every request that is due, and waits for the results.
func (w *Worker) Deliver(ctx context.Context) error {
	for ctx.Err() == nil {
		var sending sync.WaitGroup
		n, err := w.start(ctx, &sending)
		sending.Wait()
		if err != nil || n == 0 {
			return err
		}
	}
	return ctx.Err()
}

// start starts the requests that are due and find a slot, and returns how many were due.
func (w *Worker) start(ctx context.Context, sending *sync.WaitGroup) (n int, err error) {
	for {
		limit, provenOnly := w.free()
		if limit <= 0 {
			return n, nil // a slot that becomes free wakes the worker
		}
		due, err := w.store.StartWakes(ctx, limit, provenOnly)
		if err != nil || len(due) == 0 {
			return n, err
		}
		n += len(due)
		for _, d := range due {
			slot, found := w.acquire(d)
			sending.Go(func() { w.send(ctx, d, slot, found) })
		}
	}
}

// free returns for how many requests there are slots; if provenOnly, for those whose last request succeeded.
func (w *Worker) free() (n int, provenOnly bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = min(maxRequests-w.running, maxUnproven-w.unproven); n > 0 {
		return n, false
	}
	return maxRequests - w.running, true
}

// slot is the part of the shares that a request has.
type slot struct {
	domain   string
	unproven int
	limit    int // of the domain

	mu       sync.Mutex
	networks []netip.Prefix // that the worker's pool counts
	ended    bool
}

// acquire takes a slot for a request. It reports false if those of its domain are in use.
func (w *Worker) acquire(due domain.DueWake) (*slot, bool) {
	s := &slot{domain: domainOf(due.URL), limit: maxPerDomain}
	if !due.Proven {
		s.unproven, s.limit = 1, maxPerDomain/2
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
	w.unproven += s.unproven
	w.domains[s.domain]++
	return s, w.domains[s.domain] <= s.limit
}

// release returns a slot.
func (w *Worker) release(s *slot) {
	s.mu.Lock()
	if s.networks != nil {
		w.networks.Release(s.networks, 1)
	}
	s.ended = true
	s.mu.Unlock()
	w.mu.Lock()
	w.running--
	w.unproven -= s.unproven
	if w.domains[s.domain]--; w.domains[s.domain] == 0 {
		delete(w.domains, s.domain)
	}
	w.mu.Unlock()
	w.wake()
}

// domainOf returns the domain that the owner of a URL has registered, which may have any number of names.
func domainOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u.Hostname()
	}
	registered, err := publicsuffix.EffectiveTLDPlusOne(u.Hostname())
	if err != nil {
		return u.Hostname()
	}
	return registered
}

// slotKey is the key of the context value that has the slot of a request.
type slotKey struct{}

// allow counts a connection in the networks of its address. It implements linkcheck.Options.Allow.
func (w *Worker) allow(ctx context.Context, addr netip.Addr) bool {
	s := ctx.Value(slotKey{}).(*slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	networks := domain.Networks(addr)
	if s.ended || !w.networks.Acquire(networks, 1) {
		return false
	}
	s.networks = networks
	return true
}

// outcomes are the names of outcomes in metrics and the log.
var outcomes = [...]string{domain.WakeDelivered: "delivered", domain.WakeFailed: "failed", domain.WakeDelayed: "delayed"}

// send sends a request and stores its outcome, also during a shutdown.
func (w *Worker) send(ctx context.Context, due domain.DueWake, s *slot, found bool) {
	outcome, reason := domain.WakeDelayed, "busy"
	if found {
		outcome, reason = w.post(context.WithValue(ctx, slotKey{}, s), due)
	}
	w.release(s)
	if ctx.Err() != nil && outcome == domain.WakeDelayed { // it may have been sent: it is repeated when the lease has ended
		return
	}
	w.counts[outcome].Inc()
	w.log.WithLevel(w.outcome).Str("handle", due.Handle).Str("wake", due.MessageID).Int("try", due.Tries+1).Str("result", reason).Msg("a wake-up was " + outcomes[outcome])
	if err := w.store.FinishWake(context.WithoutCancel(ctx), due, outcome); err != nil {
		w.log.Error().Err(err).Msg("cannot store the result of a wake-up")
	}
}

// message is the body of a request.
type message struct {
	Type    string `json:"type"`
	Handle  string `json:"handle"`
	Pending int    `json:"pending"`
}

// post makes a request. It returns its outcome, and a word about it that contains nothing of the URL.
func (w *Worker) post(ctx context.Context, due domain.DueWake) (outcome domain.WakeOutcome, reason string) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error().Interface("panic", v).Bytes("stack", debug.Stack()).Msg("cannot wake an agent")
			outcome, reason = domain.WakeFailed, "panic"
		}
	}()
	body, _ := json.Marshal(message{"wake", due.Handle, due.Pending}) // has no value that can fail
	address, ok := text.ParseWebhookURL(due.URL, w.loopback)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if !ok || err != nil { // it was stored by callbook dev
		return domain.WakeFailed, "blocked"
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", w.agent)
	webhook.Key(due.Secret).Sign(r.Header, due.MessageID, time.Now(), body) //clock: of the receiver
	response, err := w.client.Do(r)
	if err == nil {
		_ = response.Body.Close() // unread
		if response.StatusCode/100 == 2 {
			return domain.WakeDelivered, strconv.Itoa(response.StatusCode)
		}
		return domain.WakeFailed, strconv.Itoa(response.StatusCode)
	}
	switch timeout, _ := errors.AsType[net.Error](err); {
	case errors.Is(err, linkcheck.ErrBusy) || ctx.Err() != nil:
		return domain.WakeDelayed, "busy"
	case timeout != nil && timeout.Timeout():
		return domain.WakeFailed, "timeout"
	}
	return domain.WakeFailed, "unreachable"
}
