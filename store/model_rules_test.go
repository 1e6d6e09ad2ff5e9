package store

import (
	"slices"
	"strings"
	"time"
)

// The model: the directory's rules once more, as plainly as they can be said. It
// is written from the contract and knows nothing of SQL or of derived data: every
// question is answered by walking all records, every limit by counting. Where the
// contract leaves a choice, it holds the store to what its methods promise.
type model struct {
	now      Time
	limits   modelLimits
	agents   []*modelAgent // in the order of joining, with those that are gone
	requests []*modelRequest
	collabs  []*modelCollab
	mails    []modelMail
	unwanted []modelUnwanted
	groups   int // of events that come in no promised order
	group    int // the one that what is told now belongs to, or 0

	// What the act at hand had to do with.
	touched map[*modelAgent]bool
	moved   []*modelRequest
	decided []*modelCollab
}

// modelLimits are the options that the rules depend on.
type modelLimits struct {
	requests    Quotas
	mails       MailCaps
	ownerAgents int
}

// verdict is how a call must end: with a refusal, or well.
type verdict struct {
	code  Code // "" for well
	retry Time // when the same call may succeed; 0 where nobody says
}

func (v verdict) refused() bool { return v.code != "" }

var granted verdict

type modelAgent struct {
	Caller
	name, owner, mailbox string
	public               bool // shows its mailbox
	key, former          string
	policy               ContactPolicy
	menu                 []Offering
	created, updated     Time
	verified, claimed    *Time
	person               string // who has claimed it; kept while the owner's page works
	claim                *modelClaim
	voidLink             string                // a link to the owner's page that was replaced
	codes                map[string]*modelCode // by purpose
	void                 map[string]string     // by purpose: a code that is no longer good
	suspended            bool
	until                Time // 0: without an end
	unswept              bool // the suspension may have ended before the job that shows the agent again
	deleted              bool
	blocks               map[*modelAgent]bool
	sent                 []Time // contact requests
	events               []*modelEvent
	dropped              int // of the events: so many were kept their time
	heard                int // of the events: so many have been read
}

type modelClaim struct {
	status             string
	person, mailbox    string
	token              string // of the link; "" when no mail brought it
	staleForm          string // of the page before its last act
	requested, expires Time
}

type modelCode struct {
	code             string
	wrong            int
	created, expires Time
}

type modelRequest struct {
	made           int // by which act
	id             string
	seq            int64
	from, to       *modelAgent
	draft          RequestDraft
	offering       *Offering
	status, reason string
	boxes          *Mailboxes
	created        Time
	updated        Time
	expires        Time
	decided        *Time
}

type modelCollab struct {
	made               int
	id                 string
	initiator, partner *modelAgent
	draft              CollabDraft
	status             string
	created            Time
	decided            *Time
}

type modelEvent struct {
	kind   string
	about  *string // the id of the request or collaboration
	handle string
	at     Time
	group  int
	maybe  bool   // it may be left out
	id     string // once read
}

// modelMail is a mail that an agent asked for.
type modelMail struct {
	agent  *modelAgent
	person string
	sent   bool
	at     Time
}

// modelUnwanted is a person's word that an agent is not theirs.
type modelUnwanted struct {
	agent  *modelAgent
	person string
	at     Time
}

