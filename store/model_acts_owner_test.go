package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"callbook/store/domain"
)

// Proofs.

// mailed takes what waits in the outbox, and is the secret of the mail that must
// be there; "" when none must. ended is how its delivery ends.
func (r *modelRun) mailed(want bool, kind, handle, address string, ended domain.MailOutcome) string {
	var wanted []modelNotice
	if want {
		wanted = append(wanted, modelNotice{kind, handle, address})
	}
	for _, secret := range r.mailedAll(wanted, ended) {
		return secret
	}
	return ""
}

// mailedAll is mailed for any number of mails. It returns their secrets, by kind and address.
func (r *modelRun) mailedAll(want []modelNotice, ended domain.MailOutcome) map[modelNotice]string {
	secrets := map[modelNotice]string{}
	var got []string
	for {
		mail, due, err := r.s.StartMail(background)
		if err != nil {
			r.differ("begin a mail: %v", err)
			return secrets
		}
		if !due {
			break
		}
		if r.unsent[mail.ID] {
			if err := r.s.FinishMail(background, mail, domain.MailDelayed); err != nil {
				r.differ("end a mail: %v", err)
			}
			continue
		}
		r.unsent[mail.ID] = ended == domain.MailDelayed
		got = append(got, fmt.Sprint(mail.Kind, mail.Handle, modelPerson(mail.To)))
		secrets[modelNotice{mail.Kind, mail.Handle, mail.To}] = mail.Secret
		r.stops[modelPerson(mail.To)] = mail.Stop
		if err := r.s.FinishMail(background, mail, ended); err != nil {
			r.differ("end a mail: %v", err)
		}
	}
	var wanted []string
	for _, w := range want {
		wanted = append(wanted, fmt.Sprint(w.kind, w.handle, modelPerson(w.address)))
	}
	slices.Sort(got)
	slices.Sort(wanted)
	r.equal("the mails", got, wanted)
	return secrets
}

// comesFrom is the agent at one of the addresses of the sequence.
func (r *modelRun) comesFrom(a modelAct, who *modelAgent) domain.Caller {
	caller := who.Caller
	caller.Address = modelAddresses[a.n]
	r.m.from = caller.Address
	return caller
}

func makeVerify(r *modelRun, a *modelAct) bool {
	a.n = r.rng.IntN(len(modelAddresses))
	unverified := r.those(func(a *modelAgent) bool { return a.verified == nil })
	if len(unverified) == 0 || r.chance(10) {
		a.who = r.anyone().Handle
		return r.chance(10)
	}
	a.who = r.pick(unverified).Handle
	if r.chance(20) {
		a.choice = "while the mail server is down"
	} else if r.chance(10) {
		a.choice = "by a mail that is refused"
	}
	if r.chance(10) {
		r.burn("confirm the code", a.who)
	}
	r.then(70, modelAct{kind: "confirm the code", who: a.who, choice: "right"})
	return true
}

func doVerify(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	got, err := r.s.StartVerify(background, r.comesFrom(a, on.who))
	sent, want := r.m.startVerify(on.who)
	ended := map[string]domain.MailOutcome{
		"": domain.MailDelivered, "while the mail server is down": domain.MailDelayed, "by a mail that is refused": domain.MailRejected,
	}[a.choice]
	if code := r.mailed(sent, domain.MailVerify, a.who, on.who.mailbox, ended); !want.refused() {
		r.m.keepCode(on.who, code)
		if sent && ended == domain.MailDelayed {
			unsent := r.m.mails[len(r.m.mails)-1]
			on.who.unsent = &unsent
		}
	}
	if err == nil {
		r.equal("the code's times", got, domain.CodeSent{ExpiresAt: r.m.now.Add(15 * time.Minute), ResendAfter: r.m.nextMail(on.who, domain.MailVerify, on.who.mailbox)})
	}
	if sent && ended == domain.MailRejected {
		r.m.rejectMail(on.who)
	}
	return want, err
}

// makeConfirm is mostly for those that have a code, or had one.
func makeConfirm(r *modelRun, a *modelAct) bool {
	purpose := modelPurpose(a.kind)
	waiting := r.those(func(a *modelAgent) bool {
		live := a.code != nil
		if purpose == domain.MailRecover {
			live = len(a.recovery) > 0
		}
		return live || a.void[purpose] != "" && r.chance(10)
	})
	if len(waiting) == 0 {
		a.who = r.anyone().Handle
		return r.chance(5)
	}
	a.who, a.n = r.pick(waiting).Handle, r.rng.IntN(6)
	a.choice = []string{"right", "right", "right", "right, in another spelling", "void", "wrong", "another's"}[r.rng.IntN(7)]
	return true
}

// burn queues wrong tries, about as many as a code bears.
func (r *modelRun) burn(kind, who string) {
	for range 3 + r.rng.IntN(3) {
		r.then(100, modelAct{kind: kind, who: who, choice: "wrong"})
	}
}

func modelPurpose(kind string) string {
	if kind == "confirm the recovery" {
		return domain.MailRecover
	}
	return domain.MailVerify
}

