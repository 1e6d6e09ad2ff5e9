package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"callbook/store/domain"
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
	post      *modelPost
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
	for _, p := range m.posts {
		if p.made == a.record {
			on.post = p
		}
	}
	return on, (a.who == "" || on.who != nil) && (a.record == 0 || on.request != nil || on.collab != nil || on.post != nil)
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
	{"invite", 1, makeInvite, doInvite},
	{"be approved", 2, makeApprove, doOperator},
	{"be rejected", 1, makeApprove, doOperator},
	{"verify", 5, makeVerify, doVerify},
	{"confirm the code", 4, makeConfirm, doConfirm},
	{"recover", 1, makeRecover, doRecover},
	{"confirm the recovery", 1, makeConfirm, doConfirmRecovery},
	{"be verified by the operator", 1, makeOperator, doOperator},
	{"set", 6, makeSet, doSet},
	{"replace the menu", 2, makeMenu, doMenu},
	{"ask the owner", 6, makeAskOwner, doAskOwner},
	{"owner", 9, makeOwner, doOwner},
	{"end mails", 1, makeEndMails, doEndMails},
	{"send to", 22, makeSend, doSend},
	{"accept", 7, makeActOn, doActOn},
	{"decline", 4, makeActOn, doActOn},
	{"withdraw", 5, makeActOn, doActOn},
	{"report", 2, makeActOn, doActOn},
	{"record with", 6, makeRecord, doRecord},
	{"confirm", 6, makeAnswer, doAnswer},
	{"refuse", 2, makeAnswer, doAnswer},
	{"delete", 1, makeDelete, doDelete},
	{"be unverified by the operator", 1, makeUnverify, doOperator},
	{"be unclaimed by the operator", 1, makeOperator, doOperator},
	{"be suspended", 1, makeOperator, doOperator},
	{"be unsuspended", 2, makeFor(func(a *modelAgent) bool { return a.suspended }), doOperator},
	{"unblock", 1, makeFor(func(a *modelAgent) bool { return len(a.blocks) > 0 }), doUnblock},
	{"rotate the key", 2, makeAnyone, doRotate},
	{"show the key", 2, makeAnyone, doAuthenticate},
	{"read", 18, makeActOn, doRead},
	{"list requests", 4, makeList, doList},
	{"list collaborations", 4, makeListCollabs, doListCollabs},
	{"publish", 8, makePublish, doPublish},
	{"unpublish", 1, makeUnpublish, doUnpublish},
	{"set watches", 5, makeWatches, doWatches},
	{"match posts", 4, makeMatch, doMatch},
	{"set the wake-up", 4, makeSetWake, doSetWake},
	{"remove the wake-up", 1, makeRemoveWake, doRemoveWake},
	{"start wake-ups", 8, makeStartWakes, doStartWakes},
	{"finish a wake-up of", 2, makeFinishWake, doFinishWake},
	{"read events", 16, makeEvents, doEvents},
	{"read the inbox", 8, makeEvents, doInbox},
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
	if r.m.limits.registration == domain.RegistrationInvite {
		if a.n = r.rng.IntN(len(r.m.invites) + 1); a.n == 0 && r.chance(80) {
			a.kind = "invite"
			return makeInvite(r, a)
		}
	}
	// Most soon get so far that the other acts have something to work on.
	for _, then := range []struct {
		percent int
		act     modelAct
	}{
		{map[bool]int{true: 70}[r.m.limits.registration == domain.RegistrationApprove], modelAct{kind: "be approved"}},
		{60, modelAct{kind: "verify"}},
		{60, modelAct{kind: "confirm the code", choice: "right"}},
		{70, modelAct{kind: "set", choice: "offering"}},
		{40, modelAct{kind: "replace the menu", choice: "and one"}},
		{50, modelAct{kind: "set", choice: "cap", n: 1 + r.rng.IntN(3)}},
		{40, modelAct{kind: "ask the owner", text: modelMailbox(modelPersons[r.rng.IntN(3)], 0)}},
		{80, modelAct{kind: "owner", choice: string(domain.OwnerConfirm)}},
	} {
		then.act.who, then.act.step = a.whom, time.Minute
		r.then(then.percent, then.act)
	}
	return true
}

