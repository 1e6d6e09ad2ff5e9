package store

import (
	"slices"
	"strings"
	"time"

	"callbook/store/domain"
)

// The model of how an agent and its owner prove who they are.

// Proofs.

func (m *model) startVerify(a *modelAgent) (sent bool, v verdict) {
	if v := m.mayOwn(a); v.refused() {
		return false, v
	}
	if a.verified != nil {
		return false, verdict{code: domain.CodeAlreadyVerified}
	}
	if sent, v = m.mail(a, domain.MailVerify, a.mailbox); !v.refused() {
		m.giveUp(a)
	}
	return sent, v
}

// rejectMail ends the last mail of an agent, which counts against it no longer.
func (m *model) rejectMail(a *modelAgent) {
	m.mails[len(m.mails)-1].agent = nil
	m.addEvent(a, modelEvent{kind: domain.EventMailFailed, handle: a.Handle})
}

// giveUp ends a verification that waits to be sent. It counts no longer, but for networks, unless its code was guessed at.
func (m *model) giveUp(a *modelAgent) {
	if a.unsent != nil && a.code.wrong == 0 {
		for i := range m.mails {
			if m.mails[i] == *a.unsent {
				m.mails[i].agent, m.mails[i].sent = nil, false
			}
		}
	}
	a.unsent = nil
}

// expireMails gives up the verifications whose code has expired, and tells whether there was one.
func (m *model) expireMails() (expired bool) {
	for _, a := range m.agents {
		if a.unsent != nil && !a.deleted && a.unsent.at.Add(15*time.Minute) <= m.now {
			m.giveUp(a)
			expired = true
		}
	}
	return expired
}

// startRecovery never tells how it went. Each mail has a code of its own, which stays good for a day; a mailbox gets
// three of them a day, an hour apart.
func (m *model) startRecovery(a *modelAgent) (sent []modelNotice) {
	caps := m.limits.mails
	if m.mayFrom().refused() {
		return nil
	}
	m.countNetworks()
	for _, to := range m.recoverers(a) {
		var times []domain.Time
		for _, c := range a.recovery {
			if c.mailbox == to.address {
				times = append(times, c.created)
			}
		}
		_, soon := m.limitMet(min(1, int(caps.Repeat)), caps.Repeat, times)
		_, many := m.limitMet(3, 24*time.Hour, times)
		if caps.Repeat > 0 && (soon || many) {
			continue
		}
		person := modelPerson(to.address)
		switch {
		case m.stopped[person]:
			continue
		case to.kind == domain.MailFormer:
		case m.mailboxSpent(person, true) || m.provenSpent():
			continue
		default:
			m.mails = append(m.mails, modelMail{agent: a, person: person, pool: domain.PoolProven, sent: true, at: m.now})
		}
		a.recovery = append(a.recovery, &modelCode{mailbox: to.address, created: m.now, expires: m.now.Add(24 * time.Hour)})
		sent = append(sent, to)
	}
	return sent
}

// keepCode is for a new code that verifies, which voids the one before. Where no mail could be
// sent there is one all the same, which nobody knows: "".
func (m *model) keepCode(a *modelAgent, code string) {
	a.voidCode()
	a.code = &modelCode{code: code, expires: m.now.Add(15 * time.Minute)}
}

func (m *model) confirmVerify(a *modelAgent, right bool) verdict {
	if v := m.mayOwn(a); v.refused() {
		return v
	}
	if a.verified != nil {
		return verdict{code: domain.CodeAlreadyVerified}
	}
	if v := m.tryCode(a, right); v.refused() {
		return v
	}
	a.returned()
	m.trust(a, func() { a.verified, a.updated = new(m.now), m.now })
	return granted
}

// Former mailboxes.

const modelFormerAge = 7 * 24 * time.Hour

