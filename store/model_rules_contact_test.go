package store

import (
	"cmp"
	"math"
	"slices"
	"time"

	"callbook/store/domain"
)

// The model of what happens between two agents.

// Contact requests.

// send adds a request, which the caller gives its id, or nil.
func (m *model) send(from, to *modelAgent, draft domain.ContactRequestDraft) (*modelRequest, verdict) {
	if v := m.may(from); v.refused() {
		return nil, v
	}
	if !m.reachable(to) {
		return nil, verdict{code: domain.CodeNotFound}
	}
	m.settlePair(from, to) // which a refused call has touched too
	if v := m.admits(from, to, draft.OfferingID); v.refused() {
		return nil, v
	}
	q := &modelRequest{
		from: from, to: to, draft: draft, offering: to.offering(draft.OfferingID), status: domain.RequestPending,
		created: m.now, updated: m.now, expires: m.now.Add(7 * 24 * time.Hour),
	}
	from.sent = append(from.sent, m.now)
	m.requests, m.moved = append(m.requests, q), append(m.moved, q)
	m.touched[from] = true
	m.addEvent(to, modelEvent{kind: "request.received", about: &q.id, handle: from.Handle})
	return q, granted
}

// admits holds a request against the rules, in their order.
func (m *model) admits(from, to *modelAgent, offering string) verdict {
	p := to.policy
	switch {
	case from == to:
		return verdict{code: domain.CodeSelfRequest}
	case from.level() < 1, from.level() < p.MinLevel:
		return verdict{code: domain.CodeTrustTooLow}
	case !p.Accepting, to.blocks[from]:
		return verdict{code: domain.CodeNotAccepting}
	case p.RequireOffering && offering == "", offering != "" && to.offering(offering) == nil:
		return verdict{code: domain.CodeValidationFailed}
	}
	var declined domain.Time
	for _, q := range m.requests {
		if q.from != from || q.to != to {
			continue
		}
		if q.isOpen() {
			return verdict{code: domain.CodeDuplicate}
		}
		if q.status == domain.RequestDeclined {
			declined = max(declined, *q.decided)
		}
	}
	if again := declined.Add(30 * 24 * time.Hour); declined != 0 && again > m.now {
		return verdict{code: domain.CodeCooldown, retry: again}
	}
	if retry, met := m.limitMet(m.daily(from), 24*time.Hour, from.sent); met {
		return verdict{code: domain.CodeSenderLimitReached, retry: retry}
	}
	if retry, met := m.limitMet(p.WeeklyCap, 7*24*time.Hour, m.received(to)); met {
		return verdict{code: domain.CodeWeeklyCapReached, retry: retry}
	}
	return granted
}

// daily is how many requests an agent may send a day.
func (m *model) daily(a *modelAgent) int {
	if m.now < a.created.Add(7*24*time.Hour) {
		return m.limits.requests[domain.LimitFirstWeekRequests]
	}
	return m.limits.requests[domain.LimitRequests]
}

// received are the times, in order, of what counts against an agent's weekly cap:
// what one sender withdrew counts as one, the last of them, and what was reported as none, as does
// what a sender withdrew of whom something was reported.
func (m *model) received(a *modelAgent) []domain.Time {
	var times []domain.Time
	withdrawn := map[*modelAgent]domain.Time{}
	reported := map[*modelAgent]bool{}
	for _, q := range m.requests {
		reported[q.from] = reported[q.from] || q.to == a && q.reported
	}
	for _, q := range m.requests {
		switch {
		case q.reported, q.status == domain.RequestWithdrawn && reported[q.from], q.to != a || q.created.Add(7*24*time.Hour) <= m.now:
		case q.status == domain.RequestWithdrawn:
			withdrawn[q.from] = q.created
		default:
			times = append(times, q.created)
		}
	}
	for _, last := range withdrawn {
		times = append(times, last)
	}
	slices.Sort(times)
	return times
}

// facts are what the card says of the requests that an agent got on 180 days and today.
func (m *model) facts(a *modelAgent) (f domain.RequestFacts) {
	today := m.now.Time().Truncate(24 * time.Hour)
	var hours []float64
	for _, q := range m.requests {
		if q.to != a || q.status == domain.RequestWithdrawn || q.created.Time().Before(today.Add(-180*24*time.Hour)) {
			continue
		}
		f.Received++
		if q.status == domain.RequestAccepted || q.status == domain.RequestDeclined {
			f.Answered++
			hours = append(hours, q.decided.Time().Sub(q.created.Time()).Hours())
		}
	}
	if n := len(hours); n >= 3 {
		slices.Sort(hours)
		f.MedianHours = new(math.Round((hours[(n-1)/2]+hours[n/2])*5) / 10)
	}
	return f
}