func doRegister(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	draft := registration(a.whom)
	draft.Mailbox = a.text
	var invite *modelInvite
	if a.n > 0 && a.n <= len(r.m.invites) {
		invite = r.m.invites[a.n-1]
		draft.Invite = invite.secret
	} else if len(r.m.invites) > 0 {
		draft.Invite = domain.InviteID(r.m.invites[0].secret) // which names one, and is none
	}
	got, _, err := r.s.Register(background, draft, domain.IdempotencyKey{})
	agent, want := r.m.register(a.whom, a.text, invite)
	if agent != nil && err == nil {
		agent.ID = got.Agent.ID
		agent.rekey(got.Key)
		r.equal("the new card", got.Agent, r.card(agent, domain.Card{PublicAgent: got.Agent}).PublicAgent)
	}
	return want, err
}

// makeInvite makes an invitation for n agents, or revokes one.
func makeInvite(r *modelRun, a *modelAct) bool {
	if r.m.limits.registration != domain.RegistrationInvite {
		return false
	}
	a.n, a.choice, a.whom, a.text = 1+r.rng.IntN(4), "", "", ""
	if len(r.m.invites) > 0 && r.chance(20) {
		a.choice, a.n = "revoke", 1+r.rng.IntN(len(r.m.invites))
	}
	return true
}

func doInvite(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if a.choice != "revoke" {
		until := r.m.now.Add(time.Duration(a.n) * domain.Week)
		secret, _, err := r.s.CreateInvite(background, a.n, until.Time())
		r.m.invites = append(r.m.invites, &modelInvite{secret, a.n, until})
		return granted, err
	}
	if a.n > len(r.m.invites) {
		return granted, nil
	}
	invite := r.m.invites[a.n-1]
	err := r.s.RevokeInvite(background, domain.InviteID(invite.secret))
	if invite.left < 0 || errors.Is(err, domain.NewError(domain.CodeNotFound)) && invite.expires.Add(30*domain.Day) <= r.m.now {
		return verdict{code: domain.CodeNotFound}, err
	}
	invite.left = -1
	return granted, err
}

// makeApprove is mostly for an agent that waits for approval.
func makeApprove(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	waiting := r.those(func(a *modelAgent) bool { return a.awaiting })
	if len(waiting) > 0 {
		a.who = r.pick(waiting).Handle
	}
	return len(waiting) > 0 || r.chance(5)
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
		if r.chance(40) { // whose holder takes the agent back
			r.then(70, modelAct{kind: "verify", who: a.who})
			r.then(70, modelAct{kind: "confirm the code", who: a.who, choice: "right"})
			if r.chance(50) { // after a thief has claimed it
				r.then(100, modelAct{kind: "ask the owner", who: a.who, text: modelMailbox(modelPersons[r.rng.IntN(3)], 0), step: time.Minute})
				r.then(100, modelAct{kind: "owner", who: a.who, choice: string(domain.OwnerConfirm)})
				r.then(50, modelAct{kind: "owner", who: a.who, choice: string(domain.OwnerRotateKey)})
			}
			r.then(100, modelAct{kind: "recover", who: a.who, step: time.Minute})
			r.then(100, modelAct{kind: "confirm the recovery", who: a.who, choice: "right", n: r.rng.IntN(6)})
		}
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
		r.then(20*a.n, modelAct{kind: a.kind, who: a.who, choice: a.choice}) // which the owner of an agent must do
	}
	return true
}

func doSet(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	change := func(s *domain.Settings) {
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
	}
	got, err := r.s.UpdateAgent(background, on.who.Caller, func(s *domain.Settings) error { change(s); return nil })
	if err == nil && got.Handle != a.who { // also while nobody else sees the card
		r.differ("the card of %s after a change is of %q", a.who, got.Handle)
	}
	return r.m.update(on.who, change), err
}

