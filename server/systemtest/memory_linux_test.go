package systemtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// newDBWithAgents returns a database with that many agents, each with offerings and a post.
func newDBWithAgents(t testing.TB, agents int) (db string) {
	t.Helper()
	skipUnlessRacing(t)
	db = newDB(t)
	st, err := store.Open(t.Context(), store.Options{Path: db, Normal: true})
	if err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var joining sync.WaitGroup
	for range 64 {
		joining.Go(func() {
			for n := next.Add(1) - 1; n < int64(agents); n = next.Add(1) - 1 {
				if err := registerNth(t.Context(), st, int(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	joining.Wait()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return db
}

// registerNth registers the n-th agent, with its offerings and its post.
func registerNth(ctx context.Context, st *store.Store, n int) error {
	words := fmt.Sprintf("Berth%d and tide%d of harbour%d, hourly levels, charts and forecasts for pilots. 潮汐数据，港口%d。", n%977, n%89, n%7, n%53)
	r := domain.Registration{
		Handle: fmt.Sprintf("agent-%d", n), Name: fmt.Sprintf("Agent %d", n), Owner: "Harbour office", Mailbox: fmt.Sprintf("a%d@example.org", n),
		Profile: domain.Profile{DescriptionEN: strings.Repeat(words+" ", 4), Capabilities: []string{"tides"}, Languages: []string{"en"}},
	}
	registered, _, err := st.Register(ctx, r, domain.IdempotencyKey{})
	if err != nil {
		return err
	}
	caller := domain.Caller{ID: registered.Agent.ID, Handle: r.Handle}
	_, menuErr := st.ReplaceOfferings(ctx, caller, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "Tide table", Deliverable: words, Mode: "free"}}})
	_, _, postErr := st.CreatePost(ctx, caller, domain.PostDraft{Kind: "seeking", Title: "Levels of " + words[:20], Body: words}, domain.IdempotencyKey{})
	return errors.Join(menuErr, postErr, st.ActOnAgent(ctx, domain.OperatorVerify, r.Handle))
}

// TestMemory_StaysBounded measures memory at rest, and with many concurrent clients that read, search and write.
func TestMemory_StaysBounded(t *testing.T) {
	t.Parallel()
	agents := proof.Rounds(500, 5000, 100_000)
	p := spawn(t, newDBWithAgents(t, agents), "--log-level=info")
	rest := p.anonymousMB()
	if rest > 40 {
		t.Errorf("%d MB at rest", rest)
	}
	most := p.maxMemoryUnderLoad(time.Duration(proof.Rounds(1, 10, 120))*time.Second, agents)
	if most > 150 {
		t.Errorf("%d MB under load", most)
	}
	proof.Figure(t, "agents", agents)
	proof.Figure(t, "MB at rest", rest)
	proof.Figure(t, "MB under load", most)
	p.stopCleanly()
}

// maxMemoryUnderLoad returns the maximum memory while 64 clients read everything and sometimes write. All requests must succeed, except
// that one of a hundred may get the 503 of a search that takes longer than 250 ms: other work on the machine can cause that.
func (p *process) maxMemoryUnderLoad(length time.Duration, agents int) (most int) {
	p.Helper()
	const offsets = 10_001 // pages beyond need a cursor
	paths := []string{"/api/agents/agent-%d", "/api/agents?q=tide%d", "/api/posts?q=harbour%d+levels", "/api/agents?limit=100&offset=%d", "/agents/agent-%d", "/api/posts?limit=100&q=berth%d"}
	ctx, stop := context.WithTimeout(p.Context(), length)
	defer stop()
	var calling sync.WaitGroup
	var calls, slow atomic.Int64
	for i := range 64 {
		calling.Go(func() {
			client := newUnpooledClient()
			for call := 0; ctx.Err() == nil; call++ {
				n, method, body, wanted := 64*call+i, "GET", "", http.StatusOK
				path, of := paths[call%len(paths)], agents
				if strings.Contains(path, "offset") {
					of = min(agents, offsets)
				}
				path = fmt.Sprintf(path, n%of)
				if call%16 == i%16 {
					method, path, wanted = "POST", "/api/agents", http.StatusCreated
					body = registrationJSON(fmt.Sprintf("visitor-%d", n), fmt.Sprintf("v%d@example.org", n))
				}
				status, _, err := exchange(client, method, p.base+path, body)
				calls.Add(1)
				switch {
				case status == http.StatusServiceUnavailable && strings.Contains(path, "q="):
					slow.Add(1)
				case err != nil || status != wanted:
					p.Errorf("%s %s: %d, %v", method, path, status, err)
					return
				}
			}
		})
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		most = max(most, p.anonymousMB())
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	calling.Wait()
	if proof.Asked() && 100*slow.Load() > calls.Load() { // a short run on a busy machine has few requests
		p.Errorf("%d of %d requests were searches that took longer than 250 ms", slow.Load(), calls.Load())
	}
	return most
}
