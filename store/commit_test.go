package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

func TestOneOfManyGetsAHandle(t *testing.T) {
	s := newStore(t)
	errs := together(crowd, func(int) error {
		_, _, err := s.Register(context.Background(), registration("harbour-pilot"), Once{})
		return err
	})
	wantOutcomes(t, "the same handle", errs, map[string]int{"": 1, "handle_taken": crowd - 1})
	errs = together(crowd, func(i int) error {
		_, _, err := s.Register(context.Background(), registration(fmt.Sprintf("pilot-%d", i)), Once{})
		return err
	})
	wantOutcomes(t, "handles of their own", errs, map[string]int{"": crowd})
	for table, want := range map[string]int{"agents": crowd + 1, "handles": crowd + 1, "agent_documents": crowd + 1} {
		if got := value[int](s, `SELECT COUNT(*) FROM `+table); got != want {
			t.Errorf("%d rows of %s, want %d", got, table, want)
		}
	}
}

func TestNoLimitIsPassedByOne(t *testing.T) {
	const limit = 7
	s := newStore(t, withQuotas(Quotas{Posts: limit, Replies: limit}))
	caller, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	post := s.post(other)
	want := map[string]int{"": limit, "rate_limited": rush - limit}
	days := proof.Rounds(10, 200, 4000)
	for day := 1; day <= days; day++ {
		wantOutcomes(t, "calls", together(rush, func(int) error {
			_, _, err := s.CreatePost(context.Background(), caller, PostDraft{Kind: "seeking", Title: "t", Body: "b"}, Once{})
			return err
		}), want)
		wantOutcomes(t, "replies", together(rush, func(int) error {
			_, _, err := s.CreateReply(context.Background(), caller, post.ID, ReplyDraft{Body: "b"}, Once{})
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
		s.clock.Advance(Day)
	}
	proof.Figure(t, "limit rounds", 2*days)
}

func TestMenusReplacedAtOnceStayWhole(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	wantOutcomes(t, "menus", together(crowd, func(i int) error {
		title := fmt.Sprintf("menu %d", i)
		entry := OfferingDraft{Title: title, Deliverable: "d", Mode: "free"}
		menu, err := s.ReplaceOfferings(context.Background(), caller, Menu{Offerings: []OfferingDraft{entry, entry, entry}})
		if err == nil && (len(menu) != 3 || menu[0].Title != title) {
			err = fmt.Errorf("answered %v", menu)
		}
		return err
	}), map[string]int{"": crowd})
	if n := value[int](s, `SELECT COUNT(*) FROM offerings`); n != 3 {
		t.Errorf("%d offerings, want %d", n, 3)
	}
	if n := value[int](s, `SELECT COUNT(DISTINCT title) FROM offerings`); n != 1 {
		t.Errorf("the menu is mixed from %d", n)
	}
}

func TestOneOfManyRotationsWins(t *testing.T) {
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

// hold keeps the writer busy with a write until release is called.
func (s *testStore) hold() (release func()) {
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

// queue hands a write to the writer without waiting for its end.
func (s *testStore) queue(ctx context.Context, act func(*tx) error) *job {
	j := &job{ctx: ctx, act: act, done: make(chan struct{})}
	s.writer.jobs <- j
	return j
}

func addWord(word string) func(*tx) error {
	return func(t *tx) error {
		t.touchPosts() // so that watchers hear of it
		return t.Exec(`INSERT INTO blocked_words (word, created_at) VALUES (?, ?)`, word, t.now)
	}
}

func (s *testStore) words() string {
	return value[string](s, `SELECT COALESCE(group_concat(word, ' '), '') FROM (SELECT word FROM blocked_words ORDER BY word)`)
}

func TestWaitingWritesShareOneCommit(t *testing.T) {
	s := newStore(t)
	var commits atomic.Int32
	s.Watch(func(Changes) { commits.Add(1) })
	release := s.hold()
	var jobs []*job
	for i := range 50 {
		jobs = append(jobs, s.queue(context.Background(), addWord(fmt.Sprintf("w%d", i))))
	}
	release()
	for i, j := range jobs {
		<-j.done
		if j.err != nil {
			t.Errorf("write %d: %v", i, j.err)
		}
	}
	if n, want := int(commits.Load()), (len(jobs)+defaultBatch-1)/defaultBatch; n != want {
		t.Errorf("%d commits for %d waiting writes, want %d", n, len(jobs), want)
	}
	if n := len(strings.Fields(s.words())); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
}

func TestNobodyIsAnsweredBeforeTheCommit(t *testing.T) {
	s := newStore(t)
	release := s.hold()
	first := s.queue(context.Background(), addWord("first"))
	started, released := make(chan struct{}), make(chan struct{})
	second := s.queue(context.Background(), func(*tx) error {
		close(started)
		<-released
		return nil
	})
	release()
	<-started
	select {
	case <-first.done:
		t.Error("a write was answered while its transaction was open")
	default:
	}
	close(released)
	<-first.done
	<-second.done
	committing, commit, end := make(chan struct{}), make(chan struct{}), s.writer.end
	s.ok(s.outside(context.Background(), func(w *writer) error {
		w.end = func(ctx context.Context) error {
			w.end = end
			close(committing)
			<-commit
			return end(ctx)
		}
		return nil
	}))
	answered := make(chan struct{})
	s.writer.jobs <- &job{ctx: context.Background(), act: addWord("third"), done: answered}
	<-committing
	select {
	case <-answered:
		t.Error("a write was answered while it was committed")
	default:
	}
	close(commit)
	<-answered

	db := s.connection("ro")
	wantOutcomes(t, "writes seen by another connection", together(crowd, func(i int) error {
		word := fmt.Sprintf("word%d", i)
		if err := s.write(context.Background(), addWord(word)); err != nil {
			return err
		}
		var seen string
		return db.Get(&seen, `SELECT word FROM blocked_words WHERE word = ?`, word)
	}), map[string]int{"": crowd})
}

func TestAFailingWriteTakesNoOtherWithIt(t *testing.T) {
	errOwn := errors.New("its own error")
	tests := []struct {
		name string
		act  func(*tx) error
		want string // part of the error
	}{
		{"refusal after a change", func(t *tx) error {
			return errors.Join(addWord("bad")(t), refuse(CodeForbidden))
		}, "refused: forbidden"},
		{"error after a change", func(t *tx) error { return errors.Join(addWord("bad")(t), errOwn) }, errOwn.Error()},
		{"panic after a change", func(t *tx) error {
			_ = addWord("bad")(t)
			panic("a bug")
		}, "a bug"},
		{"statement that breaks a constraint", func(t *tx) error {
			return errors.Join(addWord("bad")(t), addWord("bad")(t))
		}, "UNIQUE"},
		{"syntax error", func(t *tx) error { return errors.Join(addWord("bad")(t), t.Exec("NONSENSE")) }, "syntax"},
		{"document that cannot be made", func(t *tx) error {
			t.touch(1)
			return errors.Join(addWord("bad")(t), t.Exec(`UPDATE agents SET capabilities = '{' WHERE id = 1`))
		}, "refresh agent 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			s.register("harbour-pilot")
			release := s.hold()
			before := s.queue(context.Background(), addWord("a"))
			failing := s.queue(context.Background(), tt.act)
			after := s.queue(context.Background(), addWord("b"))
			release()
			<-before.done
			<-failing.done
			<-after.done
			if before.err != nil || after.err != nil {
				t.Errorf("the others got %v and %v", before.err, after.err)
			}
			if err := s.write(context.Background(), tt.act); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("alone it got %v, want %s", err, tt.want)
			}
			if failing.err == nil || !strings.Contains(failing.err.Error(), tt.want) {
				t.Errorf("among others it got %v, want %s", failing.err, tt.want)
			}
			s.ok(s.write(context.Background(), addWord("c")))
			if got := s.words(); got != "a b c" {
				t.Errorf("stored: %s; want a b c", got)
			}
		})
	}
}

func TestCancelledBeforeItsStartLeavesNothing(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.write(ctx, addWord("alone")); !errors.Is(err, context.Canceled) {
		t.Errorf("alone: %v", err)
	}
	release := s.hold()
	ctx, cancel = context.WithCancel(context.Background())
	waiting := s.queue(ctx, addWord("waiting"))
	other := s.queue(context.Background(), addWord("other"))
	cancel()
	release()
	<-waiting.done
	<-other.done
	if !errors.Is(waiting.err, context.Canceled) || other.err != nil {
		t.Errorf("waiting: %v; other: %v", waiting.err, other.err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	s.ok(s.write(ctx, func(t *tx) error {
		cancel() // a write that has begun is finished
		return addWord("begun")(t)
	}))
	if got := s.words(); got != "begun other" {
		t.Errorf("stored: %s", got)
	}
}

// TestMoreWritesThanCanWaitAreRefused: those that wait are stored all the same, and
// what is due waits with them.
func TestMoreWritesThanCanWaitAreRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	release := s.hold()
	var waiting []*job
	for range mostWaiting {
		waiting = append(waiting, s.queue(context.Background(), func(*tx) error { return nil }))
	}
	due := make(chan error, 1)
	go func() { due <- s.writeDue(context.Background(), addWord("due")) }()
	gone, leave := context.WithCancel(context.Background())
	leave()
	for name, got := range map[string]struct {
		ctx  context.Context
		want error
	}{"refused": {context.Background(), refuse(CodeUnavailable)}, "gone": {gone, context.Canceled}} {
		if err := s.write(got.ctx, addWord(name)); !errors.Is(err, got.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	release()
	for _, j := range waiting {
		<-j.done
		s.ok(j.err)
	}
	s.ok(<-due)
	if words := s.words(); words != "due" {
		t.Errorf("stored: %s", words)
	}
}

func TestClosingFinishesWhatWaits(t *testing.T) {
	s := newStore(t)
	release := s.hold()
	waiting := s.queue(context.Background(), addWord("waiting"))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	release()
	<-waiting.done
	if err := errors.Join(waiting.err, <-closed); err != nil {
		t.Error(err)
	}
	if err := s.write(context.Background(), addWord("late")); !errors.Is(err, errClosed) {
		t.Errorf("a write after the end: %v", err)
	}
	if err := s.RunDue(context.Background()); !errors.Is(err, errClosed) {
		t.Errorf("a run after the end: %v", err)
	}
	s.writeLater(addWord("later"), func(error) {})

	var stored []string
	if err := s.connection("ro").Select(&stored, `SELECT word FROM blocked_words`); err != nil || len(stored) != 1 {
		t.Errorf("stored: %v, %v", stored, err)
	}
}

// limitPages lets the file grow by no more than so many pages from now on.
func (s *testStore) limitPages(more int) {
	s.Helper()
	s.ok(s.outside(context.Background(), func(w *writer) error {
		var pages int
		if err := w.conn.GetContext(context.Background(), &pages, `PRAGMA page_count`); err != nil {
			return err
		}
		_, err := w.conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+more))
		return err
	}))
}

// leaveNoRoom fills the file up, until limitPages says otherwise.
func (s *testStore) leaveNoRoom() {
	s.Helper()
	s.limitPages(0)
	for n, size := 0, 20_000; size > 0; n++ {
		if s.write(context.Background(), addWord(fmt.Sprintf("%d%s", n, strings.Repeat("x", size)))) != nil {
			size /= 2
		}
	}
}

// A full disk makes SQLite undo the whole transaction by itself, the savepoints
// of the other writes included.
func TestAFullDiskIsToldAndHeals(t *testing.T) {
	s := newStore(t)
	s.limitPages(4)
	big := addWord("bad" + strings.Repeat("x", 1<<20))
	release := s.hold()
	before := s.queue(context.Background(), addWord("a"))
	failing := s.queue(context.Background(), big)
	after := s.queue(context.Background(), addWord("b"))
	release()
	<-before.done
	<-failing.done
	<-after.done
	wantOutcome(t, "the write before", before.err, "")
	wantOutcome(t, "the big write", failing.err, string(CodeStorageFull))
	wantOutcome(t, "the write after", after.err, "")
	wantOutcome(t, "the big write alone", s.write(context.Background(), big), string(CodeStorageFull))
	if got := s.words(); got != "a b" {
		t.Errorf("stored: %.20s; want a b", got)
	}
	s.limitPages(1000)
	wantOutcome(t, "once there is room", s.write(context.Background(), big), "")
}

func TestAForeignLockIsUnavailableAndHeals(t *testing.T) {
	s := newStore(t)
	s.ok(s.outside(context.Background(), func(w *writer) error {
		_, err := w.conn.ExecContext(context.Background(), `PRAGMA busy_timeout = 0`)
		return err
	}))
	other := s.connection("rw")
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, "while another program writes", s.write(context.Background(), addWord("a")), string(CodeUnavailable))
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, "afterwards", s.write(context.Background(), addWord("b")), "")
	if got := s.words(); got != "b" {
		t.Errorf("stored: %s; want b", got)
	}
}

// TestWaitingForAForeignLockIsDoneTogether: not by each write of a batch, one after the
// other.
func TestWaitingForAForeignLockIsDoneTogether(t *testing.T) {
	const each = 500 * time.Millisecond
	s := newStore(t)
	s.ok(s.outside(context.Background(), func(w *writer) error {
		_, err := w.conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, each.Milliseconds()))
		return err
	}))
	other := s.connection("rw")
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	busy, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.outside(context.Background(), func(*writer) error { close(busy); <-release; return nil })
	}()
	<-busy
	var waiting []*job
	for i := range defaultBatch {
		waiting = append(waiting, s.queue(context.Background(), addWord(fmt.Sprint(i))))
	}
	began := time.Now()
	close(release)
	for _, j := range waiting {
		<-j.done
		wantOutcome(t, "while another program writes", j.err, string(CodeUnavailable))
	}
	if took := time.Since(began); took > each*defaultBatch/2 {
		t.Errorf("%d writes wait %s", defaultBatch, took)
	}
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, "afterwards", s.write(context.Background(), addWord("b")), "")
}

// TestAnActThatSQLiteUndoesGoesNoFurther: a full disk undoes the whole transaction, and
// what the act did after that would be stored by itself.
func TestAnActThatSQLiteUndoesGoesNoFurther(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	a, b := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.between(a, b, "a@agents.example.org", "b@agents.example.org")
	s.between(b, a, "b@agents.example.org", "a@agents.example.org")
	s.change(nil, `CREATE TRIGGER full_disk BEFORE UPDATE ON collabs WHEN old.id = 'col_1_2_0' BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
	before := s.dump()
	if err := s.DeleteAgent(ctx, a); err == nil {
		t.Fatal("the agent is deleted")
	}
	s.wantUnchanged("an act that was undone", before)
}
