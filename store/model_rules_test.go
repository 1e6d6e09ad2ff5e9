package store

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"callbook/store/domain"
)

// The model: the directory's rules once more, as plainly as they can be said. It
// is written by hand and knows nothing of SQL or of derived data: every
// question is answered by walking all records, every limit by counting. Where the
// contract leaves a choice, it holds the store to what its methods promise.
type model struct {
	now      domain.Time
	limits   modelLimits
	agents   []*modelAgent // in the order of joining, with those that are gone
	requests []*modelRequest
	collabs  []*modelCollab
	posts    []*modelPost
	mails    []modelMail
	notices  []modelNotice                  // of the act at hand
	networks map[netip.Prefix][]domain.Time // when each of them asked for mails
	from     netip.Addr                     // where the act at hand comes from
	unwanted []modelUnwanted
	stopped  map[string]bool // persons who want no mail
	invites  []*modelInvite
	messages map[string]bool // ids of wake-ups

	published int // posts
	matched   int // seq of the last post that was compared with all watches

	groups int // of events that come in no promised order
	group  int // the one that what is told now belongs to, or 0

	// What the act at hand had to do with.
	touched map[*modelAgent]bool
	moved   []*modelRequest
	decided []*modelCollab
	met     []string // rules that a run must meet
}

// modelLimits are the options that the rules depend on.
type modelLimits struct {
	requests     domain.Quotas
	mails        domain.MailCaps
	registration domain.RegistrationMode
}

// modelInvite is an invitation to register.
type modelInvite struct {
	secret  string
	left    int // below 0 once it is revoked
	expires domain.Time
}

// verdict is how a call must end: with a refusal, or well.
type verdict struct {
	code  domain.Code // "" for well
	retry domain.Time // when the same call may succeed; 0 where nobody says
}

func (v verdict) refused() bool { return v.code != "" }

var granted verdict

type modelAgent struct {
	domain.Caller
	name, owner, mailbox string
	public               bool   // shows its mailbox
	key, former          string // see rekey
	policy               domain.ContactPolicy
	menu                 []domain.Offering
	created, updated     domain.Time
	verified, claimed    *domain.Time
	verifiedBefore       bool        // a former mailbox was
	active               domain.Time // its last request, to five minutes
	person               string      // who has claimed it; kept while the owner's page works
	claim                *modelClaim
	voidLink             string // a link to the owner's page that was replaced
	formerMailbox        *modelFormer
	code                 *modelCode        // that verifies
	recovery             []*modelCode      // those that recover the key, also expired ones
	void                 map[string]string // by purpose: a code that is no longer good
	unsent               *modelMail        // a verification that waits while the mail server is down
	suspended            bool
	until                domain.Time // 0: without an end
	unswept              bool        // the suspension may have ended before the job that shows the agent again
	awaiting             bool        // the operator has yet to approve it
	deletion             domain.Time // when it is deleted, unless its owner keeps it; 0 if it is not to be
	deleted              bool
	blocks               map[*modelAgent]bool
	sent                 []domain.Time // contact requests
	events               []*modelEvent
	dropped              int // of the events: so many were kept their time
	delivered            int // of the events: so many have been read
	seen                 int // of the events: so many are marked as seen
	wake                 *modelWake
	woken                domain.Time // last; 0 before
	flights              []*modelFlight
	posted               []domain.Time
	watches              []modelWatch
	matches              []domain.Time // when it was notified of posts
}

// rekey gives the agent another key; its calls carry that one from now on.
func (a *modelAgent) rekey(key string) {
	a.former, a.key, a.KeyHash = a.key, key, string(domain.HashKey(key))
}

type modelClaim struct {
	status             string
	person, mailbox    string
	token              string // of the link; "" when no mail brought it
	staleForm          string // of the page before its last act
	requested, expires domain.Time
	used               domain.Time // the link, to a day
	confirmed          domain.Time // first; 0 before
	confirmedLast      domain.Time // 0 before
}

// modelFormer is a verified mailbox that an agent had.
type modelFormer struct {
	mailbox string
	left    domain.Time
}

