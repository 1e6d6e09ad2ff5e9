package store

import (
	"slices"

	"callbook/store/domain"
)

// doInbox reads the inbox of an agent and marks it as seen, or only up to some event.
func doInbox(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	who := on.who
	if who.deleted {
		_, err := r.s.Inbox(background, who.Caller)
		return verdict{code: domain.CodeUnauthorized}, err
	}
	r.newEvents(who)
	box, err := r.s.Inbox(background, who.Caller)
	if err != nil {
		return granted, err
	}
	r.equal("the inbox of "+who.Handle, box, r.inbox(who, box.Next))
	next, seen := box.Next, len(who.events)
	if 0 <= a.n && a.n < len(who.events) {
		next, seen = who.events[a.n].id, a.n+1
	}
	err = r.s.MarkSeen(background, who.Caller, next)
	want := r.m.mayOwn(who)
	if !want.refused() {
		who.seen = max(who.seen, seen)
	}
	return want, err
}

// inbox is what must be in the inbox of an agent; in the model nobody replies.
func (r *modelRun) inbox(a *modelAgent, next string) domain.Inbox {
	want := domain.Inbox{
		Requests: []domain.ContactRequest{}, Replies: []domain.Reply{}, Next: next, Unseen: len(a.events) - max(a.seen, a.dropped),
		Missed: a.dropped > a.seen, Unverified: a.verified == nil, Leaving: a.deletion != 0,
	}
	for _, e := range a.events[max(a.seen, a.dropped):] {
		if !slices.Contains([]string{"request.received", "reply.received", "collab.received"}, e.kind) {
			want.Others++
		}
	}
	if a.seen > 0 {
		want.Seen = a.events[a.seen-1].id
	}
	if _, seq, _ := domain.ParseEventID(want.Seen); 0 < a.seen && a.seen <= a.dropped { // its time is stored no more
		want.Seen = domain.EventID(0, seq)
	}
	if want.Unseen > 0 {
		want.Next = a.events[len(a.events)-1].id
	}
	for _, q := range r.m.requests {
		switch v := r.view(q); {
		case q.to == a && v.Status == domain.RequestPending && len(want.Requests) < domain.InboxRecords:
			want.Requests = append(want.Requests, v)
		case q.to == a && v.Status == domain.RequestAwaiting:
			want.Awaiting = append(want.Awaiting, q.id)
		}
	}
	waiting := r.collabs(func(c *modelCollab) bool { return c.partner == a && c.status == domain.CollabPending })
	slices.Reverse(waiting)
	want.Collabs = waiting[:min(len(waiting), domain.InboxRecords)]
	return want
}
