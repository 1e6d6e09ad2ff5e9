package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/outbox"
	"callbook/store/text"
	"callbook/testdata/proof"
)

// noCaps lifts the caps on mails.
func noCaps(o *Options) { o.Mails = &domain.MailCaps{} }

// reopen closes the store and opens it again, as a restart does.
func (s *testStore) reopen(set ...func(*Options)) {
	s.Helper()
	s.stop()
	o := Options{Path: s.path, Clock: s.clock.Now, Quotas: &domain.Quotas{}, Normal: true}
	for _, f := range set {
		f(&o)
	}
	s.Store = openStore(s, o)
}

// since is how long ago a time was by the store's clock.
func (s *testStore) since(start time.Time) time.Duration { return s.clock.Now().Sub(start) }

// begin takes the next mail; false when none is due.
func (s *testStore) begin() (domain.Mail, bool) {
	s.Helper()
	mail, due, err := s.StartMail(context.Background())
	s.ok(err)
	return mail, due
}

// deliver delivers all mails that are due.
func (s *testStore) deliver() (mails []domain.Mail) {
	s.Helper()
	for mail, due := s.begin(); due; mail, due = s.begin() {
		s.ok(s.FinishMail(context.Background(), mail, domain.MailDelivered))
		if mail.To != "" {
			mails = append(mails, mail)
		}
	}
	return mails
}

// delivered delivers what is due, and returns the mails that are no notices.
func (s *testStore) delivered() []domain.Mail {
	s.Helper()
	return slices.DeleteFunc(s.deliver(), func(m domain.Mail) bool { return m.Secret == "" })
}

// mailed delivers the one mail that is due, beside notices.
func (s *testStore) mailed() domain.Mail {
	s.Helper()
	mails := s.delivered()
	if len(mails) != 1 {
		s.Fatalf("%d mails are due, want one", len(mails))
	}
	return mails[0]
}