// modelNotice is a notice that must be mailed.
type modelNotice struct {
	kind, handle, address string
}

type modelCode struct {
	code, mailbox    string
	wrong            int
	created, expires domain.Time
}

type modelRequest struct {
	made           int // by which act
	id             string
	from, to       *modelAgent
	draft          domain.ContactRequestDraft
	offering       *domain.Offering
	status, reason string
	boxes          *domain.Mailboxes
	created        domain.Time
	updated        domain.Time
	expires        domain.Time
	decided        *domain.Time
	reported       bool
}

type modelCollab struct {
	made               int
	id                 string
	initiator, partner *modelAgent
	draft              domain.CollabDraft
	status             string
	created            domain.Time
	decided            *domain.Time
}

type modelEvent struct {
	kind   string
	about  *string // the id of the request or collaboration
	handle string
	at     domain.Time
	group  int
	maybe  bool   // it may be left out
	id     string // once read
}

// modelMail is a mail that an agent asked for.
type modelMail struct {
	agent  *modelAgent // nil for a notice
	person string
	pool   domain.MailPool // "" for a notice
	sent   bool
	at     domain.Time
}

// modelUnwanted is a person's word that an agent is not theirs.
type modelUnwanted struct {
	agent  *modelAgent
	person string
	at     domain.Time
}

func (m *model) begin(now domain.Time) {
	m.now, m.touched, m.moved, m.decided, m.from = now, map[*modelAgent]bool{}, nil, nil, netip.Addr{}
	m.notices, m.met = nil, nil
}

func (m *model) agent(handle string) *modelAgent {
	for _, a := range m.agents {
		if a.Handle == handle {
			return a
		}
	}
	return nil
}

// touchCard says that an agent's card changed, and so may the evidence of those
// it worked with.
func (m *model) touchCard(a *modelAgent) {
	m.touched[a] = true
	for _, c := range m.collabs {
		if c.has(a) {
			m.touched[c.other(a)] = true
		}
	}
}

func (m *model) addEvent(a *modelAgent, e modelEvent) {
	m.touched[a] = true
	if !a.deleted {
		e.at, e.group = m.now, m.group
		a.events = append(a.events, &e)
	}
}

// together says that what act tells one agent comes in no promised order.
func (m *model) together(act func()) {
	m.groups++
	m.group = m.groups
	act()
	m.group = 0
}

// Agents.

func (a *modelAgent) level() int {
	switch {
	case a.claimed != nil:
		return 2
	case a.verified != nil:
		return 1
	}
	return 0
}

func (m *model) isSuspended(a *modelAgent) bool {
	return a.suspended && (a.until == 0 || a.until > m.now)
}

// reachable tells whether others may turn to an agent.
func (m *model) reachable(a *modelAgent) bool {
	return a != nil && !a.deleted && !m.isHidden(a)
}

// may says whether an agent's calls are answered.
func (m *model) may(a *modelAgent) verdict {
	if v := m.mayOwn(a); v.refused() || !a.awaiting {
		return v
	}
	return verdict{code: domain.CodeAwaitingApproval}
}

// mayOwn says whether an agent may change itself.
func (m *model) mayOwn(a *modelAgent) verdict {
	switch {
	case a.deleted:
		return verdict{code: domain.CodeUnauthorized}
	case m.isSuspended(a):
		return verdict{code: domain.CodeSuspended}
	case a.deletion != 0:
		return verdict{code: domain.CodeInvalidState}
	}
	return granted
}

// mayRead says whether an agent's key reads.
func (m *model) mayRead(a *modelAgent) verdict {
	v := m.mayOwn(a)
	if v.code == domain.CodeInvalidState {
		return granted
	}
	return v
}

// trust makes a change of an agent, and tells it when its level is another then.
// One that the public does not see may go untold.
func (m *model) trust(a *modelAgent, change func()) {
	before, hidden := a.level(), m.isHidden(a)
	change()
	m.touchCard(a)
	if a.level() != before {
		m.addEvent(a, modelEvent{kind: "trust.changed", handle: a.Handle, maybe: hidden || m.isHidden(a) || a.unswept})
	}
}