func (m *model) begin(now Time) {
	m.now, m.touched, m.moved, m.decided = now, map[*modelAgent]bool{}, nil, nil
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

func (m *model) tell(a *modelAgent, e modelEvent) {
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
	return a != nil && !a.deleted && !m.isSuspended(a)
}

// may says whether an agent's own calls are answered.
func (m *model) may(a *modelAgent) verdict {
	switch {
	case a.deleted:
		return verdict{code: CodeUnauthorized}
	case m.isSuspended(a):
		return verdict{code: CodeSuspended}
	}
	return granted
}

// trust makes a change of an agent, and tells it when its level is another then.
// One that the public does not see may go untold.
func (m *model) trust(a *modelAgent, change func()) {
	before := a.level()
	change()
	m.touchCard(a)
	if a.level() != before {
		m.tell(a, modelEvent{kind: "trust.changed", handle: a.Handle, maybe: m.isSuspended(a) || a.unswept})
	}
}

func (m *model) register(handle, mailbox string) (*modelAgent, verdict) {
	if m.agent(handle) != nil {
		return nil, verdict{code: CodeHandleTaken}
	}
	a := &modelAgent{
		Caller: Caller{Handle: handle}, name: "Name of " + handle, owner: "Mei Lin", mailbox: mailbox,
		policy:  ContactPolicy{Accepting: true, MinLevel: 1, RequireOffering: true, WeeklyCap: 10},
		created: m.now, updated: m.now,
		codes: map[string]*modelCode{}, void: map[string]string{}, blocks: map[*modelAgent]bool{},
	}
	m.agents = append(m.agents, a)
	m.touched[a] = true
	return a, granted
}

// update changes one setting.
func (m *model) update(a *modelAgent, setting, text string, n int) verdict {
	if v := m.may(a); v.refused() {
		return v
	}
	if setting == "receipt" && n == 1 && !a.policy.RequireOwnerReceipt && a.level() < 2 {
		return verdict{code: CodeTrustTooLow}
	}
	a.updated = m.now
	m.trust(a, func() {
		switch {
		case setting == "mailbox" && text != a.mailbox:
			a.mailbox = text
			a.unverify()
		case setting == "owner" && text != a.owner:
			a.owner, a.claimed = text, nil
		case setting == "name":
			a.name = text
		case setting == "public":
			a.public = n == 1
		case setting == "accepting":
			a.policy.Accepting = n == 1
		case setting == "level":
			a.policy.MinLevel = n
		case setting == "offering":
			a.policy.RequireOffering = n == 1
		case setting == "cap":
			a.policy.WeeklyCap = n
		case setting == "receipt":
			a.policy.RequireOwnerReceipt = n == 1
		}
	})
	return granted
}

// unverify is what another mailbox brings: level 0, and no code is good any more.
// A claim that nobody has confirmed ends; the page of one who has keeps working.
func (a *modelAgent) unverify() {
	a.verified, a.claimed = nil, nil
	a.voidCodes(MailVerify, MailRecover)
	if a.claim != nil && a.claim.status == statusPending {
		a.endClaim()
	}
}

func (a *modelAgent) voidCodes(purposes ...string) {
	for _, p := range purposes {
		if c := a.codes[p]; c != nil {
			a.void[p] = c.code
			delete(a.codes, p)
		}
	}
}

// replaceMenu checks a whole new menu: an id must be one of the old, once.
func (m *model) replaceMenu(a *modelAgent, drafts []OfferingDraft) verdict {
	if v := m.may(a); v.refused() {
		return v
	}
	given := map[string]bool{}
	for _, d := range drafts {
		if d.ID == "" {
			continue
		}
		if given[d.ID] || a.offering(d.ID) == nil {
			return verdict{code: CodeValidationFailed}
		}
		given[d.ID] = true
	}
	a.menu = nil
	for _, d := range drafts {
		a.menu = append(a.menu, Offering{ID: d.ID, Title: d.Title, Deliverable: d.Deliverable, Mode: d.Mode, Languages: texts{}, Tags: texts{}})
	}
	a.updated = m.now
	m.touched[a] = true
	return granted
}

func (a *modelAgent) offering(id string) *Offering {
	for i := range a.menu {
		if a.menu[i].ID == id {
			return new(a.menu[i])
		}
	}
	return nil
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
			if c.has(a) && c.status == collabPending {
				m.decide(c, collabDeclined, c.other(a))
			}
		}
	})
	for _, b := range m.agents {
		delete(b.blocks, a)
	}
	a.deleted, a.claim, a.events = true, nil, nil
	a.verified, a.claimed, a.person = nil, nil, ""
}

