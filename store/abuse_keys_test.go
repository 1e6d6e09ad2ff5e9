package store

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

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
	_, err := s.StartRecovery(ctx, pilot.Handle, netip.Addr{})
	s.ok(err)
	_, err = s.recover(pilot, code)
	s.ok(err)
	if _, secrets := s.mails(); secrets[holder] == "" {
		t.Error("the holder's code is not mailed")
	}
}