// register adds an agent with an invitation, or nil.
func (m *model) register(handle, mailbox string, invite *modelInvite) (*modelAgent, verdict) {
	byInvite := m.limits.registration == domain.RegistrationInvite
	switch {
	case byInvite && (invite == nil || invite.left <= 0 || invite.expires <= m.now):
		return nil, verdict{code: domain.CodeInviteRequired}
	case m.agent(handle) != nil: // and the invitation can be used again
		return nil, verdict{code: domain.CodeHandleTaken}
	case byInvite:
		invite.left--
	}
	a := &modelAgent{
		Caller: domain.Caller{Handle: handle}, name: "Name of " + handle, owner: "Mei Lin", mailbox: mailbox,
		policy:  domain.ContactPolicy{Accepting: true, MinLevel: 1, RequireOffering: true, WeeklyCap: 10},
		created: m.now, updated: m.now, active: m.now, awaiting: m.limits.registration == domain.RegistrationApprove,
		void: map[string]string{}, blocks: map[*modelAgent]bool{},
	}
	m.agents = append(m.agents, a)
	m.touched[a] = true
	return a, granted
}

// update changes settings.
func (m *model) update(a *modelAgent, change func(*domain.Settings)) verdict {
	if v := m.mayOwn(a); v.refused() {
		return v
	}
	s := domain.Settings{ContactPolicy: domain.PolicySettings(a.policy)}
	s.Name, s.Owner, s.Mailbox, s.ContactPublic = a.name, a.owner, a.mailbox, a.public
	change(&s)
	switch before, after := a.policy.RequireOwnerReceipt, s.ContactPolicy.RequireOwnerReceipt; {
	case after && !before && a.level() < 2:
		return verdict{code: domain.CodeTrustTooLow}
	case before && !after && a.owned():
		return verdict{code: domain.CodeForbidden}
	}
	a.updated = m.now
	m.trust(a, func() {
		if s.Mailbox != a.mailbox {
			m.leaveMailbox(a)
			a.unverify()
		}
		if s.Owner != a.owner {
			a.claimed = nil
		}
		a.name, a.owner, a.mailbox, a.public, a.policy = s.Name, s.Owner, s.Mailbox, s.ContactPublic, domain.ContactPolicy(s.ContactPolicy)
	})
	return granted
}

// unverify is what another mailbox brings: level 0, and the code that verifies is void.
// A claim that nobody has confirmed ends; the page of one who has keeps working.
func (a *modelAgent) unverify() {
	a.verifiedBefore = a.verifiedBefore || a.verified != nil
	a.verified, a.claimed = nil, nil
	a.voidCode()
	if a.claim != nil && a.claim.status == statusPending {
		a.endClaim()
	}
}

func (a *modelAgent) voidCode() {
	if a.code != nil {
		a.void[domain.MailVerify] = a.code.code
	}
	a.code, a.unsent = nil, nil // with the code goes the mail
}

// replaceMenu checks a whole new menu: an id must be one of the old, once.
func (m *model) replaceMenu(a *modelAgent, drafts []domain.OfferingDraft) verdict {
	if v := m.mayOwn(a); v.refused() {
		return v
	}
	given := map[string]bool{}
	for _, d := range drafts {
		if d.ID == "" {
			continue
		}
		if given[d.ID] || a.offering(d.ID) == nil {
			return verdict{code: domain.CodeValidationFailed}
		}
		given[d.ID] = true
	}
	a.menu = nil
	for _, d := range drafts {
		a.menu = append(a.menu, domain.Offering{ID: d.ID, Title: d.Title, Deliverable: d.Deliverable, Mode: d.Mode, Languages: domain.Texts{}, Tags: domain.Texts{}})
	}
	a.updated = m.now
	m.touched[a] = true
	return granted
}

func (a *modelAgent) offering(id string) *domain.Offering {
	for i := range a.menu {
		if a.menu[i].ID == id {
			return new(a.menu[i])
		}
	}
	return nil
}

