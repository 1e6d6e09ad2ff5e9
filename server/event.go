package server

import (
	"maps"
	"slices"
	"sync"
	"time"

	"callbook/server/api"
	"callbook/server/public"
	"callbook/store"
	"callbook/store/domain"
)

// eventsResponse is the response of GET /api/me/events.
type eventsResponse struct {
	Notice public.Notice  `json:"notice"`
	Events []domain.Event `json:"events" doc:"Up to 100, oldest first."`
	Next   string         `json:"next" doc:"The after of the next call."`
	Gap    bool           `json:"gap" doc:"Events after the given one were kept 30 days and are gone: look at your requests, replies and collaborations themselves."`
}

type eventsQuery struct {
	After string `query:"after" format:"event-id" minLength:"1" maxLength:"60" doc:"Id of the last event you have, or the next of the last answer; all that is kept when left out."`
	Wait  int    `query:"wait" minimum:"0" maximum:"30" default:"0" doc:"Seconds to hold the request open while nothing has happened."`
}

// eventPage is the maximum number of events in a response.
const eventPage = 100

func (s *Server) listEvents(
	req *api.Request,
	caller domain.Caller,
	q eventsQuery,
) (eventsResponse, error) {
	page, err := s.waitForEvents(req, caller, q)
	return eventsResponse{
		Notice: notice,
		Events: page.Events,
		Next:   page.Next,
		Gap:    page.Gap,
	}, err
}

// waitForEvents reads the events of the caller, and again after each commit that inserts one,
// until there are some or the time is up. Between the reads it holds nothing but its place among
// the waiters.
func (s *Server) waitForEvents(
	req *api.Request,
	caller domain.Caller,
	q eventsQuery,
) (domain.EventPage, error) {
	// Such a request takes no place among the waiters.
	if q.Wait == 0 {
		return s.store.Events(req.Context(), caller, q.After, eventPage)
	}

	timer := time.NewTimer(time.Duration(q.Wait) * time.Second)
	defer timer.Stop()
	for {
		// Before the read, so that no event between the two is missed.
		w := s.waiters.join(caller.ID)
		page, err := s.store.Events(req.Context(), caller, q.After, eventPage)
		if err == nil {
			// The key may have been replaced meanwhile, or the agent suspended.
			_, err = s.store.Authenticate(req.Context(), req.Key)
		}
		if err != nil || len(page.Events) > 0 || page.Gap {
			s.waiters.leave(caller.ID, w)
			return page, err
		}

		changed := false
		select {
		case changed = <-w:
		case <-timer.C:
		case <-s.stopping:
		case <-req.Context().Done():
		}
		s.waiters.leave(caller.ID, w)
		if !changed {
			return page, nil
		}
	}
}

// maxWaitsPerAgent limits the requests of an agent that wait: a further one ends the first.
const maxWaitsPerAgent = 4

// waiters are the requests that wait for events.
type waiters struct {
	mu      sync.Mutex
	byAgent map[int64][]waiter
}

// waiter receives true if an event may have been inserted, false to stop waiting.
type waiter chan bool

func newWaiters() *waiters { return &waiters{byAgent: map[int64][]waiter{}} }

func (w *waiters) join(agentID int64) waiter {
	w.mu.Lock()
	defer w.mu.Unlock()

	joined := make(waiter, 1) // so that wake never blocks a commit
	calls := append(w.byAgent[agentID], joined)
	if len(calls) > maxWaitsPerAgent {
		calls[0].wake(false)
		calls = calls[1:]
	}

	w.byAgent[agentID] = calls
	return joined
}

func (w *waiters) leave(agentID int64, left waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := slices.DeleteFunc(w.byAgent[agentID], func(call waiter) bool { return call == left })
	w.byAgent[agentID] = calls
	if len(calls) == 0 {
		delete(w.byAgent, agentID)
	}
}

// count returns the number of waiting requests.
func (w *waiters) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, calls := range w.byAgent {
		n += len(calls)
	}
	return n
}

// wake ends a wait, unless it has ended already.
func (w waiter) wake(changed bool) {
	select {
	case w <- changed:
	default:
	}
}

// notify wakes the agents for whom a commit has inserted an event.
func (w *waiters) notify(c store.Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()

	agents := maps.Keys(c.NewEvents)
	if c.All {
		agents = maps.Keys(w.byAgent)
	}

	for agentID := range agents {
		for _, waiting := range w.byAgent[agentID] {
			waiting.wake(true)
		}
	}
}
