package store

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// mostADay counts mails within any day.
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
	t.Parallel()
	const atOnce, most = 125, 3
	proof.OneByOne(t)
	agents := proof.Rounds(3, 80, 80) * atOnce
	ways := []string{domain.MailVerify, domain.MailRecover, domain.MailClaim}
	wayOf := func(i int) string { return ways[i%len(ways)] }
	s, ctx := newStore(t), context.Background()
	callers := make([]domain.Caller, agents)
	victim := func(i int) string { return fmt.Sprintf("Victim+%d@agents.example.org", i) }
	ask := func(i int) error {
		switch wayOf(i) {
		case domain.MailVerify:
			_, err := s.StartVerify(ctx, callers[i])
			return err
		case domain.MailRecover:
			_, err := s.StartRecovery(ctx, callers[i].Handle, netip.Addr{})
			return err
		default:
			_, err := s.ClaimOwner(ctx, callers[i], victim(i))
			return err
		}
	}
	for first := 0; first < agents; first += atOnce {
		wantOutcomes(t, "registrations", testkit.Together(atOnce, func(n int) error {
			i := first + n
			r := registration(fmt.Sprintf("agent-%d", i))
			if wayOf(i) != domain.MailClaim { // those ask from mailboxes of their own
				r.Mailbox = victim(i)
			}
			registered, _, err := s.Register(ctx, r, domain.IdempotencyKey{})
			callers[i] = domain.Caller{ID: registered.Agent.ID, Handle: r.Handle}
			if err == nil && wayOf(i) != domain.MailVerify {
				err = s.ActOnAgent(ctx, domain.OperatorVerify, r.Handle)
			}
			return err
		}), map[string]int{"": atOnce})
	}
	var times []domain.Time
	for first := 0; first < agents; first += atOnce {
		wantOutcomes(t, "mails asked for", testkit.Together(atOnce, func(n int) error { return ask(first + n) }), map[string]int{"": atOnce})
		for _, mail := range s.deliverMails() {
			times = append(times, mail.CreatedAt)
		}
		s.clock.Advance(domain.Day * atOnce / time.Duration(agents))
	}
	if len(times) != most {
		t.Errorf("%d mails on the first day, want %d", len(times), most)
	}
	for way, kind := range ways {
		wantOutcomes(t, kind, testkit.Together(atOnce, func(n int) error { return ask(way + n*len(ways)) }), map[string]int{"": atOnce})
		mails := s.deliverMails()
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

// A code that is silently replaced takes the mail of the one before along: what it
// holds is dead.
func TestOutbox_UnsentCodeDeletesTheMail(t *testing.T) {
	s := newStore(t)
	asker, _ := s.register("asker")
	other, _ := s.register("other", func(r *domain.Registration) { r.Mailbox = "asker+other@agents.example.org" })
	for range 2 {
		s.ok(s.mailRequests()["verify"](other))
		s.deliverMails()
		s.clock.Advance(time.Minute)
	}
	s.ok(s.mailRequests()["verify"](asker)) // the third mail, which waits
	s.clock.Advance(time.Minute)
	s.ok(s.mailRequests()["verify"](asker))
	if mails := s.deliverMails(); len(mails) != 0 {
		t.Errorf("%d mails with dead codes", len(mails))
	}
}

// crash stands for a delivery of which nobody hears the end.
const crash domain.MailOutcome = -1

// TestOutbox_DeliveryOutcomes: when a mail is tried, and whether it counts.
func TestOutbox_DeliveryOutcomes(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, tt := range map[string]struct {
		kind     string
		outcomes []domain.MailOutcome // of one try after the other; the last one of all that follow
		tries    []time.Duration
	}{
		"delivered":               {domain.MailVerify, []domain.MailOutcome{domain.MailDelivered}, []time.Duration{0}},
		"refused for good":        {domain.MailVerify, []domain.MailOutcome{domain.MailRejected}, []time.Duration{0}},
		"delivered at last":       {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed, domain.MailDelayed, domain.MailDelivered}, []time.Duration{0, 1 * m, 3 * m}},
		"a code out of time":      {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed}, []time.Duration{0, 1 * m, 3 * m, 7 * m}},
		"uncertain":               {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain}, []time.Duration{0, 1 * m}},
		"a crash, then later":     {domain.MailVerify, []domain.MailOutcome{crash, domain.MailDelayed, domain.MailDelivered}, []time.Duration{0, 1 * m, 3 * m}},
		"a crash after a delay":   {domain.MailVerify, []domain.MailOutcome{domain.MailDelayed, crash, crash}, []time.Duration{0, 1 * m, 3 * m}},
		"two crashes":             {domain.MailVerify, []domain.MailOutcome{crash}, []time.Duration{0, 1 * m}},
		"uncertain, then a crash": {domain.MailVerify, []domain.MailOutcome{domain.MailUncertain, crash}, []time.Duration{0, 1 * m}},
		"a claim": {domain.MailClaim, append(slices.Repeat([]domain.MailOutcome{domain.MailDelayed}, 8), domain.MailDelivered),
			[]time.Duration{0, 1 * m, 3 * m, 7 * m, 15 * m, 31 * m, 63 * m, 123 * m, 183 * m}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pilot, _ := s.register("harbour-pilot")
			if tt.kind == domain.MailClaim {
				s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, pilot.Handle))
				s.ok(s.mailRequests()["claim mei"](pilot))
			} else {
				s.ok(s.mailRequests()["verify"](pilot))
			}
			if tries := s.tryMails(tt.outcomes); !slices.Equal(tries, tt.tries) {
				t.Errorf("tried after %v, want %v", tries, tt.tries)
			}
			if n := value[int](s, `SELECT COUNT(*) FROM outbox`); n != 0 {
				t.Errorf("%d mails are left", n)
			}
			// A mail that may have come counts against its agent.
			counts := value[int](s, `SELECT COUNT(*) FROM mail_log WHERE agent_id = ?`, pilot.ID) == 1
			if want := name != "refused for good" && name != "a code out of time"; counts != want {
				t.Errorf("counts against the agent: %v", counts)
			}
		})
	}
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
			if mail, due := s.startMail(); due {
				s.Errorf("try %d came too early", mail.Tries)
			}
			s.clock.Advance(time.Millisecond)
		}
		mail, due := s.startMail()
		if !due {
			continue
		}
		if mail.Tries != len(tries) {
			s.Errorf("try %d counts as %d", len(tries), mail.Tries)
		}
		outcome := outcomes[min(len(tries), len(outcomes)-1)]
		tries = append(tries, s.elapsed(start))
		if outcome == crash {
			s.reopen()
		} else {
			s.ok(s.FinishMail(context.Background(), mail, outcome))
		}
	}
}

