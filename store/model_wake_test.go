package store

import (
	"fmt"
	"slices"
	"time"

	"callbook/store/domain"
)

// The model of wake-ups, and the acts of the worker that sends them.

// modelWake is the URL at which an agent is woken.
type modelWake struct {
	url, status string
	secret      []byte
	tries       int
	message     string
	due         domain.Time // 0: nothing is
}

// modelFlight is a request that wakes an agent, whose outcome is not stored yet.
type modelFlight struct {
	who      *modelAgent
	wake     *modelWake
	due      domain.DueWake
	finished bool
}

// wakes tells whether an agent may be woken now.
func (m *model) wakes(a *modelAgent) bool {
	return a.verified != nil && a.deletion == 0 && !m.isSuspended(a)
}

func (a *modelAgent) unseen() int { return len(a.events) - max(a.seen, a.dropped) }

// lastEvent is the number of the newest event that is kept.
func (a *modelAgent) lastEvent() (seq int64) {
	if n := len(a.events); n > a.dropped {
		_, seq, _ = domain.ParseEventID(a.events[n-1].id)
	}
	return seq
}

// wakeFor makes a request due after an event: at once, or when the one before is a pause old.
func (m *model) wakeFor(a *modelAgent) {
	if w := a.wake; w != nil && w.due == 0 && w.status != domain.WakeOff {
		w.due = max(m.now, a.pauseEnd())
	}
}

func (a *modelAgent) pauseEnd() domain.Time {
	if a.woken == 0 {
		return 0
	}
	return a.woken.Add(domain.WakePause)
}

func (m *model) setWake(a *modelAgent, url string) verdict {
	if v := m.may(a); v.refused() {
		return v
	}
	if a.level() < 1 {
		return verdict{code: domain.CodeTrustTooLow}
	}
	w := &modelWake{url: url, status: domain.WakeOK}
	if a.wake != nil && a.wake.due != 0 { // its events wait for the new one, but not as long as for one that failed
		w.due = max(m.now, a.pauseEnd())
	}
	a.wake = w
	return granted
}

// startWakes are the requests to send now. Agents that have seen everything need none, and those that may not be
// woken are considered again later.
func (m *model) startWakes() (started []*modelFlight) {
	for _, a := range m.agents {
		w := a.wake
		switch {
		case w == nil || w.due == 0 || w.due > m.now:
		case !m.wakes(a):
			w.due = m.now.Add(domain.WakeRest)
			m.met = append(m.met, "inactive")
		case a.unseen() == 0:
			w.due, w.message = 0, ""
			m.met = append(m.met, "seen")
		default:
			m.met = append(m.met, map[bool]string{true: "started", false: "repeated"}[w.message == ""])
			f := &modelFlight{who: a, wake: w}
			f.due = domain.DueWake{
				AgentID: a.ID, Handle: a.Handle, URL: w.url, Tries: w.tries, Pending: a.unseen(), LastEvent: a.lastEvent(),
				Secret: w.secret, StartedAt: m.now,
			}
			w.due, a.woken = m.now.Add(domain.WakeLease), m.now
			started = append(started, f)
		}
	}
	return started
}

// finishWake stores an outcome, unless the URL was replaced since, or another request was sent to it.
func (m *model) finishWake(f *modelFlight, delivered bool) {
	a, w := f.who, f.wake
	if a.wake != w || w.due != f.due.StartedAt.Add(domain.WakeLease) {
		w = &modelWake{}
		m.met = append(m.met, "late")
	}
	f.finished = true
	switch {
	case delivered:
		w.status, w.tries, w.message, w.due = domain.WakeOK, 0, "", 0
		if a.lastEvent() > f.due.LastEvent {
			w.due = f.due.StartedAt.Add(domain.WakePause)
		}
	case f.due.Tries < len(domain.WakeRetries):
		w.status, w.tries = domain.WakeFailing, f.due.Tries+1
		w.due = m.now.Add(domain.WakeRetries[f.due.Tries])
	default:
		w.status, w.tries, w.message, w.due = domain.WakeOff, f.due.Tries+1, "", 0
		if a.wake == w {
			m.met = append(m.met, "off")
			m.addEvent(a, modelEvent{kind: "wake.failed", handle: a.Handle})
		}
	}
}

// Acts.

func makeSetWake(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	if able := r.those(func(a *modelAgent) bool { return a.verified != nil && a.wake == nil }); len(able) > 0 && r.chance(70) {
		a.who = r.pick(able).Handle
	}
	if r.chance(5) {
		a.choice = "at a bad address"
	}
	return true
}

func doSetWake(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	url := fmt.Sprintf("https://wake.example.org/%d", a.number)
	if a.choice != "" {
		url = "http://wake.example.org/"
	}
	address, secret, err := r.s.SetWake(background, on.who.Caller, url)
	if a.choice != "" {
		return verdict{code: domain.CodeValidationFailed}, err
	}
	want := r.m.setWake(on.who, url)
	if err == nil && on.who.wake != nil {
		r.equal("the address", address, url)
		on.who.wake.secret = secret
	}
	return want, err
}