// leaveMailbox is for a mailbox that another replaces: if it was verified, its holder is told and may
// recover the key for a while, unless another one may.
func (m *model) leaveMailbox(a *modelAgent) {
	if a.verified == nil {
		return
	}
	if a.formerMailbox == nil || a.formerMailbox.left.Add(modelFormerAge) <= m.now {
		a.formerMailbox = &modelFormer{a.mailbox, m.now}
	}
	m.notify(a, domain.MailChanged, a.mailbox)
}

// returned is for a former mailbox that is the verified one again.
func (a *modelAgent) returned() {
	if a.formerMailbox != nil && a.formerMailbox.mailbox == a.mailbox {
		a.formerMailbox = nil
	}
}

// recoverers are the mails to those that may recover an agent's key.
func (m *model) recoverers(a *modelAgent) (all []modelNotice) {
	if a == nil || a.deleted {
		return nil
	}
	if a.verified != nil {
		all = append(all, modelNotice{domain.MailRecover, a.Handle, a.mailbox})
	}
	if a.formerMailbox != nil && a.formerMailbox.left.Add(modelFormerAge) > m.now {
		all = append(all, modelNotice{domain.MailFormer, a.Handle, a.formerMailbox.mailbox})
	}
	return all
}

// live are the recovery codes of a mailbox.
func (m *model) live(a *modelAgent, mailbox string) (codes []*modelCode) {
	for _, c := range a.recovery {
		if c.mailbox == mailbox && c.expires > m.now {
			codes = append(codes, c)
		}
	}
	return codes
}

func (m *model) notifyAll(a *modelAgent, kind string) {
	for _, to := range m.recoverers(a) {
		m.notify(a, kind, to.address)
	}
}

// notify mails a notice. An address gets a few a day; they count in no pool.
func (m *model) notify(a *modelAgent, kind, mailbox string) {
	person, limit := modelPerson(mailbox), m.limits.mails.Notices
	_, met := m.mailsMet(limit, 24*time.Hour, func(l modelMail) bool { return l.person == "notice "+person })
	if m.stopped[person] || met {
		return
	}
	m.mails = append(m.mails, modelMail{person: "notice " + person, sent: true, at: m.now})
	m.notices = append(m.notices, modelNotice{kind, a.Handle, mailbox})
}

func (m *model) provenSpent() bool {
	_, spent := m.mailsMet((m.limits.mails.Site+1)/2, 24*time.Hour, func(l modelMail) bool { return l.sent && l.pool == domain.PoolProven })
	return spent
}

// confirmRecovery tries a code, which is the right one or none.
func (m *model) confirmRecovery(a *modelAgent, right *modelCode, endClaim bool) (v verdict, ended bool) {
	v.code = domain.CodeCodeExpired
	for _, by := range m.recoverers(a) {
		codes := m.live(a, by.address)
		if right != nil && slices.Contains(codes, right) {
			return granted, m.recoverKey(a, by, endClaim)
		}
		if len(codes) > 0 {
			v.code = domain.CodeWrongCode
		}
	}
	return v, false
}

// recoverKey gives the key to the holder of a mailbox. A claim that nobody confirmed ends, and one that is younger than 30 days if that mailbox was
// left before the claim was last confirmed, which may be a thief's doing; or when asked, by the claim's own mailbox alone.
func (m *model) recoverKey(a *modelAgent, by modelNotice, endClaim bool) (ended bool) {
	a.recovery = slices.DeleteFunc(a.recovery, func(c *modelCode) bool {
		if c.mailbox == by.address && c.code != "" {
			a.void[domain.MailRecover] = c.code
		}
		return c.mailbox == by.address
	})
	a.wake = nil // which a thief of the key may have set
	m.notifyAll(a, domain.MailRecovered)
	m.trust(a, func() {
		c, former := a.claim, by.kind == domain.MailFormer
		young := c != nil && (c.confirmed == 0 || c.confirmed.Add(30*24*time.Hour) > m.now)
		if young && (c.confirmed == 0 || former && a.formerMailbox.left <= c.confirmedLast || endClaim && by.address == c.mailbox) {
			m.withdraw(a)
			ended = true
		}
		if former {
			a.formerMailbox = nil
			a.unverify()
			a.mailbox, a.verified, a.updated = by.address, new(m.now), m.now
		}
		m.keep(a)
	})
	return ended
}

