package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// modelSeed makes a plain run the same each time. The long form takes new seeds
// instead. The environment's MODEL_SEED replaces either, to look elsewhere or to see
// a found disagreement again.
const modelSeed = 1

// How much a plain run does, and the proof with each seed. The length of a sequence is about what a handful
// of agents needs to meet every limit and outlive some; all that happened is compared now and then. A plain run has
// sequences of modelSeed that together meet all of modelMeets.
const (
	plainFirst     = 38 // sequence
	plainActs      = 15_000
	modelActs      = 50_000
	modelSequence  = 500
	fullCheckEvery = 50
	modelDerived   = 5 // of so many sequences, one ends with a comparison of the derived data
)

// TestModel does the same random acts to a directory and to the model, and holds
// every outcome, record, card, allowance and event of the one against the other.
func TestModel(t *testing.T) {
	acts := proof.Rounds(plainActs, 2*modelActs, 20*modelActs)
	switch {
	case proof.Asked():
	case testing.Short():
		acts = 5_000
	case proof.RaceDetector():
		acts = 10_000
	}
	// Small heaps that come and go would be collected all the time.
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	var found atomic.Bool
	met := modelOutcomes{counts: map[string]int{}}
	t.Cleanup(func() {
		proof.Figure(t, "acts", met.acts)
		met.report(t)
	})
	for i, origin := range modelOrigins(t, acts/modelSequence) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			if found.Load() {
				return // one disagreement is enough to work on
			}
			r := newModelRun(t, origin)
			defer r.s.stop()
			r.generate()
			met.add(r)
			if origin.sequence%modelDerived == 0 {
				r.s.ok(r.s.RunJobs(background))
				r.s.checkDerived("the sequence")
			}
			if len(r.differences) > 0 && found.CompareAndSwap(false, true) {
				t.Errorf("MODEL_SEED=%d, sequence %d:\n%s", origin.seed, origin.sequence, r.shrink(t, origin))
			}
		})
	}
}

// modelOrigin is all that the acts of a sequence follow from.
type modelOrigin struct{ seed, sequence uint64 }

// modelOrigins are those of so many sequences: all of one seed in a plain run and with
// MODEL_SEED, and of a new seed after each modelActs acts in the long form.
func modelOrigins(t *testing.T, n int) (all []modelOrigin) {
	text, next := os.Getenv("MODEL_SEED"), modelOrigin{seed: modelSeed}
	if !proof.Asked() {
		next.sequence = plainFirst
	}
	if text != "" {
		var err error
		if next.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MODEL_SEED: %v", err)
		}
	}
	renew := text == "" && proof.Rounds(0, 0, 1) > 0
	for i := range n {
		if renew && i%(modelActs/modelSequence) == 0 {
			next = modelOrigin{seed: rand.Uint64()}
		}
		if i == 0 || next.sequence == 0 {
			t.Logf("MODEL_SEED=%d from part %d of %d on, of %d acts each", next.seed, i, n, modelSequence)
		}
		all = append(all, next)
		next.sequence++
	}
	return all
}

// modelRun is one sequence: a directory, the model of it, and what was done to
// both.
type modelRun struct {
	s   *testStore
	m   *model
	rng *rand.Rand // nil in a replay

	crowd  int // agents that there are at least
	sweeps int // percent of the chances that the clock's job has to run
	pace   int // of the clock, now
	queue  []modelAct
	number int
	stops  map[string]string // by person: the link that ends their mails
	unsent map[string]bool   // the ids of mails that wait while the mail server is down

	acts        []modelAct
	trace       []string // the acts with their outcomes
	ended       []string // the kinds with their outcomes
	differences []string
}

// modelAddresses are those that mails are asked from. The program itself has none.
var modelAddresses = []netip.Addr{
	{}, netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8:7:1::1"), netip.MustParseAddr("2001:db8:7:2::1"),
}

