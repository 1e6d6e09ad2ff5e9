package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
)

// crowd is how many callers come at once.
const crowd = 40

func wantOutcomes(t testing.TB, what string, errs []error, want map[string]int) {
	t.Helper()
	if got := outcomes(errs); !maps.Equal(got, want) {
		t.Errorf("%s: outcomes %v, want %v", what, got, want)
	}
}

func TestQuota_HoldsForConcurrentWrites(t *testing.T) {
	t.Parallel()
	const limit = 7
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: limit, domain.LimitReplies: limit}))
	caller, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	post := s.post(other)
	want := map[string]int{"": limit, "rate_limited": rush - limit}
	days := proof.Rounds(10, 200, 4000)
	for day := 1; day <= days; day++ {
		wantOutcomes(t, "calls", together(rush, func(int) error {
			_, _, err := s.CreatePost(context.Background(), caller, s.draft("t", "b"), domain.IdempotencyKey{})
			return err
		}), want)
		wantOutcomes(t, "replies", together(rush, func(int) error {
			_, _, err := s.CreateReply(context.Background(), caller, post.ID, domain.ReplyDraft{Body: "b"}, domain.IdempotencyKey{})
			return err
		}), want)
		if n := value[int](s, `SELECT COUNT(*) FROM posts WHERE author_id = ?`, caller.ID); n != day*limit {
			t.Errorf("%d calls stored after %d days, want %d", n, day, day*limit)
		}
		again, err := s.Post(context.Background(), post.ID)
		s.ok(err)
		if n := value[int](s, `SELECT COUNT(*) FROM replies`); n != day*limit || again.ReplyCount != day*limit {
			t.Errorf("%d replies stored and %d counted after %d days, want %d", n, again.ReplyCount, day, day*limit)
		}
		s.clock.Advance(domain.Day)
	}
	proof.Figure(t, "limit rounds", 2*days)
}

func TestRotateKey_ConcurrentlyOneSucceeds(t *testing.T) {
	s := newStore(t)
	rounds := proof.Rounds(10, 100, 2000)
	proof.Figure(t, "act rounds", rounds)
	caller, oldKey := s.register("harbour-pilot")
	for range rounds {
		keys := make([]string, rush)
		errs := together(rush, func(i int) (err error) {
			keys[i], _, err = s.RotateKey(context.Background(), caller)
			return err
		})
		wantOutcomes(t, "rotations", errs, map[string]int{"": 1, "unauthorized": rush - 1})
		for i, key := range append(keys, oldKey) {
			holder, err := s.Authenticate(context.Background(), key)
			if works := err == nil; works != (i < rush && errs[i] == nil) {
				t.Errorf("key %d: works is %v", i, works)
			} else if works {
				caller, oldKey = holder, key
			}
		}
	}
}

// holdWriter keeps the writer busy with a write until release is called.
func (s *testStore) holdWriter() (release func()) {
	started, released, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.write(context.Background(), func(*tx) error {
			close(started)
			<-released
			return nil
		})
	}()
	<-started
	return func() {
		s.Helper()
		close(released)
		s.ok(<-done)
	}
}

// queuedWrite is a write that waits for the writer.
type queuedWrite struct {
	err  error
	done chan struct{}
}

// queueWrite hands a write to the writer without waiting for its end.
func (s *testStore) queueWrite(act func(*tx) error) *queuedWrite {
	q := &queuedWrite{done: make(chan struct{})}
	s.tryWrite(act, func(err error) {
		q.err = err
		close(q.done)
	})
	return q
}

func insertBlockedWord(word string) func(*tx) error {
	return func(t *tx) error {
		t.Changes.Public = true // so that watchers hear of it
		return t.Exec(`INSERT INTO blocklist (kind, entry, created_at) VALUES ('word', ?, ?)`, word, t.Now)
	}
}

func (s *testStore) blockedWords() string {
	return value[string](s, `SELECT COALESCE(group_concat(entry, ' '), '') FROM (SELECT entry FROM blocklist ORDER BY entry)`)
}

// limitPages lets the file grow by no more than so many pages from now on.
func (s *testStore) limitPages(more int) {
	s.Helper()
	s.ok(s.db.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		var pages int
		if err := conn.GetContext(context.Background(), &pages, `PRAGMA page_count`); err != nil {
			return err
		}
		_, err := conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+more))
		return err
	}))
}

// leaveNoRoom fills the file up, until limitPages says otherwise.
func (s *testStore) leaveNoRoom() {
	s.Helper()
	s.limitPages(0)
	for n, size := 0, 20_000; size > 0; n++ {
		if s.write(context.Background(), insertBlockedWord(fmt.Sprintf("%d%s", n, strings.Repeat("x", size)))) != nil {
			size /= 2
		}
	}
}

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
