package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// modelAct is one act of a sequence, in words that a replay understands: agents
// by their handles, records by the act that made them.
type modelAct struct {
	number int
	step   time.Duration // by which the clock moves before it
	kind   string
	who    string // the agent that acts, or whose owner does
	whom   string // the other one
	record int    // the act that made the request or collaboration
	choice string // which variant
	text   string
	n      int
}

func (a modelAct) String() string {
	parts := []string{fmt.Sprintf("%4d. +%-12s %s %s", a.number, a.step, a.who, a.kind)}
	if a.whom != "" {
		parts = append(parts, a.whom)
	}
	if a.record != 0 {
		parts = append(parts, fmt.Sprintf("the record of %d", a.record))
	}
	if a.choice != "" || a.text != "" || a.n != 0 {
		parts = append(parts, fmt.Sprintf("(%s)", strings.Join(strings.Fields(fmt.Sprint(a.choice, " ", a.text, " ", a.n)), " ")))
	}
	return strings.Join(parts, " ")
}

// modelTarget is what an act's words mean.
type modelTarget struct {
	who, whom *modelAgent
	request   *modelRequest
	collab    *modelCollab
}

// resolve finds what an act is about; false when a replay has left it out.
func (m *model) resolve(a modelAct) (on modelTarget, ok bool) {
	on.who, on.whom = m.agent(a.who), m.agent(a.whom)
	for _, q := range m.requests {
		if q.made == a.record {
			on.request = q
		}
	}
	for _, c := range m.collabs {
		if c.made == a.record {
			on.collab = c
		}
	}
	return on, (a.who == "" || on.who != nil) && (a.record == 0 || on.request != nil || on.collab != nil)
}

// modelKind is a kind of act: do does it to the model and to the store, and
// returns how it must end and how it ended. What it fills in besides is the
// generator's.
type modelKind struct {
	name   string
	weight int
	make   func(r *modelRun, a *modelAct) bool // false when there is nothing to do it to
	do     func(r *modelRun, a modelAct, on modelTarget) (verdict, error)
}

var modelKinds = []modelKind{
	{"register", 2, makeRegister, doRegister},
	{"verify", 5, makeVerify, doVerify},
	{"confirm the code", 4, makeConfirm, doConfirm},
	{"recover", 1, makeRecover, doRecover},
	{"confirm the recovery", 1, makeConfirm, doConfirmRecovery},
	{"be verified by the operator", 1, makeOperator, doOperatorVerify},
	{"set", 7, makeSet, doSet},
	{"replace the menu", 3, makeMenu, doMenu},
	{"ask the owner", 6, makeAskOwner, doAskOwner},
	{"owner", 9, makeOwner, doOwner},
	{"send to", 24, makeSend, doSend},
	{"accept", 7, makeActOn, doActOn},
	{"decline", 4, makeActOn, doActOn},
	{"withdraw", 5, makeActOn, doActOn},
	{"report", 2, makeActOn, doActOn},
	{"record with", 6, makeRecord, doRecord},
	{"confirm", 6, makeAnswer, doAnswer},
	{"refuse", 2, makeAnswer, doAnswer},
	{"delete", 1, makeDelete, doDelete},
	{"be suspended", 1, makeOperator, doSuspend},
	{"be unsuspended", 2, makeUnsuspend, doUnsuspend},
	{"unblock", 1, makeUnblock, doUnblock},
	{"rotate the key", 2, makeAnyone, doRotate},
	{"show the key", 2, makeAnyone, doAuthenticate},
	{"read", 14, makeActOn, doRead},
	{"list requests", 5, makeList, doList},
	{"list collaborations", 4, makeListCollabs, doListCollabs},
	{"read events", 12, makeEvents, doEvents},
	{"due", 2, makeDue, doDue},
}

func modelKindOf(name string) modelKind {
	return modelKinds[slices.IndexFunc(modelKinds, func(k modelKind) bool { return k.name == name })]
}

