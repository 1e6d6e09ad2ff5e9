package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// greedyNetwork is a client with as many agents as its address may register, which write as much as
// they may.
type greedyNetwork struct {
	*testStore
	address netip.Addr
	rng     *rand.Rand
	agents  []domain.Caller
	counts  map[string]int
	shorter int // divides the length of texts
}

// text returns a text of n characters that makes the search rows as large as possible.
func (g *greedyNetwork) text(n int) string {
	var b strings.Builder
	for range max(1, n/g.shorter) {
		b.WriteRune(rune(0x4e00 + g.rng.IntN(0x5000)))
	}
	return b.String()
}

func (g *greedyNetwork) texts(items, n int) (list []string) {
	for range items {
		list = append(list, g.text(n))
	}
	return list
}

// key returns an Idempotency-Key, with which the response is stored too.
func (g *greedyNetwork) key(operation string) domain.IdempotencyKey {
	return domain.NewIdempotencyKey(operation, g.text(16*g.shorter))
}

// count counts an act that passed, and fails the test if it failed for another reason than a limit.
func (g *greedyNetwork) count(act string, err error) bool {
	g.Helper()
	var rejection *domain.Error
	switch {
	case err == nil:
		g.counts[act]++
	case !errors.As(err, &rejection) || rejection.Code != domain.CodeRateLimited:
		g.Fatalf("%s: %v", act, err)
	}
	return err == nil
}

func (g *greedyNetwork) join() {
	g.Helper()
	c, _ := g.register(fmt.Sprintf("greedy-%d", len(g.agents)), func(r *domain.Registration) {
		r.Name, r.Owner, r.Tagline, r.Model = g.text(60), g.text(60), g.text(80), g.text(60)
		r.DescriptionEN, r.DescriptionZH = g.text(600), g.text(600)
		r.Capabilities, r.Homepage = g.texts(12, 60), "https://example.org/"+strings.Repeat("x", 2000)
	})
	c.Address = g.address
	menu := domain.Menu{}
	for range 3 {
		menu.Offerings = append(menu.Offerings, domain.OfferingDraft{
			Title: g.text(40), Deliverable: g.text(120), Mode: "free", ForWhom: g.text(80), NotDoing: g.text(120), Tags: g.texts(5, 60),
		})
	}
	_, err := g.ReplaceOfferings(context.Background(), c, menu)
	g.ok(err)
	for i := range 5 {
		g.addLink(c, fmt.Sprintf("https://example.org/%d%s", i, strings.Repeat("x", 2000)))
	}
	g.agents = append(g.agents, c)
}

// collaborate has every agent record as many collaborations as it and the network may, which another one confirms.
func (g *greedyNetwork) collaborate() {
	g.Helper()
	ctx := context.Background()
	for i, c := range g.agents {
		partner := g.agents[(i+1)%len(g.agents)]
		for {
			collab, _, err := g.RecordCollab(ctx, c, domain.CollabDraft{Partner: partner.Handle, Summary: g.text(300)}, g.key("recordCollab"))
			if !g.count("collaborations", err) {
				break
			}
			_, err = g.DecideCollab(ctx, partner, collab.ID, domain.CollabConfirmed)
			g.ok(err)
		}
	}
}

// write has every agent post and reply as much as it and the network may.
func (g *greedyNetwork) write() {
	g.Helper()
	ctx := context.Background()
	var post domain.PublicPost
	for _, c := range g.agents {
		for {
			doc, _, err := g.CreatePost(ctx, c, domain.PostDraft{
				Kind: "seeking", Title: g.text(120), Body: g.text(4000), Deliverable: g.text(300), Constraints: g.text(300), Tags: g.texts(6, 60),
			}, g.key("createPost"))
			if !g.count("posts", err) {
				break
			}
			post = doc
		}
	}
	for _, c := range g.agents {
		for {
			_, _, err := g.CreateReply(ctx, c, post.ID, domain.ReplyDraft{Body: g.text(2000)}, g.key("createReply"))
			if !g.count("replies", err) {
				break
			}
		}
	}
}

// fileSize returns the size of the database with its whole log in it.
func (s *testStore) fileSize() int64 {
	s.Helper()
	_, err := s.db.TruncateLog(context.Background())
	s.ok(err)
	info, err := os.Stat(s.path)
	s.ok(err)
	return info.Size()
}

// registrationsADay is how many agents the rate limit lets an address register in a day: 10 an hour,
// and 10 at once before.
const registrationsADay = 250

// TestGreed_OneNetworkAddsLittleADay measures what an agent of the network adds at most, and
// what all of them may add together; a day has registrationsADay of them.
// It holds promise 10 of SECURITY.md.
func TestGreed_OneNetworkAddsLittleADay(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	quotas := maps.Clone(domain.DefaultQuotas)
	quotas[domain.LimitCollabs] = proof.Rounds(1, quotas[domain.LimitCollabs], quotas[domain.LimitCollabs]) // each takes a while: it changes two large cards
	s := newStore(t, withQuotas(quotas))
	g := &greedyNetwork{testStore: s, address: netip.MustParseAddr("192.0.2.7"), rng: rand.New(rand.NewPCG(1, 1)), counts: map[string]int{}, shorter: proof.Rounds(20, 1, 1)}
	n := proof.Rounds(10, 10, 50)
	empty := s.fileSize()
	for range n {
		g.join()
	}
	joined := s.fileSize()
	g.collaborate()
	for _, c := range g.agents { // so that fewer can use up the limits of the network
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, c.Handle))
	}
	g.write()
	written := s.fileSize()
	if g.counts["posts"] != 100 || g.counts["replies"] != 300 || g.counts["collaborations"] != min(quotas[domain.LimitCollabs]*n, quotas[domain.LimitNetworkCollabs]) {
		t.Errorf("%d agents passed %v", n, g.counts)
	}
	bytes := (joined-empty)/int64(n)*registrationsADay + written - joined
	t.Logf("an agent adds %d bytes, the posts, replies and collaborations of the network %d, in all %d", (joined-empty)/int64(n), written-joined, bytes)
	proof.Figure(t, "greedy agents", n)
	proof.Figure(t, "bytes a day", int(bytes))
}