// withdraw ends a claim.
func (m *model) withdraw(a *modelAgent) {
	a.claimed, a.person, a.policy.RequireOwnerReceipt, a.updated = nil, "", false, m.now
	a.endClaim()
}

// keep takes a deletion back.
func (m *model) keep(a *modelAgent) {
	if a.deletion != 0 {
		a.deletion, a.updated = 0, m.now
	}
}

func (m *model) tryCode(a *modelAgent, right bool) verdict {
	c := a.code
	switch {
	case c == nil:
		return verdict{code: domain.CodeCodeExpired}
	case c.wrong == 5:
		return verdict{code: domain.CodeTooManyAttempts, retry: m.nextMail(a, domain.MailVerify, a.mailbox)}
	case c.expires <= m.now:
		return verdict{code: domain.CodeCodeExpired}
	case !right:
		c.wrong++
		return verdict{code: domain.CodeWrongCode}
	}
	a.voidCode()
	return granted
}

// modelPerson is what the spellings of one address have in common.
func modelPerson(address string) string {
	local, domain, _ := strings.Cut(strings.ToLower(address), "@")
	local, _, _ = strings.Cut(local, "+")
	return local + "@" + domain
}

// mail counts a mail that an agent asks for. Where others have used up a
// mailbox's mails, none is sent, without a word; nor to a person who has said
// lately that the agent is not theirs.
func (m *model) mail(a *modelAgent, kind, address string) (sent bool, v verdict) {
	if v := m.mayMail(a, kind, address); v.refused() {
		return false, v
	}
	person := modelPerson(address)
	sent = !m.mailboxSpent(person, false) && m.wants(a, person)
	m.mails = append(m.mails, modelMail{agent: a, person: person, pool: domain.PoolOf(kind), sent: sent, at: m.now})
	m.countNetworks()
	return sent, granted
}

// mailboxSpent tells whether a mailbox has had its mails of the day, or its holder wants none. The last is for a recovery
// alone, where an agent is verified at the mailbox.
func (m *model) mailboxSpent(person string, recovery bool) bool {
	limit := m.limits.mails.Mailbox
	verified := slices.ContainsFunc(m.agents, func(a *modelAgent) bool {
		return !a.deleted && a.verified != nil && modelPerson(a.mailbox) == person
	})
	if !recovery && limit > 1 && verified {
		limit--
	}
	_, met := m.mailsMet(limit, 24*time.Hour, func(l modelMail) bool { return l.sent && l.person == person })
	return met || m.stopped[person]
}

// wants tells whether a person has not said lately that an agent is not theirs.
func (m *model) wants(a *modelAgent, person string) bool {
	return !slices.ContainsFunc(m.unwanted, func(u modelUnwanted) bool {
		return u.agent == a && u.person == person && u.at.Add(30*24*time.Hour) > m.now
	})
}

// mayFrom holds a mail against the caps of the networks that it is asked from.
func (m *model) mayFrom() (v verdict) {
	for i, network := range domain.Networks(m.from) {
		if retry, met := m.limitMet(m.limits.mails.Network[i], 24*time.Hour, m.networks[network]); met {
			v = verdict{code: domain.CodeRateLimited, retry: max(v.retry, retry)}
		}
	}
	return v
}

func (m *model) countNetworks() {
	for _, network := range domain.Networks(m.from) {
		m.networks[network] = append(m.networks[network], m.now)
	}
}