// leave is what becomes of a request when one side goes.
func (m *model) leave(q *modelRequest, a *modelAgent) {
	m.moved = append(m.moved, q)
	m.settle(q)
	switch {
	case !q.isOpen() && q.boxes == nil:
	case q.boxes != nil && q.from == a:
		q.boxes = &Mailboxes{To: q.boxes.To}
	case q.boxes != nil:
		q.boxes = &Mailboxes{From: q.boxes.From}
	case q.from == a:
		m.move(q, requestWithdrawn, q.to)
	default:
		m.move(q, requestDeclined, q.from)
	}
}

func (m *model) suspend(a *modelAgent, until Time) {
	a.suspended, a.until, a.unswept = true, until, until != 0
	m.touchCard(a)
}

func (m *model) unsuspend(a *modelAgent) {
	a.suspended, a.until, a.unswept = false, 0, false
	m.touchCard(a)
}

// Proofs.

func (m *model) startVerify(a *modelAgent) (sent bool, v verdict) {
	if v := m.may(a); v.refused() {
		return false, v
	}
	if a.verified != nil {
		return false, verdict{code: CodeAlreadyVerified}
	}
	return m.mail(a, a.mailbox)
}

// startRecovery never tells how it went; asked says whether there is a new code.
func (m *model) startRecovery(a *modelAgent) (sent, asked bool) {
	if !m.reachable(a) || a.verified == nil {
		return false, false
	}
	sent, v := m.mail(a, a.mailbox)
	return sent, !v.refused()
}

// keepCode is for a new code, which voids the one before. Where no mail could be
// sent there is one all the same, which nobody knows: "".
func (m *model) keepCode(a *modelAgent, purpose, code string) {
	a.voidCodes(purpose)
	a.codes[purpose] = &modelCode{code: code, created: m.now, expires: m.now.add(15 * time.Minute)}
}

func (m *model) confirmVerify(a *modelAgent, right bool) verdict {
	if v := m.may(a); v.refused() {
		return v
	}
	if a.verified != nil {
		return verdict{code: CodeAlreadyVerified}
	}
	if v := m.tryCode(a, MailVerify, right); v.refused() {
		return v
	}
	m.trust(a, func() { a.verified, a.updated = new(m.now), m.now })
	return granted
}

func (m *model) confirmRecovery(a *modelAgent, right bool) verdict {
	if !m.reachable(a) || a.verified == nil {
		return verdict{code: CodeCodeExpired}
	}
	m.touched[a] = true
	return m.tryCode(a, MailRecover, right)
}

func (m *model) tryCode(a *modelAgent, purpose string, right bool) verdict {
	c := a.codes[purpose]
	switch {
	case c == nil:
		return verdict{code: CodeCodeExpired}
	case c.wrong == 5:
		return verdict{code: CodeTooManyAttempts, retry: max(c.created.add(m.limits.mails.Pause), m.now)}
	case c.expires <= m.now:
		return verdict{code: CodeCodeExpired}
	case !right:
		c.wrong++
		return verdict{code: CodeWrongCode}
	}
	a.voidCodes(purpose)
	return granted
}

// modelPerson is what the spellings of one address have in common.
func modelPerson(address string) string {
	local, domain, _ := strings.Cut(strings.ToLower(address), "@")
	local, _, _ = strings.Cut(local, "+")
	return local + "@" + domain
}

