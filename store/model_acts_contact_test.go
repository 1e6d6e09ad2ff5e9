package store

import (
	"fmt"
	"time"

	"callbook/store/domain"
)

// Contact requests.

func makeSend(r *modelRun, a *modelAct) bool {
	from, to := r.anyone(), r.anyone()
	if able := r.those(func(a *modelAgent) bool { return a.level() > 0 }); len(able) > 0 && r.chance(90) {
		from = r.pick(able)
	}
	for from == to && !r.chance(5) {
		to = r.anyone()
	}
	a.who, a.whom = from.Handle, to.Handle
	if r.chance(7) {
		for _, other := range r.those(func(a *modelAgent) bool { return a != from }) {
			r.then(80, modelAct{kind: a.kind, who: a.who, whom: other.Handle, choice: "for an offering", step: time.Second})
		}
	}
	if r.chance(2) {
		a.whom = "nobody-here"
	}
	a.choice = "for nothing special"
	if len(to.menu) > 0 && r.chance(60) || to.policy.RequireOffering && r.chance(50) {
		a.choice, a.n = "for an offering", r.rng.IntN(3)
	}
	if r.chance(3) {
		a.choice = "for an offering of its own"
	}
	if r.chance(20) {
		a.text = "after trying"
	}
	return true
}

func (r *modelRun) modelDraft(a modelAct, on modelTarget) domain.ContactRequestDraft {
	d := domain.ContactRequestDraft{Purpose: fmt.Sprintf("Purpose %d", a.number), Deliverable: "A file", Compensation: "none"}
	if a.number%2 == 0 {
		d.Compensation, d.Deadline, d.Context = "offsite_paid", "2099-12-31", "For two ports.\nNo hurry."
	}
	menu := []domain.Offering{}
	switch {
	case a.choice == "for an offering of its own":
		menu = on.who.menu
	case a.choice == "for an offering" && on.whom != nil:
		menu = on.whom.menu
	}
	switch {
	case len(menu) > 0:
		d.OfferingID = menu[a.n%len(menu)].ID
	case a.choice == "for an offering of its own":
		d.OfferingID = "off_unknown"
	}
	return d
}

func doSend(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	draft := r.modelDraft(a, on)
	var tried error
	if a.text != "" {
		tried = r.s.TryRequest(background, on.who.Caller, a.whom, draft)
	}
	got, _, err := r.s.SendRequest(background, on.who.Caller, a.whom, draft, domain.IdempotencyKey{})
	q, want := r.m.send(on.who, on.whom, draft)
	if a.text != "" {
		r.equal("the outcome of trying", []any{outcome(tried), errorOf(tried)}, []any{outcome(err), errorOf(err)})
	}
	if q != nil && err == nil {
		q.made, q.id = a.number, got.ID
		r.equal("the new request", got, r.view(q))
	}
	if want.retry != 0 && r.rng != nil && r.chance(25) {
		// domain.IdempotencyKey more at the last moment when it is still refused, and at the next.
		again := modelAct{kind: a.kind, who: a.who, whom: a.whom, choice: a.choice, n: a.n, text: "after trying"}
		again.step = want.retry.Time().Sub(r.m.now.Time()) - time.Millisecond
		r.queue = append(r.queue, again)
		again.step = time.Millisecond
		r.queue = append(r.queue, again)
	}
	return want, err
}

// makeActOn is for what is done to a request, mostly by one who may and where it
// changes something.
func makeActOn(r *modelRun, a *modelAct) bool {
	found := r.requests(func(q *modelRequest) bool { return q.isOpen() })
	if len(found) == 0 || r.chance(20) {
		found = r.m.requests
	}
	if len(found) == 0 {
		return false
	}
	q := found[r.rng.IntN(len(found))]
	who := q.to
	if a.kind == "withdraw" {
		who = q.from
	}
	switch r.rng.IntN(10) {
	case 0:
		who = q.from
	case 1:
		who = q.to
	case 2:
		who = r.anyone()
	}
	a.who, a.record = who.Handle, q.made
	if a.kind == "decline" && r.chance(50) {
		a.text = []string{"not_a_fit", "busy", "need_more_info", "other"}[r.rng.IntN(4)]
	}
	return true
}

func doActOn(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	id := on.request.id
	var got domain.ContactRequest
	var err error
	switch a.kind {
	case "accept":
		got, err = r.s.ActOnRequest(background, on.who.Caller, id, domain.ActAccept, "")
	case "decline":
		got, err = r.s.ActOnRequest(background, on.who.Caller, id, domain.ActDecline, a.text)
	case "withdraw":
		got, err = r.s.ActOnRequest(background, on.who.Caller, id, domain.ActWithdraw, "")
	case "report":
		got, err = r.s.ActOnRequest(background, on.who.Caller, id, domain.ActReport, "spam")
	}
	want := r.m.may(on.who)
	if !want.refused() {
		want = r.m.actOn(on.request, on.who, a.kind, a.text)
	}
	if err == nil {
		r.equal("the request", got, r.view(on.request))
	}
	return want, err
}

