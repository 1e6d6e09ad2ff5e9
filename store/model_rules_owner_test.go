package store

import (
	"cmp"
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
	m.tell(a, modelEvent{kind: domain.EventMailFailed, handle: a.Handle})
}

// giveUp ends a verification that waits to be sent. It counts no longer, but for networks, unless its code was guessed at.
func (m *model) giveUp(a *modelAgent) {
	if a.unsent != nil && a.codes[domain.MailVerify].wrong == 0 {
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

// startRecovery never tells how it went. A code that was mailed stays good for a day, and may be mailed twice
// more. Where none could be mailed there is one all the same, which nobody knows.
func (m *model) startRecovery(a *modelAgent) (sent []string) {
	caps := m.limits.mails
	if m.mayFrom().refused() {
		return nil
	}
	m.countNetworks()
	names, mailbox := m.recoverers(a)
	for _, name := range names {
		c := a.codes[name]
		if c == nil || len(c.mailed) == 0 || c.expires <= m.now {
			created := m.now
			if c != nil && len(c.mailed) == 0 && c.expires > m.now {
				created = c.created // it waits for a mail since then
			}
			a.voidCodes(name)
			c = &modelCode{created: created, expires: m.now.Add(48 * time.Hour)}
			a.codes[name] = c
		}
		if n := len(c.mailed); caps.Repeat > 0 && n > 0 && (n == 3 || m.now < c.mailed[n-1].Add(caps.Repeat)) {
			continue
		}
		person := modelPerson(mailbox[name])
		switch {
		case name != domain.MailRecover:
			if m.stopped[person] || !m.spendFormer(a, person) {
				continue
			}
		case m.mailboxSpent(a, person, len(c.mailed) == 0) || m.provenSpent():
			continue
		default:
			m.mails = append(m.mails, modelMail{agent: a, person: person, pool: domain.PoolProven, sent: true, kept: len(c.mailed) == 0, at: m.now})
		}
		if len(c.mailed) == 0 {
			c.expires = m.now.Add(24 * time.Hour)
		}
		c.mailed, sent = append(c.mailed, m.now), append(sent, name)
	}
	return sent
}

// keepCode is for a new code, which voids the one before. Where no mail could be
// sent there is one all the same, which nobody knows: "".
func (m *model) keepCode(a *modelAgent, purpose, code string) {
	a.voidCodes(purpose)
	a.codes[purpose] = &modelCode{code: code, created: m.now, expires: m.now.Add(15 * time.Minute)}
}

func (m *model) confirmVerify(a *modelAgent, right bool) verdict {
	if v := m.mayOwn(a); v.refused() {
		return v
	}
	if a.verified != nil {
		return verdict{code: domain.CodeAlreadyVerified}
	}
	if v := m.tryCode(a, domain.MailVerify, right); v.refused() {
		return v
	}
	m.returnTo(a, a.mailbox)
	m.trust(a, func() { a.verified, a.updated = new(m.now), m.now })
	return granted
}

// Former mailboxes.

const modelFormerAge = 7 * 24 * time.Hour

// leaveMailbox is for a mailbox that another replaces: if it was verified, its holder is told and may
// recover the key for a while.
func (m *model) leaveMailbox(a *modelAgent) {
	if a.verified == nil {
		return
	}
	a.formers = slices.DeleteFunc(a.formers, func(f *modelFormer) bool { return f.mailbox == a.mailbox })
	a.formers = append(a.formers, &modelFormer{a.mailbox, m.now})
	slices.SortFunc(a.formers, func(f, g *modelFormer) int {
		return cmp.Or(cmp.Compare(f.left, g.left), strings.Compare(f.mailbox, g.mailbox))
	})
	m.notify(a, domain.MailChanged, a.mailbox)
}

// returnTo is for a former mailbox that is verified again while it may recover the key: later ones do not count any more.
func (m *model) returnTo(a *modelAgent, mailbox string) {
	i := slices.IndexFunc(a.formers, func(f *modelFormer) bool { return f.mailbox == mailbox })
	if i < 0 || a.formers[i].left.Add(modelFormerAge) <= m.now {
		return
	}
	left := a.formers[i].left
	a.forget(func(f *modelFormer) bool { return f.left >= left })
}

// leftBefore tells whether a code is of a former mailbox that was left by a time.
func (a *modelAgent) leftBefore(name string, time domain.Time) bool {
	return slices.ContainsFunc(a.formers, func(f *modelFormer) bool {
		return name == domain.MailFormer+" "+f.mailbox && f.left <= time
	})
}

func (a *modelAgent) forget(which func(*modelFormer) bool) {
	for _, f := range a.formers {
		if which(f) {
			a.voidCodes(domain.MailFormer + " " + f.mailbox)
		}
	}
	a.formers = slices.DeleteFunc(a.formers, which)
}

// recoverers are the mailboxes that may recover an agent's key, by the names of their codes.
func (m *model) recoverers(a *modelAgent) (names []string, mailbox map[string]string) {
	mailbox = map[string]string{}
	if a == nil || a.deleted {
		return nil, mailbox
	}
	if a.verified != nil {
		names, mailbox[domain.MailRecover] = append(names, domain.MailRecover), a.mailbox
	}
	former := 0
	for _, f := range a.formers {
		if former < 3 && f.left.Add(modelFormerAge) > m.now && (f.mailbox != a.mailbox || a.verified == nil) {
			name := domain.MailFormer + " " + f.mailbox
			names, mailbox[name] = append(names, name), f.mailbox
			former++
		}
	}
	return names, mailbox
}

func (m *model) notifyAll(a *modelAgent, kind string) {
	names, mailbox := m.recoverers(a)
	for _, name := range names {
		m.notify(a, kind, mailbox[name])
	}
}

// notify mails a notice. An address gets a few a day, an agent causes three times as many; they count in no pool.
func (m *model) notify(a *modelAgent, kind, mailbox string) {
	person, limit := modelPerson(mailbox), m.limits.mails.Notices
	_, met := m.mailsMet(limit, 24*time.Hour, func(l modelMail) bool { return l.person == "notice "+person })
	_, spent := m.mailsMet(3*limit, 24*time.Hour, func(l modelMail) bool { return l.noticeOf == a })
	if m.stopped[person] || met || spent {
		return
	}
	m.mails = append(m.mails, modelMail{noticeOf: a, person: "notice " + person, sent: true, at: m.now})
	m.notices = append(m.notices, modelNotice{kind, a.Handle, mailbox})
}

// spendFormer counts a recovery code to a former mailbox, in no pool.
func (m *model) spendFormer(a *modelAgent, person string) bool {
	person = "former " + a.Handle + " " + person
	_, met := m.mailsMet(m.limits.mails.Notices, 24*time.Hour, func(l modelMail) bool { return l.person == person })
	if met {
		return false
	}
	m.mails = append(m.mails, modelMail{person: person, sent: true, at: m.now})
	return true
}

func (m *model) provenSpent() bool {
	_, spent := m.mailsMet((m.limits.mails.Site+1)/2, 24*time.Hour, func(l modelMail) bool { return l.sent && l.pool == domain.PoolProven })
	return spent
}

// confirmRecovery tries a code, which is the right one of that name or none.
func (m *model) confirmRecovery(a *modelAgent, right string, endClaim bool) (v verdict, ended bool) {
	v.code = domain.CodeCodeExpired
	names, mailbox := m.recoverers(a)
	for _, name := range names {
		switch c := a.codes[name]; {
		case c == nil || c.expires <= m.now:
		case name == right:
			return granted, m.recoverKey(a, name, mailbox[name], endClaim)
		default:
			v.code = domain.CodeWrongCode
		}
	}
	return v, false
}

// recoverKey gives the key to the holder of a mailbox. A claim that nobody confirmed ends, and one that is younger than 30 days if that mailbox was
// left before the claim was last confirmed, which may be a thief's doing; or when asked, by the claim's own mailbox alone.
func (m *model) recoverKey(a *modelAgent, name, mailbox string, endClaim bool) (ended bool) {
	a.voidCodes(name)
	a.wake = nil // which a thief of the key may have set
	m.notifyAll(a, domain.MailRecovered)
	m.trust(a, func() {
		c := a.claim
		young := c != nil && (c.confirmed == 0 || c.confirmed.Add(30*24*time.Hour) > m.now)
		if young && (c.confirmed == 0 || a.leftBefore(name, c.confirmedLast) || endClaim && mailbox == c.mailbox) {
			m.withdraw(a)
			ended = true
		}
		if name != domain.MailRecover {
			m.returnTo(a, mailbox)
			a.unverify()
			a.mailbox, a.verified, a.updated = mailbox, new(m.now), m.now
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

func (m *model) tryCode(a *modelAgent, purpose string, right bool) verdict {
	c := a.codes[purpose]
	switch {
	case c == nil:
		return verdict{code: domain.CodeCodeExpired}
	case c.wrong == 5:
		return verdict{code: domain.CodeTooManyAttempts, retry: m.nextMail(a, purpose, a.mailbox)}
	case c.expires <= m.now:
		return verdict{code: domain.CodeCodeExpired}
	case !right:
		if purpose == domain.MailVerify {
			c.wrong++
		}
		return verdict{code: domain.CodeWrongCode}
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
// mailbox's mails, none is sent, without a word; nor to a person who has said
// lately that the agent is not theirs.
func (m *model) mail(a *modelAgent, kind, address string) (sent bool, v verdict) {
	if v := m.mayMail(a, kind, address); v.refused() {
		return false, v
	}
	person := modelPerson(address)
	sent = !m.mailboxSpent(a, person, false) && m.wants(a, person)
	m.mails = append(m.mails, modelMail{agent: a, person: person, pool: domain.PoolOf(kind), sent: sent, at: m.now})
	m.countNetworks()
	return sent, granted
}

// mailboxSpent tells whether a mailbox has had its mails of the day, or its holder wants none. The last is for the first mail with a recovery
// alone, where an agent is verified at the mailbox. Those that wait for such a code for longer are before it, and one of them before all
// other mails.
func (m *model) mailboxSpent(a *modelAgent, person string, recovery bool) bool {
	if m.stopped[person] {
		return true
	}
	limit, waiting, since := m.limits.mails.Mailbox, 0, m.now
	if recovery {
		since = a.codes[domain.MailRecover].created
	}
	for _, b := range m.agents {
		if c := b.codes[domain.MailRecover]; !b.deleted && b != a && b.verified != nil && modelPerson(b.mailbox) == person &&
			c != nil && len(c.mailed) == 0 && c.expires > m.now && c.created < since {
			waiting++
		}
	}
	if !recovery {
		waiting = min(waiting, 1)
	}
	if limit > 0 && waiting >= limit {
		return true
	}
	_, met := m.mailsMet(max(0, limit-waiting), 24*time.Hour, func(l modelMail) bool { return l.sent && l.person == person })
	if recovery || limit <= 1 || !slices.ContainsFunc(m.agents, func(a *modelAgent) bool {
		return !a.deleted && a.verified != nil && modelPerson(a.mailbox) == person
	}) {
		return met
	}
	_, kept := m.mailsMet(limit-1, 24*time.Hour, func(l modelMail) bool { return l.sent && l.person == person && !l.kept })
	return met || kept
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
// of the one before: at once, or, where the owner has confirmed, when it arrives.
// Where none can be mailed, the one that is good stays so, and nobody can tell.
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
	keepsLink := !sent && same && !m.claimExpired(a.claim)
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
	a.forget(func(f *modelFormer) bool { return f.mailbox != a.claim.mailbox && f.left > a.claim.confirmedLast })
	m.trust(a, func() {
		if a.mailbox != a.claim.mailbox {
			a.unverify()
			a.updated = m.now
		}
	})
}