// mayMail holds a mail against the caps that an agent may hear of. Its own mails
// to one mailbox count whether they were sent or not.
func (m *model) mayMail(a *modelAgent, kind, address string) verdict {
	v := m.mayFrom()
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
		{(caps.Site + 1) / 2, 24 * time.Hour, func(l modelMail) bool { return l.sent && l.pool == domain.PoolOf(kind) }},
	} {
		if retry, met := m.mailsMet(limit.calls, limit.window, limit.counts); met {
			v = verdict{code: domain.CodeRateLimited, retry: max(v.retry, retry)}
		}
	}
	return v
}

// nextMail is when an agent may ask for a mail again.
func (m *model) nextMail(a *modelAgent, kind, address string) domain.Time {
	return max(m.mayMail(a, kind, address).retry, m.now)
}

// mailsMet tells whether a limit is met, and when it no longer will be.
func (m *model) mailsMet(limit int, window time.Duration, counts func(modelMail) bool) (retry domain.Time, met bool) {
	var times []domain.Time
	for _, l := range m.mails {
		if counts(l) {
			times = append(times, l.at)
		}
	}
	return m.limitMet(limit, window, times)
}

// limitMet looks at times in order: so many within the window meet the limit,
// until the oldest of the last so many has left it. 0 is no limit.
func (m *model) limitMet(limit int, window time.Duration, times []domain.Time) (retry domain.Time, met bool) {
	if limit == 0 || len(times) < limit {
		return 0, false
	}
	retry = times[len(times)-limit].Add(window)
	return retry, retry > m.now
}

// Owners.

