package store

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
)

// The comparison of the store with the model.

func (r *modelRun) outcome(what string, want verdict, err error) {
	got, retry := outcome(err), errorOf(err).RetryAt
	if got != string(want.code) {
		r.differ("%s: %q, want %q", what, got, want.code)
	} else if want.retry != 0 && !retry.Equal(want.retry.Time()) {
		r.differ("%s: %s, to be tried again at %s, want %s", what, got, domain.TimeOf(retry), want.retry)
	}
}

func (r *modelRun) equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		r.differ("%s (-got +want):\n%s", what, cmp.Diff(got, want))
	}
}

// checkTouched compares what the last act had to do with.
func (r *modelRun) checkTouched() {
	for _, a := range r.m.agents {
		if r.m.touched[a] {
			r.checkAgent(a, false)
		}
	}
	// Who acted has seen the record already, as the answer.
	for _, q := range r.m.moved {
		if q.from.Handle != r.acts[len(r.acts)-1].who {
			r.readRequest(q.from, q)
		}
		if q.to.Handle != r.acts[len(r.acts)-1].who {
			r.readRequest(q.to, q)
		}
	}
	for _, c := range r.m.decided {
		if r.number%2 == 0 {
			r.sameOwnCollabs(c.initiator, "")
		} else {
			r.sameOwnCollabs(c.partner, "")
		}
	}
}

// checkAll compares everything that anyone can see.
func (r *modelRun) checkAll() {
	for _, a := range r.m.agents {
		r.checkAgent(a, true)
		if a.deleted {
			continue
		}
		// Each request stands in two boxes, of which one will do.
		r.sameRequests(a, RequestFilter{Sent: len(r.acts)/fullCheckEvery%2 == 0})
		r.sameOwnCollabs(a, "")
		r.allEvents(a)
	}
	r.samePublicCollabs(nil)
	r.checkNextWake()
	for _, q := range r.m.requests {
		if q.id != "" && q.made%10 == len(r.acts)/fullCheckEvery%10 {
			for _, a := range r.m.agents {
				r.readRequest(a, q)
			}
		}
	}
}

// Agents.

// checkAgent compares an agent as the public and it itself see it, and what it
// was told since the last look. After each act only some look at all of it.
func (r *modelRun) checkAgent(a *modelAgent, whole bool) {
	turn := (int(a.ID) + r.number) % 8
	if whole || turn%4 == 0 {
		r.checkCard(a)
	}
	if whole || turn == 1 {
		r.checkOwn(a)
	}
	if whole || turn == 5 {
		r.checkWake(a)
	}
	if !a.deleted && (whole || turn == 3 || a.delivered < len(a.events)) {
		r.newEvents(a)
	}
}

func (r *modelRun) checkCard(a *modelAgent) {
	card, err := r.s.Card(background, a.Handle)
	switch {
	case a.deleted, r.m.isHidden(a):
		r.outcome("the card of "+a.Handle, verdict{code: domain.CodeNotFound}, err)
	case a.unswept && err != nil: // not yet shown again
	case err != nil:
		r.differ("the card of %s: %v", a.Handle, err)
	default:
		r.equal("the card of "+a.Handle, card, r.card(a, card))
	}
}

// card is got with everything in it as it must be that follows from the rules.
func (r *modelRun) card(a *modelAgent, got domain.Card) domain.Card {
	want := got
	want.Agent = domain.Agent{
		Handle: a.Handle, Name: a.name, Owner: a.owner, DescriptionEN: "Does things.",
		Capabilities: domain.Texts{}, Languages: domain.Texts{},
		VerifiedAt: a.verified, ClaimedAt: a.claimed, Trust: domain.Trust{Links: domain.List[domain.Link]{}},
		Offerings: append(domain.List[domain.Offering]{}, a.menu...), ContactPolicy: a.policy, CreatedAt: a.created, UpdatedAt: a.updated,
	}
	want.SetTrust()
	want.ID = a.ID
	want.Confirmed, want.Partners = r.m.evidence(a)
	want.Requests = r.m.facts(a)
	want.Email = nil
	if a.public && a.verified != nil {
		want.Email = &a.mailbox
	}
	return want
}