// newModelRun opens a directory whose options are the sequence's own.
func newModelRun(t *testing.T, origin modelOrigin) *modelRun {
	rng := rand.New(rand.NewPCG(origin.seed, origin.sequence))
	limits := modelLimits{
		requests: maps.Clone([]domain.Quotas{
			domain.DefaultQuotas, {domain.LimitFirstWeekRequests: 1, domain.LimitRequests: 2, domain.LimitPosts: 1, domain.LimitUnverifiedPosts: 1}, {},
		}[rng.IntN(3)]),
		mails: []domain.MailCaps{
			domain.DefaultMailCaps, {Pause: time.Minute, Agent: 4, Mailbox: 2, Site: 9, Repeat: time.Hour},
			{Pause: time.Hour, Mailbox: 5, Site: 200, Network: domain.Share{2, 3, 4}}, {},
		}[rng.IntN(4)],
		registration: []domain.RegistrationMode{"", domain.RegistrationOpen, domain.RegistrationInvite, domain.RegistrationApprove}[rng.IntN(4)],
	}
	limits.requests[domain.LimitOwnerAgents] = []int{20, 1, 2, 0}[rng.IntN(4)]
	r := &modelRun{
		m: &model{limits: limits, networks: map[netip.Prefix][]domain.Time{}, stopped: map[string]bool{}, messages: map[string]bool{}}, rng: rng, stops: map[string]string{}, unsent: map[string]bool{},
		crowd: 3 + rng.IntN(7), sweeps: []int{0, 20, 100, 100}[rng.IntN(4)], pace: rng.IntN(3),
	}
	r.s = newStore(t, func(o *Options) {
		o.Quotas, o.Mails, o.Registration = limits.requests, &limits.mails, limits.registration
		var random [32]byte
		binary.LittleEndian.PutUint64(random[:], origin.seed)
		binary.LittleEndian.PutUint64(random[8:], origin.sequence)
		o.Random = rand.NewChaCha8(random)
	})
	r.s.ok(r.s.DropUnverified(background, true)) // the site sends mail from now on
	return r
}

func (r *modelRun) generate() {
	for len(r.acts) < modelSequence && len(r.differences) == 0 {
		r.do(r.next())
	}
	if len(r.differences) == 0 {
		r.checkAll()
	}
}

// next is what is queued, or a random act that there is something to do it to.
func (r *modelRun) next() modelAct {
	r.number++
	if len(r.queue) > 0 {
		a := r.queue[0]
		r.queue, a.number = r.queue[1:], r.number
		return a
	}
	total := 0
	for _, k := range modelKinds {
		total += k.weight
	}
	for {
		a := modelAct{number: r.number, kind: "register"}
		if len(r.living()) > 1 {
			a.kind = r.kind(r.rng.IntN(total))
		}
		if modelKindOf(a.kind).make(r, &a) {
			a.step = r.step()
			return a
		}
	}
}

func (r *modelRun) kind(n int) string {
	for _, k := range modelKinds {
		if n < k.weight {
			return k.name
		}
		n -= k.weight
	}
	panic("more than all weights")
}

// step is how far the clock moves: in bursts, hour by hour, in days, and now and
// then to the moment of something, or to just before or after it.
func (r *modelRun) step() time.Duration {
	if r.chance(3) {
		r.pace = r.rng.IntN(3)
	}
	if r.chance(10) {
		if moments := r.moments(); len(moments) > 0 {
			step := time.Duration(moments[r.rng.IntN(len(moments))]-r.m.now+domain.Time(r.rng.IntN(3))-1) * time.Millisecond
			return max(0, step)
		}
	}
	longest := []time.Duration{3 * time.Second, 40 * time.Minute, 30 * time.Hour}[r.pace]
	if r.chance(20) {
		longest = 3 * time.Millisecond
	} else if r.chance(1) {
		longest = 20 * domain.Day
	}
	return time.Duration(r.rng.Int64N(longest.Milliseconds())) * time.Millisecond
}

// moments are the times, not long ahead, at which a rule changes its answer.
func (r *modelRun) moments() []domain.Time {
	var all []domain.Time
	add := func(t domain.Time, after ...time.Duration) {
		for _, d := range after {
			all = append(all, t.Add(d))
		}
	}
	for _, q := range r.m.requests {
		add(q.created, domain.Day, 7*domain.Day)
		add(q.updated, 30*domain.Day) // a decline, if it was one
	}
	for _, c := range r.m.collabs {
		if c.decided != nil {
			add(*c.decided, 30*domain.Day, 90*domain.Day)
		}
	}
	for _, l := range r.m.mails {
		add(l.at, r.m.limits.mails.Pause, 15*time.Minute, time.Hour, domain.Day)
	}
	for _, a := range r.living() {
		add(a.created, 7*domain.Day)
		add(a.until, 0)
		add(a.deletion, 0)
		if a.formerMailbox != nil {
			add(a.formerMailbox.left, modelFormerAge)
		}
		if a.claim != nil {
			add(a.claim.expires, 0)
			add(a.claim.confirmed, 30*domain.Day)
		}
		for _, e := range a.events {
			add(e.at, 30*domain.Day)
		}
		if a.wake != nil {
			add(a.wake.due, 0)
		}
		if len(a.watches) > 0 {
			add(a.active, 30*domain.Day)
		}
	}
	far := 8 * domain.Day
	if r.chance(10) {
		far = 40 * domain.Day
	}
	return slices.DeleteFunc(all, func(t domain.Time) bool { return t <= r.m.now || t > r.m.now.Add(far) })
}