// dump is all that the database holds, by table.
func (s *testStore) dump() map[string]string {
	s.Helper()
	var tables []string
	s.ok(s.db.Select(context.Background(), &tables, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`))
	held, db := map[string]string{}, s.connection("ro")
	defer db.Close()
	for _, table := range tables {
		held[table] = fmt.Sprint(rowsOf(s, db, `SELECT * FROM "`+table+`"`))
	}
	return held
}

// wantUnchanged fails the test if the database holds something else than before.
func (s *testStore) wantUnchanged(what string, before map[string]string) {
	s.Helper()
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		s.Errorf("%s left something (-before +after):\n%s", what, diff)
	}
}

// refusalOf is the refusal that an error holds; an empty one when it holds none.
func refusalOf(err error) domain.Error {
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		return *refusal
	}
	return domain.Error{}
}

// sends are the acts that send a mail.
func (s *testStore) sends() map[string]func(domain.Caller) error {
	ctx := context.Background()
	return map[string]func(domain.Caller) error{
		"verify":  func(c domain.Caller) error { _, err := s.StartVerify(ctx, c); return err },
		"recover": func(c domain.Caller) error { _, err := s.StartRecovery(ctx, c.Handle, c.Address); return err },
		"claim mei": func(c domain.Caller) error {
			_, err := s.ClaimOwner(ctx, c, "mei@people.example.org")
			return err
		},
		"claim mei otherwise": func(c domain.Caller) error {
			_, err := s.ClaimOwner(ctx, c, "Mei+callbook@People.example.org")
			return err
		},
		"claim ada": func(c domain.Caller) error {
			_, err := s.ClaimOwner(ctx, c, "ada@people.example.org")
			return err
		},
	}
}

func TestOutbox_Caps(t *testing.T) {
	proof.OneByOne(t)
	type step struct {
		after time.Duration // since the step before
		agent int
		act   string
		want  string        // "sent", "silence", or the topic of the limit
		retry time.Duration // after the test's start
	}
	const minute = time.Minute
	// Agents 0 to 2 are verified and 3 to 5 are not; 1 and 4 have the mailbox of 0
	// and 3, written otherwise.
	for name, steps := range map[string][]step{
		"one a minute": {
			{0, 3, "verify", "sent", 0},
			{0, 3, "verify", "mail_pause", minute},
			{minute - time.Millisecond, 3, "verify", "mail_pause", minute},
			{time.Millisecond, 3, "verify", "sent", 0},
			{0, 0, "claim ada", "sent", 0}, // another's does not wait
		},
		"three a day to one mailbox by one agent": {
			{0, 3, "verify", "sent", 0},
			{time.Hour, 3, "verify", "sent", 0},
			{time.Hour, 3, "verify", "sent", 0},
			{time.Hour, 3, "verify", "mails_mailbox", domain.Day},
			{domain.Day - 3*time.Hour - time.Millisecond, 3, "verify", "mails_mailbox", domain.Day},
			{time.Millisecond, 3, "verify", "sent", 0},
			{minute, 3, "verify", "mails_mailbox", domain.Day + time.Hour},
		},
		"three a day to one mailbox over agents": {
			{0, 3, "verify", "sent", 0},
			{0, 4, "verify", "sent", 0},
			{minute, 3, "verify", "sent", 0},
			{minute, 4, "verify", "silence", 0},
			{minute, 3, "verify", "silence", 0},
			{domain.Day - 3*minute, 4, "verify", "sent", 0}, // for the first, which is a day old
			{0, 3, "verify", "sent", 0},
		},
		"codes, claims and recovery count together": {
			{0, 0, "recover", "sent", 0},
			{0, 0, "claim mei", "mail_pause", minute},
			{minute, 0, "claim mei", "sent", 0},
			{minute, 0, "claim ada", "sent", 0},
			{minute, 0, "claim mei otherwise", "sent", 0},
			{minute, 0, "recover", "silence", 0}, // the code was mailed within the hour
			{minute, 0, "claim ada", "sent", 0},
			{minute, 0, "claim mei", "mails", domain.Day},
			{time.Hour, 0, "recover", "sent", 0}, // others may ask for it: the agent's cap does not hold it back
			{domain.Day - time.Hour - 6*minute, 0, "claim ada", "mails", domain.Day + minute},
			{minute, 0, "claim ada", "sent", 0},
		},
		"an owner's address written otherwise": {
			{0, 0, "claim mei", "sent", 0},
			{0, 1, "claim mei otherwise", "sent", 0},
			{0, 2, "claim mei", "sent", 0},
			{minute, 0, "claim mei otherwise", "silence", 0},
			{0, 1, "claim ada", "sent", 0},
		},
		"of two limits the one that ends last": {
			{0, 0, "claim mei", "sent", 0},
			{20 * time.Hour, 0, "claim ada", "sent", 0},
			{minute, 0, "claim ada", "sent", 0},
			{minute, 0, "claim ada", "sent", 0},
			{minute, 0, "recover", "sent", 0},
			{minute, 0, "claim mei", "mails", domain.Day},
			{0, 0, "claim ada", "mails_mailbox", domain.Day + 20*time.Hour},
			{4*time.Hour - 4*minute, 0, "claim ada", "mails_mailbox", domain.Day + 20*time.Hour},
			{0, 0, "claim mei", "sent", 0},
		},
		"four for the site, half of them for verifications": {
			{0, 3, "verify", "sent", 0},
			{time.Hour, 4, "verify", "sent", 0},
			{0, 5, "verify", "mails_site", domain.Day},
			{0, 0, "claim mei", "sent", 0},
			{time.Hour, 1, "claim ada", "sent", 0},
			{0, 2, "claim ada", "mails_site", domain.Day + time.Hour},
			{0, 2, "recover", "silence", 0},
			{domain.Day - 2*time.Hour, 5, "verify", "sent", 0},
			{0, 2, "recover", "silence", 0},
			{time.Hour, 2, "recover", "sent", 0},
			{0, 4, "verify", "sent", 0},
			{0, 3, "verify", "mails_site", 2 * domain.Day},
		},
	} {
		t.Run(name, func(t *testing.T) {
			caps := domain.DefaultMailCaps
			if strings.HasPrefix(name, "four for the site") {
				caps.Site = 4
			}
			withCaps := func(o *Options) { o.Mails = &caps }
			s := newStore(t, withCaps)
			agents := s.agents("agent", 6)
			for i, mailbox := range map[int]string{1: "AGENT-0+x@agents.example.org", 4: "Agent-3+y+z@agents.example.org"} {
				s.update(agents[i], func(a *domain.Settings) { a.Mailbox = mailbox })
			}
			for _, c := range agents[:3] {
				s.ok(s.Verify(context.Background(), c.Handle))
			}
			start := s.clock.Now()
			for i, step := range steps {
				s.reopen(withCaps)
				s.clock.Advance(step.after)
				before := s.dump()
				err := s.sends()[step.act](agents[step.agent])
				refusal := refusalOf(err)
				got := refusal.Topic
				if err == nil {
					got = map[int]string{0: "silence", 1: "sent"}[len(s.deliver())]
				} else {
					s.wantUnchanged(fmt.Sprintf("the refused step %d", i), before)
				}
				if retry := refusal.RetryAt.Sub(start); got != step.want || err != nil && (retry != step.retry || refusal.Code != domain.CodeRateLimited) {
					t.Errorf("step %d, %s by %d at %v: %q %v, retry after %v; want %q, %v", i, step.act, step.agent, s.since(start), got, err, retry, step.want, step.retry)
				}
			}
		})
	}
}

func TestOutbox_CapsCanBeSwitchedOff(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	for range 300 {
		s.ok(s.sends()["verify"](pilot))
	}
	if n := len(s.deliver()); n != 1 {
		t.Errorf("%d mails wait; each code takes the place of the one before", n)
	}
	s.ok(s.Verify(context.Background(), pilot.Handle))
	for range 300 {
		s.ok(s.sends()["claim mei"](pilot))
	}
}

// mailTimes counts mails to one mailbox within any day.
func mostADay(times []domain.Time) (most int) {
	for i := range times {
		n := 0
		for _, at := range times[i:] {
			if at < times[i].Add(domain.Day) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestOutbox_TenThousandAgentsWithOneMailbox: within a day each of them asks for a mail there, in
// one of the ways that there are. On each day after that one way has the mailbox for
// itself, which shows that each of them sends mails.
func TestOutbox_TenThousandAgentsWithOneMailbox(t *testing.T) {
	const atOnce, most = 125, 3
	proof.OneByOne(t)
	agents := proof.Rounds(8, 80, 80) * atOnce
	ways := []string{domain.MailVerify, domain.MailRecover, domain.MailClaim}
	wayOf := func(i int) string { return ways[i%len(ways)] }
	s, ctx := newStore(t), context.Background()
	callers := make([]domain.Caller, agents)
	victim := func(i int) string { return fmt.Sprintf("Victim+%d@agents.example.org", i) }
	ask := func(i int) error {
		switch now := domain.TimeOf(s.clock.Now()); wayOf(i) {
		case domain.MailVerify:
			sent, err := s.StartVerify(ctx, callers[i])
			if want := (domain.CodeSent{ExpiresAt: now.Add(15 * time.Minute), ResendAfter: now.Add(time.Minute)}); err == nil && sent != want {
				err = fmt.Errorf("answered %v", sent)
			}
			return err
		case domain.MailRecover:
			_, err := s.StartRecovery(ctx, callers[i].Handle, netip.Addr{})
			return err
		default:
			sent, err := s.ClaimOwner(ctx, callers[i], victim(i))
			if want := (domain.CodeSent{ExpiresAt: now.Add(72 * time.Hour), ResendAfter: now.Add(time.Minute)}); err == nil && sent != want {
				err = fmt.Errorf("answered %v", sent)
			}
			return err
		}
	}
	for first := 0; first < agents; first += atOnce {
		wantOutcomes(t, "registrations", together(atOnce, func(n int) error {
			i := first + n
			r := registration(fmt.Sprintf("agent-%d", i))
			if wayOf(i) != domain.MailClaim { // those ask from mailboxes of their own
				r.Mailbox = victim(i)
			}
			registered, _, err := s.Register(ctx, r, domain.IdempotencyKey{})
			callers[i] = domain.Caller{ID: registered.Agent.ID, Handle: r.Handle}
			if err == nil && wayOf(i) != domain.MailVerify {
				err = s.Verify(ctx, r.Handle)
			}
			return err
		}), map[string]int{"": atOnce})
	}
	var times []domain.Time
	for first := 0; first < agents; first += atOnce {
		wantOutcomes(t, "mails asked for", together(atOnce, func(n int) error { return ask(first + n) }), map[string]int{"": atOnce})
		for _, mail := range s.deliver() {
			times = append(times, mail.CreatedAt)
		}
		s.clock.Advance(domain.Day * atOnce / time.Duration(agents))
	}
	if len(times) != most {
		t.Errorf("%d mails on the first day, want %d", len(times), most)
	}
	for way, kind := range ways {
		wantOutcomes(t, kind, together(atOnce, func(n int) error { return ask(way + n*len(ways)) }), map[string]int{"": atOnce})
		mails := s.deliver()
		for _, mail := range mails {
			times = append(times, mail.CreatedAt)
		}
		want := most - 1 // the last is kept for recovery
		if kind == domain.MailRecover {
			want = most
		}
		if len(mails) != want || mails[0].Kind != kind {
			t.Errorf("%s alone: %v, want %d mails", kind, mails, want)
		}
		s.clock.Advance(domain.Day)
	}
	proof.Figure(t, "hostile agents", agents)
	proof.Figure(t, "ways", len(ways))
	proof.Figure(t, "mails a day", mostADay(times))
}

// transcript is all that an agent can see of its mailbox and its owner's address.
func (s *testStore) transcript(c domain.Caller) (seen []string) {
	s.Helper()
	ctx := context.Background()
	start := s.clock.Now()
	see := func(what string, answer any, err error) {
		refusal := refusalOf(err)
		seen = append(seen, fmt.Sprintf("%v %s: %v %q %s %v", s.since(start), what, answer, outcome(err), refusal.Topic, refusal.RetryAt))
	}
	own := func() {
		own, err := s.Me(ctx, c)
		s.ok(err)
		see("own claim", []any{own.Claim.Status, domain.Deref(inWords(own.Claim.RequestedAt)), domain.Deref(inWords(own.Claim.ExpiresAt))}, nil)
	}
	for range 3 { // while the mail server is down, and after the mails have expired
		sent, err := s.StartVerify(ctx, c)
		see("unsent verify", sent, err)
		s.clock.Advance(time.Minute)
	}
	s.clock.Advance(20 * time.Minute)
	s.ok(s.write(ctx, func(t *tx) error { return outbox.DeleteExpired(t.Tx) }))
	for range 6 {
		sent, err := s.StartVerify(ctx, c)
		see("verify", sent, err)
		for range 6 {
			_, err := s.ConfirmVerify(ctx, c, "0000-0000")
			see("confirm", nil, err)
		}
		s.clock.Advance(time.Minute)
	}
	s.clock.Advance(15 * time.Minute)
	_, err := s.ConfirmVerify(ctx, c, "0000-0000")
	see("confirm", nil, err)
	s.ok(s.Verify(ctx, c.Handle))
	s.clock.Advance(25 * time.Hour)
	for range 6 {
		sent, err := s.ClaimOwner(ctx, c, "victim@people.example.org")
		see("claim", sent, err)
		own()
		s.clock.Advance(time.Minute)
	}
	s.clock.Advance(73 * time.Hour)
	own()
	sent, err := s.ClaimOwner(ctx, c, "victim@people.example.org")
	see("claim", sent, err)
	own()
	return seen
}

// inWords is a time to be compared.
func inWords(at *domain.Time) *string {
	if at == nil {
		return nil
	}
	s := at.String()
	return &s
}

// Whether an address is in use here must not be found out by anyone who gives it
// as a mailbox or an owner's.
func TestOutbox_DoesNotRevealOtherAgents(t *testing.T) {
	seen := map[string][]string{}
	mails := map[string]int{}
	for _, name := range []string{"alone", "where others were", "where a person said no"} {
		s := newStore(t)
		ctx := context.Background()
		others := s.agents("other", 3)
		asker, _ := s.register("asker", func(r *domain.Registration) { r.Mailbox = "victim@people.example.org" })
		if name == "where others were" {
			// They use up the mailbox's mails of each day of the transcript.
			for i, c := range others {
				s.ok(s.Verify(ctx, c.Handle))
				s.change(nil, `
					INSERT INTO mail_log (agent_id, mailbox_hash, sent, at)
					SELECT ?1, ?2, 1, ?3 UNION ALL SELECT ?1, ?2, 1, ?4 UNION ALL SELECT ?1, ?2, 1, ?5`,
					c.ID, s.mailboxHash("victim@people.example.org"), domain.TimeOf(s.clock.Now())+domain.Time(i),
					domain.TimeOf(s.clock.Now()).Add(25*time.Hour), domain.TimeOf(s.clock.Now()).Add(98*time.Hour))
			}
		}
		if name == "where a person said no" {
			s.ok(s.write(ctx, func(t *tx) error {
				owner, err := t.Pseudonym("owner\x00victim@people.example.org")
				return errors.Join(err, lifecycle.InsertReport(t.Tx, lifecycle.Report{
					About: "claim", Subject: asker.Handle, Reported: lifecycle.Reported{AuthorID: asker.ID}, Reporter: owner,
				}))
			}))
		}
		seen[name] = s.transcript(asker)
		mails[name] = value[int](s, `SELECT COUNT(*) FROM outbox WHERE recipient <> ''`)
	}
	for name := range seen {
		if diff := cmp.Diff(seen["alone"], seen[name]); diff != "" {
			t.Errorf("%s another story (-alone +%s):\n%s", name, name, diff)
		}
	}
	if want := map[string]int{"alone": 2, "where others were": 0, "where a person said no": 0}; !cmp.Equal(mails, want) {
		t.Errorf("mails that wait: %v, want %v", mails, want)
	}
}

// A code that is silently replaced takes the mail of the one before along: what it
// holds is dead.
func TestOutbox_UnsentCodeDeletesTheMail(t *testing.T) {
	s := newStore(t)
	asker, _ := s.register("asker")
	other, _ := s.register("other", func(r *domain.Registration) { r.Mailbox = "asker+other@agents.example.org" })
	for range 2 {
		s.ok(s.sends()["verify"](other))
		s.deliver()
		s.clock.Advance(time.Minute)
	}
	s.ok(s.sends()["verify"](asker)) // the third mail, which waits
	s.clock.Advance(time.Minute)
	s.ok(s.sends()["verify"](asker))
	if mails := s.deliver(); len(mails) != 0 {
		t.Errorf("%d mails with dead codes", len(mails))
	}
}

// mailboxHash is how the log of mails knows an address.
func (s *testStore) mailboxHash(address string) (hash []byte) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) (err error) {
		hash, err = t.Pseudonym("mailbox\x00" + text.NormalMailbox(address))
		return err
	}))
	return hash
}

func TestOutbox_NormalizesAddresses(t *testing.T) {
	for spelling, want := range map[string]string{
		"mei@people.example.org":         "mei@people.example.org",
		"Mei@People.Example.ORG":         "mei@people.example.org",
		"mei+a@people.example.org":       "mei@people.example.org",
		"mei+a+b@people.example.org":     "mei@people.example.org",
		"mei+@people.example.org":        "mei@people.example.org",
		"m.ei@people.example.org":        "m.ei@people.example.org",
		"mei@people.example.com":         "mei@people.example.com",
		"+mei@people.example.org":        "+mei@people.example.org",
		"mei@sub+people.example.org":     "mei@sub+people.example.org",
		"mei-a@people.example.org":       "mei-a@people.example.org",
		"someone+mei@people.example.org": "someone@people.example.org",
		"M.e.i+x@GMail.com":              "mei@gmail.com",
		"m.ei@googlemail.com":            "mei@gmail.com",
		"m.ei@gmail.com.example.org":     "m.ei@gmail.com.example.org",
	} {
		if got := text.NormalMailbox(spelling); got != want {
			t.Errorf("%s is %s, want %s", spelling, got, want)
		}
	}
}

// crash stands for a delivery of which nobody hears the end.
const crash domain.MailOutcome = -1

func TestOutbox_DeliveryOutcomes(t *testing.T) {
	const m = time.Minute
	for name, tt := range map[string]struct {
		kind     string
		outcomes []domain.MailOutcome // of one try after the other; the last one of all that follow
		tries    []time.Duration
	}{
		"delivered":            {domain.MailVerify, []domain.MailOutcome{domain.MailDelivered}, []time.Duration{0}},
		"refused for good":     {domain.MailVerify, []domain.MailOutcome{domain.MailRejected}, []time.Duration{0}},
		"delivered at last":    {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed, domain.MailDelayed, domain.MailDelivered}, []time.Duration{0, 1 * m, 3 * m}},
		"a code out of time":   {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed}, []time.Duration{0, 1 * m, 3 * m, 7 * m}},
		"uncertain":            {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain}, []time.Duration{0, 1 * m}},
		"uncertain, delivered": {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain, domain.MailDelivered}, []time.Duration{0, 1 * m}},
		"uncertain once, then later, then uncertain": {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain, domain.MailDelayed, domain.MailDelayed, domain.MailUncertain}, []time.Duration{0, 1 * m, 3 * m, 7 * m}},
		"a crash":                 {domain.MailVerify, []domain.MailOutcome{crash, domain.MailDelivered}, []time.Duration{0, 1 * m}},
		"a crash, then later":     {domain.MailVerify, []domain.MailOutcome{crash, domain.MailDelayed, domain.MailDelivered}, []time.Duration{0, 1 * m, 3 * m}},
		"a crash after a delay":   {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed, crash, crash}, []time.Duration{0, 1 * m, 3 * m}},
		"two crashes":             {domain.MailVerify, []domain.MailOutcome{crash}, []time.Duration{0, 1 * m}},
		"a crash, then uncertain": {domain.MailVerify, []domain.MailOutcome{crash, domain.MailUncertain}, []time.Duration{0, 1 * m}},
		"uncertain, then a crash": {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain, crash}, []time.Duration{0, 1 * m}},
		"a claim out of time": {domain.MailClaim, []domain.MailOutcome{domain.MailDelayed}, append(
			[]time.Duration{0, 1 * m, 3 * m, 7 * m, 15 * m, 31 * m, 63 * m}, hourly(123*m, 72*time.Hour)...)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pilot, _ := s.register("harbour-pilot")
			if tt.kind == domain.MailClaim {
				s.ok(s.Verify(context.Background(), pilot.Handle))
				s.ok(s.sends()["claim mei"](pilot))
			} else {
				s.ok(s.sends()["verify"](pilot))
			}
			start := s.clock.Now()
			if tries := s.tryMails(tt.outcomes); !slices.Equal(tries, tt.tries) {
				t.Errorf("tried after %v, want %v", tries, tt.tries)
			}
			if n := value[int](s, `SELECT COUNT(*) FROM outbox`); n != 0 || s.since(start) > 73*time.Hour {
				t.Errorf("%d mails are left after %v", n, s.since(start))
			}
		})
	}
}

// TestOutbox_RejectedMailsDoNotCountAgainstTheirAgent: an agent has one mail a day here. One that was rejected for good is
// an event instead.
func TestOutbox_RejectedMailsDoNotCountAgainstTheirAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome domain.MailOutcome
		wait    time.Duration // until the next request
		counts  bool
		events  string
	}{
		"delivered":             {domain.MailDelivered, time.Minute, true, ""},
		"rejected for good":     {domain.MailRejected, time.Minute, false, domain.EventMailFailed + " of harbour-pilot"},
		"perhaps delivered":     {domain.MailUncertain, time.Hour, true, ""},
		"waiting":               {domain.MailDelayed, time.Minute, true, ""},
		"expired without a try": {crash, time.Hour, false, ""},
		"expired while waiting": {domain.MailDelayed, time.Hour, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := newStore(t, func(o *Options) { o.Mails = &domain.MailCaps{Agent: 1} })
			pilot, _ := s.register("harbour-pilot")
			s.ok(s.sends()["verify"](pilot))
			if tt.outcome != crash {
				mail, _ := s.begin()
				s.ok(s.FinishMail(ctx, mail, tt.outcome))
			}
			s.clock.Advance(tt.wait)
			s.ok(s.RunJobs(ctx))
			err := s.sends()["verify"](pilot)
			if counts := errors.Is(err, domain.NewError(domain.CodeRateLimited)); counts != tt.counts || err != nil && !counts {
				t.Errorf("the next mail: %v", err)
			}
			page, err := s.Events(ctx, pilot, "", 10)
			s.ok(err)
			var events []string
			for _, e := range page.Events {
				events = append(events, e.Type+" of "+e.Subject.Handle)
			}
			if got := strings.Join(events, ", "); got != tt.events {
				t.Errorf("the events are %q, want %q", got, tt.events)
			}
		})
	}
}

// TestOutbox_GuessedCodesCount though their mails were never sent, or an agent could guess while the mail server is down. Two mails are
// allowed here: the second replaces the first, or is requested after the first has expired.
func TestOutbox_GuessedCodesCount(t *testing.T) {
	ctx := context.Background()
	for _, wait := range []time.Duration{time.Minute, time.Hour} {
		for _, guess := range []bool{false, true} {
			s := newStore(t, func(o *Options) { o.Mails = &domain.MailCaps{Agent: 2} })
			pilot, _ := s.register("harbour-pilot")
			s.ok(s.sends()["verify"](pilot))
			if guess {
				_, err := s.ConfirmVerify(ctx, pilot, "0000-0000")
				if !errors.Is(err, domain.NewError(domain.CodeWrongCode)) {
					t.Error(err)
				}
			}
			s.clock.Advance(wait)
			s.ok(s.RunJobs(ctx))
			s.ok(s.sends()["verify"](pilot))
			err := s.sends()["verify"](pilot)
			if counts := errors.Is(err, domain.NewError(domain.CodeRateLimited)); counts != guess || err != nil && !counts {
				t.Errorf("after %s, guessed %t: %v", wait, guess, err)
			}
		}
	}
}

// TestOutbox_UnsentMailsCountAgainstTheNetwork alone: an agent that the mail server would not serve all day can ask on, but only
// as often as its network may, so that no stranger makes the site try mailboxes without end.
func TestOutbox_UnsentMailsCountAgainstTheNetwork(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Mails = &domain.MailCaps{Agent: 1, Mailbox: 1, Site: 2, Network: domain.Share{3}} })
	pilot, _ := s.register("harbour-pilot")
	pilot.Address = netip.MustParseAddr("198.51.100.7")
	for i := range 4 {
		err := s.sends()["verify"](pilot)
		if refusal := refusalOf(err); i < 3 && err != nil || i == 3 && refusal.Topic != "mails_network" {
			t.Errorf("request %d: %v %s", i, err, refusal.Topic)
		}
		if mail, due := s.begin(); i < 3 && (!due || mail.To == "") {
			t.Errorf("no mail is due after request %d", i)
		} else if due {
			s.ok(s.FinishMail(context.Background(), mail, domain.MailDelayed))
		}
		s.clock.Advance(16 * time.Minute)
		s.ok(s.RunJobs(context.Background()))
	}
}

func hourly(from, before time.Duration) (times []time.Duration) {
	for at := from; at < before; at += time.Hour {
		times = append(times, at)
	}
	return times
}

// tryMails tries one mail whenever it is due, until it is gone, and returns when.
func (s *testStore) tryMails(outcomes []domain.MailOutcome) (tries []time.Duration) {
	s.Helper()
	start := s.clock.Now()
	for {
		next, err := s.NextMailAt(context.Background())
		if s.ok(err); next == 0 {
			return tries
		}
		if early := next.Time().Sub(s.clock.Now()); early > 0 {
			s.clock.Advance(early - time.Millisecond)
			if mail, due := s.begin(); due {
				s.Errorf("try %d came too early", mail.Tries)
			}
			s.clock.Advance(time.Millisecond)
		}
		mail, due := s.begin()
		if !due {
			continue
		}
		if mail.Tries != len(tries) {
			s.Errorf("try %d counts as %d", len(tries), mail.Tries)
		}
		outcome := outcomes[min(len(tries), len(outcomes)-1)]
		tries = append(tries, s.since(start))
		if outcome == crash {
			s.reopen()
		} else {
			s.ok(s.FinishMail(context.Background(), mail, outcome))
		}
	}
}

func TestOutbox_ConcurrentSendersGetEachMailOnce(t *testing.T) {
	s := newStore(t, noCaps)
	agents := s.agents("agent", 30)
	for _, c := range agents {
		s.ok(s.sends()["verify"](c))
	}
	taken := make([]domain.Mail, 100)
	s.clock.Advance(time.Second)
	wantOutcomes(t, "senders", together(len(taken), func(i int) error {
		mail, due, err := s.StartMail(context.Background())
		if taken[i] = mail; err == nil && !due {
			err = errors.New("none")
		}
		return err
	}), map[string]int{"": 30, "none": 70})
	to := map[string]bool{}
	for _, mail := range taken {
		to[mail.To] = true
	}
	if delete(to, ""); len(to) != 30 {
		t.Errorf("%d different mails were taken, want 30", len(to))
	}
}

func TestOutbox_MailFields(t *testing.T) {
	s := newStore(t, noCaps)
	ctx := context.Background()
	pilot, _ := s.register("harbour-pilot")
	s.ok(s.Verify(ctx, pilot.Handle))
	now := domain.TimeOf(s.clock.Now())
	for _, tt := range []struct {
		act  string
		want domain.Mail
	}{
		{"recover", domain.Mail{Kind: domain.MailRecover, To: "harbour-pilot@agents.example.org", ExpiresAt: now.Add(24 * time.Hour)}},
		{"claim mei", domain.Mail{Kind: domain.MailClaim, To: "mei@people.example.org", ExpiresAt: now.Add(72 * time.Hour)}},
		{"claim mei", domain.Mail{Kind: domain.MailOwner, To: "mei@people.example.org", ExpiresAt: now.Add(72 * time.Hour)}}, // who has confirmed meanwhile
	} {
		act, want := tt.act, tt.want
		s.ok(s.sends()[act](pilot))
		mail := s.mailed()
		if mail.Kind == domain.MailClaim {
			s.pressed(mail.Secret, domain.OwnerConfirm)
		}
		want.Seq, want.ID, want.Secret, want.Stop, want.AgentID = mail.Seq, mail.ID, mail.Secret, mail.Stop, pilot.ID
		want.Handle, want.Name, want.CreatedAt = pilot.Handle, "Name of harbour-pilot", now
		if diff := cmp.Diff(want, mail); diff != "" || mail.ID == "" || mail.Secret == "" {
			t.Errorf("%s (-want +got): %s", act, diff)
		}
	}
}

// A mail whose delivery ends late must not take the one that came in its place.
func TestOutbox_LateOutcomeChangesNoOtherMail(t *testing.T) {
	for _, outcome := range []domain.MailOutcome{domain.MailDelivered, domain.MailRejected, domain.MailDelayed, domain.MailUncertain} {
		s := newStore(t, noCaps)
		pilot, _ := s.register("harbour-pilot")
		s.ok(s.sends()["verify"](pilot))
		old, _ := s.begin()
		s.ok(s.sends()["verify"](pilot))
		before := s.dump()
		s.ok(s.FinishMail(context.Background(), old, outcome))
		s.wantUnchanged(fmt.Sprintf("outcome %d of a mail that was replaced", outcome), before)
		if mail := s.mailed(); mail.Secret == old.Secret || mail.ID == old.ID {
			t.Errorf("outcome %d: the new mail is the old one", outcome)
		}
	}
}

// TestOutbox_SentMailsLeaveTheFile ends a mail in each way: with the next run of the due jobs
// nothing of it is left.
func TestOutbox_SentMailsLeaveTheFile(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(s *testStore, pilot domain.Caller, mail domain.Mail) (more []domain.Mail){
		"delivered": func(s *testStore, _ domain.Caller, mail domain.Mail) []domain.Mail {
			s.ok(s.FinishMail(ctx, mail, domain.MailDelivered))
			return nil
		},
		"refused": func(s *testStore, _ domain.Caller, mail domain.Mail) []domain.Mail {
			s.ok(s.FinishMail(ctx, mail, domain.MailRejected))
			return nil
		},
		"uncertain twice": func(s *testStore, _ domain.Caller, mail domain.Mail) []domain.Mail {
			s.ok(s.FinishMail(ctx, mail, domain.MailUncertain))
			s.clock.Advance(time.Minute)
			again, _ := s.begin()
			s.ok(s.FinishMail(ctx, again, domain.MailUncertain))
			return nil
		},
		"replaced": func(s *testStore, pilot domain.Caller, _ domain.Mail) []domain.Mail {
			_, err := s.ClaimOwner(ctx, pilot, "another7q@people.example.org")
			s.ok(err)
			return s.deliver()
		},
		"out of time": func(s *testStore, _ domain.Caller, mail domain.Mail) []domain.Mail {
			s.ok(s.FinishMail(ctx, mail, domain.MailDelayed))
			s.clock.Advance(72*time.Hour - time.Millisecond)
			s.ok(s.RunJobs(ctx))
			if n := value[int](s, `SELECT COUNT(*) FROM outbox`); n != 1 {
				t.Errorf("%d mails wait just before their time is over", n)
			}
			s.clock.Advance(time.Millisecond)
			return nil
		},
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		s.ok(s.RunJobs(ctx)) // a start empties the log once, for what a crash left
		_, err := s.ClaimOwner(ctx, pilot, "canary7q@people.example.org")
		s.ok(err)
		mail, _ := s.begin()
		mails := append(end(s, pilot, mail), mail)
		s.ok(s.RunJobs(ctx))
		if size, n := s.walSize(), value[int](s, `SELECT COUNT(*) FROM outbox`); size != 0 || n != 0 {
			t.Errorf("%s: the log has %d bytes, %d mails wait", name, size, n)
		}
		s.stop()
		for _, mail := range mails {
			if n := s.occurrences([]byte(mail.Secret)) + s.occurrences([]byte(mail.To)); n != 0 {
				t.Errorf("%s: the secret and the address stand %d times in the file", name, n)
			}
		}
	}
}

func TestOutbox_FormerMailboxLeavesTheFile(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot", func(r *domain.Registration) { r.Mailbox, r.ContactPublic = "canary7q@agents.example.org", true })
	s.ok(s.confirm(pilot, s.code(pilot)))
	s.recoveryCode(pilot)
	s.ok(s.sends()["claim mei"](pilot))
	s.ok(s.RunJobs(ctx))
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	s.deliver()
	s.clock.Advance(7 * domain.Day) // as long as it may recover the key
	s.ok(s.RunJobs(ctx))
	if size := s.walSize(); size != 0 {
		t.Errorf("the log has %d bytes", size)
	}
	s.stop()
	if n := s.occurrences([]byte("canary7q")); n != 0 {
		t.Errorf("the former mailbox stands %d times in the file", n)
	}
}

// TestOutbox_StoresOnlyHashesOfMailboxes: the log for the day that it is counted in, a code for a
// day after its time, so that a late answer hears why.
func TestOutbox_StoresOnlyHashesOfMailboxes(t *testing.T) {
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.code(pilot)
	start := s.clock.Now()
	for _, step := range []struct {
		at         time.Duration
		log, codes int
	}{
		{0, 1, 1},
		{domain.Day - time.Millisecond, 1, 1},
		{domain.Day, 0, 1},
		{domain.Day + 15*time.Minute - time.Millisecond, 0, 1},
		{domain.Day + 15*time.Minute, 0, 0},
	} {
		s.clock.Advance(step.at - s.since(start))
		s.ok(s.RunJobs(context.Background()))
		log, codes := value[int](s, `SELECT COUNT(*) FROM mail_log`), value[int](s, `SELECT COUNT(*) FROM codes`)
		if log != step.log || codes != step.codes {
			t.Errorf("after %v: %d mails in the log and %d codes, want %d and %d", step.at, log, codes, step.log, step.codes)
		}
	}
	// What a clock that ran ahead has written uses up no limit for longer than a day.
	s.clock.Advance(100 * domain.Day)
	s.code(pilot)
	s.clock.Advance(-50 * domain.Day)
	s.ok(s.RunJobs(context.Background()))
	if n := value[int](s, `SELECT COUNT(*) FROM mail_log`); n != 0 {
		t.Errorf("%d mails of the future are counted", n)
	}
}