func (r *modelRun) checkOwn(a *modelAgent) {
	own, err := r.s.Me(background, a.Caller)
	if err != nil && (a.deleted || a.unswept || r.m.isSuspended(a)) {
		return // its key is refused, or its card is not yet shown again
	}
	if err != nil {
		r.differ("what %s sees of itself: %v", a.Handle, err)
		return
	}
	want := domain.OwnAgent{Card: own.Card, Mailbox: a.mailbox, Claim: r.m.ownerClaim(a), Limits: r.allowances(a)}
	if a.deletion != 0 {
		want.DeletionAt, want.Card = &a.deletion, r.card(a, own.Card)
	}
	if a.awaiting {
		want.AwaitingApproval, want.Card = true, r.card(a, own.Card)
	}
	for _, q := range r.m.requests {
		if q.to != a || q.expires <= r.m.now {
			continue
		}
		switch q.status {
		case domain.RequestPending:
			want.PendingRequests++
		case domain.RequestAwaiting:
			want.AwaitingReceipts++
		}
	}
	r.equal("what "+a.Handle+" sees of itself", own, want)
}

func (r *modelRun) allowances(a *modelAgent) domain.Allowances {
	isToday := func(at domain.Time) bool { return at.Add(24*time.Hour) > r.m.now }
	var sent, collabs, mails, posts int
	for _, at := range a.posted {
		if isToday(at) {
			posts++
		}
	}
	for _, at := range a.sent {
		if isToday(at) {
			sent++
		}
	}
	for _, c := range r.m.collabs {
		if c.initiator == a && isToday(c.created) {
			collabs++
		}
	}
	for _, l := range r.m.mails {
		if l.agent == a && isToday(l.at) {
			mails++
		}
	}
	left := func(limit, used int) domain.Allowance {
		if limit == 0 {
			return domain.Allowance{}
		}
		return domain.Allowance{Limit: &limit, Left: new(max(0, limit-used))}
	}
	return domain.Allowances{
		Posts: left(r.m.limits.requests.PostsAt(a.level()), posts), Replies: left(r.m.limits.requests.RepliesAt(a.level()), 0),
		RequestsSent:     left(r.m.daily(a), sent),
		RequestsReceived: left(a.policy.WeeklyCap, len(r.m.received(a))),
		Collabs:          left(r.m.limits.requests[domain.LimitCollabs], collabs),
		Mails:            left(r.m.limits.mails.Agent, mails),
	}
}

func (r *modelRun) samePage(got domain.OwnerPage, a *modelAgent) {
	want := domain.OwnerPage{
		Handle: a.Handle, Name: a.name, Owner: a.owner, Claim: a.claim.status, Claimed: a.claimed != nil,
		MailboxVerified: a.verified != nil, MailboxChanged: a.mailbox != a.claim.mailbox, ReceiptRequired: a.policy.RequireOwnerReceipt,
		ExpiresAt: a.claim.expires, Form: got.Form, Receipts: []domain.ContactRequest{},
	}
	if a.deletion != 0 {
		want.DeletionAt = &a.deletion
	}
	for _, q := range slices.Backward(r.m.requests) {
		if q.to == a && q.status == domain.RequestAwaiting && q.expires > r.m.now {
			want.Receipts = append(want.Receipts, r.view(q))
		}
	}
	r.equal("the owner's page", got, want)
}

// Records.

func (a *modelAgent) party() domain.Party {
	if a.deleted {
		return domain.Party{Handle: a.Handle}
	}
	return domain.Party{Handle: a.Handle, Name: &a.name, Level: new(a.level())}
}

// view is a request as its parties see it now.
func (r *modelRun) view(q *modelRequest) domain.ContactRequest {
	v := domain.ContactRequest{
		ID: q.id, Status: q.status, From: q.from.party(), To: q.to.party(),
		Purpose: q.draft.Purpose, Deliverable: q.draft.Deliverable, Compensation: q.draft.Compensation,
		Deadline: domain.Optional(q.draft.Deadline), Context: domain.Optional(q.draft.Context),
		Offering: q.offering, DeclineReason: domain.Optional(q.reason),
		CreatedAt: q.created, UpdatedAt: q.updated, ExpiresAt: q.expires, DecidedAt: q.decided, Mailboxes: q.boxes,
	}
	if q.isOpen() && q.expires <= r.m.now {
		v.Status, v.UpdatedAt, v.DecidedAt = domain.RequestExpired, q.expires, &q.expires
	}
	return v
}

