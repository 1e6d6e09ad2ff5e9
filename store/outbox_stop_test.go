package store

import (
	"context"
	"fmt"
	"testing"

	"callbook/store/domain"
)

// TestStopMails_NeedsTheTokenOfAMail holds promise 17 of SECURITY.md.
func TestStopMails_NeedsTheTokenOfAMail(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	_, err := s.MailsStopped(ctx, "x")
	wantOutcome(t, "before there is a mail", err, "not_found")
	s.verifyCode(s.registerAgents("agent", 1)[0])
	other, _ := s.register("other")
	s.ok(s.mailRequests()["verify"](other))
	token := s.deliverOneMail().Stop
	forged := "A" + token[1:]
	if forged == token {
		forged = "B" + token[1:]
	}
	before := s.dump()
	for _, bad := range []string{"", "x", forged, token[1:], token + "A", token[:63], token[:43], "../" + token, token + "\n"} {
		_, err := s.MailsStopped(ctx, bad)
		wantOutcome(t, fmt.Sprintf("%q", bad), err, "not_found")
		wantOutcome(t, fmt.Sprintf("%q", bad), s.StopMails(ctx, bad, true), "not_found")
	}
	s.wantUnchanged("tokens of no mail", before)
}

// TestStopMails_DeletesQueuedMails: also those that agents requested in other spellings of the address, until its holder
// takes that back.
// It holds promise 17 of SECURITY.md.
func TestStopMails_DeletesQueuedMails(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot", func(r *domain.Registration) { r.Mailbox = mei })
	s.ok(s.mailRequests()["verify"](pilot))
	token := s.deliverOneMail().Stop
	other, _ := s.register("other", func(r *domain.Registration) { r.Mailbox = "Mei+x@people.example.org" })
	another, _ := s.register("another")
	for _, c := range []domain.Caller{other, another} {
		s.ok(s.mailRequests()["verify"](c))
	}
	s.ok(s.StopMails(ctx, token, true))
	if mails := s.deliverMails(); len(mails) != 1 || mails[0].Handle != "another" {
		t.Errorf("%d mails are on their way", len(mails))
	}
	s.ok(s.StopMails(ctx, token, false))
	s.verifyCode(other)
}