// makeMenu takes over some of the old entries, by the bits of n, and adds some.
func makeMenu(r *modelRun, a *modelAct) bool {
	a.who, a.n = r.anyone().Handle, r.rng.IntN(8)
	a.choice = []string{"and one", "and one", "and no more", "and an unknown one", "and the first twice"}[r.rng.IntN(5)]
	return true
}

func doMenu(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	var menu domain.Menu
	add := func(id string) {
		if len(menu.Offerings) < 3 {
			title := fmt.Sprintf("Offer %d.%d", a.number, len(menu.Offerings))
			menu.Offerings = append(menu.Offerings, domain.OfferingDraft{ID: id, Title: title, Deliverable: "A file", Mode: "free"})
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
	if len(r.living()) <= 2 || !r.chance(60) {
		return false
	}
	r.then(20, modelAct{kind: "delete", who: a.who}) // which is on its way already if it has an owner
	return true
}

func doDelete(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	err := r.s.DeleteAgent(background, on.who.Caller)
	return r.m.deleteOwn(on.who), err
}

func makeAnyone(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	return true
}

func doRotate(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	key, _, err := r.s.RotateKey(background, on.who.Caller)
	if err == nil {
		on.who.rekey(key)
	}
	return r.m.mayOwn(on.who), err
}

func doAuthenticate(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.who.former != "" {
		_, err := r.s.Authenticate(background, on.who.former)
		r.outcome("the former key", verdict{code: domain.CodeUnauthorized}, err)
	}
	return r.m.mayRead(on.who), r.authenticate(on.who)
}

// authenticate shows an agent's key, which also shows the agent again after its suspension.
func (r *modelRun) authenticate(a *modelAgent) error {
	got, err := r.s.Authenticate(background, a.key)
	if err == nil && got != a.Caller {
		r.differ("the key is %s's", got.Handle)
	}
	if err == nil && r.m.now >= a.active.Add(5*time.Minute) {
		a.active = r.m.now
	}
	return err
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

// doOperator is what the operator does to an agent.
func doOperator(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	var end time.Time // of a suspension for n minutes
	if a.n > 0 {
		end = r.s.Now().Add(time.Duration(a.n) * time.Minute)
	}
	act, isOther := map[string]domain.OperatorAct{
		"be approved":                   domain.OperatorApprove,
		"be rejected":                   domain.OperatorReject,
		"be verified by the operator":   domain.OperatorVerify,
		"be unsuspended":                domain.OperatorUnsuspend,
		"be unverified by the operator": domain.OperatorUnverify,
		"be unclaimed by the operator":  domain.OperatorUnclaim,
	}[a.kind]
	var err error
	if isOther {
		err = r.s.ActOnAgent(background, act, a.who)
	} else {
		err = r.s.Suspend(background, a.who, "spam", end)
	}
	if on.who.deleted {
		return verdict{code: domain.CodeNotFound}, err
	}
	return r.m.byOperator(on.who, a.kind, end), err
}

// makeUnverify is rare, since most of the other acts need a verified mailbox.
func makeUnverify(r *modelRun, a *modelAct) bool { return r.chance(20) && makeOperator(r, a) }

// makeFor is for an agent of some kind, if there is one.
func makeFor(keep func(*modelAgent) bool) func(*modelRun, *modelAct) bool {
	return func(r *modelRun, a *modelAct) bool {
		found := r.those(keep)
		if len(found) > 0 {
			a.who = r.pick(found).Handle
		}
		return len(found) > 0
	}
}

func doUnblock(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	r.s.execSQL(`DELETE FROM blocks WHERE blocker_id = ?`, on.who.ID)
	clear(on.who.blocks)
	return granted, nil
}

func makeDue(r *modelRun, a *modelAct) bool { return r.chance(r.sweeps) }

func doDue(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	r.m.runDue()
	r.m.dropUnverified()
	return granted, errors.Join(r.s.RunJobs(background), r.s.DropUnverified(background, true))
}