func (r *modelRun) readRequest(a *modelAgent, q *modelRequest) {
	if a.deleted {
		return
	}
	got, err := r.s.Request(background, a.Caller, q.id)
	if a != q.from && a != q.to {
		r.outcome("a stranger's look at a request", verdict{code: domain.CodeNotFound}, err)
		return
	}
	if r.outcome("a party's look at a request", granted, err); err == nil {
		r.equal("a request as "+a.Handle+" sees it", got, r.view(q))
	}
}

func (r *modelRun) sameRequests(a *modelAgent, f RequestFilter) {
	want := []domain.ContactRequest{}
	for _, q := range slices.Backward(r.m.requests) {
		v := r.view(q)
		if (f.Sent && q.from == a || !f.Sent && q.to == a) && (f.Status == "" || f.Status == v.Status) {
			want = append(want, v)
		}
	}
	sameList(r, "the requests of "+a.Handle, want, func(p listing.Page) (listing.List[domain.ContactRequest], error) {
		return r.s.Requests(background, a.Caller, f, p)
	})
}

// sameList walks a list from page to page.
func sameList[T any](r *modelRun, what string, want []T, list func(listing.Page) (listing.List[T], error)) {
	got := []T{}
	for page := (listing.Page{Limit: []int{100, 7}[r.number%2]}); ; {
		found, err := list(page)
		if err != nil || found.Total != len(want) || !found.TotalIsExact {
			r.differ("%s: %v, %d in all, want %d", what, err, found.Total, len(want))
			return
		}
		got = append(got, found.Items...)
		if page.Cursor = found.Next; page.Cursor == "" {
			break
		}
	}
	r.equal(what, got, want)
}

func (r *modelRun) viewCollab(c *modelCollab) domain.Collab {
	return domain.Collab{
		ID: c.id, Status: c.status, Initiator: c.initiator.party(), Partner: c.partner.party(),
		Summary: c.draft.Summary, RequestID: domain.Optional(c.draft.RequestID),
		CountsAsEvidence: slices.Contains(r.m.counting(), c), CreatedAt: c.created, DecidedAt: c.decided,
	}
}

func (r *modelRun) collabs(keep func(*modelCollab) bool) []domain.Collab {
	found := []domain.Collab{}
	for _, c := range slices.Backward(r.m.collabs) {
		if keep(c) {
			found = append(found, r.viewCollab(c))
		}
	}
	return found
}

func (r *modelRun) sameOwnCollabs(a *modelAgent, status string) {
	if a.deleted {
		return
	}
	want := r.collabs(func(c *modelCollab) bool { return c.has(a) && (status == "" || status == c.status) })
	sameList(r, "the collaborations of "+a.Handle, want, func(p listing.Page) (listing.List[domain.Collab], error) {
		return r.s.OwnCollabs(background, a.Caller, status, p)
	})
}

// samePublicCollabs compares the confirmed collaborations of an agent, or of all.
func (r *modelRun) samePublicCollabs(of *modelAgent) {
	for _, a := range r.m.agents {
		if a.unswept && !r.m.isHidden(a) {
			return // it may not be shown again yet
		}
	}
	handle := ""
	if of != nil {
		handle = of.Handle
	}
	want := r.collabs(func(c *modelCollab) bool {
		return c.status == domain.CollabConfirmed && !r.m.isHidden(c.initiator) && !r.m.isHidden(c.partner) && (of == nil || c.has(of))
	})
	sameList(r, "the confirmed collaborations", want, func(p listing.Page) (listing.List[domain.Collab], error) {
		return r.s.Collabs(background, handle, p)
	})
}

// isHidden tells whether the public does not see an agent that is there.
func (m *model) isHidden(a *modelAgent) bool {
	return !a.deleted && (m.isSuspended(a) || a.deletion != 0 || a.awaiting)
}

