package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
)

// TestTotals_FollowEveryChange: remembered or counted, a total is what a fresh count
// says. The directory is so large that its totals are near where counting ends.
func TestTotals_FollowEveryChange(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("author")
	var posts []string
	s.ok(s.write(ctx, func(t *tx) error {
		for i := range listing.CountLimit + 2 {
			r := registration(fmt.Sprintf("agent-%d", i))
			if _, err := t.insertAgentRow(r, r.Handle); err != nil {
				return err
			}
			doc, err := t.createPost(author, s.draft("tide", "b"))
			if err != nil {
				return err
			}
			posts = append(posts, doc.ID)
		}
		return nil
	}))
	check := func(step string) {
		t.Helper()
		for query, table := range map[string]string{"": "agent_documents", "name": "agent_documents", "tide": "post_documents"} {
			var n int
			s.ok(s.db.Get(ctx, &n, ofTest+`SELECT COUNT(*) FROM `+table))
			var total int
			var exact bool
			if table == "post_documents" {
				found, err := s.Posts(ctx, document.PostFilter{Query: query}, listing.Page{Limit: 1})
				s.ok(err)
				total, exact = found.Total, found.TotalIsExact
			} else {
				found, err := s.Agents(ctx, document.AgentFilter{Query: query}, listing.Page{Limit: 1})
				s.ok(err)
				total, exact = found.Total, found.TotalIsExact
			}
			if total != min(n, listing.CountLimit) || exact != (n <= listing.CountLimit) {
				t.Fatalf("%s, %q: total %d, exact %v, of %d", step, query, total, exact, n)
			}
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	check("at first")
	for i := range 40 {
		handle := fmt.Sprintf("agent-%d", r.IntN(50))
		switch r.IntN(5) {
		case 0:
			_ = s.Suspend(ctx, handle, "spam", time.Time{}) // it may be gone or hidden already
		case 1:
			_ = s.Unsuspend(ctx, handle)
		case 2:
			s.register(fmt.Sprintf("newcomer-%d", i))
		case 3:
			_ = s.DeletePost(ctx, author, posts[r.IntN(20)])
		case 4:
			s.post(author, func(d *domain.PostDraft) { d.Title = "tide" })
		}
		check(fmt.Sprintf("step %d", i))
	}
}