func makeRemoveWake(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	return r.chance(50)
}

func doRemoveWake(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	want := r.m.mayOwn(on.who)
	if !want.refused() {
		on.who.wake = nil
	}
	return want, r.s.RemoveWake(background, on.who.Caller)
}

// makeStartWakes is for the worker. The outcomes follow soon, if the program is not killed before; sometimes all of
// them are failures until wake-ups are off.
func makeStartWakes(r *modelRun, a *modelAct) bool {
	due := r.those(func(a *modelAgent) bool { return a.wake != nil && a.wake.due != 0 && a.wake.due <= r.m.now })
	if len(due) == 0 {
		return r.chance(10)
	}
	for _, agent := range due {
		if r.chance(15) {
			for _, pause := range domain.WakeRetries {
				r.then(100, modelAct{kind: "finish a wake-up of", whom: agent.Handle, choice: "failed", step: time.Second})
				r.then(100, modelAct{kind: a.kind, step: pause})
			}
			r.then(100, modelAct{kind: "finish a wake-up of", whom: agent.Handle, choice: "failed"})
			continue
		}
		r.then(85, modelAct{kind: "finish a wake-up of", whom: agent.Handle, choice: r.wakeOutcome(), step: time.Second})
	}
	return true
}

func (r *modelRun) wakeOutcome() string {
	return []string{"delivered", "delivered", "failed", "failed"}[r.rng.IntN(4)]
}

// manyWakes is more than a sequence has agents, so that their order does not matter.
const manyWakes = 1000

func doStartWakes(r *modelRun, a modelAct, _ modelTarget) (verdict, error) {
	got, err := r.s.StartWakes(background, manyWakes)
	want := r.m.startWakes()
	slices.SortFunc(got, func(a, b domain.DueWake) int { return int(a.AgentID - b.AgentID) })
	due := make([]domain.DueWake, 0, len(want))
	for i, f := range want {
		if i < len(got) {
			if f.wake.message == "" && !r.m.messages[got[i].MessageID] { // a new one is a new id
				f.wake.message = got[i].MessageID
				r.m.messages[f.wake.message] = true
			}
			f.due.MessageID, f.due.Nonce = f.wake.message, got[i].Nonce
		}
		for _, former := range f.who.flights {
			if former.due.StartedAt.Add(domain.WakePause) > r.m.now {
				r.differ("%s is woken twice within the pause", f.who.Handle)
			}
		}
		f.who.flights = append(f.who.flights, f)
		due = append(due, f.due)
	}
	r.equal("the wake-ups", append([]domain.DueWake{}, got...), due)
	return granted, err
}

func (a *modelAgent) open() []*modelFlight {
	return slices.DeleteFunc(slices.Clone(a.flights), func(f *modelFlight) bool { return f.finished })
}

// makeFinishWake finishes any request whose outcome is not stored, also long after its lease.
func makeFinishWake(r *modelRun, a *modelAct) bool {
	waiting := r.those(func(a *modelAgent) bool { return len(a.open()) > 0 })
	if len(waiting) == 0 {
		return false
	}
	a.whom, a.choice, a.n = r.pick(waiting).Handle, r.wakeOutcome(), r.rng.IntN(2)
	return true
}

func doFinishWake(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	if on.whom == nil || len(on.whom.open()) == 0 {
		return granted, nil
	}
	open := on.whom.open()
	f := open[len(open)-1]
	if a.n == 1 {
		f = open[0]
	}
	delivered := a.choice == "delivered"
	r.m.finishWake(f, delivered)
	return granted, r.s.FinishWake(background, f.due, delivered)
}

// checkWake compares what an agent sees of its wake-ups and watches.
func (r *modelRun) checkWake(a *modelAgent) {
	want := domain.Wake{Status: domain.WakeOff}
	if a.wake != nil {
		want.URL, want.Status = &a.wake.url, a.wake.status
	}
	if a.woken != 0 {
		want.LastAt = &a.woken
	}
	got, err := r.s.Wake(background, a.Caller)
	if a.deleted {
		r.outcome("the wake-ups of "+a.Handle, verdict{code: domain.CodeUnauthorized}, err)
		return
	}
	if r.outcome("the wake-ups of "+a.Handle, granted, err); err == nil {
		r.equal("the wake-ups of "+a.Handle, got, want)
	}
	watches, err := r.s.Watches(background, a.Caller)
	if r.outcome("the watches of "+a.Handle, granted, err); err == nil {
		r.equal("the watches of "+a.Handle, watches, watchRecords(a))
	}
}

// checkNextWake compares when the worker must look next.
func (r *modelRun) checkNextWake() {
	var want domain.Time
	for _, a := range r.m.agents {
		if w := a.wake; w != nil && w.due != 0 && (want == 0 || w.due < want) {
			want = w.due
		}
	}
	if got, err := r.s.NextWakeAt(background); err != nil || got != want {
		r.differ("the next wake-up is due at %s, %v, want %s", got, err, want)
	}
}
