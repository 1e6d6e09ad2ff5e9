package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func TestOwner_FormActsOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, noCaps)
	rounds := proof.Rounds(8, 70, 1400)
	proof.Figure(t, "act rounds", 3*rounds)
	for round := range rounds {
		pilot, first := s.register(fmt.Sprintf("agent-%d", round))
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, pilot.Handle))
		token := s.ownerLink(pilot, mei)
		at := func(act domain.OwnerAction) ([]string, []error) {
			call := domain.OwnerSubmission{Token: token, Form: s.ownerPage(token).Form, Act: act}
			keys := make([]string, rush)
			return keys, testkit.Together(rush, func(i int) error {
				done, err := s.ActAsOwner(context.Background(), call)
				keys[i] = done.Key
				return err
			})
		}
		want := map[string]int{"": 1, "invalid_state": rush - 1}
		_, errs := at(domain.OwnerConfirm)
		wantOutcomes(t, "confirm", errs, want)
		keys, errs := at(domain.OwnerRotateKey)
		wantOutcomes(t, "rotate", errs, want)
		works := 0
		for i, key := range append(keys, first) {
			if (key != "") != (i == rush || errs[i] == nil) {
				t.Errorf("press %d: a key %v, %v", i, key != "", errs[i])
			}
			if _, err := s.Authenticate(context.Background(), key); err == nil {
				works++
			}
		}
		if works != 1 || s.level(pilot) != 2 {
			t.Errorf("%d keys work, level %d", works, s.level(pilot))
		}
		_, errs = at(domain.OwnerWithdraw)
		wantOutcomes(t, "withdraw", errs, map[string]int{"": 1, "not_found": rush - 1})
	}
}

// A link that cannot be replaced, because its address got all the mails of a day, is not voided either: the owner would be
// shut out.
func TestOwner_UnsentMailLeavesTheLinkValid(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	token := s.ownerLink(pilot, mei)
	for _, handle := range []string{"agent-a", "agent-b"} {
		s.ownerLink(s.verified(handle), mei)
	}
	s.clock.Advance(time.Minute)
	_, err := s.ClaimOwner(ctx, pilot, mei)
	if s.ok(err); len(s.deliverMails()) != 0 {
		t.Error("a fourth mail")
	}
	s.actAsOwner(token, domain.OwnerConfirm)
}

// TestOwner_UnsentMailLeavesTheOneThatWaits: another request of the same claim, past the mails of the day.
func TestOwner_UnsentMailLeavesTheOneThatWaits(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	for _, handle := range []string{"agent-a", "agent-b"} {
		s.ownerLink(s.verified(handle), mei)
	}
	pilot := s.verified("harbour-pilot")
	s.ok(errOf(s.ClaimOwner(ctx, pilot, mei)))
	s.clock.Advance(time.Minute)
	s.ok(errOf(s.ClaimOwner(ctx, pilot, mei)))
	s.actAsOwner(s.deliverOneMail().Secret, domain.OwnerConfirm)
}

// A claim that is silently replaced takes the mail of the one before along.
func TestOwner_UnsentClaimDeletesTheMail(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	for i := range 3 {
		s.ok(errOf(s.ClaimOwner(ctx, s.verified(fmt.Sprintf("agent-%d", i)), ada)))
	}
	s.deliverMails()
	s.ok(errOf(s.ClaimOwner(ctx, pilot, mei)))
	s.clock.Advance(time.Minute)
	_, err := s.ClaimOwner(ctx, pilot, ada)
	if s.ok(err); len(s.deliverMails()) != 0 {
		t.Error("a link that is dead is mailed")
	}
}