// askOwner begins a claim. The same person gets a fresh link, which takes the place
// of the one before when it arrives. Nobody can tell where none can be mailed.
func (m *model) askOwner(a *modelAgent, address string) (sent bool, v verdict) {
	if v := m.may(a); v.refused() {
		return false, v
	}
	if a.verified == nil {
		return false, verdict{code: domain.CodeTrustTooLow}
	}
	person := modelPerson(address)
	same := a.claim != nil && a.claim.person == person
	if a.claim != nil && a.claim.status == statusClaimed && !same {
		if v := m.mayMail(a, domain.MailClaim, address); v.refused() {
			return false, v
		}
		m.mails = append(m.mails, modelMail{agent: a, person: person, pool: domain.PoolProven, at: m.now})
		m.countNetworks()
		m.touched[a] = true
		return false, verdict{code: domain.CodeAlreadyClaimed}
	}
	if sent, v = m.mail(a, domain.MailClaim, address); v.refused() {
		return false, v
	}
	m.touched[a] = true
	keepsLink := same && !m.claimExpired(a.claim)
	if a.claim == nil {
		a.claim = &modelClaim{status: statusPending}
	}
	if c := a.claim; !keepsLink && c.status == statusPending {
		a.link("")
		c.person, c.mailbox = person, a.mailbox
	}
	a.claim.requested, a.claim.expires = m.now, m.now.Add(72*time.Hour)
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

// owned tells whether an agent has an owner whose page works, even if the claim lapsed.
func (a *modelAgent) owned() bool { return a.claim != nil && a.claim.status == statusClaimed }

func (m *model) claimExpired(c *modelClaim) bool {
	return c.status == statusPending && c.expires <= m.now
}

// ownerClaim is how the agent itself sees its claim. One that lapsed waits for
// the owner.
func (m *model) ownerClaim(a *modelAgent) domain.OwnerClaim {
	c := a.claim
	switch {
	case c == nil:
		return domain.OwnerClaim{Status: statusNone}
	case m.claimExpired(c):
		return domain.OwnerClaim{Status: statusExpired, RequestedAt: &c.requested, ExpiresAt: &c.expires}
	case c.status == statusPending:
		return domain.OwnerClaim{Status: statusPending, RequestedAt: &c.requested, ExpiresAt: &c.expires}
	case a.claimed == nil:
		return domain.OwnerClaim{Status: statusPending, RequestedAt: &c.requested}
	}
	return domain.OwnerClaim{Status: statusClaimed, RequestedAt: &c.requested}
}

// pageOpens tells whether a link leads to the agent's owner's page.
func (m *model) pageOpens(a *modelAgent, token string) bool {
	return !a.deleted && a.claim != nil && token != "" && a.claim.token == token && !m.claimExpired(a.claim) &&
		(a.claim.status == statusPending || a.claim.used.Add(365*24*time.Hour) > m.now)
}

// openPage is a use of the link.
func (m *model) openPage(c *modelClaim) {
	if c.used.Add(24*time.Hour) <= m.now {
		c.used = m.now
	}
}

// actAsOwner presses a button of the page. confirmed says that the agent's handle
// came with it.
func (m *model) actAsOwner(a *modelAgent, act domain.OwnerAction, q *modelRequest, confirmed bool) verdict {
	m.touched[a] = true
	pending, lapsed := a.claim.status == statusPending, a.claimed == nil
	if a.deletion != 0 && act != domain.OwnerKeep && act != domain.OwnerRotateKey && act != domain.OwnerRetire {
		return verdict{code: domain.CodeInvalidState}
	}
	switch act {
	case domain.OwnerConfirm:
		if !pending && !lapsed {
			return verdict{code: domain.CodeInvalidState}
		}
		return m.confirmClaim(a)
	case domain.OwnerReject:
		if !pending {
			return verdict{code: domain.CodeInvalidState}
		}
		m.unwanted = append(m.unwanted, modelUnwanted{a, a.claim.person, m.now})
		a.endClaim()
		return granted
	}
	if pending {
		return verdict{code: domain.CodeInvalidState}
	}
	switch act {
	case domain.OwnerWithdraw:
		m.trust(a, func() { m.withdraw(a) })
	case domain.OwnerKeep:
		if a.deletion == 0 {
			return verdict{code: domain.CodeInvalidState}
		}
		m.keep(a)
		m.touchCard(a)
	case domain.OwnerWaive:
		if !a.policy.RequireOwnerReceipt {
			return verdict{code: domain.CodeInvalidState}
		}
		a.policy.RequireOwnerReceipt, a.updated = false, m.now
	case domain.OwnerRotateKey:
		m.takeBack(a)
	case domain.OwnerRetire:
		if !confirmed {
			return verdict{code: domain.CodeValidationFailed}
		}
		m.delete(a)
	case domain.OwnerAgree, domain.OwnerRefuse:
		if act == domain.OwnerAgree && m.isSuspended(a) {
			return verdict{code: domain.CodeInvalidState} // its mailbox is nobody's now
		}
		return m.actOn(q, a, string(act), "")
	}
	return granted
}

func (m *model) confirmClaim(a *modelAgent) verdict {
	if a.verified == nil {
		return verdict{code: domain.CodeTrustTooLow}
	}
	others := 0
	for _, b := range m.agents {
		if b != a && b.person == a.claim.person {
			others++
		}
	}
	if most := m.limits.requests[domain.LimitOwnerAgents]; most > 0 && others >= most {
		return verdict{code: domain.CodeSenderLimitReached}
	}
	if a.claim.status == statusPending {
		m.notifyAll(a, domain.MailClaimed)
		a.claim.confirmed = m.now
	}
	m.trust(a, func() {
		a.claimed, a.person, a.updated = new(m.now), a.claim.person, m.now
		a.claim.status, a.claim.mailbox, a.claim.confirmedLast = statusClaimed, a.mailbox, m.now
	})
	return granted
}

// takeBack gives the owner the key; a mailbox changed since the claim may be a
// thief's. Those from before it may be the rightful ones, where the owner is the thief.
func (m *model) takeBack(a *modelAgent) {
	a.wake = nil
	if f := a.formerMailbox; f != nil && f.mailbox != a.claim.mailbox && f.left > a.claim.confirmedLast {
		a.formerMailbox = nil
	}
	m.trust(a, func() {
		if a.mailbox != a.claim.mailbox {
			a.unverify()
			a.updated = m.now
		}
	})
}