// verificationCode is the code that an act tries, and whether it is right.
func (r *modelRun) verificationCode(a modelAct, on *modelAgent) (code string, right bool) {
	if on.code != nil && on.code.code != "" && a.isRight() {
		return a.spelled(on.code.code), true
	}
	return r.wrongCode(a, on, func(other *modelAgent) []*modelCode { return []*modelCode{other.code} }), false
}

// wrongCode is one that is void, that of another agent, or one of nobody.
func (r *modelRun) wrongCode(a modelAct, on *modelAgent, codes func(*modelAgent) []*modelCode) string {
	if void := on.void[modelPurpose(a.kind)]; a.choice == "void" && void != "" {
		return void
	}
	for _, other := range r.m.agents {
		for _, c := range codes(other) {
			if a.choice == "another's" && other != on && c != nil && c.code != "" {
				return c.code
			}
		}
	}
	return "ZZZZ-ZZZZ"
}

func (a *modelAct) isRight() bool {
	return a.choice == "right" || a.choice == "right, in another spelling"
}

// spelled is a code in the spelling that an act chooses.
func (a *modelAct) spelled(code string) string {
	if a.choice == "right, in another spelling" {
		return strings.ToLower(strings.NewReplacer("-", "", "0", "o", "1", "l").Replace(code))
	}
	return code
}

func doConfirm(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	code, right := r.verificationCode(a, on.who)
	got, err := r.s.ConfirmVerify(background, on.who.Caller, code)
	if err == nil && got.Handle != a.who {
		r.differ("the card of %s after its verification is of %q", a.who, got.Handle)
	}
	return r.m.confirmVerify(on.who, right), err
}

func makeRecover(r *modelRun, a *modelAct) bool {
	a.n = r.rng.IntN(len(modelAddresses))
	a.who = r.anyone().Handle
	if r.chance(10) {
		r.burn("confirm the recovery", a.who)
	}
	r.then(60, modelAct{kind: "confirm the recovery", who: a.who, choice: "right"})
	return true
}

func doRecover(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	_, err := r.s.StartRecovery(background, a.who, r.comesFrom(a, on.who).Address)
	sent := r.m.startRecovery(on.who)
	secrets := r.mailedAll(sent, domain.MailDelivered)
	for i, to := range sent {
		on.who.recovery[len(on.who.recovery)-len(sent)+i].code = secrets[to]
	}
	return granted, err
}

// recoveryCode is the code that an act tries, and which one it is.
func (r *modelRun) recoveryCode(a modelAct, on *modelAgent) (string, *modelCode) {
	if known := on.recovery; len(known) > 0 && a.isRight() {
		c := known[len(known)-1-a.n%len(known)]
		if c.code != "" {
			return a.spelled(c.code), c
		}
	}
	return r.wrongCode(a, on, func(other *modelAgent) []*modelCode { return other.recovery }), nil
}

func doConfirmRecovery(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	code, right := r.recoveryCode(a, on.who)
	endClaim := a.n%2 == 1
	done, err := r.s.ConfirmRecovery(background, a.who, code, endClaim)
	if err == nil {
		on.who.rekey(done.Key)
		r.equal("when the key was replaced", done.RotatedAt, r.m.now)
	}
	want, ended := r.m.confirmRecovery(on.who, right, endClaim)
	if err == nil {
		r.equal("the end of the claim", done.ClaimEnded, ended)
	}
	return want, err
}

// makeEndMails is for one who got a mail; most take it back soon.
func makeEndMails(r *modelRun, a *modelAct) bool {
	persons := slices.Sorted(maps.Keys(r.stops))
	if len(persons) == 0 {
		return false
	}
	a.text, a.choice = persons[r.rng.IntN(len(persons))], "stop"
	if r.m.stopped[a.text] {
		a.choice = "resume"
	}
	r.then(70, modelAct{kind: "end mails", text: a.text, choice: "resume"})
	return true
}

func doEndMails(r *modelRun, a modelAct, _ modelTarget) (verdict, error) {
	token := r.stops[a.text]
	if token == "" {
		return granted, nil // a replay has left its mail out
	}
	stop := a.choice == "stop"
	if err := r.s.StopMails(background, token, stop); err != nil {
		return granted, err
	}
	r.m.stopped[a.text] = stop
	for _, agent := range r.m.agents {
		if stop && agent.unsent != nil && agent.unsent.sent && agent.unsent.person == a.text {
			agent.unsent = nil // the mail is deleted, and counts
		}
	}
	got, err := r.s.MailsStopped(background, token)
	r.equal("whether mails are ended", got, stop)
	return granted, err
}

// Owners.

func makeAskOwner(r *modelRun, a *modelAct) bool {
	a.n = r.rng.IntN(len(modelAddresses))
	able := r.those(func(a *modelAgent) bool { return a.verified != nil })
	if len(able) == 0 || r.chance(5) {
		able = r.m.agents
	}
	a.who = r.pick(able).Handle
	a.text = modelMailbox(modelPersons[r.rng.IntN(3)], r.rng.IntN(4))
	if c := r.m.agent(a.who).claim; c != nil && c.status == statusClaimed && r.chance(60) {
		a.text = modelMailbox(strings.TrimSuffix(c.person, "@people.example.org"), r.rng.IntN(4))
	}
	if r.chance(10) {
		a.choice = "by a mail that is refused"
	}
	r.then(50, modelAct{kind: "owner", who: a.who, choice: string(domain.OwnerConfirm)})
	return true
}