var background = context.Background()

// then queues an act to follow, as likely as percent says.
func (r *modelRun) then(percent int, a modelAct) {
	if r.chance(percent) {
		r.queue = append(r.queue, a)
	}
}

// Agents.

// modelMailbox is a spelling of an address: 0 is its plainest.
func modelMailbox(name string, spelling int) string {
	switch spelling {
	case 1:
		name = strings.ToUpper(name)
	case 2:
		name += "+callbook"
	case 3:
		name = strings.ToUpper(name[:1]) + name[1:] + "+A.b"
	}
	return name + "@people.example.org"
}

var modelPersons = []string{"mei", "jonas", "aiko"}

// randomMailbox is mostly the agent's own, sometimes one that it shares with
// another agent or a person.
func (r *modelRun) randomMailbox(handle string) string {
	name := handle
	if r.chance(25) {
		name = []string{"shared", modelPersons[0]}[r.rng.IntN(2)]
	}
	return modelMailbox(name, r.rng.IntN(4))
}

func makeRegister(r *modelRun, a *modelAct) bool {
	living := len(r.living())
	if living >= r.crowd && !r.chance(3) {
		return false
	}
	a.whom = fmt.Sprintf("agent-%d", a.number)
	if r.chance(7) && living > 0 {
		a.whom = r.pick(r.m.agents).Handle
	}
	a.text = r.randomMailbox(a.whom)
	// Most soon get so far that the other acts have something to work on.
	for _, then := range []struct {
		percent int
		act     modelAct
	}{
		{60, modelAct{kind: "verify"}},
		{60, modelAct{kind: "confirm the code", choice: "right"}},
		{70, modelAct{kind: "set", choice: "offering"}},
		{40, modelAct{kind: "replace the menu", choice: "and one"}},
		{50, modelAct{kind: "set", choice: "cap", n: 1 + r.rng.IntN(3)}},
		{40, modelAct{kind: "ask the owner", text: modelMailbox(modelPersons[r.rng.IntN(3)], 0)}},
		{80, modelAct{kind: "owner", choice: string(OwnerConfirm)}},
	} {
		then.act.who, then.act.step = a.whom, time.Minute
		r.then(then.percent, then.act)
	}
	return true
}

func doRegister(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	draft := registration(a.whom)
	draft.Mailbox = a.text
	got, _, err := r.s.Register(background, draft, Once{})
	agent, want := r.m.register(a.whom, a.text)
	if agent != nil && err == nil {
		agent.ID, agent.key = got.Agent.ID, got.Key
		r.equal("the new card", got.Agent, r.card(agent, got.Agent))
	}
	return want, err
}

func makeSet(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	switch a.choice = []string{
		"name", "public", "accepting", "accepting", "level", "offering", "offering", "cap", "cap", "receipt", "receipt",
	}[r.rng.IntN(11)]; {
	case r.chance(6):
		a.choice = "mailbox"
	case r.chance(6):
		a.choice = "owner"
	}
	switch a.choice {
	case "mailbox":
		a.text = r.randomMailbox(a.who)
		r.then(30, modelAct{kind: "confirm the code", who: a.who, choice: "void"})
	case "owner":
		a.text = []string{"Mei Lin", "Jonas Berg"}[r.rng.IntN(2)]
	case "name":
		a.text = fmt.Sprintf("Name %d", a.number)
	case "accepting":
		a.n = 1 - r.rng.IntN(6)/5
	case "level":
		a.n = 1 + r.rng.IntN(4)/3
	case "cap":
		a.n = []int{1, 2, 3, 50, 50}[r.rng.IntN(5)]
	case "offering":
		a.n = r.rng.IntN(4) / 3
	default:
		a.n = r.rng.IntN(2)
	}
	return true
}