// mail counts a mail that an agent asks for. Where others have used up a
// mailbox's mails, none is sent, without a word: so its own to one mailbox count
// whether they were sent or not.
func (m *model) mail(a *modelAgent, address string) (sent bool, v verdict) {
	caps, person := m.limits.mails, modelPerson(address)
	mine := func(l modelMail) bool { return l.agent == a }
	for _, limit := range []struct {
		calls  int
		window time.Duration
		counts func(modelMail) bool
	}{
		{caps.Agent, 24 * time.Hour, mine},
		{min(1, int(caps.Pause)), caps.Pause, mine},
		{caps.Mailbox, 24 * time.Hour, func(l modelMail) bool { return mine(l) && l.person == person }},
		{caps.Site, 24 * time.Hour, func(l modelMail) bool { return l.sent }},
	} {
		if retry, met := m.mailsMet(limit.calls, limit.window, limit.counts); met {
			return false, verdict{code: CodeRateLimited, retry: retry}
		}
	}
	_, met := m.mailsMet(caps.Mailbox, 24*time.Hour, func(l modelMail) bool { return l.sent && l.person == person })
	m.mails = append(m.mails, modelMail{agent: a, person: person, sent: !met, at: m.now})
	return !met, granted
}

// mailsMet tells whether a limit is met, and when it no longer will be.
func (m *model) mailsMet(limit int, window time.Duration, counts func(modelMail) bool) (retry Time, met bool) {
	var times []Time
	for _, l := range m.mails {
		if counts(l) {
			times = append(times, l.at)
		}
	}
	return m.limitMet(limit, window, times)
}

// limitMet looks at times in order: so many within the window meet the limit,
// until the oldest of the last so many has left it. 0 is no limit.
func (m *model) limitMet(limit int, window time.Duration, times []Time) (retry Time, met bool) {
	if limit == 0 || len(times) < limit {
		return 0, false
	}
	retry = times[len(times)-limit].add(window)
	return retry, retry > m.now
}

// Owners.

// askOwner begins a claim. The same person gets a fresh link, which takes the place
// of the one before: at once, or, where the owner has confirmed, when it arrives.
// Where none can be mailed, the one that is good stays so, and nobody can tell.
func (m *model) askOwner(a *modelAgent, address string) (sent bool, v verdict) {
	if v := m.may(a); v.refused() {
		return false, v
	}
	if a.verified == nil {
		return false, verdict{code: CodeTrustTooLow}
	}
	person := modelPerson(address)
	same := a.claim != nil && a.claim.person == person
	if a.claim != nil && a.claim.status == statusClaimed && !same {
		return false, verdict{code: CodeAlreadyClaimed}
	}
	if sent, v = m.mail(a, address); v.refused() {
		return false, v
	}
	for _, u := range m.unwanted {
		if u.agent == a && u.person == person && u.at.add(30*24*time.Hour) > m.now {
			sent = false // though the mail was counted
		}
	}
	m.touched[a] = true
	keepsLink := !sent && same && !m.claimExpired(a.claim)
	if a.claim == nil {
		a.claim = &modelClaim{status: statusPending}
	}
	if c := a.claim; !keepsLink && c.status == statusPending {
		a.link("")
		c.person, c.mailbox = person, a.mailbox
	}
	a.claim.requested, a.claim.expires = m.now, m.now.add(72*time.Hour)
	return sent, granted
}

// link puts a link to the owner's page in the place of the one before; "" is one
// that nobody knows.
func (a *modelAgent) link(token string) {
	if a.claim.token != "" {
		a.voidLink = a.claim.token
	}
	a.claim.token = token
}

func (a *modelAgent) endClaim() {
	if a.claim != nil {
		a.link("")
		a.claim = nil
	}
}

func (m *model) claimExpired(c *modelClaim) bool {
	return c.status == statusPending && c.expires <= m.now
}

// ownerClaim is how the agent itself sees its claim. One that lapsed waits for
// the owner.
func (m *model) ownerClaim(a *modelAgent) OwnerClaim {
	c := a.claim
	switch {
	case c == nil:
		return OwnerClaim{Status: statusNone}
	case m.claimExpired(c):
		return OwnerClaim{Status: statusExpired, RequestedAt: &c.requested, ExpiresAt: &c.expires}
	case c.status == statusPending:
		return OwnerClaim{Status: statusPending, RequestedAt: &c.requested, ExpiresAt: &c.expires}
	case a.claimed == nil:
		return OwnerClaim{Status: statusPending, RequestedAt: &c.requested}
	}
	return OwnerClaim{Status: statusClaimed, RequestedAt: &c.requested}
}

