package store

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// TestWrite_StopsAfterSQLiteRollsBack: a full disk undoes the whole transaction, and
// what the act did after that would be stored by itself.
func TestWrite_StopsAfterSQLiteRollsBack(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	a, b := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.insertSharedRecords(a, b, "a@agents.example.org", "b@agents.example.org")
	s.insertSharedRecords(b, a, "b@agents.example.org", "a@agents.example.org")
	s.execSQL(`CREATE TRIGGER full_disk BEFORE UPDATE ON collabs WHEN old.id = 'col_1_2_0' BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
	before := s.dump()
	if err := s.DeleteAgent(ctx, a); err == nil {
		t.Fatal("the agent is deleted")
	}
	s.wantUnchanged("an act that was undone", before)
}

// TestWrite_FailedRebuildRollsBackOnlyIt: the error comes before the commit
// that the writes share.
func TestWrite_FailedRebuildRollsBackOnlyIt(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	act := func(t *tx) error {
		if err := insertBlockedWord("bad")(t); err != nil {
			return err
		}
		if err := t.Exec(ofTest + `UPDATE agents SET capabilities = '{' WHERE id = 1`); err != nil {
			return err
		}
		_, err := t.agentByID(1)
		return err
	}
	release := s.holdWriter()
	before, failing, after := s.queueWrite(insertBlockedWord("a")), s.queueWrite(act), s.queueWrite(insertBlockedWord("b"))
	release()
	<-before.done
	<-failing.done
	<-after.done
	if before.err != nil || after.err != nil {
		t.Errorf("the others got %v and %v", before.err, after.err)
	}
	for what, err := range map[string]error{"among others": failing.err, "alone": s.write(context.Background(), act)} {
		if err == nil || !strings.Contains(err.Error(), "capabilities") {
			t.Errorf("%s it got %v", what, err)
		}
	}
	s.ok(s.write(context.Background(), insertBlockedWord("c")))
	if got := s.blockedWords(); got != "a b c" {
		t.Errorf("stored: %s; want a b c", got)
	}
}

// TestErrors_OfTheDatabaseHaveCodes that tell a client what to do.
func TestErrors_OfTheDatabaseHaveCodes(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	word := insertBlockedWord(strings.Repeat("x", 1<<20))
	s.limitPages(4)
	wantOutcome(t, "a write without room", s.write(context.Background(), word), string(domain.CodeStorageFull))
	s.limitPages(1000)
	wantOutcome(t, "a write with room", s.write(context.Background(), word), "")
	ended, end := context.WithDeadline(context.Background(), time.Now())
	defer end()
	_, err := s.Card(ended, caller.Handle)
	wantOutcome(t, "a read too late", err, string(domain.CodeUnavailable))
	s.setBusyTimeout(0)
	other := s.connection("rw")
	_, err = other.Exec(`BEGIN IMMEDIATE`)
	s.ok(err)
	wantOutcome(t, "a write while another program writes", s.write(context.Background(), insertBlockedWord("b")), string(domain.CodeUnavailable))
	_, err = other.Exec(`ROLLBACK`)
	s.ok(err)
	s.stop()
	wantOutcome(t, "a write after the end", s.write(context.Background(), insertBlockedWord("late")), string(domain.CodeUnavailable))
	wantOutcome(t, "a job after the end", s.writeBackground(context.Background(), insertBlockedWord("late")), string(domain.CodeUnavailable))
	if err := s.RunJobs(context.Background()); !errors.Is(err, sqlitedb.ErrClosed) {
		t.Errorf("a run after the end: %v", err)
	}
	_, err = s.Card(context.Background(), caller.Handle)
	wantOutcome(t, "a read after the end", err, string(domain.CodeUnavailable))
}

// TestWrite_Statements bounds how many statements each write takes: those of its rules, of its
// limits with an IPv4 address, one for the limit of the file's size, and two for its savepoint.
func TestWrite_Statements(t *testing.T) {
	s := newStore(t, withQuotas(domain.DefaultQuotas), func(o *Options) { o.MaxBytes = 1e12 })
	ctx := context.Background()
	author, sender, partner := s.reachable("harbour-pilot"), s.reachable("lighthouse"), s.reachable("tide-tables")
	for _, c := range []*domain.Caller{&author, &sender, &partner} {
		c.Address = netip.MustParseAddr("192.0.2.7")
	}
	post := s.post(author)
	asked := s.sendRequest(partner, author)

	for _, tt := range []struct {
		name  string
		bound int
		write func(domain.IdempotencyKey) error
	}{
		{"contact request", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.SendRequest(ctx, sender, author.Handle, plainDraft, key)
			return err
		}},
		{"reply", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.CreateReply(ctx, sender, post.ID, domain.ReplyDraft{Body: "Two of them."}, key)
			return err
		}},
		{"post", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.CreatePost(ctx, sender, s.draft("Charts", "Of the bay."), key)
			return err
		}},
		{"collaboration", 14, func(key domain.IdempotencyKey) error {
			draft := domain.CollabDraft{Partner: author.Handle, Summary: "Tide tables", PostID: post.ID}
			_, _, err := s.RecordCollab(ctx, sender, draft, key)
			return err
		}},
		{"registration", 9, func(key domain.IdempotencyKey) error {
			_, _, err := s.Register(ctx, registration("pilot-boat"), key)
			return err
		}},
		{"registration without an Idempotency-Key", 7, func(domain.IdempotencyKey) error {
			_, _, err := s.Register(ctx, registration("buoy-tender"), domain.IdempotencyKey{})
			return err
		}},
		{"acceptance", 6, func(domain.IdempotencyKey) error {
			_, err := s.ActOnRequest(ctx, author, asked.ID, domain.ActAccept, "")
			return err
		}},
		{"card", 7, func(domain.IdempotencyKey) error {
			_, err := s.UpdateAgent(ctx, sender, func(a *domain.Settings) error {
				a.DescriptionEN = "Shows where the rocks are."
				return nil
			})
			return err
		}},
		{"menu", 7, func(domain.IdempotencyKey) error {
			menu := domain.Menu{Offerings: []domain.OfferingDraft{{Title: "Light", Deliverable: "Light", Mode: "free"}}}
			_, err := s.ReplaceOfferings(ctx, sender, menu)
			return err
		}},
	} {
		before := s.db.WriteStatements()
		s.ok(tt.write(domain.NewIdempotencyKey(tt.name, onceKey, "body")))
		if n := s.db.WriteStatements() - before; n > tt.bound {
			t.Errorf("%s: %d statements, want at most %d", tt.name, n, tt.bound)
		}
	}
}

// TestMaxBytes_RejectsWhatCreatesOrEnlargesRecords: once a post finds no room, so does everything else that needs some, however
// small. Deletions, decisions and keys pass, and what deletions free can be used again.
func TestMaxBytes_RejectsWhatCreatesOrEnlargesRecords(t *testing.T) {
	t.Parallel()
	ctx, once := context.Background(), domain.IdempotencyKey{}
	s := newStore(t, func(o *Options) { o.MaxBytes = 2 << 20 })
	pilot, other := s.reachable("harbour-pilot"), s.reachable("lighthouse")
	fresh, _ := s.register("fresh")
	request := s.sendRequest(other, pilot)
	first := s.post(pilot)
	reply := s.reply(other, first, "Here.")

	var posts []string
	for {
		post, _, err := s.CreatePost(ctx, pilot, s.draft("Tide data", strings.Repeat("Hourly tide levels. ", 100)), once)
		if errors.Is(err, domain.NewError(domain.CodeStorageFull)) {
			break
		}
		s.ok(err)
		posts = append(posts, post.ID)
	}

	address := netip.MustParseAddr("192.0.2.1")
	full := string(domain.CodeStorageFull)
	settings := func(text string) error {
		_, err := s.UpdateAgent(ctx, pilot, func(a *domain.Settings) error { a.DescriptionEN = text; return nil })
		return err
	}
	menu := domain.Menu{Offerings: []domain.OfferingDraft{{
		Title: "Tides", Deliverable: "d", ForWhom: "f", Mode: "free",
	}}}
	_, ready := s.Ready(ctx)
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"a reply", errOf3(s.CreateReply(ctx, other, first.ID, domain.ReplyDraft{Body: "Here."}, once)), full},
		{"a registration", errOf3(s.Register(ctx, registration("newcomer"), once)), full},
		{"a request", s.requestError(pilot, other), full},
		{"a dry run", s.TryRequest(ctx, pilot, other.Handle, plainDraft), full},
		{"a collaboration", errOf3(s.RecordCollab(ctx, pilot, domain.CollabDraft{Partner: other.Handle, Summary: "s"}, once)), full},
		{"a report", s.ReportPost(ctx, first.ID, address, domain.ReportDraft{}), full},
		{"a menu", errOf(s.ReplaceOfferings(ctx, pilot, menu)), full},
		{"a link", errOf(s.AddLink(ctx, pilot, "https://example.org/", "website")), full},
		{"a watch", errOf(s.ReplaceWatches(ctx, pilot, domain.WatchDrafts{Watches: []domain.WatchDraft{{Tag: "tides"}}})), full},
		{"a URL to wake", errOf3(s.SetWake(ctx, pilot, "https://example.org/")), full},
		{"a longer profile", settings(strings.Repeat("Does things. ", 20)), full},
		{"readiness", ready, full},

		{"a switch", errOf(s.UpdateAgent(ctx, pilot, func(a *domain.Settings) error { a.ContactPolicy.Accepting = false; return nil })), ""},
		{"a shorter profile", settings("Does."), ""},
		{"an empty menu", errOf(s.ReplaceOfferings(ctx, pilot, domain.Menu{})), ""},
		{"a decision", errOf(s.ActOnRequest(ctx, pilot, request.ID, domain.ActAccept, "")), ""},
		{"a code", errOf(s.StartVerify(ctx, fresh)), ""},
		{"a new key", errOf3(s.RotateKey(ctx, other)), ""},
		{"a deletion", s.DeleteReply(ctx, pilot, reply.ID), ""},
	} {
		wantOutcome(t, tt.what, tt.err, tt.want)
	}
	if !errors.Is(ready, sqlitedb.ErrWrites) {
		t.Errorf("readiness: %v", ready)
	}

	for _, post := range posts[len(posts)/2:] {
		s.ok(s.DeletePost(ctx, pilot, post))
	}
	err := errOf3(s.Register(ctx, registration("newcomer"), once))
	wantOutcome(t, "a registration in the freed room", err, "")
}
