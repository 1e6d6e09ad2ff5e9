package outbound

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"callbook/store"
	"callbook/store/domain"
)

const (
	// maxConcurrent limits the checks that run at once, which anyone can cause.
	maxConcurrent = 8
	// slotTimeout limits how long a request waits for its turn. Pages may be slow, and a request
	// must end; the job checks the link later.
	slotTimeout = 2 * time.Second
	// LinkBatch is how many due links CheckDue reads at a time.
	LinkBatch = 20
)

// LinkWorker checks profile links, and stores the results.
type LinkWorker struct {
	store   *store.Store
	checker *LinkChecker
	base    string
	slots   *semaphore.Weighted
}

// NewLinkWorker returns a worker for a site at the address base.
func NewLinkWorker(st *store.Store, base string, o Options) *LinkWorker {
	return &LinkWorker{
		store:   st,
		checker: NewLinkChecker(o),
		base:    base,
		slots:   semaphore.NewWeighted(maxConcurrent),
	}
}

// CheckLink fetches the page of a link and stores the result. It returns the links of the agent,
// unchanged if too many checks run: the job then checks this one later. byService reports whether the
// service checks the link by itself, without a request of the agent.
func (w *LinkWorker) CheckLink(
	ctx context.Context,
	link store.DueLink,
	byService bool,
) ([]domain.Link, error) {
	waiting, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()

	if w.slots.Acquire(waiting, 1) != nil {
		return w.store.Links(ctx, link.AgentID)
	}
	defer w.slots.Release(1)

	result, err := w.checker.Check(ctx, link.URL, w.base+"/agents/"+link.Handle)
	if err != nil {
		// Only the end of ctx: a page that fails is a result.
		return nil, &domain.Error{Code: domain.CodeUnavailable}
	}

	return w.store.StoreLinkCheck(ctx, link.AgentID, link.URL, result, byService)
}

// CheckDue checks every link that is due, one after the other.
func (w *LinkWorker) CheckDue(ctx context.Context) error {
	for {
		due, err := w.store.StartLinkChecks(ctx, LinkBatch)
		for _, link := range due {
			// A rejection means that the agent has changed or removed the link meanwhile.
			var rejected *domain.Error
			if _, checkErr := w.CheckLink(ctx, link, true); !errors.As(checkErr, &rejected) {
				err = errors.Join(err, checkErr)
			}
		}

		if err != nil || len(due) < LinkBatch {
			return err
		}
	}
}