// doRead reads a request as any agent: only its parties may know of it.
func doRead(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	for _, reader := range append([]*modelAgent{on.who}, r.m.agents...) {
		if reader.deleted || reader.ID%3 != int64(a.number)%3 && reader != on.who {
			continue
		}
		r.readRequest(reader, on.request)
	}
	return granted, nil
}

func makeList(r *modelRun, a *modelAct) bool {
	a.who = r.pick(r.living()).Handle
	a.choice = []string{"in", "out"}[r.rng.IntN(2)]
	a.text = []string{"", domain.RequestPending, domain.RequestAwaiting, domain.RequestAccepted, domain.RequestDeclined, domain.RequestWithdrawn, domain.RequestExpired}[r.rng.IntN(7)]
	return true
}

func doList(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	r.sameRequests(on.who, RequestFilter{Sent: a.choice == "out", Status: a.text})
	return granted, nil
}

// Collaborations.

func makeRecord(r *modelRun, a *modelAct) bool {
	a.who, a.whom = r.anyone().Handle, r.anyone().Handle
	if a.who == a.whom && r.chance(85) {
		a.whom = r.anyone().Handle
	}
	if r.chance(25) {
		for _, other := range r.living() {
			r.then(95, modelAct{kind: a.kind, who: a.who, whom: other.Handle})
		}
	}
	if len(r.m.requests) > 0 && r.chance(20) {
		q := r.m.requests[r.rng.IntN(len(r.m.requests))]
		a.record = q.made
		if r.chance(80) {
			a.who, a.whom = q.to.Handle, q.from.Handle
		}
	}
	return true
}

func doRecord(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	draft := domain.CollabDraft{Partner: a.whom, Summary: fmt.Sprintf("Work %d", a.number)}
	if on.request != nil {
		draft.RequestID = on.request.id
	}
	got, _, err := r.s.RecordCollab(background, on.who.Caller, draft, domain.IdempotencyKey{})
	c, want := r.m.record(on.who, on.whom, draft)
	if c != nil && err == nil {
		c.made, c.id = a.number, got.ID
		r.equal("the new collaboration", got, r.viewCollab(c))
	}
	return want, err
}

func makeAnswer(r *modelRun, a *modelAct) bool {
	var pending []*modelCollab
	for _, c := range r.m.collabs {
		if c.status == domain.CollabPending {
			pending = append(pending, c)
		}
	}
	if len(pending) == 0 || r.chance(15) {
		pending = r.m.collabs
	}
	if len(pending) == 0 {
		return false
	}
	c := pending[r.rng.IntN(len(pending))]
	who := c.partner
	switch r.rng.IntN(12) {
	case 0:
		who = c.initiator
	case 1:
		who = r.anyone()
	}
	a.who, a.record = who.Handle, c.made
	return true
}

func doAnswer(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	to := domain.CollabConfirmed
	if a.kind == "refuse" {
		to = domain.CollabDeclined
	}
	got, err := r.s.DecideCollab(background, on.who.Caller, on.collab.id, to)
	want := r.m.answer(on.collab, on.who, to)
	if err == nil {
		r.equal("the collaboration", got, r.viewCollab(on.collab))
	}
	return want, err
}

func makeListCollabs(r *modelRun, a *modelAct) bool {
	if r.chance(50) {
		a.whom = r.pick(r.m.agents).Handle
		return true
	}
	a.who = r.pick(r.living()).Handle
	a.text = []string{"", domain.CollabPending, domain.CollabConfirmed, domain.CollabDeclined}[r.rng.IntN(4)]
	return true
}

func doListCollabs(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who != nil {
		r.sameOwnCollabs(on.who, a.text)
	} else {
		r.samePublicCollabs(on.whom)
	}
	return granted, nil
}

// Events.

// makeEvents reads on from any event, kept or not.
func makeEvents(r *modelRun, a *modelAct) bool {
	agent := r.pick(r.living())
	a.who = agent.Handle
	a.n = r.rng.IntN(len(agent.events)+1) - 1
	return true
}

func doEvents(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	last := min(a.n, on.who.delivered-1)
	if !on.who.deleted && last >= 0 {
		r.eventsAfter(on.who, last)
	}
	return granted, nil
}