func doSet(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	_, err := r.s.UpdateAgent(background, on.who.Caller, func(s *Settings) error {
		switch a.choice {
		case "mailbox":
			s.Mailbox = a.text
		case "owner":
			s.Owner = a.text
		case "name":
			s.Name = a.text
		case "public":
			s.ContactPublic = a.n == 1
		case "accepting":
			s.ContactPolicy.Accepting = a.n == 1
		case "level":
			s.ContactPolicy.MinLevel = a.n
		case "offering":
			s.ContactPolicy.RequireOffering = a.n == 1
		case "cap":
			s.ContactPolicy.WeeklyCap = a.n
		case "receipt":
			s.ContactPolicy.RequireOwnerReceipt = a.n == 1
		}
		return nil
	})
	return r.m.update(on.who, a.choice, a.text, a.n), err
}

// makeMenu takes over some of the old entries, by the bits of n, and adds some.
func makeMenu(r *modelRun, a *modelAct) bool {
	a.who, a.n = r.anyone().Handle, r.rng.IntN(8)
	a.choice = []string{"and one", "and one", "and no more", "and an unknown one", "and the first twice"}[r.rng.IntN(5)]
	return true
}

func doMenu(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	var menu Menu
	add := func(id string) {
		if len(menu.Offerings) < 3 {
			title := fmt.Sprintf("Offer %d.%d", a.number, len(menu.Offerings))
			menu.Offerings = append(menu.Offerings, OfferingDraft{ID: id, Title: title, Deliverable: "A file", Mode: "free"})
		}
	}
	for i, o := range on.who.menu {
		if a.n>>i&1 == 1 {
			add(o.ID)
		}
	}
	switch {
	case a.choice == "and one":
		add("")
	case a.choice == "and an unknown one":
		add("off_unknown")
	case a.choice == "and the first twice" && len(menu.Offerings) > 0:
		add(menu.Offerings[0].ID)
	}
	got, err := r.s.ReplaceOfferings(background, on.who.Caller, menu)
	want := r.m.replaceMenu(on.who, menu.Offerings)
	for i := range got {
		if i < len(on.who.menu) && on.who.menu[i].ID == "" {
			on.who.menu[i].ID = got[i].ID
		}
	}
	if err == nil && len(got)+len(on.who.menu) > 0 {
		r.equal("the menu", got, on.who.menu)
	}
	return want, err
}

func makeDelete(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	return len(r.living()) > 2 && r.chance(60)
}

func doDelete(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	err := r.s.DeleteAgent(background, on.who.Caller)
	want := r.m.may(on.who)
	if !want.refused() {
		r.m.delete(on.who)
	}
	return want, err
}

func makeAnyone(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	return true
}

func doRotate(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	key, _, err := r.s.RotateKey(background, on.who.Caller, on.who.key)
	if err == nil {
		on.who.former, on.who.key = on.who.key, key
	}
	return r.m.may(on.who), err
}

func doAuthenticate(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who.former != "" {
		_, err := r.s.Authenticate(background, on.who.former)
		r.outcome("the former key", verdict{code: CodeUnauthorized}, err)
	}
	got, err := r.s.Authenticate(background, on.who.key)
	if err == nil && got != on.who.Caller {
		r.differ("the key is %s's", got.Handle)
	}
	return r.m.may(on.who), err
}

// The operator.

// makeOperator is for what happens to an agent that is there.
func makeOperator(r *modelRun, a *modelAct) bool {
	a.who = r.pick(r.living()).Handle
	if a.kind == "be suspended" {
		a.n = []int{0, 1, 60, 24 * 60, 5 * 24 * 60}[r.rng.IntN(5)]
	}
	return true
}

func doOperatorVerify(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who.deleted {
		return verdict{code: CodeNotFound}, r.s.Verify(background, a.who)
	}
	r.m.trust(on.who, func() {
		if on.who.verified == nil {
			on.who.verified = new(r.m.now)
		}
	})
	return granted, r.s.Verify(background, a.who)
}