// Events.

// manyEvents is more than an agent of a sequence has.
const manyEvents = 1000

func (e *modelEvent) is(got domain.Event) bool {
	return e.kind == got.Type && e.at == got.At && e.handle == got.Subject.Handle && got.Subject.PostID == nil &&
		reflect.DeepEqual(e.about, got.Subject.ID)
}

// newEvents reads what an agent was told since the last look: exactly what the
// model told it, in that order but within one group.
func (r *modelRun) newEvents(a *modelAgent) {
	after := ""
	if a.delivered > 0 {
		after = a.events[a.delivered-1].id
	}
	page, err := r.s.Events(background, a.Caller, after, manyEvents)
	if err != nil || page.Gap {
		r.differ("the events of %s: %v, a gap: %t", a.Handle, err, page.Gap)
		return
	}
	for _, got := range page.Events {
		if !a.takeEvent(got) {
			r.differ("%s was told %s", a.Handle, eventText(got))
			return
		}
		r.m.wakeFor(a)
	}
	for _, e := range a.events[a.delivered:] {
		if !e.maybe {
			r.differ("%s was not told: %s of %s", a.Handle, e.kind, e.handle)
		}
	}
	a.events = a.events[:a.delivered]
}

func eventText(e domain.Event) string {
	return e.Type + " of " + e.Subject.Handle + ", at " + e.At.String()
}

// takeEvent takes the next event for heard, if it is one that may come next.
func (a *modelAgent) takeEvent(got domain.Event) bool {
	for a.delivered < len(a.events) && a.events[a.delivered].maybe && !a.events[a.delivered].is(got) {
		a.events = slices.Delete(a.events, a.delivered, a.delivered+1)
	}
	for i := a.delivered; i < len(a.events); i++ {
		e := a.events[i]
		if i > a.delivered && (e.group == 0 || e.group != a.events[a.delivered].group) {
			return false
		}
		if e.is(got) {
			e.id = got.ID
			a.events = slices.Insert(slices.Delete(a.events, i, i+1), a.delivered, e)
			a.delivered++
			return true
		}
	}
	return false
}

// allEvents reads everything that is kept for an agent.
func (r *modelRun) allEvents(a *modelAgent) {
	page, err := r.s.Events(background, a.Caller, "", manyEvents)
	if err != nil || page.Gap {
		r.differ("all events of %s: %v, a gap: %t", a.Handle, err, page.Gap)
		return
	}
	r.sameEvents(a, page, a.dropped)
}

// eventsAfter reads on after an event, which need not be kept any more.
func (r *modelRun) eventsAfter(a *modelAgent, last int) {
	page, err := r.s.Events(background, a.Caller, a.events[last].id, manyEvents)
	if err != nil {
		r.differ("the events of %s after one: %v", a.Handle, err)
		return
	}
	if want := a.dropped > last+1; page.Gap != want {
		r.differ("the events of %s after one: a gap: %t, want %t", a.Handle, page.Gap, want)
	}
	if len(page.Events) == 0 {
		// Nothing is told twice, nor is a gap.
		again, err := r.s.Events(background, a.Caller, page.Next, manyEvents)
		if err != nil || again.Gap || len(again.Events) > 0 || again.Next != page.Next {
			r.differ("the events of %s, read on behind all: %v, %+v", a.Handle, err, again)
		}
	}
	r.sameEvents(a, page, max(last+1, a.dropped))
}

func (r *modelRun) sameEvents(a *modelAgent, page domain.EventPage, from int) {
	want := a.events[from:]
	for i, got := range page.Events {
		if i >= len(want) || !want[i].is(got) || want[i].id != got.ID {
			r.differ("the %d. kept event of %s is %s, %s", from+i, a.Handle, got.ID, eventText(got))
			return
		}
	}
	if len(page.Events) != len(want) {
		r.differ("%d events of %s from the %d. on, want %d", len(page.Events), a.Handle, from, len(want))
	} else if n := len(want); n > 0 && page.Next != want[n-1].id {
		r.differ("the events of %s: next is %s, want %s", a.Handle, page.Next, want[n-1].id)
	}
}