// do does an act to the store and to the model, and compares.
func (r *modelRun) do(a modelAct) {
	r.s.clock.Advance(a.step)
	r.m.begin(domain.TimeOf(r.s.clock.Now()))
	if r.m.expireMails() {
		if err := r.s.write(background, func(t *tx) error { return t.deleteExpiredMails() }); err != nil {
			r.differ("delete expired mails: %v", err)
		}
	}
	on, ok := r.m.resolve(a)
	if !ok {
		return
	}
	r.acts = append(r.acts, a)
	r.number = a.number
	want, err := modelKindOf(a.kind).do(r, a, on)
	ended := cmp.Or(outcome(err), "done")
	r.trace, r.ended = append(r.trace, fmt.Sprintf("%s: %s", a, ended)), append(r.ended, a.kind+": "+ended)
	for _, what := range r.m.met {
		r.ended = append(r.ended, a.kind+": "+what)
	}
	r.outcome("the outcome", want, err)
	if len(r.differences) == 0 {
		r.mailedAll(r.m.notices, domain.MailDelivered)
	}
	if len(r.differences) > 0 {
		return
	}
	r.checkTouched()
	if len(r.acts)%fullCheckEvery == 0 && len(r.differences) == 0 {
		r.checkAll()
	}
}

func (r *modelRun) differ(format string, args ...any) {
	r.differences = append(r.differences, fmt.Sprintf(format, args...))
}

// modelOutcomes counts how the acts of each kind ended.
type modelOutcomes struct {
	sync.Mutex
	acts   int
	counts map[string]int
}

func (o *modelOutcomes) add(r *modelRun) {
	o.Lock()
	defer o.Unlock()
	o.acts += len(r.acts)
	for _, e := range r.ended {
		o.counts[e]++
	}
}

// modelMeets are the refusals, and what else the model notes, that a plain run must meet, or it shows little.
var modelMeets = map[string][]domain.Code{
	"register":             {domain.CodeHandleTaken, domain.CodeInviteRequired},
	"be approved":          {domain.CodeInvalidState},
	"be rejected":          {domain.CodeInvalidState},
	"verify":               {domain.CodeAlreadyVerified, domain.CodeRateLimited, domain.CodeSuspended},
	"confirm the code":     {domain.CodeAlreadyVerified, domain.CodeWrongCode, domain.CodeCodeExpired, domain.CodeTooManyAttempts},
	"confirm the recovery": {domain.CodeWrongCode, domain.CodeCodeExpired},
	"set":                  {domain.CodeTrustTooLow, domain.CodeForbidden},
	"replace the menu":     {domain.CodeValidationFailed},
	"ask the owner":        {domain.CodeAwaitingApproval, domain.CodeTrustTooLow, domain.CodeAlreadyClaimed, domain.CodeRateLimited},
	"owner":                {domain.CodeNotFound, domain.CodeInvalidState, domain.CodeTrustTooLow, domain.CodeSenderLimitReached, domain.CodeValidationFailed, domain.CodeForbidden},
	"send to": {
		domain.CodeUnauthorized, domain.CodeSuspended, domain.CodeAwaitingApproval, domain.CodeNotFound, domain.CodeSelfRequest, domain.CodeTrustTooLow, domain.CodeNotAccepting,
		domain.CodeValidationFailed, domain.CodeDuplicate, domain.CodeCooldown, domain.CodeSenderLimitReached, domain.CodeWeeklyCapReached,
	},
	"publish":             {domain.CodeSuspended, domain.CodeAwaitingApproval, domain.CodeDuplicate, domain.CodeRateLimited},
	"unpublish":           {domain.CodeNotFound, domain.CodeForbidden},
	"set watches":         {domain.CodeValidationFailed, domain.CodeSuspended},
	"match posts":         {"matched", "spent", "inactive", "blocked"},
	"start wake-ups":      {"started", "repeated", "inactive", "seen"},
	"finish a wake-up of": {"off", "late"},
	"set the wake-up":     {domain.CodeValidationFailed, domain.CodeTrustTooLow, domain.CodeSuspended, domain.CodeAwaitingApproval},
	"delete":              {domain.CodeInvalidState},
	"accept":              {domain.CodeUnauthorized, domain.CodeSuspended, domain.CodeNotFound, domain.CodeForbidden, domain.CodeInvalidState},
	"decline":             {domain.CodeUnauthorized, domain.CodeSuspended, domain.CodeNotFound, domain.CodeForbidden, domain.CodeInvalidState},
	"withdraw":            {domain.CodeUnauthorized, domain.CodeSuspended, domain.CodeNotFound, domain.CodeForbidden, domain.CodeInvalidState},
	"report":              {domain.CodeUnauthorized, domain.CodeSuspended, domain.CodeNotFound, domain.CodeForbidden},
	"record with":         {domain.CodeValidationFailed, domain.CodeDuplicate, domain.CodeNotAccepting, domain.CodeCooldown, domain.CodeSenderLimitReached},
	"confirm":             {domain.CodeNotFound, domain.CodeForbidden, domain.CodeInvalidState},
	"refuse":              {domain.CodeNotFound, domain.CodeForbidden, domain.CodeInvalidState},
}