// doSuspend suspends for n minutes, or without an end.
func doSuspend(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who.deleted {
		return verdict{code: CodeNotFound}, r.s.Suspend(background, a.who, "spam", time.Time{})
	}
	var until Time
	var end time.Time
	if a.n > 0 {
		until = r.m.now.add(time.Duration(a.n) * time.Minute)
		end = until.Time()
	}
	err := r.s.Suspend(background, a.who, "spam", end)
	r.m.suspend(on.who, until)
	return granted, err
}

func makeUnsuspend(r *modelRun, a *modelAct) bool {
	hidden := r.those(func(a *modelAgent) bool { return a.suspended })
	if len(hidden) == 0 {
		return false
	}
	a.who = r.pick(hidden).Handle
	return true
}

func doUnsuspend(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who.deleted {
		return verdict{code: CodeNotFound}, r.s.Unsuspend(background, a.who)
	}
	r.m.unsuspend(on.who)
	return granted, r.s.Unsuspend(background, a.who)
}

func makeUnblock(r *modelRun, a *modelAct) bool {
	blockers := r.those(func(a *modelAgent) bool { return len(a.blocks) > 0 })
	if len(blockers) == 0 {
		return false
	}
	a.who = r.pick(blockers).Handle
	return true
}

func doUnblock(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	r.s.change(nil, `DELETE FROM blocks WHERE blocker_id = ?`, on.who.ID)
	clear(on.who.blocks)
	return granted, nil
}

func makeDue(r *modelRun, a *modelAct) bool { return r.chance(r.sweeps) }

func doDue(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	r.m.runDue()
	return granted, r.s.RunDue(background)
}

// Proofs.

// mailed takes what waits in the outbox, and is the secret of the mail that must
// be there; "" when none must. ended is how its delivery ends.
func (r *modelRun) mailed(want bool, kind, handle, address string, ended MailOutcome) string {
	var mails []Mail
	for {
		mail, due, err := r.s.BeginMail(background)
		if err != nil {
			r.differ("begin a mail: %v", err)
			return ""
		}
		if !due {
			break
		}
		mails = append(mails, mail)
		if err := r.s.EndMail(background, mail, ended); err != nil {
			r.differ("end a mail: %v", err)
		}
	}
	if !want && len(mails) == 0 {
		return ""
	}
	if !want || len(mails) != 1 || mails[0].Kind != kind || mails[0].Handle != handle || modelPerson(mails[0].To) != modelPerson(address) {
		r.differ("mails: %+v, want one: %t, %s about %s to %s", mails, want, kind, handle, address)
		return ""
	}
	return mails[0].Secret
}

func makeVerify(r *modelRun, a *modelAct) bool {
	unverified := r.those(func(a *modelAgent) bool { return a.verified == nil })
	if len(unverified) == 0 || r.chance(10) {
		a.who = r.anyone().Handle
		return r.chance(10)
	}
	a.who = r.pick(unverified).Handle
	if r.chance(10) {
		r.burn("confirm the code", a.who)
	}
	r.then(70, modelAct{kind: "confirm the code", who: a.who, choice: "right"})
	return true
}

func doVerify(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	got, err := r.s.StartVerify(background, on.who.Caller)
	sent, want := r.m.startVerify(on.who)
	if code := r.mailed(sent, MailVerify, a.who, on.who.mailbox, MailDelivered); !want.refused() {
		r.m.keepCode(on.who, MailVerify, code)
	}
	if err == nil {
		r.equal("the code's times", got, CodeSent{r.m.now.add(15 * time.Minute), r.m.now.add(r.m.limits.mails.Pause)})
	}
	return want, err
}

// makeConfirm is mostly for those that have a code, or had one.
func makeConfirm(r *modelRun, a *modelAct) bool {
	purpose := modelPurpose(a.kind)
	waiting := r.those(func(a *modelAgent) bool { return a.codes[purpose] != nil || a.void[purpose] != "" && r.chance(10) })
	if len(waiting) == 0 {
		a.who = r.anyone().Handle
		return r.chance(5)
	}
	a.who = r.pick(waiting).Handle
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
		return MailRecover
	}
	return MailVerify
}