// pageOpens tells whether a link leads to the agent's owner's page.
func (m *model) pageOpens(a *modelAgent, token string) bool {
	return !a.deleted && a.claim != nil && token != "" && a.claim.token == token && !m.claimExpired(a.claim)
}

// actAsOwner presses a button of the page. confirmed says that the agent's handle
// came with it.
func (m *model) actAsOwner(a *modelAgent, act OwnerAct, q *modelRequest, confirmed bool) verdict {
	m.touched[a] = true
	pending, lapsed := a.claim.status == statusPending, a.claimed == nil
	switch act {
	case OwnerConfirm:
		if !pending && !lapsed {
			return verdict{code: CodeInvalidState}
		}
		return m.confirmClaim(a)
	case OwnerReject:
		if !pending {
			return verdict{code: CodeInvalidState}
		}
		m.unwanted = append(m.unwanted, modelUnwanted{a, a.claim.person, m.now})
		a.endClaim()
		return granted
	}
	if pending {
		return verdict{code: CodeInvalidState}
	}
	switch act {
	case OwnerWithdraw:
		m.trust(a, func() {
			a.claimed, a.person, a.policy.RequireOwnerReceipt, a.updated = nil, "", false, m.now
			a.endClaim()
		})
	case OwnerRotateKey:
		m.takeBack(a)
	case OwnerRetire:
		if !confirmed {
			return verdict{code: CodeValidationFailed}
		}
		m.delete(a)
	case OwnerAgree, OwnerRefuse:
		if act == OwnerAgree && m.isSuspended(a) {
			return verdict{code: CodeInvalidState} // its mailbox is nobody's now
		}
		return m.actOn(q, a, string(act), "")
	}
	return granted
}

func (m *model) confirmClaim(a *modelAgent) verdict {
	if a.verified == nil {
		return verdict{code: CodeTrustTooLow}
	}
	others := 0
	for _, b := range m.agents {
		if b != a && b.person == a.claim.person {
			others++
		}
	}
	if m.limits.ownerAgents > 0 && others >= m.limits.ownerAgents {
		return verdict{code: CodeSenderLimitReached}
	}
	m.trust(a, func() {
		a.claimed, a.person, a.updated = new(m.now), a.claim.person, m.now
		a.claim.status, a.claim.mailbox = statusClaimed, a.mailbox
	})
	return granted
}

// takeBack gives the owner the key; a mailbox changed since the claim may be a
// thief's.
func (m *model) takeBack(a *modelAgent) {
	m.trust(a, func() {
		if a.mailbox != a.claim.mailbox {
			a.unverify()
			a.updated = m.now
		}
		a.voidCodes(MailVerify, MailRecover)
	})
}

// Contact requests.

// send adds a request, which the caller gives its id, or nil.
func (m *model) send(from, to *modelAgent, draft RequestDraft) (*modelRequest, verdict) {
	if v := m.may(from); v.refused() {
		return nil, v
	}
	if !m.reachable(to) {
		return nil, verdict{code: CodeNotFound}
	}
	m.settlePair(from, to) // which a refused call has touched too
	if v := m.admits(from, to, draft.OfferingID); v.refused() {
		return nil, v
	}
	q := &modelRequest{
		from: from, to: to, draft: draft, offering: to.offering(draft.OfferingID), status: requestPending,
		created: m.now, updated: m.now, expires: m.now.add(7 * 24 * time.Hour),
	}
	from.sent = append(from.sent, m.now)
	m.requests, m.moved = append(m.requests, q), append(m.moved, q)
	m.touched[from] = true
	m.tell(to, modelEvent{kind: "request.received", about: &q.id, handle: from.Handle})
	return q, granted
}