func (q *modelRequest) isOpen() bool {
	return q.status == domain.RequestPending || q.status == domain.RequestAwaiting
}

func (m *model) settlePair(from, to *modelAgent) {
	for _, q := range m.requests {
		if q.from == from && q.to == to {
			m.settle(q)
		}
	}
}

// settle stores, with its events, that a request has run out of time.
func (m *model) settle(q *modelRequest) {
	if !q.isOpen() || q.expires > m.now {
		return
	}
	q.status, q.updated, q.decided = domain.RequestExpired, q.expires, &q.expires
	m.moved = append(m.moved, q)
	m.addEvent(q.from, modelEvent{kind: "request.expired", about: &q.id, handle: q.to.Handle})
	m.addEvent(q.to, modelEvent{kind: "request.expired", about: &q.id, handle: q.from.Handle})
}

// changeStatus takes an open request on, and tells of it.
func (m *model) changeStatus(q *modelRequest, to string, told ...*modelAgent) verdict {
	q.status, q.updated = to, m.now
	if to != domain.RequestAwaiting {
		q.decided = new(m.now)
	}
	if to == domain.RequestAccepted {
		q.boxes = &domain.Mailboxes{From: new(q.from.mailbox), To: new(q.to.mailbox)}
	}
	for _, a := range told {
		other := q.from
		if a == q.from {
			other = q.to
		}
		m.addEvent(a, modelEvent{kind: "request." + to, about: &q.id, handle: other.Handle})
	}
	return granted
}

// actOn is the table of contact requests. Those that an agent
// itself does come with its word that it may; agree and refuse are its owner's.
func (m *model) actOn(q *modelRequest, a *modelAgent, act, reason string) verdict {
	if q == nil || a != q.from && a != q.to {
		return verdict{code: domain.CodeNotFound}
	}
	m.moved = append(m.moved, q)
	m.touched[q.from], m.touched[q.to] = true, true
	m.settle(q)
	if (act == "withdraw") != (a == q.from) {
		return verdict{code: domain.CodeForbidden}
	}
	reveals := act == "accept" && q.status == domain.RequestPending || act == "agree" && q.status == domain.RequestAwaiting
	switch {
	case reveals && (q.from.level() < 1 || q.to.level() < 1 || q.from.deletion != 0 || q.to.deletion != 0):
		return verdict{code: domain.CodeInvalidState}
	case act == "accept" && q.status == domain.RequestPending && a.policy.RequireOwnerReceipt:
		return m.changeStatus(q, domain.RequestAwaiting)
	case act == "accept" && q.status == domain.RequestPending:
		return m.changeStatus(q, domain.RequestAccepted, q.from)
	case act == "accept" && q.status == domain.RequestAwaiting:
		return granted
	case act == "decline" && q.isOpen():
		q.reason = reason
		return m.changeStatus(q, domain.RequestDeclined, q.from)
	case act == "withdraw" && q.isOpen():
		return m.changeStatus(q, domain.RequestWithdrawn, q.to)
	case act == "agree" && q.status == domain.RequestAwaiting:
		return m.changeStatus(q, domain.RequestAccepted, q.from, q.to)
	case act == "refuse" && q.status == domain.RequestAwaiting:
		return m.changeStatus(q, domain.RequestDeclined, q.from, q.to)
	case act == "report":
		a.blocks[q.from], q.reported = true, true
		if q.isOpen() {
			m.changeStatus(q, domain.RequestDeclined, q.from)
		}
		return granted
	}
	// What is there already stays as it is.
	there := map[string]string{
		"accept": domain.RequestAccepted, "agree": domain.RequestAccepted,
		"decline": domain.RequestDeclined, "refuse": domain.RequestDeclined, "withdraw": domain.RequestWithdrawn,
	}
	if q.status != there[act] {
		return verdict{code: domain.CodeInvalidState}
	}
	return granted
}

// Collaborations.

func (c *modelCollab) has(a *modelAgent) bool { return c.initiator == a || c.partner == a }

func (c *modelCollab) other(a *modelAgent) *modelAgent {
	if c.initiator == a {
		return c.partner
	}
	return c.initiator
}

// counting are the collaborations that are evidence: of each pair of owners the first, and then the
// next one after 90 days.
func (m *model) counting() []*modelCollab {
	confirmed := slices.DeleteFunc(slices.Clone(m.collabs), func(c *modelCollab) bool {
		return c.status != domain.CollabConfirmed || c.initiator.claimed == nil || c.partner.claimed == nil ||
			c.initiator.person == c.partner.person
	})
	slices.SortStableFunc(confirmed, func(a, b *modelCollab) int { return cmp.Compare(*a.decided, *b.decided) })
	last := map[[2]string]domain.Time{}
	return slices.DeleteFunc(confirmed, func(c *modelCollab) bool {
		one, other := c.initiator.person, c.partner.person
		pair := [2]string{min(one, other), max(one, other)}
		if before, found := last[pair]; found && *c.decided < before.Add(90*24*time.Hour) {
			return true
		}
		last[pair] = *c.decided
		return false
	})
}