// deleteOwn is an agent's own deletion, which waits if it has an owner.
func (m *model) deleteOwn(a *modelAgent) verdict {
	switch {
	case a.deleted:
		return verdict{code: domain.CodeUnauthorized}
	case a.deletion != 0:
		return verdict{code: domain.CodeInvalidState}
	case a.owned():
		a.deletion = m.now.Add(72 * time.Hour)
		m.notifyAll(a, domain.MailDeletion)
		m.touchCard(a)
	default:
		m.delete(a) // even while it is suspended
	}
	return granted
}

// delete removes an agent: what is open with it ends, and what was exchanged or
// confirmed loses its side.
func (m *model) delete(a *modelAgent) {
	m.touchCard(a)
	m.together(func() {
		for _, q := range m.requests {
			if q.from == a || q.to == a {
				m.leave(q, a)
			}
		}
		for _, c := range m.collabs {
			if c.has(a) && c.status == domain.CollabPending {
				m.decide(c, domain.CollabDeclined, c.other(a))
			}
		}
	})
	for _, b := range m.agents {
		delete(b.blocks, a)
	}
	a.deleted, a.claim, a.events = true, nil, nil
	a.verified, a.claimed, a.person = nil, nil, ""
	a.wake, a.watches = nil, nil
	m.posts = slices.DeleteFunc(m.posts, func(p *modelPost) bool { return p.author == a })
	m.collabs = slices.DeleteFunc(m.collabs, func(c *modelCollab) bool { return c.initiator.deleted && c.partner.deleted })
}

// dropUnverified deletes the agents that never verified a mailbox and were silent for 90 days. Their
// handles are free again.
func (m *model) dropUnverified() {
	var dropped []*modelAgent
	for _, a := range m.agents {
		if !a.deleted && !m.isSuspended(a) && a.verified == nil && !a.verifiedBefore && a.active.Add(90*domain.Day) <= m.now {
			dropped = append(dropped, a)
		}
	}
	slices.SortStableFunc(dropped, func(a, b *modelAgent) int { return cmp.Compare(a.active, b.active) })
	for _, a := range dropped {
		a.Handle = fmt.Sprintf("~%02d", a.ID) // also in the events of the deletion
		m.delete(a)
	}
}

// leave is what becomes of a request when one side goes.
func (m *model) leave(q *modelRequest, a *modelAgent) {
	m.moved = append(m.moved, q)
	m.settle(q)
	switch {
	case !q.isOpen() && q.boxes == nil:
	case q.boxes != nil && q.from == a:
		q.boxes = &domain.Mailboxes{To: q.boxes.To}
	case q.boxes != nil:
		q.boxes = &domain.Mailboxes{From: q.boxes.From}
	case q.from == a:
		m.changeStatus(q, domain.RequestWithdrawn, q.to)
	default:
		m.changeStatus(q, domain.RequestDeclined, q.from)
	}
}

// byOperator is what the operator does to an agent; end is that of a suspension, or zero.
func (m *model) byOperator(a *modelAgent, act string, end time.Time) verdict {
	m.touchCard(a)
	switch act {
	case "be approved", "be rejected":
		if !a.awaiting {
			return verdict{code: domain.CodeInvalidState}
		}
		if a.awaiting = false; act == "be rejected" {
			m.delete(a)
		}
	case "be verified by the operator":
		a.returned()
		m.trust(a, func() {
			if a.verified == nil {
				a.verified = new(m.now)
			}
		})
	case "be unverified by the operator":
		m.trust(a, func() {
			a.formerMailbox = nil
			a.unverify()
		})
	case "be unclaimed by the operator":
		m.trust(a, func() {
			m.withdraw(a)
			m.keep(a)
		})
	case "be suspended":
		a.suspended, a.until, a.unswept = true, 0, !end.IsZero()
		if a.unswept {
			a.until = domain.TimeOf(end)
		}
	case "be unsuspended":
		a.suspended, a.until, a.unswept = false, 0, false
	}
	return granted
}
