package store

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// TestAbuse06_StrangersDoNotSpendTheKeptMailForever: every hour strangers ask for the keys of the other agents at the holder's
// mailbox, and name it as that of new ones. The holder asks once a day.
func TestAbuse06_StrangersDoNotSpendTheKeptMailForever(t *testing.T) {
	proof.OneByOne(t)
	ctx := context.Background()
	for others, wait := range map[int]int{1: 2, 8: 5} { // days until the holder has the code at the latest
		s := newStore(t)
		var agents []domain.Caller
		for i := range others + 1 {
			c, _ := s.register(fmt.Sprintf("agent-%d", i), func(r *domain.Registration) { r.Mailbox = holder })
			s.ok(s.Verify(ctx, c.Handle))
			agents = append(agents, c)
		}
		waited := 0
		for hour := range 6 * 24 {
			for i, c := range agents[1:] {
				s.ok(errOf(s.StartRecovery(ctx, c.Handle, netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", hour%24*10+i)))))
			}
			if hour%8 == 0 {
				namesake, _ := s.register(fmt.Sprintf("namesake-%d", hour), func(r *domain.Registration) { r.Mailbox = holder })
				_ = s.sends()["verify"](namesake)
			}
			s.deliver()
			if hour%24 == 9 {
				s.ok(errOf(s.StartRecovery(ctx, agents[0].Handle, netip.MustParseAddr("198.51.100.1"))))
				waited++
				for _, mail := range s.deliver() {
					waited = 0
					if mail.Handle != agents[0].Handle {
						t.Errorf("a mail for %s", mail.Handle)
					}
				}
				if waited >= wait {
					t.Fatalf("%d others, hour %d: no code for %d days", others, hour, waited)
				}
			}
			day := domain.TimeOf(s.clock.Now().Add(-domain.Day))
			if n := value[int](s, `SELECT COUNT(*) FROM mail_log WHERE sent AND at > ?`, day); n > 3 {
				t.Fatalf("%d others, hour %d: %d mails to one address", others, hour, n)
			}
			s.clock.Advance(time.Hour)
			s.ok(s.RunJobs(ctx))
		}
	}
}

// TestAbuse04_AnotherCodeLeavesTheMailThatWaits: a slow mail server gives a thief no time to delete the holder's code.
func TestAbuse04_AnotherCodeLeavesTheMailThatWaits(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	s.moveTo(pilot, thief)
	s.clock.Advance(time.Hour)
	s.moveTo(pilot, "another@elsewhere.example.org")
	code := s.codes(pilot)[thief]
	s.clock.Advance(2 * time.Hour)
	s.ok(errOf(s.StartRecovery(ctx, pilot.Handle, netip.Addr{})))
	s.ok(errOf(s.recover(pilot, code)))
	if s.secrets()[holder] == "" {
		t.Error("the holder's code is not mailed")
	}
}
