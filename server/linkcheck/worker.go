package linkcheck

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"callbook/server/ratelimit"
	"callbook/store"
	"callbook/store/domain"
)

// maxConcurrent limits the checks that run at once, which anyone can cause.
const maxConcurrent = 8

// BatchSize is how many due links CheckDue reads at a time.
const BatchSize = 20

// addressClass is the class of AddressLimit.
const addressClass ratelimit.Class = "looks"

// AddressLimit limits the requests to one address, over all agents.
var AddressLimit = ratelimit.Limit{Requests: 60, Period: time.Hour}

// Worker checks profile links within limits, and stores the results.
type Worker struct {
	store   *store.Store
	checker *Checker
	base    string
	slots   chan struct{}
	busy    sync.Map           // ids of agents of which a link is being checked
	limiter *ratelimit.Limiter // by the address of the page; unlimited where links may lead to this machine
}

// NewWorker returns a worker for a site at the address base.
func NewWorker(st *store.Store, base string, o Options) *Worker {
	limits := ratelimit.Limits{}
	if !o.Loopback {
		limits[addressClass] = AddressLimit
	}
	w := &Worker{store: st, base: base, slots: make(chan struct{}, maxConcurrent), limiter: ratelimit.New(limits)}
	o.Allow = func(addr netip.Addr) bool {
		return w.limiter.Allow(http.Header{}, addressClass, ratelimit.Client{Network: domain.SmallestNetwork(addr)}, st.Now()) == nil
	}
	w.checker = New(o)
	return w
}

// slotTimeout limits how long a request waits for a slot. Pages may be slow, and a request must
// end; the job checks a link that got no slot.
const slotTimeout = 2 * time.Second

// acquire waits for a slot. It returns false if a link of the same agent is being checked, or no
// slot is free in time.
func (w *Worker) acquire(ctx context.Context, agentID int64) bool {
	if _, busy := w.busy.LoadOrStore(agentID, true); busy {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		w.busy.Delete(agentID)
		return false
	}
}

func (w *Worker) release(agentID int64) {
	<-w.slots
	w.busy.Delete(agentID)
}

// CheckLink fetches the page of a link and stores the result. It returns the links of the agent,
// unchanged if it got no slot: the job then checks this one later.
func (w *Worker) CheckLink(ctx context.Context, link store.DueLink, byService bool) ([]domain.Link, error) {
	if !w.acquire(ctx, link.AgentID) {
		return w.store.Links(ctx, link.AgentID)
	}
	defer w.release(link.AgentID)
	result, err := w.checker.Check(ctx, link.URL, w.base+"/agents/"+link.Handle)
	switch {
	case errors.Is(err, ErrBusy):
		return w.store.Links(ctx, link.AgentID)
	case err != nil:
		return nil, &domain.Error{Code: domain.CodeUnavailable}
	}
	return w.store.StoreLinkCheck(ctx, link.AgentID, link.URL, result, byService)
}

// CheckDue checks every link that is due, one after the other.
func (w *Worker) CheckDue(ctx context.Context) error {
	for {
		due, err := w.store.StartLinkChecks(ctx, BatchSize)
		for _, link := range due {
			var rejected *domain.Error
			if _, checkErr := w.CheckLink(ctx, link, true); !errors.As(checkErr, &rejected) {
				err = errors.Join(err, checkErr)
			}
		}
		if err != nil || len(due) < BatchSize {
			return err
		}
	}
}