// A mail whose delivery ends late must not take the one that came in its place.
func TestOutbox_LateOutcomeChangesNoOtherMail(t *testing.T) {
	for _, outcome := range []domain.MailOutcome{domain.MailDelivered, domain.MailRejected, domain.MailDelayed, domain.MailUncertain} {
		s := newStore(t, noCaps)
		pilot, _ := s.register("harbour-pilot")
		s.ok(s.mailRequests()["verify"](pilot))
		old, _ := s.startMail()
		s.ok(s.mailRequests()["verify"](pilot))
		before := s.dump()
		s.ok(s.FinishMail(context.Background(), old, outcome))
		s.wantUnchanged(fmt.Sprintf("outcome %d of a mail that was replaced", outcome), before)
		if mail := s.deliverOneMail(); mail.Secret == old.Secret || mail.ID == old.ID {
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
		"replaced": func(s *testStore, pilot domain.Caller, _ domain.Mail) []domain.Mail {
			_, err := s.ClaimOwner(ctx, pilot, "another7q@people.example.org")
			s.ok(err)
			return s.deliverMails()
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
		mail, _ := s.startMail()
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
	s.ok(s.confirmVerify(pilot, s.verifyCode(pilot)))
	s.recoveryCode(pilot)
	s.ok(s.mailRequests()["claim mei"](pilot))
	s.ok(s.RunJobs(ctx))
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	s.deliverMails()
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
	s.verifyCode(pilot)
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
		s.clock.Advance(step.at - s.elapsed(start))
		s.ok(s.RunJobs(context.Background()))
		log, codes := value[int](s, `SELECT COUNT(*) FROM mail_log`), value[int](s, `SELECT COUNT(*) FROM codes`)
		if log != step.log || codes != step.codes {
			t.Errorf("after %v: %d mails in the log and %d codes, want %d and %d", step.at, log, codes, step.log, step.codes)
		}
	}
	// What a clock that ran ahead has written uses up no limit for longer than a day.
	s.clock.Advance(100 * domain.Day)
	s.verifyCode(pilot)
	s.clock.Advance(-50 * domain.Day)
	s.ok(s.RunJobs(context.Background()))
	if n := value[int](s, `SELECT COUNT(*) FROM mail_log`); n != 0 {
		t.Errorf("%d mails of the future are counted", n)
	}
}