// TestOwner_UndeliveredLinkLeavesTheOldOneValid: the thief of a key asks for one again and again,
// to a spelling of the owner's address where no mail arrives.
func TestOwner_UndeliveredLinkLeavesTheOldOneValid(t *testing.T) {
	ctx := context.Background()
	for name, outcome := range map[string]domain.MailOutcome{"refused": domain.MailRejected, "delayed": domain.MailDelayed, "perhaps delivered": domain.MailUncertain} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		token := s.claimBy(pilot, mei)
		s.deliverMails()
		s.ok(errOf(s.ClaimOwner(ctx, pilot, "mei+void@people.example.org")))
		mail, due := s.startMail()
		if !due || mail.Kind != domain.MailOwner {
			t.Fatalf("%s: the fresh link is not on its way: %+v", name, mail)
		}
		s.ok(s.FinishMail(ctx, mail, outcome))
		if page := s.ownerPage(token); page.Handle != pilot.Handle {
			t.Errorf("%s: the owner's page is gone", name)
		}
	}
}

// TestOwner_MailedLinkCountsOnceItIsUsed: an owner may be faster than the record of the delivery, which a kill can prevent.
func TestOwner_MailedLinkCountsOnceItIsUsed(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	old := s.claimBy(pilot, mei)
	s.deliverMails()
	s.ok(errOf(s.ClaimOwner(context.Background(), pilot, mei)))
	mail, due := s.startMail()
	if !due || mail.Kind != domain.MailOwner {
		t.Fatalf("the fresh link is not on its way: %+v", mail)
	}

	if page := s.ownerPage(mail.Secret); page.Handle != pilot.Handle {
		t.Errorf("the fresh link leads to %q", page.Handle)
	}
	_, err := s.OwnerPage(context.Background(), old)
	wantOutcome(t, "the link before", err, "not_found")
}

// TestOwner_UnusedLinkEndsAfterAYear holds promise 16 of SECURITY.md.
func TestOwner_UnusedLinkEndsAfterAYear(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.claimBy(pilot, mei)
	for _, use := range []func(){
		func() { s.ownerPage(token) },
		func() { s.actAsOwner(token, domain.OwnerRotateKey) },
		func() { pilot = s.callerOf(s.actAsOwner(token, domain.OwnerRotateKey).Key) },
	} {
		s.clock.Advance(364 * domain.Day)
		use()
	}
	s.clock.Advance(365*domain.Day - time.Millisecond)
	form := s.ownerPage(token).Form // less than a year, and a use

	s.clock.Advance(365 * domain.Day)
	_, err := s.OwnerPage(context.Background(), token)
	wantOutcome(t, "the page after a year", err, "not_found")
	_, err = s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: token, Form: form, Act: domain.OwnerRotateKey})
	wantOutcome(t, "its button", err, "not_found")
	if s.level(pilot) != 2 {
		t.Error("the claim ended with its link")
	}
	fresh := s.ownerLink(pilot, mei)
	_, err = s.OwnerPage(context.Background(), token)
	wantOutcome(t, "the old link once there is a fresh one", err, "not_found")
	s.clock.Advance(364 * domain.Day)
	s.actAsOwner(fresh, domain.OwnerWithdraw)
}

// TestOwner_WithdrawalStopsTheMails that lead to the owner's page.
func TestOwner_WithdrawalStopsTheMails(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.claimBy(pilot, mei)
	s.deliverMails()
	s.ok(errOf(s.ClaimOwner(context.Background(), pilot, mei)))
	s.actAsOwner(token, domain.OwnerWithdraw)
	if mails := s.deliverMailsWithSecrets(); len(mails) != 0 {
		t.Errorf("a link to a page that does not exist is mailed: %+v", mails)
	}
}

// TestOwner_RejectionHoldsFor30Days: it is reported, and so long the agent may not ask again.
func TestOwner_RejectionHoldsFor30Days(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	s.actAsOwner(s.ownerLink(pilot, mei), domain.OwnerReject)
	for _, step := range []struct {
		after  time.Duration
		mails  int
		report string
	}{
		{0, 0, "claim harbour-pilot 32 no reason"},
		{30*domain.Day - time.Millisecond, 0, "claim harbour-pilot 32 no reason"},
		{time.Millisecond, 1, "claim harbour-pilot 0 no reason"},
	} {
		s.clock.Advance(step.after)
		s.ok(s.RunJobs(context.Background()))
		s.ok(errOf(s.ClaimOwner(context.Background(), pilot, "MEI+again@people.example.org")))
		report := value[string](s, `SELECT about || ' ' || subject || ' ' || COALESCE(length(reporter), 0) || ' ' || COALESCE(reason, 'no reason') FROM reports`)
		if mails := s.deliverMails(); len(mails) != step.mails || report != step.report {
			t.Errorf("after %v: %d mails, the report %q", step.after, len(mails), report)
		}
	}
}