// modelCode is the code that an act tries, and whether it is right.
func (r *modelRun) modelCode(a modelAct, on *modelAgent) (code string, right bool) {
	purpose := modelPurpose(a.kind)
	live := on.codes[purpose]
	switch {
	case a.choice == "void" && on.void[purpose] != "":
		return on.void[purpose], false
	case a.choice == "another's":
		for _, other := range r.m.agents {
			if c := other.codes[purpose]; c != nil && c.code != "" && other != on {
				return c.code, false
			}
		}
	case live == nil || live.code == "" || a.choice == "wrong" || a.choice == "void":
	case a.choice == "right, in another spelling":
		return strings.ToLower(strings.NewReplacer("-", "", "0", "o", "1", "l").Replace(live.code)), true
	default:
		return live.code, true
	}
	return "ZZZZ-ZZZZ", false
}

func doConfirm(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	code, right := r.modelCode(a, on.who)
	_, err := r.s.ConfirmVerify(background, on.who.Caller, code)
	return r.m.confirmVerify(on.who, right), err
}

func makeRecover(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	if r.chance(10) {
		r.burn("confirm the recovery", a.who)
	}
	r.then(60, modelAct{kind: "confirm the recovery", who: a.who, choice: "right"})
	return true
}

func doRecover(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	err := r.s.StartRecovery(background, a.who)
	sent, asked := r.m.startRecovery(on.who)
	if code := r.mailed(sent, MailRecover, a.who, on.who.mailbox, MailDelivered); asked {
		r.m.keepCode(on.who, MailRecover, code)
	}
	return granted, err
}

func doConfirmRecovery(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	code, right := r.modelCode(a, on.who)
	key, rotated, err := r.s.ConfirmRecovery(background, a.who, code)
	if err == nil {
		on.who.former, on.who.key = on.who.key, key
		r.equal("when the key was replaced", rotated, r.m.now)
	}
	return r.m.confirmRecovery(on.who, right), err
}

// Owners.

func makeAskOwner(r *modelRun, a *modelAct) bool {
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
	r.then(50, modelAct{kind: "owner", who: a.who, choice: string(OwnerConfirm)})
	return true
}

func doAskOwner(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	expires, err := r.s.ClaimOwner(background, on.who.Caller, a.text)
	sent, want := r.m.askOwner(on.who, a.text)
	kind := MailClaim
	if on.who.claim != nil && on.who.claim.status == statusClaimed {
		kind = MailOwner
	}
	ended := MailDelivered
	if a.choice != "" {
		ended = MailRefused
	}
	if token := r.mailed(sent, kind, a.who, a.text, ended); sent && ended == MailDelivered {
		on.who.link(token)
	}
	if err == nil {
		r.equal("the end of the claim", expires, r.m.now.add(72*time.Hour))
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
	acts := []OwnerAct{OwnerConfirm, OwnerConfirm, OwnerConfirm, OwnerConfirm, OwnerReject, OwnerWithdraw, OwnerAgree}
	if agent.claim.status == statusClaimed && (agent.claimed != nil || r.chance(50)) {
		acts = []OwnerAct{OwnerAgree, OwnerAgree, OwnerAgree, OwnerRefuse, OwnerRefuse, OwnerWithdraw, OwnerRotateKey, OwnerConfirm, OwnerReject}
		if r.chance(5) {
			acts = []OwnerAct{OwnerRetire}
		}
	}
	a.choice = string(acts[r.rng.IntN(len(acts))])
	if a.choice == string(OwnerAgree) || a.choice == string(OwnerRefuse) {
		waiting := r.requests(func(q *modelRequest) bool { return q.to == agent && q.status == requestAwaiting })
		if len(waiting) == 0 || r.chance(15) {
			waiting = r.m.requests
		}
		if len(waiting) == 0 {
			return false
		}
		a.record = waiting[r.rng.IntN(len(waiting))].made
	}
	if a.choice == string(OwnerRotateKey) && r.chance(30) {
		// Once more while a code is on its way.
		r.then(100, modelAct{kind: "recover", who: a.who})
		r.then(100, modelAct{kind: a.kind, who: a.who, choice: a.choice})
		r.then(100, modelAct{kind: "confirm the recovery", who: a.who, choice: "void"})
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
		r.outcome("the owner's page", verdict{code: CodeNotFound}, err)
	} else if err == nil {
		r.samePage(page, agent)
	}
	call := OwnerCall{Token: token, Form: page.Form, Act: OwnerAct(a.choice), Confirm: a.who}
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
	want := verdict{code: CodeNotFound}
	switch {
	case stale:
		want.code = CodeInvalidState
	case opens:
		want = r.m.actAsOwner(agent, call.Act, on.request, call.Confirm == a.who)
	}
	if err == nil && agent.claim != nil {
		agent.claim.staleForm = page.Form
	}
	if done.Key != "" {
		agent.former, agent.key = agent.key, done.Key
	}
	return want, err
}

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
	if r.chance(25) {
		a.text = "after trying"
	}
	return true
}

