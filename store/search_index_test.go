package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

func TestSearch_ForgetsFormerNames(t *testing.T) {
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.Name = "Formername" })
	s.update(pilot, func(a *domain.Settings) { a.Name = "Another" })
	s.clock.Advance(domain.Day)
	s.ok(s.RunJobs(t.Context()))
	if n := value[int](s, `SELECT COUNT(*) FROM agent_tokens WHERE term LIKE '%formername'`); n != 0 {
		t.Error("a word that no text holds is still in the index")
	}
	if n := value[int](s, `SELECT COUNT(*) FROM agent_tokens WHERE term LIKE '%another'`); n == 0 {
		t.Error("a word of the present name is not in the index")
	}
}

func readDerived(t testing.TB, db *sqlx.DB) (d derived) {
	t.Helper()
	d.Counts = rowsOf(t, db, `SELECT id FROM collabs WHERE counts ORDER BY id`)
	d.AgentWords = indexWords(t, db, "agent_search")
	d.PostWords = indexWords(t, db, "post_search")
	return d
}

func indexWords(t testing.TB, db *sqlx.DB, table string) (words []string) {
	t.Helper()
	_, err := db.Exec(`CREATE VIRTUAL TABLE IF NOT EXISTS temp.` + table + `_words USING fts5vocab('main', '` + table + `', 'instance')`)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Select(&words, `
		SELECT doc || ' ' || term
		FROM temp.`+table+`_words
		ORDER BY doc, term`)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// rebuiltCopy returns a copy of the directory in which all derived data are built again.
func (s *testStore) rebuiltCopy() *testStore {
	s.Helper()
	path := filepath.Join(s.TempDir(), "copy.db")
	s.ok(s.db.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		_, err := conn.ExecContext(context.Background(), `VACUUM INTO ?`, path)
		return err
	}))
	again := &testStore{TB: s.TB, clock: s.clock, path: path}
	again.Store = openStore(s, Options{Path: path, Clock: s.clock.Now, Quotas: domain.Quotas{}, Normal: true})
	s.ok(again.rebuildSearch(context.Background()))
	s.ok(again.write(context.Background(), func(t *tx) error {
		_, err := t.eachAgent(func(t *tx, a *agentRow) error { return t.rebuildEvidence(a.ID) },
			ofTest+`SELECT id FROM agents WHERE claimed_by IS NOT NULL`)
		return err
	}))
	return again
}

// checkDerived compares the derived data with data that are built again.
func (s *testStore) checkDerived(after string) {
	s.Helper()
	again := s.rebuiltCopy()
	defer again.stop()
	kept, anew := s.connection("ro"), again.connection("ro")
	defer kept.Close()
	defer anew.Close()
	if diff := cmp.Diff(readDerived(s, anew), readDerived(s, kept)); diff != "" {
		s.Errorf("after %s (-built again +stored):\n%s", after, diff)
	}
	for _, q := range []string{"", "tide", "潮", "潮汐", "pilot", "harbour-pilot", "new", "mei", "seek"} {
		s.wantSameSearchResults(again, after, q)
	}
	again.checkStats(after)
}

// checkStats holds the counts against the lists that the public sees.
func (s *testStore) checkStats(after string) {
	s.Helper()
	ctx := context.Background()
	got, err := s.Stats(ctx)
	s.ok(err)
	want := domain.Stats{AsOf: got.AsOf, AgentsNew30d: got.AgentsNew30d, Requests: got.Requests, RequestsAccepted: got.RequestsAccepted}
	agents, err := s.Agents(ctx, domain.AgentFilter{}, listing.Page{Limit: 100})
	s.ok(err)
	for _, a := range agents.Items {
		want.Agents++
		want.AgentsVerified += min(a.Trust.Level, 1)
		want.AgentsOwnerClaimed += a.Trust.Level / 2
		want.Offerings += len(a.Offerings)
	}
	posts, err := s.Posts(ctx, domain.PostFilter{}, listing.Page{Limit: 100})
	s.ok(err)
	for _, p := range posts.Items {
		want.Posts++
		*map[string]*int{"seeking": &want.PostsSeeking, "offering": &want.PostsOffering, "announce": &want.PostsAnnounce}[p.Kind]++
		want.Replies += p.ReplyCount
	}
	want.ConfirmedCollaboration = value[int](s, `
		SELECT COUNT(*) FROM collabs c
		WHERE c.counts AND EXISTS (SELECT 1 FROM agents WHERE id IN (c.initiator_id, c.partner_id) AND hidden = 0)`)
	if agents.Next+posts.Next != "" {
		return // not all were read
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("counts after %s (-lists +counts):\n%s", after, diff)
	}
}

func (s *testStore) wantSameSearchResults(again *testStore, after, q string) {
	s.Helper()
	ctx := context.Background()
	one, err := s.Agents(ctx, domain.AgentFilter{Query: q}, listing.Page{Limit: 100})
	s.ok(err)
	other, err := again.Agents(ctx, domain.AgentFilter{Query: q}, listing.Page{Limit: 100})
	s.ok(err)
	if diff := cmp.Diff(other, one); diff != "" {
		s.Errorf("agents for %q after %s (-made anew +kept):\n%s", q, after, diff)
	}
	posts, err := s.Posts(ctx, domain.PostFilter{Query: q}, listing.Page{Limit: 100})
	s.ok(err)
	otherPosts, err := again.Posts(ctx, domain.PostFilter{Query: q}, listing.Page{Limit: 100})
	s.ok(err)
	if diff := cmp.Diff(otherPosts, posts); diff != "" {
		s.Errorf("calls for %q after %s (-made anew +kept):\n%s", q, after, diff)
	}
}