// TestOwner_FormCoversWhatWasShown: nobody confirms a name, an owner or a mailbox that the page did not show.
// It holds promise 16 of SECURITY.md.
func TestOwner_FormCoversWhatWasShown(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.claimBy(pilot, mei)
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" }) // lapses
	confirm := func(page domain.OwnerPage, act domain.OwnerAction) error {
		return errOf(s.ActAsOwner(ctx, domain.OwnerSubmission{Token: token, Form: page.Form, Act: act}))
	}
	for name, change := range map[string]func(){
		"another name":        func() { s.update(pilot, func(a *domain.Settings) { a.Name = "Bank of Skagen" }) },
		"another owner":       func() { s.update(pilot, func(a *domain.Settings) { a.Owner = "Somebody Else" }) },
		"another mailbox":     func() { s.moveMailbox(pilot, thief) },
		"a verified mailbox":  func() { s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, pilot.Handle)) },
		"an unverified again": func() { s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" }) },
	} {
		shown := s.ownerPage(token)
		change()
		if s.ownerPage(token).Form != shown.Form { // the mailbox may have been verified before
			wantOutcome(t, name, confirm(shown, domain.OwnerConfirm), "invalid_state")
		}
	}
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, pilot.Handle))
	shown := s.ownerPage(token)
	s.update(pilot, func(a *domain.Settings) { a.Tagline = "Berths" })
	wantOutcome(t, "another tagline", confirm(shown, domain.OwnerConfirm), "")

	// A thief who changes the agent again and again keeps the owner neither from a new key nor from keeping the agent.
	shown = s.ownerPage(token)
	s.update(pilot, func(a *domain.Settings) { a.Mailbox, a.Name = thief, "Another" })
	wantOutcome(t, "a new key", confirm(shown, domain.OwnerRotateKey), "")
	pilot = s.callerOf(s.actAsOwner(token, domain.OwnerRotateKey).Key)
	shown = s.ownerPage(token)
	s.ok(s.DeleteAgent(ctx, pilot))
	wantOutcome(t, "keeping the agent", confirm(shown, domain.OwnerKeep), "")
	wantOutcome(t, "the page before", confirm(shown, domain.OwnerRotateKey), "invalid_state")
}

// TestOwner_OnlyTheOwnerWaivesReceipts: a thief of the key must not be able to lift what is to hold the key back.
// It holds promise 15 of SECURITY.md.
func TestOwner_OnlyTheOwnerWaivesReceipts(t *testing.T) {
	set := func(required bool, change func(*domain.Settings)) func(*domain.Settings) error {
		return func(a *domain.Settings) error {
			change(a)
			a.ContactPolicy.RequireOwnerReceipt = required
			return nil
		}
	}
	nothing := func(*domain.Settings) {}
	for name, lapse := range map[string]func(*domain.Settings){
		"claimed":             nothing,
		"another owner named": func(a *domain.Settings) { a.Owner = "Another" },
		"mailbox changed":     func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" },
	} {
		for _, atOnce := range []bool{false, true} {
			s := newStore(t, noCaps)
			pilot := s.verified("harbour-pilot")
			token := s.claimBy(pilot, mei)
			s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
			change := lapse
			if !atOnce {
				s.update(pilot, lapse)
				change = nothing
			}
			_, err := s.UpdateAgent(context.Background(), pilot, set(false, change))
			if wantOutcome(t, name+": switched off by the key", err, "forbidden"); !s.ownerPage(token).ReceiptRequired {
				t.Errorf("%s: receipts are no longer required", name)
			}
			if s.actAsOwner(token, domain.OwnerWaive); s.ownerPage(token).ReceiptRequired {
				t.Errorf("%s: the owner waived receipts, and they are still required", name)
			}
		}
	}
}
