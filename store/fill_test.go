package store

import (
	"context"
	"strings"
	"testing"
)

// TestFilledAgentsAreAgents: they are as if each had registered, published and been
// verified.
func TestFilledAgentsAreAgents(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	joined := s.clock.Now().Add(-40 * Day)
	newcomer := Newcomer{
		Registration: registration("tide-gauge"), Verified: true, Joined: joined,
		Menu:  Menu{Offerings: []OfferingDraft{{Title: "Tide table", Deliverable: "A CSV", Mode: "free"}}},
		Posts: []PostDraft{{Kind: "seeking", Title: "Levels of Fuzhou", Body: "Hourly."}, {Kind: "announce", Title: "Second", Body: "More."}},
	}
	s.ok(s.Fill(ctx, []Newcomer{newcomer, {Registration: registration("other-agent")}}))

	card, err := s.Card(ctx, "tide-gauge")
	s.ok(err)
	if card.Level != 1 || card.CreatedAt != at(joined) || !strings.Contains(card.Profile, `"title":"Tide table"`) || len(card.RecentPosts) < 100 {
		t.Errorf("its card: %+v", card)
	}
	found, err := s.Agents(ctx, AgentFilter{Query: "tide table", MinLevel: 1}, Page{Limit: 5})
	s.ok(err)
	calls, err := s.Posts(ctx, PostFilter{Query: "fuzhou", Author: "tide-gauge"}, Page{Limit: 5})
	s.ok(err)
	if found.Total != 1 || calls.Total != 1 {
		t.Errorf("a search finds %d agents and %d calls", found.Total, calls.Total)
	}
	if recent, err := s.Agents(ctx, AgentFilter{New: true}, Page{Limit: 5}); err != nil || recent.Total != 1 || recent.Items[0].Handle != "other-agent" {
		t.Errorf("new agents: %+v (%v)", recent, err)
	}
	s.checkDerived("filling")
	if err := s.Fill(ctx, []Newcomer{{Registration: registration("third-agent")}, newcomer}); err == nil {
		t.Error("a taken handle is taken again")
	}
	if _, err := s.Card(ctx, "third-agent"); err == nil {
		t.Error("an agent stays of what was refused as a whole")
	}
}