// report tells what was met and, of a whole plain run, what was not.
func (o *modelOutcomes) report(t *testing.T) {
	if t.Failed() {
		return
	}
	for _, e := range slices.Sorted(maps.Keys(o.counts)) {
		t.Logf("%6d %s", o.counts[e], e)
	}
	if o.acts < plainActs {
		return
	}
	for _, k := range modelKinds {
		for _, code := range append(modelMeets[k.name], "done") {
			if o.counts[k.name+": "+string(code)] == 0 {
				t.Errorf("no act ended so: %s: %s", k.name, code)
			}
		}
	}
}

// How a random act finds what it is about.

func (r *modelRun) chance(percent int) bool { return r.rng.IntN(100) < percent }

func (r *modelRun) those(keep func(*modelAgent) bool) []*modelAgent {
	var found []*modelAgent
	for _, a := range r.m.agents {
		if !a.deleted && keep(a) {
			found = append(found, a)
		}
	}
	return found
}

func (r *modelRun) living() []*modelAgent {
	return r.those(func(*modelAgent) bool { return true })
}

func (r *modelRun) pick(agents []*modelAgent) *modelAgent { return agents[r.rng.IntN(len(agents))] }

// anyone is an agent, seldom one that is gone.
func (r *modelRun) anyone() *modelAgent {
	if r.chance(4) {
		return r.pick(r.m.agents)
	}
	return r.pick(r.living())
}

func (r *modelRun) requests(keep func(*modelRequest) bool) []*modelRequest {
	var found []*modelRequest
	for _, q := range r.m.requests {
		if keep(q) {
			found = append(found, q)
		}
	}
	return found
}

// Disagreements.

// modelReplays bounds how long a disagreement is made shorter.
const modelReplays = 600

// shrink leaves out acts that the disagreement does not need, and tells of it.
func (r *modelRun) shrink(t *testing.T, origin modelOrigin) string {
	best := r
	left := modelReplays
	for size := len(best.acts) / 2; size > 0 && left > 0; size /= 2 {
		for from := len(best.acts) - 1 - size; from > -size && left > 0; from -= size {
			left--
			shorter := newModelRun(t, origin)
			shorter.replay(withoutActs(best.acts, max(0, from), from+size))
			shorter.s.stop()
			if len(shorter.differences) > 0 {
				best = shorter
			}
		}
	}
	return fmt.Sprintf("%d acts, of %d:\n%s\n\n%s", len(best.acts), len(r.acts),
		strings.Join(best.trace[max(0, len(best.trace)-60):], "\n"), strings.Join(best.differences, "\n"))
}

// withoutActs leaves out some acts, but not the time that passed with them.
func withoutActs(acts []modelAct, from, to int) []modelAct {
	rest := slices.Clone(acts[:from])
	var passed time.Duration
	for i, a := range acts[from:] {
		if from+i < to && from+i < len(acts)-1 {
			passed += a.step
			continue
		}
		a.step, passed = a.step+passed, 0
		rest = append(rest, a)
	}
	return rest
}

func (r *modelRun) replay(acts []modelAct) {
	r.rng = nil
	for _, a := range acts {
		if r.do(a); len(r.differences) > 0 {
			return
		}
	}
	r.checkAll()
}