func doAskOwner(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	got, err := r.s.ClaimOwner(background, r.comesFrom(a, on.who), a.text)
	sent, want := r.m.askOwner(on.who, a.text)
	kind := domain.MailClaim
	if on.who.claim != nil && on.who.claim.status == statusClaimed {
		kind = domain.MailOwner
	}
	ended := domain.MailDelivered
	if a.choice != "" {
		ended = domain.MailRejected
	}
	if token := r.mailed(sent, kind, a.who, a.text, ended); sent && ended == domain.MailDelivered {
		on.who.link(token)
		on.who.claim.used = r.m.now
	}
	if err == nil {
		r.equal("the claim's times", got, domain.CodeSent{ExpiresAt: r.m.now.Add(72 * time.Hour), ResendAfter: r.m.nextMail(on.who, domain.MailClaim, a.text)})
	}
	if sent && ended == domain.MailRejected {
		r.m.rejectMail(on.who)
	}
	return want, err
}

func makeOwner(r *modelRun, a *modelAct) bool {
	claimed := r.those(func(a *modelAgent) bool { return a.claim != nil && (a.claim.token != "" || r.chance(10)) })
	if len(claimed) == 0 {
		return false
	}
	agent := r.pick(claimed)
	a.who = agent.Handle
	acts := []domain.OwnerAction{domain.OwnerConfirm, domain.OwnerConfirm, domain.OwnerConfirm, domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerAgree}
	if agent.claim.status == statusClaimed && (agent.claimed != nil || r.chance(50)) {
		acts = []domain.OwnerAction{domain.OwnerAgree, domain.OwnerAgree, domain.OwnerAgree, domain.OwnerRefuse, domain.OwnerRefuse, domain.OwnerWithdraw, domain.OwnerRotateKey, domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWaive}
		if r.chance(5) {
			acts = []domain.OwnerAction{domain.OwnerRetire}
		}
		if agent.deletion != 0 && r.chance(60) || r.chance(2) {
			acts = []domain.OwnerAction{domain.OwnerKeep, domain.OwnerKeep, domain.OwnerRotateKey}
		}
	}
	a.choice = string(acts[r.rng.IntN(len(acts))])
	if a.choice == string(domain.OwnerAgree) || a.choice == string(domain.OwnerRefuse) {
		waiting := r.requests(func(q *modelRequest) bool { return q.to == agent && q.status == domain.RequestAwaiting })
		if len(waiting) == 0 || r.chance(15) {
			waiting = r.m.requests
		}
		if len(waiting) == 0 {
			return false
		}
		a.record = waiting[r.rng.IntN(len(waiting))].made
	}
	if a.choice == string(domain.OwnerRotateKey) && r.chance(30) {
		// domain.IdempotencyKey more while a code is on its way.
		r.then(100, modelAct{kind: "recover", who: a.who})
		r.then(100, modelAct{kind: a.kind, who: a.who, choice: a.choice})
		r.then(100, modelAct{kind: "confirm the recovery", who: a.who, choice: "right"})
	}
	if r.chance(12) {
		a.text = []string{"by a void link", "on a stale page", "with another handle"}[r.rng.IntN(3)]
	}
	return true
}

// doOwner opens the owner's page and presses a button there.
func doOwner(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	agent, token := on.who, on.who.voidLink
	if agent.claim != nil && a.text != "by a void link" {
		token = agent.claim.token
	}
	opens := r.m.pageOpens(agent, token)
	page, err := r.s.OwnerPage(background, token)
	if !opens {
		r.outcome("the owner's page", verdict{code: domain.CodeNotFound}, err)
	} else if err == nil {
		r.samePage(page, agent)
		r.m.openPage(agent.claim)
	}
	call := domain.OwnerSubmission{Token: token, Form: page.Form, Act: domain.OwnerAction(a.choice), Confirm: a.who}
	if on.request != nil {
		call.Request = on.request.id
	}
	stale := opens && a.text == "on a stale page" && agent.claim.staleForm != ""
	if stale {
		call.Form = agent.claim.staleForm
	}
	if a.text == "with another handle" {
		call.Confirm = "another"
	}
	done, err := r.s.ActAsOwner(background, call)
	want := verdict{code: domain.CodeNotFound}
	switch {
	case stale:
		want.code = domain.CodeInvalidState
	case opens:
		want = r.m.actAsOwner(agent, call.Act, on.request, call.Confirm == a.who)
	}
	if err == nil && agent.claim != nil {
		agent.claim.staleForm, agent.claim.used = page.Form, r.m.now
	}
	if done.Key != "" {
		agent.rekey(done.Key)
	}
	return want, err
}