// evidence is how many collaborations of an agent count, and with how many owners.
func (m *model) evidence(a *modelAgent) (n, partners int) {
	owners := map[string]bool{}
	for _, c := range m.counting() {
		if c.has(a) {
			n++
			owners[c.other(a).person] = true
		}
	}
	return n, len(owners)
}

func (m *model) record(a, partner *modelAgent, draft domain.CollabDraft) (*modelCollab, verdict) {
	if v := m.may(a); v.refused() {
		return nil, v
	}
	if v := m.mayRecord(a, partner, draft.RequestID); v.refused() {
		return nil, v
	}
	c := &modelCollab{initiator: a, partner: partner, draft: draft, status: domain.CollabPending, created: m.now}
	m.collabs, m.decided = append(m.collabs, c), append(m.decided, c)
	m.touched[a] = true
	m.addEvent(partner, modelEvent{kind: "collab.received", about: &c.id, handle: a.Handle})
	return c, granted
}

func (m *model) mayRecord(a, partner *modelAgent, request string) verdict {
	if !m.reachable(partner) || partner == a || request != "" && !m.between(request, a, partner) {
		return verdict{code: domain.CodeValidationFailed}
	}
	var declined domain.Time
	pending, waits := 0, false
	for _, c := range m.collabs {
		if c.initiator != a {
			continue
		}
		if c.status == domain.CollabPending {
			if c.created.Add(30*24*time.Hour) > m.now {
				pending++
			}
			waits = waits || c.partner == partner
		}
		if c.status == domain.CollabDeclined && c.partner == partner {
			declined = max(declined, *c.decided)
		}
	}
	again := declined.Add(30 * 24 * time.Hour)
	switch {
	case waits:
		return verdict{code: domain.CodeDuplicate}
	case partner.blocks[a]:
		return verdict{code: domain.CodeNotAccepting}
	case declined != 0 && again > m.now:
		return verdict{code: domain.CodeCooldown, retry: again}
	case pending >= 5:
		return verdict{code: domain.CodeSenderLimitReached}
	}
	return granted
}

func (m *model) between(request string, a, b *modelAgent) bool {
	return slices.ContainsFunc(m.requests, func(q *modelRequest) bool {
		return q.id == request && (q.from == a && q.to == b || q.from == b && q.to == a)
	})
}

// answer is the partner's word on a collaboration.
func (m *model) answer(c *modelCollab, a *modelAgent, to string) verdict {
	if v := m.may(a); v.refused() {
		return v
	}
	switch {
	case !c.has(a):
		return verdict{code: domain.CodeNotFound}
	case a != c.partner:
		return verdict{code: domain.CodeForbidden}
	case c.status == to:
		return granted
	case c.status != domain.CollabPending:
		return verdict{code: domain.CodeInvalidState}
	}
	m.decide(c, to, c.initiator)
	return granted
}

func (m *model) decide(c *modelCollab, to string, told *modelAgent) {
	c.status, c.decided = to, new(m.now)
	m.decided = append(m.decided, c)
	m.touched[c.initiator], m.touched[c.partner] = true, true
	m.addEvent(told, modelEvent{kind: "collab." + to, about: &c.id, handle: c.other(told).Handle})
}

// The clock.

// runDue is what the job does that runs now and then. Only what it drops, and
// when it tells of what has run out, can be noticed.
func (m *model) runDue() {
	due := slices.DeleteFunc(slices.Clone(m.agents), func(a *modelAgent) bool { return a.deleted || a.deletion == 0 || a.deletion > m.now })
	slices.SortStableFunc(due, func(a, b *modelAgent) int { return cmp.Compare(a.deletion, b.deletion) })
	for _, a := range due {
		m.delete(a)
	}
	m.together(func() {
		for _, q := range m.requests {
			m.settle(q)
		}
	})
	for _, a := range m.agents {
		if a.unswept && !m.isSuspended(a) {
			a.unswept = false
			m.touchCard(a)
		}
		for a.dropped < len(a.events) && a.events[a.dropped].at.Add(30*24*time.Hour) <= m.now {
			a.dropped++
		}
		if c := a.claim; c != nil && m.claimExpired(c) && c.expires.Add(30*24*time.Hour) <= m.now {
			a.endClaim()
		}
	}
}