// TestSearchRows_FollowEveryWrite holds the derived data of what the model does not have against data made anew.
func TestSearchRows_FollowEveryWrite(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newStore(t, noCaps)
	ctx := context.Background()
	pilot, _ := s.register("harbour-pilot", func(r *domain.Registration) {
		r.Tagline, r.Capabilities, r.Languages = "Berth plans", []string{"tide tables", "潮汐表"}, []string{"en", "zh-CN"}
		r.DescriptionZH, r.ContactPublic = "港口潮汐助手", true
	})
	light, _ := s.register("lighthouse")
	s.register("quiet-one")
	var first, second domain.PublicPost
	note := "Write in English."

	steps := []struct {
		name string
		do   func()
	}{
		{"registering", func() {}},
		{"other texts", func() {
			s.update(pilot, func(a *domain.Settings) {
				a.Name, a.Tagline, a.DescriptionEN, a.DescriptionZH = "New name 新", "", "", "潮"
				a.Homepage, a.Model = "https://harbour.example.org", "m-1"
			})
		}},
		{"other lists", func() {
			s.update(pilot, func(a *domain.Settings) { a.Capabilities, a.Languages = nil, []string{"zh-Hant-TW", "fr"} })
		}},
		{"contact policy", func() { s.update(light, func(a *domain.Settings) { a.ContactPolicy.Note = &note }) }},
		{"offerings", func() {
			_, err := s.ReplaceOfferings(ctx, pilot, domain.Menu{Offerings: []domain.OfferingDraft{
				{Title: "Tide table", Deliverable: "A CSV", Mode: "free", Tags: []string{"tide"}, TurnaroundDays: 2},
				{Title: "潮汐", Deliverable: "表", Mode: "quote", ForWhom: "ports", NotDoing: "weather"},
			}})
			s.ok(err)
		}},
		{"fewer offerings", func() {
			_, err := s.ReplaceOfferings(ctx, pilot, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "One", Deliverable: "d", Mode: "free"}}})
			s.ok(err)
		}},
		{"verifying", func() {
			s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, pilot.Handle))
			s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, light.Handle))
		}},
		{"a call", func() {
			first = s.post(pilot, func(d *domain.PostDraft) { d.Deadline, d.Tags = "2026-11-21", []string{"Tide", "新"} })
		}},
		{"six more calls", func() {
			for i := range 6 {
				second = s.post(pilot, func(d *domain.PostDraft) { d.Title = fmt.Sprintf("call %d 潮汐", i) })
			}
		}},
		{"replies", func() { s.reply(light, first, "a"); s.reply(pilot, second, "b"); s.reply(pilot, s.post(light), "c") }},
		{"claims", func() { s.claim(pilot, 1); s.claim(light, 2) }},
		{"a collaboration", func() { s.collab("col_1", pilot, light) }},
		{"the passing of a deadline", func() { s.clock.Advance(2 * domain.Day); s.ok(s.RunJobs(ctx)) }},
		{"a link", func() { s.addLink(pilot, harbourPage) }},
		{"a link that is found", func() { s.storeLinkCheck(pilot, harbourPage, foundIt, true) }},
		{"another link that is not", func() { s.addCheckedLink(pilot, codePage, notThere) }},
		{"a link removed", func() { _, err := s.RemoveLink(ctx, pilot, codePage); s.ok(err) }},
		{"an expired link", func() { s.clock.Advance(181 * domain.Day); s.ok(s.RunJobs(ctx)) }},
		{"deleting a call", func() { s.ok(s.DeletePost(ctx, pilot, second.ID)) }},
		{"a suspension", func() { s.ok(s.Suspend(ctx, pilot.Handle, "", time.Time{})) }},
		{"deleting the partner", func() { s.ok(s.DeleteAgent(ctx, light)) }},
		{"deleting the suspended agent", func() {
			s.ok(s.ActOnAgent(ctx, domain.OperatorDelete, pilot.Handle))
		}},
		{"registering again", func() { s.register("newcomer") }},
		{"emptying the directory", func() { s.ok(s.Clear(ctx)) }},
	}
	for _, step := range steps {
		step.do()
		s.checkDerived(step.name)
		if t.Failed() {
			return
		}
	}
}

// TestCheck_MakesDamagedSearchTablesAnew: the records are undamaged, so the store goes on.
func TestCheck_MakesDamagedSearchTablesAnew(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("harbour-pilot")
	s.post(author, func(d *domain.PostDraft) { d.Title = "Tide data" })
	db := s.connection("rw")
	defer db.Close()
	_, err := db.Exec(`UPDATE post_search_data SET block = zeroblob(length(block)) WHERE id > 10`)
	s.ok(err)
	s.ok(s.CheckFile(ctx))
	s.checkDerived("damage of a search table")

	// FTS5 does not notice that the record of its structure is empty.
	_, err = db.Exec(`UPDATE agent_search_data SET block = x'00000000000000' WHERE id = 10`)
	s.ok(err)
	s.clock.Advance(25 * time.Hour)
	s.reopen()
	s.ok(s.CheckFile(ctx))
	found, err := s.Posts(ctx, domain.PostFilter{Query: "tide"}, listing.Page{Limit: 1})
	if s.ok(err); found.Total != 1 {
		t.Errorf("%d calls are found", found.Total)
	}
	s.checkDerived("damage of the search tables")
}

// derived is all derived data of a directory: each word of the search tables with its row, and which
// collaborations count.
type derived struct {
	Counts                []map[string]any
	AgentWords, PostWords []string
}