// admits holds a request against the rules, in their order.
func (m *model) admits(from, to *modelAgent, offering string) verdict {
	p := to.policy
	switch {
	case from == to:
		return verdict{code: CodeSelfRequest}
	case from.level() < 1, from.level() < p.MinLevel:
		return verdict{code: CodeTrustTooLow}
	case !p.Accepting, to.blocks[from]:
		return verdict{code: CodeNotAccepting}
	case p.RequireOffering && offering == "", offering != "" && to.offering(offering) == nil:
		return verdict{code: CodeValidationFailed}
	}
	var declined Time
	for _, q := range m.requests {
		if q.from != from || q.to != to {
			continue
		}
		if q.isOpen() {
			return verdict{code: CodeDuplicate}
		}
		if q.status == requestDeclined {
			declined = max(declined, *q.decided)
		}
	}
	if again := declined.add(30 * 24 * time.Hour); declined != 0 && again > m.now {
		return verdict{code: CodeCooldown, retry: again}
	}
	if retry, met := m.limitMet(m.daily(from), 24*time.Hour, from.sent); met {
		return verdict{code: CodeSenderLimitReached, retry: retry}
	}
	if retry, met := m.limitMet(p.WeeklyCap, 7*24*time.Hour, m.received(to)); met {
		return verdict{code: CodeWeeklyCapReached, retry: retry}
	}
	return granted
}

// daily is how many requests an agent may send a day.
func (m *model) daily(a *modelAgent) int {
	if m.now < a.created.add(7*24*time.Hour) {
		return m.limits.requests.RequestsFirstWeek
	}
	return m.limits.requests.Requests
}

