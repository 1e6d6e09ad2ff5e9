package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/sqlitedb"
)

// patience is longer than anything here takes.
const patience = time.Minute

// wantStopped waits until a store has stopped for good: it reads and writes nothing
// more, and closing it touches no file that it cannot trust.
func wantStopped(t testing.TB, s *Store, cause error) {
	t.Helper()
	select {
	case <-s.Broken():
	case <-time.After(patience):
		t.Fatal("the store goes on")
	}
	if err := s.Failure(); !errors.Is(err, cause) {
		t.Errorf("it has stopped because of: %v; want %v", err, cause)
	}
	ctx := context.Background()
	wantOutcome(t, "a write afterwards", s.write(ctx, insertBlockedWord("late")), string(domain.CodeUnavailable))
	if err := s.db.Exclusive(ctx, func(*sqlx.Conn) error {
		t.Error("it runs")
		return nil
	}); !errors.Is(err, sqlitedb.ErrStopped) {
		t.Errorf("an act on the writing connection: %v", err)
	}
	_, err := s.Agents(ctx, domain.AgentFilter{}, listing.Page{Limit: 1})
	wantOutcome(t, "a read afterwards", err, string(domain.CodeUnavailable))
	if _, err := s.Ready(ctx); !errors.Is(err, cause) {
		t.Errorf("it says that it is ready: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// full makes a directory with something in every table, and returns a function that
// opens a copy of it. Nobody closes that: it is to stop by itself.
func full(t *testing.T) (open func(testing.TB) *testStore) {
	t.Helper()
	s := newStore(t)
	s.fill()
	s.stop()
	data, err := os.ReadFile(s.path)
	s.ok(err)
	return func(t testing.TB) *testStore {
		path := filepath.Join(t.TempDir(), "callbook.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{Path: path, Clock: s.clock.Now, Quotas: domain.Quotas{}, Normal: true}
		return &testStore{Store: openStore(t, o), TB: t, clock: s.clock, path: path}
	}
}

// TestFailure_DamageStopsTheStore: by whatever reads or writes, and it never
// answers with less than there is.
func TestFailure_DamageStopsTheStore(t *testing.T) {
	t.Parallel()
	ctx, open := context.Background(), full(t)
	author := domain.Caller{ID: 1, Handle: "crowd-0"}
	for name, tt := range map[string]struct {
		table string // or index
		act   func(s *testStore) error
	}{
		"a list":      {"posts", func(s *testStore) error { return errOf(s.Posts(ctx, domain.PostFilter{}, listing.Page{Limit: 10})) }},
		"one record":  {"agents", func(s *testStore) error { return errOf(s.Card(ctx, "crowd-0")) }},
		"events":      {"events", func(s *testStore) error { _, err := s.Events(ctx, author, "", 10); return err }},
		"a write":     {"replies", func(s *testStore) error { return s.tryExecSQL(`UPDATE replies SET body = 'x'`) }},
		"what is due": {"codes_expires_at", func(s *testStore) error { return s.RunJobs(ctx) }},
		"creating": {"posts", func(s *testStore) error {
			return errOf3(s.CreatePost(ctx, author, s.draft("t", "b"), domain.IdempotencyKey{}))
		}},
		"an export":    {"watches", func(s *testStore) error { _, err := s.Export(ctx, author); return err }},
		"the operator": {"reports", func(s *testStore) error { _, err := s.Reports(ctx, false, 10); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			damageAt(t, s.path, rootOf(t, s.path, tt.table))
			before, err := os.ReadFile(s.path)
			s.ok(err)
			if err := tt.act(s); !isDamage(err) {
				t.Errorf("it meets: %v", err)
			}
			wantStopped(t, s.Store, sqlitedb.ErrDamaged)
			if after, err := os.ReadFile(s.path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// isDamage reports whether SQLite says that the file is not as it wrote it.
func isDamage(err error) bool {
	failure, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failure.Code()&0xff == sqlite3.SQLITE_CORRUPT || failure.Code() == sqlite3.SQLITE_NOTADB)
}

func (s *testStore) tryExecSQL(query string) error {
	return s.write(context.Background(), func(t *tx) error { return t.Exec(ofTest + query) })
}

// TestFailure_TruncatedFileStopsTheStore: SQLite reads zeros behind its end, which
// are no page.
func TestFailure_TruncatedFileStopsTheStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file becomes shorter here while it is open")
	}
	open := full(t)
	for name, tt := range map[string]struct {
		file  string
		size  int64
		cause error
	}{
		"the file":          {"", pageSize, sqlitedb.ErrDamaged},
		"all of it":         {"", 0, sqlitedb.ErrDamaged},
		"its shared memory": {"-shm", 0, sqlitedb.ErrDisk},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.register("newcomer") // with a log SQLite does not look how long the file is
			s.ok(errOf(s.Card(context.Background(), "crowd-0")))
			s.ok(os.Truncate(s.path+tt.file, tt.size))
			if _, err := s.Agents(context.Background(), domain.AgentFilter{Query: "tides"}, listing.Page{Limit: 10}); err == nil {
				t.Error("it answers")
			}
			wantStopped(t, s.Store, tt.cause)
		})
	}
}

// TestFailure_ReplacedFileStopsTheStore: whatever happens to the files under their names.
// What was answered is in the file that was served, wherever it is now, and what was
// put in its place is as it was put there.
func TestFailure_ReplacedFileStopsTheStore(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no file is moved here while it is open")
	}
	other := newStore(t)
	other.register("another")
	other.stop()
	put := func(path string) error {
		data, err := os.ReadFile(other.path)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		return err
	}
	for name, tt := range map[string]struct {
		do     func(path string) error
		served func(path string) string // where what was served is afterwards; nil: nowhere
		placed []string                 // files beside it that are not the store's to touch
	}{
		"moved": {
			func(path string) error { return os.Rename(path, path+".old") },
			func(path string) string { return path + ".old" }, nil},
		"deleted": {os.Remove, nil, nil},
		"moved, and another put there": {
			func(path string) error { return errors.Join(os.Rename(path, path+".old"), put(path)) },
			func(path string) string { return path + ".old" }, []string{""}},
		"another renamed over it": {
			func(path string) error { return errors.Join(put(path+".new"), os.Rename(path+".new", path)) },
			nil, []string{""}},
		"all moved, and others put there": {
			func(path string) error {
				old := filepath.Join(filepath.Dir(path), "old")
				errs := []error{os.Mkdir(old, 0o700), os.Link(path, path+".link")}
				for _, suffix := range []string{"", "-wal", "-shm"} {
					errs = append(errs, os.Rename(path+suffix, filepath.Join(old, "callbook.db"+suffix)))
				}
				errs = append(errs, put(path), os.WriteFile(path+"-wal", []byte("its log"), 0o600), os.WriteFile(path+"-shm", []byte("its memory"), 0o600))
				return errors.Join(errs...)
			},
			func(path string) string {
				_ = os.Remove(path + ".link") // with which it would not be opened
				return filepath.Join(filepath.Dir(path), "old", "callbook.db")
			},
			[]string{"", "-wal", "-shm"}},
		"the log deleted": {
			func(path string) error { return os.Remove(path + "-wal") },
			func(path string) string { return path }, nil},
		"the shared memory deleted": {
			func(path string) error { return os.Remove(path + "-shm") },
			func(path string) string { return path }, nil},
		"the folder renamed": {
			func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
			func(path string) string { return filepath.Join(filepath.Dir(path)+".old", "callbook.db") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "callbook.db")
			s := openStore(t, Options{Path: path, Normal: true})
			if _, _, err := s.Register(context.Background(), registration("answered"), domain.IdempotencyKey{}); err != nil {
				t.Fatal(err)
			}
			if err := tt.do(path); err != nil {
				t.Fatal(err)
			}
			want := map[string][]byte{}
			for _, suffix := range tt.placed {
				want[suffix], _ = os.ReadFile(path + suffix)
			}
			wantStopped(t, s, sqlitedb.ErrReplaced)
			for suffix, data := range want {
				if now, err := os.ReadFile(path + suffix); err != nil || !bytes.Equal(now, data) {
					t.Errorf("callbook.db%s, which was put there, is changed (%v)", suffix, err)
				}
			}
			if tt.served == nil {
				return
			}
			again := openStore(t, Options{Path: tt.served(path), Normal: true})
			if _, err := again.Card(context.Background(), "answered"); err != nil {
				t.Errorf("what was answered is not in the file that was served: %v", err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailure_ChangedLinkStopsTheStore: the name is what the operator sees.
func TestFailure_ChangedLinkStopsTheStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	link, first, second := filepath.Join(folder, "link.db"), filepath.Join(folder, "1.db"), filepath.Join(folder, "2.db")
	if err := errors.Join(os.WriteFile(first, nil, 0o600), os.WriteFile(second, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(first, link); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	s := openStore(t, Options{Path: link, Normal: true})
	if err := errors.Join(os.Symlink(second, link+".new"), os.Rename(link+".new", link)); err != nil {
		t.Fatal(err)
	}
	wantStopped(t, s, sqlitedb.ErrReplaced)
}

// TestFailure_OtherErrorsDoNotStopTheStore: what the service does with its files by itself is
// not taken for somebody else's doing.
func TestFailure_OtherErrorsDoNotStopTheStore(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.ok(s.RunJobs(context.Background()))
	s.ok(errOf(MakeBackup(context.Background(), s.path, filepath.Join(t.TempDir(), "copy.db"))))
	s.ok(s.CheckFile(context.Background()))
	s.register("afterwards")
	if err := s.Failure(); err != nil {
		t.Error(err)
	}
}

var errCommit = errors.New("the commit fails")

// failCommits has commits fail until healed, in one of two ways: nobody can tell
// which it was.
func (s *testStore) failCommits(persisted bool) (heal func()) {
	set := func(f func(context.Context, *sqlx.Conn) error) {
		s.ok(s.db.Exclusive(context.Background(), func(*sqlx.Conn) error {
			s.commit = f
			return nil
		}))
	}
	set(func(ctx context.Context, conn *sqlx.Conn) error {
		act := "ROLLBACK"
		if persisted {
			act = "COMMIT"
		}
		_, err := conn.ExecContext(ctx, act)
		return errors.Join(errCommit, err)
	})
	return func() { set(commit) }
}

// created are all kinds of records that somebody makes for another. Those that take an
// Idempotency-Key (once) may do without where a repeat is told by itself (natural).
var created = []struct {
	table         string
	once, natural bool
	act           func(s *testStore, key domain.IdempotencyKey, by, to domain.Caller, post domain.PublicPost, offering string) error
}{
	{"agents", true, true, func(s *testStore, key domain.IdempotencyKey, _, _ domain.Caller, _ domain.PublicPost, _ string) error {
		registered, _, err := s.Register(context.Background(), registration("newcomer"), key)
		if err != nil {
			return err
		}
		return errOf(s.Authenticate(context.Background(), registered.Key))
	}},
	{"posts", true, false, func(s *testStore, key domain.IdempotencyKey, by, _ domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf3(s.CreatePost(context.Background(), by, domain.PostDraft{Kind: "seeking", Title: "tides", Body: "b", Tags: []string{"tide"}}, key))
	}},
	{"replies", true, false, func(s *testStore, key domain.IdempotencyKey, by, _ domain.Caller, post domain.PublicPost, _ string) error {
		return errOf3(s.CreateReply(context.Background(), by, post.ID, domain.ReplyDraft{Body: "b"}, key))
	}},
	{"requests", true, true, func(s *testStore, key domain.IdempotencyKey, by, to domain.Caller, _ domain.PublicPost, offering string) error {
		draft := domain.ContactRequestDraft{Purpose: "p", Deliverable: "d", Compensation: "none", OfferingID: offering}
		_, _, err := s.SendRequest(context.Background(), by, to.Handle, draft, key)
		return err
	}},
	{"collabs", true, true, func(s *testStore, key domain.IdempotencyKey, by, to domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf3(s.RecordCollab(context.Background(), by, domain.CollabDraft{Partner: to.Handle, Summary: "s"}, key))
	}},
	{"reports", false, true, func(s *testStore, _ domain.IdempotencyKey, _, _ domain.Caller, post domain.PublicPost, _ string) error {
		return s.ReportPost(context.Background(), post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{})
	}},
	{"agents WHERE links <> '[]'", false, true, func(s *testStore, _ domain.IdempotencyKey, by, _ domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf(s.AddLink(context.Background(), by, harbourPage, "website"))
	}},
	{"agents WHERE offerings <> '[]'", false, true, func(s *testStore, _ domain.IdempotencyKey, by, _ domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf(s.ReplaceOfferings(context.Background(), by, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "t", Deliverable: "d", Mode: "free"}}}))
	}},
	{"outbox", false, true, func(s *testStore, _ domain.IdempotencyKey, by, _ domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf(s.ClaimOwner(context.Background(), by, "owner@people.example.org"))
	}},
	{"blocklist", false, true, func(s *testStore, _ domain.IdempotencyKey, _, _ domain.Caller, _ domain.PublicPost, _ string) error {
		return errOf(s.ChangeBlocklist(context.Background(), "block-word", "spam"))
	}},
}

// TestIdempotency_RetryAfterFailedCommitCreatesOne: a client that got an error tries
// again, and nobody knows whether the first try is stored.
func TestIdempotency_RetryAfterFailedCommitCreatesOne(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{true, false} {
		for _, persisted := range []bool{false, true} {
			s := newStore(t)
			by, to, post, offering := s.senderAndRecipient()
			for _, c := range created {
				if keyed && !c.once || !keyed && !c.natural {
					continue
				}
				what := fmt.Sprintf("%s, keyed %v, persisted %v", c.table, keyed, persisted)
				var key domain.IdempotencyKey
				if keyed {
					key = domain.NewIdempotencyKey("create "+c.table, onceKey, "body")
				}
				count := `SELECT COUNT(*) FROM ` + c.table
				before := value[int](s, count)
				heal := s.failCommits(persisted)
				if err := c.act(s, key, by, to, post, offering); !errors.Is(err, errCommit) {
					t.Fatalf("%s: the commit does not fail: %v", what, err)
				}
				heal()
				if is := value[int](s, count) > before; is != persisted {
					t.Errorf("%s: stored: %v", what, is)
				}
				err := c.act(s, key, by, to, post, offering)
				var refusal *domain.Error
				if known := !keyed && persisted && errors.As(err, &refusal); err != nil && !known {
					t.Errorf("%s: the repeat: %v", what, err)
				}
				if n := value[int](s, count) - before; n != 1 {
					t.Errorf("%s: %d rows came to be, want 1", what, n)
				}
			}
			s.checkDerived("the repeats") // what an undone write left behind in the store would show
		}
	}
}
