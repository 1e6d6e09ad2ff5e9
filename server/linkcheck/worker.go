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

// The classes of AddressLimit and AddressShare; of the latter, with the network after a colon, or byItself.
const (
	addressClass ratelimit.Class = "looks"
	shareClass   ratelimit.Class = "share"
	byItself     ratelimit.Class = "service"
)

// AddressLimit limits the requests to one address that clients cause, over all agents.
var AddressLimit = ratelimit.Limit{Requests: 40, Period: time.Hour}

// AddressShare limits those of them that one network causes, so that others get theirs, and the further ones that the service
// sends by itself.
var AddressShare = ratelimit.Limit{Requests: 20, Period: time.Hour}

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
		limits[addressClass], limits[shareClass] = AddressLimit, AddressShare
	}
	w := &Worker{store: st, base: base, slots: make(chan struct{}, maxConcurrent), limiter: ratelimit.New(limits)}
	o.Allow = func(ctx context.Context, addr netip.Addr) bool {
		by := ctx.Value(cause{}).(ratelimit.Class)
		allow := func(class ratelimit.Class) bool {
			return w.limiter.Allow(http.Header{}, class, ratelimit.Client{Network: domain.SmallestNetwork(addr)}, st.Now()) == nil
		}
		return allow(shareClass+":"+by) && (by == byItself || allow(addressClass))
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

// cause is the key of the context value that names the network that causes a check, or byItself.
type cause struct{}

// CheckLink fetches the page of a link and stores the result. It returns the links of the agent,
// unchanged if it got no slot: the job then checks this one later. by is the client that causes the check,
// unless the service does.
func (w *Worker) CheckLink(ctx context.Context, link store.DueLink, by netip.Addr, byService bool) ([]domain.Link, error) {
	if !w.acquire(ctx, link.AgentID) {
		return w.store.Links(ctx, link.AgentID)
	}
	defer w.release(link.AgentID)
	var network ratelimit.Class
	if networks := domain.Networks(by); byService {
		network = byItself
	} else if len(networks) > 0 {
		network = ratelimit.Class(networks[len(networks)-1].String())
	}
	result, err := w.checker.Check(context.WithValue(ctx, cause{}, network), link.URL, w.base+"/agents/"+link.Handle)
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
			if _, checkErr := w.CheckLink(ctx, link, netip.Addr{}, true); !errors.As(checkErr, &rejected) {
				err = errors.Join(err, checkErr)
			}
		}
		if err != nil || len(due) < BatchSize {
			return err
		}
	}
}