// received are the times, in order, of what counts against an agent's weekly cap:
// what one sender withdrew counts as one, the last of them.
func (m *model) received(a *modelAgent) []Time {
	var times []Time
	withdrawn := map[*modelAgent]Time{}
	for _, q := range m.requests {
		switch {
		case q.to != a || q.created.add(7*24*time.Hour) <= m.now:
		case q.status == requestWithdrawn:
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

func (q *modelRequest) isOpen() bool {
	return q.status == requestPending || q.status == requestAwaiting
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
	q.status, q.updated, q.decided = requestExpired, q.expires, &q.expires
	m.moved = append(m.moved, q)
	m.tell(q.from, modelEvent{kind: "request.expired", about: &q.id, handle: q.to.Handle})
	m.tell(q.to, modelEvent{kind: "request.expired", about: &q.id, handle: q.from.Handle})
}

// move takes an open request on, and tells of it.
func (m *model) move(q *modelRequest, to string, told ...*modelAgent) verdict {
	q.status, q.updated = to, m.now
	if to != requestAwaiting {
		q.decided = new(m.now)
	}
	if to == requestAccepted {
		q.boxes = &Mailboxes{From: new(q.from.mailbox), To: new(q.to.mailbox)}
	}
	for _, a := range told {
		other := q.from
		if a == q.from {
			other = q.to
		}
		m.tell(a, modelEvent{kind: "request." + to, about: &q.id, handle: other.Handle})
	}
	return granted
}

// actOn is the table of the contract's contact requests. Those that an agent
// itself does come with its word that it may; agree and refuse are its owner's.
func (m *model) actOn(q *modelRequest, a *modelAgent, act, reason string) verdict {
	if q == nil || a != q.from && a != q.to {
		return verdict{code: CodeNotFound}
	}
	m.moved = append(m.moved, q)
	m.touched[q.from], m.touched[q.to] = true, true
	m.settlePair(q.from, q.to)
	if (act == "withdraw") != (a == q.from) {
		return verdict{code: CodeForbidden}
	}
	switch {
	case act == "accept" && q.status == requestPending && a.policy.RequireOwnerReceipt:
		return m.move(q, requestAwaiting)
	case act == "accept" && q.status == requestPending:
		return m.move(q, requestAccepted, q.from)
	case act == "accept" && q.status == requestAwaiting:
		return granted
	case act == "decline" && q.isOpen():
		q.reason = reason
		return m.move(q, requestDeclined, q.from)
	case act == "withdraw" && q.isOpen():
		return m.move(q, requestWithdrawn, q.to)
	case act == "agree" && q.status == requestAwaiting:
		return m.move(q, requestAccepted, q.from, q.to)
	case act == "refuse" && q.status == requestAwaiting:
		return m.move(q, requestDeclined, q.from, q.to)
	case act == "report":
		a.blocks[q.from] = true
		if q.isOpen() {
			m.move(q, requestDeclined, q.from)
		}
		return granted
	}
	// What is there already stays as it is.
	there := map[string]string{
		"accept": requestAccepted, "agree": requestAccepted,
		"decline": requestDeclined, "refuse": requestDeclined, "withdraw": requestWithdrawn,
	}
	if q.status != there[act] {
		return verdict{code: CodeInvalidState}
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

// counts is the one rule of what is evidence.
func (c *modelCollab) counts() bool {
	return c.status == collabConfirmed && c.initiator.claimed != nil && c.partner.claimed != nil &&
		c.initiator.person != c.partner.person
}

func (m *model) evidence(a *modelAgent) (n int) {
	for _, c := range m.collabs {
		if c.has(a) && c.counts() {
			n++
		}
	}
	return n
}

func (m *model) record(a, partner *modelAgent, draft CollabDraft) (*modelCollab, verdict) {
	if v := m.may(a); v.refused() {
		return nil, v
	}
	if v := m.mayRecord(a, partner, draft.RequestID); v.refused() {
		return nil, v
	}
	c := &modelCollab{initiator: a, partner: partner, draft: draft, status: collabPending, created: m.now}
	m.collabs, m.decided = append(m.collabs, c), append(m.decided, c)
	m.touched[a] = true
	m.tell(partner, modelEvent{kind: "collab.received", about: &c.id, handle: a.Handle})
	return c, granted
}

func (m *model) mayRecord(a, partner *modelAgent, request string) verdict {
	if !m.reachable(partner) || partner == a || request != "" && !m.between(request, a, partner) {
		return verdict{code: CodeValidationFailed}
	}
	var declined Time
	pending, waits := 0, false
	for _, c := range m.collabs {
		if c.initiator != a {
			continue
		}
		if c.status == collabPending {
			pending++
			waits = waits || c.partner == partner
		}
		if c.status == collabDeclined && c.partner == partner {
			declined = max(declined, *c.decided)
		}
	}
	again := declined.add(30 * 24 * time.Hour)
	switch {
	case waits:
		return verdict{code: CodeDuplicate}
	case partner.blocks[a]:
		return verdict{code: CodeNotAccepting}
	case declined != 0 && again > m.now:
		return verdict{code: CodeCooldown, retry: again}
	case pending >= 5:
		return verdict{code: CodeSenderLimitReached}
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
		return verdict{code: CodeNotFound}
	case a != c.partner:
		return verdict{code: CodeForbidden}
	case c.status == to:
		return granted
	case c.status != collabPending:
		return verdict{code: CodeInvalidState}
	}
	m.decide(c, to, c.initiator)
	return granted
}

func (m *model) decide(c *modelCollab, to string, told *modelAgent) {
	c.status, c.decided = to, new(m.now)
	m.decided = append(m.decided, c)
	m.touched[c.initiator], m.touched[c.partner] = true, true
	m.tell(told, modelEvent{kind: "collab." + to, about: &c.id, handle: c.other(told).Handle})
}

// The clock.

// runDue is what the job does that runs now and then. Only what it drops, and
// when it tells of what has run out, can be noticed.
func (m *model) runDue() {
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
		for a.dropped < len(a.events) && a.events[a.dropped].at.add(30*24*time.Hour) <= m.now {
			a.dropped++
		}
		if c := a.claim; c != nil && m.claimExpired(c) && c.expires.add(30*24*time.Hour) <= m.now {
			a.endClaim()
		}
	}
}