func (r *modelRun) modelDraft(a modelAct, on modelTarget) RequestDraft {
	d := RequestDraft{Purpose: fmt.Sprintf("Purpose %d", a.number), Deliverable: "A file", Compensation: "none"}
	menu := []Offering{}
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
	got, _, err := r.s.SendRequest(background, on.who.Caller, a.whom, draft, Once{})
	q, want := r.m.send(on.who, on.whom, draft)
	if a.text != "" {
		r.equal("the outcome of trying", modelRefusalOf(tried), modelRefusalOf(err))
	}
	if q != nil && err == nil {
		q.made, q.id, q.seq = a.number, got.ID, got.Seq
		r.equal("the new request", got, r.view(q))
	}
	if want.retry != 0 && r.rng != nil && r.chance(25) {
		// Once more at the last moment when it is still refused, and at the next.
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
	if on.request == nil {
		return granted, nil
	}
	id := on.request.id
	var got Request
	var err error
	switch a.kind {
	case "accept":
		got, err = r.s.AcceptRequest(background, on.who.Caller, id)
	case "decline":
		got, err = r.s.DeclineRequest(background, on.who.Caller, id, DeclineDraft{Reason: a.text})
	case "withdraw":
		got, err = r.s.WithdrawRequest(background, on.who.Caller, id)
	case "report":
		got, err = r.s.ReportRequest(background, on.who.Caller, id, ReportDraft{Reason: "spam"})
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
	if on.request == nil {
		return granted, nil
	}
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
	a.text = []string{"", requestPending, requestAwaiting, requestAccepted, requestDeclined, requestWithdrawn, requestExpired}[r.rng.IntN(7)]
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
	if r.chance(10) {
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
	draft := CollabDraft{Partner: a.whom, Summary: fmt.Sprintf("Work %d", a.number)}
	if on.request != nil {
		draft.RequestID = on.request.id
	}
	got, _, err := r.s.RecordCollab(background, on.who.Caller, draft, Once{})
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
		if c.status == collabPending {
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
	if on.collab == nil {
		return granted, nil
	}
	call, to := r.s.ConfirmCollab, collabConfirmed
	if a.kind == "refuse" {
		call, to = r.s.DeclineCollab, collabDeclined
	}
	got, err := call(background, on.who.Caller, on.collab.id)
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
	a.text = []string{"", collabPending, collabConfirmed, collabDeclined}[r.rng.IntN(4)]
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
	last := min(a.n, on.who.heard-1)
	if !on.who.deleted && last >= 0 {
		r.eventsAfter(on.who, last)
	}
	return granted, nil
}
