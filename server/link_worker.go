package server

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"callbook/server/linkcheck"
	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store"
)

// Limits of outgoing requests, which anyone can cause: the checks that run at once, the requests
// to one address in an hour over all agents, and the links that a job checks in one run.
const (
	maxConcurrentChecks = 8
	checksPerRun        = 20
)

// limitLooks is the class of addressLimit.
const limitLooks ratelimit.Class = "looks"

var addressLimit = ratelimit.Limit{Requests: 60, Period: time.Hour}

// linkChecks checks the pages of profile links.
type linkChecks struct {
	store   *store.Store
	checker *linkcheck.Checker
	base    string
	slots   chan struct{}
	busy    sync.Map           // agents of which a link is looked at
	limiter *ratelimit.Limiter // by the address that is called; unlimited where links may lead to this machine
}

// newLinkChecks returns the checks of the links of a site, which starts with base.
func newLinkChecks(st *store.Store, base string, o linkcheck.Options) *linkChecks {
	limits := ratelimit.Limits{}
	if !o.Loopback {
		limits[limitLooks] = addressLimit
	}
	l := &linkChecks{store: st, base: base, slots: make(chan struct{}, maxConcurrentChecks), limiter: ratelimit.New(limits)}
	o.Allow = func(addr netip.Addr) bool {
		return l.limiter.Allow(http.Header{}, limitLooks, ratelimit.Client{Network: middleware.Network(addr)}, st.Now()) == nil
	}
	l.checker = linkcheck.New(o)
	return l
}

// slotTimeout limits how long a request waits for a slot. Pages may be slow, and a request must
// end; the job checks a link that got no slot.
const slotTimeout = 2 * time.Second

// acquire waits for a slot: a number of links are checked at once, one of each agent.
func (l *linkChecks) acquire(ctx context.Context, agentID int64) bool {
	if _, looking := l.busy.LoadOrStore(agentID, true); looking {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		l.busy.Delete(agentID)
		return false
	}
}

func (l *linkChecks) release(agentID int64) {
	<-l.slots
	l.busy.Delete(agentID)
}

// check fetches the page of a link and stores the result. It returns the links of the agent,
// unchanged if it got no slot: the job then checks this one later.
func (l *linkChecks) check(ctx context.Context, link store.DueLink, byService bool) ([]store.Link, error) {
	if !l.acquire(ctx, link.AgentID) {
		return l.store.Links(ctx, link.AgentID)
	}
	defer l.release(link.AgentID)
	result, err := l.checker.Check(ctx, link.URL, l.base+"/agents/"+link.Handle)
	switch {
	case errors.Is(err, linkcheck.ErrBusy):
		return l.store.Links(ctx, link.AgentID)
	case err != nil:
		return nil, &store.Error{Code: store.CodeUnavailable}
	}
	return l.store.KeepFinding(ctx, link.AgentID, link.URL, store.LinkFinding{
		Kind: result.Kind, Verified: result.Status == "verified", Proof: result.Proof, Failure: result.Failure,
	}, byService)
}

// recheckSome checks links that are due, one after the other, up to checksPerRun.
func (l *linkChecks) recheckSome(ctx context.Context) error {
	_, err := l.recheck(ctx)
	return err
}

// recheckAll checks every link that is due.
func (l *linkChecks) recheckAll(ctx context.Context) error {
	for {
		if n, err := l.recheck(ctx); err != nil || n < checksPerRun {
			return err
		}
	}
}

func (l *linkChecks) recheck(ctx context.Context) (taken int, err error) {
	due, err := l.store.TakeDueLinks(ctx, checksPerRun)
	for _, link := range due {
		var refused *store.Error
		if _, checkErr := l.check(ctx, link, true); !errors.As(checkErr, &refused) {
			err = errors.Join(err, checkErr)
		}
	}
	return len(due), err
}
