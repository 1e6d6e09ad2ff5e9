package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"callbook/testdata/proof"
)

// pragma reads a setting of the writing connection.
func (s *testStore) pragma(name string) (value int) {
	s.Helper()
	s.ok(s.outside(context.Background(), func(w *writer) error {
		return w.conn.GetContext(context.Background(), &value, "PRAGMA "+name)
	}))
	return value
}

// TestTheWritingConnectionHasItsPragmas: durability hangs on them.
func TestTheWritingConnectionHasItsPragmas(t *testing.T) {
	for normal, want := range map[bool]int{false: 2, true: 1} {
		s := newStore(t, func(o *Options) { o.Normal, o.MaxBytes = normal, 8<<20 })
		for name, value := range map[string]int{
			"synchronous": want, "foreign_keys": 1, "secure_delete": 1, "trusted_schema": 0, "wal_autocheckpoint": 0,
			"journal_size_limit": 16 << 20, "max_page_count": 8 << 20 / pageSize, "cache_size": -4000, "busy_timeout": 5000,
		} {
			if got := s.pragma(name); got != value {
				t.Errorf("normal %v: %s is %d, want %d", normal, name, got, value)
			}
		}
		if s.Normal() != normal {
			t.Errorf("normal is %v, want %v", s.Normal(), normal)
		}
	}
}

// TestAStartOnASlowDiskTakesItsTime: no checkpoint waits for it yet, unlike for reads of
// the service.
func TestAStartOnASlowDiskTakesItsTime(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	s.change(nil, `UPDATE site SET value = x'00' WHERE name = 'document_format'`)
	timeout := readTimeout
	readTimeout = time.Nanosecond
	t.Cleanup(func() { readTimeout = timeout })
	s.reopen()
	s.readTimeout = timeout
	if _, err := s.Card(context.Background(), "harbour-pilot"); err != nil {
		t.Error(err)
	}
}

// TestAConnectionThatIsToldInVainIsRefused: SQLite ignores what it does not know.
func TestAConnectionThatIsToldInVainIsRefused(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{"synchronous", "no_such_pragma"} {
		err := checkPragmas(context.Background(), s.connection("rw", "synchronous(OFF)"), map[string]string{name: "2"})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheFileGrowsToItsMostOnly(t *testing.T) {
	const most = 1 << 20
	s := newStore(t, func(o *Options) { o.MaxBytes = most })
	big := func(i int) error {
		return s.write(context.Background(), addWord(fmt.Sprint(i, strings.Repeat("x", 50_000))))
	}
	written := 0
	for big(written) == nil {
		if written++; written > 100 {
			t.Fatal("it grows on")
		}
	}
	wantOutcome(t, "past its most", big(written), string(CodeStorageFull))
	if n := value[int](s, `SELECT COUNT(*) FROM blocked_words`); n != written || written < 5 {
		t.Errorf("%d words are stored, %d were answered", n, written)
	}
	if err := s.Failure(); err != nil {
		t.Errorf("the store has stopped: %v", err)
	}
	s.stop()
	if size := fileSize(s.path); size > most {
		t.Errorf("the file has %d bytes, more than %d", size, most)
	}
	// A file that is larger than that already is served, and grows no more.
	s.reopen(func(o *Options) { o.MaxBytes = most / 2 })
	wantOutcome(t, "with less", big(written), string(CodeStorageFull))
	s.change(nil, `DELETE FROM blocked_words WHERE word LIKE '0%'`)
	wantOutcome(t, "in the room of another", big(0), "")
	s.reopen(func(o *Options) { o.MaxBytes = 2 * most })
	wantOutcome(t, "with more", big(written), "")
}

// TestCachesStayWithinTheirBudget: SQLite's memory is not Go's, and GOMEMLIMIT does
// not see it; a cache takes about twice what it is told.
func TestCachesStayWithinTheirBudget(t *testing.T) {
	const budget = 40 << 20 // of all connections
	s := newStore(t)
	caches := s.pragma("cache_size")
	for range readConnections {
		conn, err := s.reading.Connx(context.Background()) // at once, so each is another
		s.ok(err)
		defer conn.Close()
		var size int
		s.ok(conn.GetContext(context.Background(), &size, `PRAGMA cache_size`))
		caches += size
	}
	if n := s.reading.Stats().MaxOpenConnections; n != readConnections {
		t.Errorf("%d connections may read, not %d", n, readConnections)
	}
	if takes := 2 * -caches << 10; takes <= 0 || takes > budget {
		t.Errorf("the caches may take %d bytes, more than %d; a size in pages is not looked for", takes, budget)
	}
}

// TestALinkLeadsToTheFile: its log is beside the file itself, and so is what a kill
// leaves.
func TestALinkLeadsToTheFile(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	crashed := s.crash()
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(crashed, link); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	if contents, err := Examine(t.Context(), link, false); err != nil || contents.Agents != 1 {
		t.Errorf("an examination finds %+v, %v", contents, err)
	}
	folder := t.TempDir()
	if contents, err := Backup(t.Context(), link, filepath.Join(folder, "copy.db")); err != nil || contents.Agents != 1 {
		t.Errorf("a copy holds %+v, %v", contents, err)
	}
	if _, _, err := Restore(t.Context(), link, filepath.Join(folder, "restored.db"), s.Now()); err == nil {
		t.Error("a database is restored without its log")
	}
	if missing(crashed + "-wal") {
		t.Error("the log is gone")
	}
	scheduled := Schedule{Folder: folder}
	copied := filepath.Join(folder, s.Now().Format(scheduledName))
	to := filepath.Join(filepath.Dir(link), "to-a-copy.db")
	if s.ok(os.Symlink(copied, to)); !scheduled.Owns(to) {
		t.Error("a link hides that it is a copy")
	}
	again := openStore(t, Options{Path: link, Normal: true})
	if !again.killed || again.path != crashed || again.health().LogBytes == 0 {
		t.Errorf("killed: %v, path %s, %+v", again.killed, again.path, again.health())
	}
	s.ok(again.Close())
}

// crash copies the files as a kill would leave them, and returns the name of the
// database.
func (s *testStore) crash() (path string) {
	s.Helper()
	path = filepath.Join(s.TempDir(), "callbook.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.path + suffix) // nobody misses the locks that this drops
		s.ok(err)
		s.ok(os.WriteFile(path+suffix, data, 0o600))
	}
	return path
}

// filled is a directory with something in every table, all but the last write
// folded into the file, as a kill leaves it.
func filled(t *testing.T) (path string, o Options) {
	t.Helper()
	s := newStore(t)
	s.fill()
	s.reopen()
	s.register("the-last")
	return s.crash(), Options{Clock: s.clock.Now, Normal: true}
}

var whatSQLiteFinds = regexp.MustCompile(`page \d+|Page \d+|malformed|not a database`)

// TestDamageIsFoundBeforeAnythingIsServed overwrites pages at random, of a directory
// whose program was killed: either the start is refused and nothing is touched, or
// all that is read is right.
func TestDamageIsFoundBeforeAnythingIsServed(t *testing.T) {
	path, o := filled(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	openAt := func(data []byte) (path string, err error) {
		path = filepath.Join(t.TempDir(), "callbook.db")
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		o.Path = path
		s, err := Open(context.Background(), o)
		if err == nil {
			err = s.Close()
		}
		return path, err
	}
	undamaged, err := openAt(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, undamaged)
	seeds := 60
	if proof.RaceDetector() || testing.Short() {
		seeds = 10
	}
	if n, err := strconv.Atoi(os.Getenv("TEST_DAMAGE_SEEDS")); err == nil {
		seeds = n
	}
	refused := 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		damaged := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			page := r.IntN(len(damaged)/pageSize) * pageSize
			for i := range pageSize {
				damaged[page+i] = byte(r.Uint32())
			}
		}
		path, err := openAt(damaged)
		if err == nil {
			if diff := cmp.Diff(want, contents(t, path)); diff != "" {
				t.Errorf("seed %d: it is served, and not what it was: %s", seed, diff)
			}
			continue
		}
		refused++
		if text := err.Error(); !errors.Is(err, ErrDamaged) || !strings.Contains(text, path) || !whatSQLiteFinds.MatchString(text) || strings.Contains(text, "\n") {
			t.Errorf("seed %d: %v", seed, err)
		}
		file, fileErr := os.ReadFile(path)
		beside, logErr := os.ReadFile(path + "-wal")
		if err := errors.Join(fileErr, logErr); err != nil || !bytes.Equal(file, damaged) || !bytes.Equal(beside, log) {
			t.Errorf("seed %d: the files were changed (%v)", seed, err)
		}
	}
	if refused < seeds/2 {
		t.Errorf("%d of %d were refused: the damage is not where it is looked for", refused, seeds)
	}
}

// rootOf is where a table's first page begins in the file.
func rootOf(t testing.TB, path, table string) (offset int64) {
	t.Helper()
	visited(t, path, func(db *sqlx.DB) {
		if err := db.Get(&offset, `SELECT (rootpage - 1) * 4096 FROM sqlite_schema WHERE name = ?`, table); err != nil {
			t.Fatal(err)
		}
	})
	return offset
}

// damageAt overwrites a page.
func damageAt(t testing.TB, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, pageSize), offset)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsFoundBesideTheServing: after a stop in good order the whole file is
// read in the background.
func TestDamageIsFoundBesideTheServing(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.stop()
	damageAt(t, s.path, rootOf(t, s.path, "reports"))
	damaged, err := os.ReadFile(s.path)
	s.ok(err)

	s.clock.Advance(time.Hour) // the look at the start then writes something into the log
	again := openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
	if err := again.CheckWhole(context.Background()); !errors.Is(err, ErrDamaged) || !whatSQLiteFinds.MatchString(err.Error()) {
		t.Errorf("found: %v", err)
	}
	wantStopped(t, again, ErrDamaged)
	after, err := os.ReadFile(s.path)
	if err != nil || !bytes.Equal(after, damaged) {
		t.Errorf("the file was changed (%v)", err)
	}
	if _, err := Open(context.Background(), Options{Path: s.path, Normal: true}); !errors.Is(err, ErrDamaged) {
		t.Errorf("the next start: %v", err)
	}
}

// TestAWholeFileIsNotReadAgainForADay: starting a large directory anew costs little.
func TestAWholeFileIsNotReadAgainForADay(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.ok(s.CheckWhole(context.Background()))
	s.stop()
	damageAt(t, s.path, rootOf(t, s.path, "reports"))
	for _, tt := range []struct {
		after time.Duration
		found bool
	}{{23 * time.Hour, false}, {-24 * time.Hour, true}} {
		s.clock.Advance(tt.after)
		again := openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
		if err := again.CheckWhole(context.Background()); errors.Is(err, ErrDamaged) != tt.found {
			t.Errorf("%v later: %v", tt.after, err)
		}
		if !tt.found {
			_ = again.Close()
		}
	}
}

// TestAServedFileIsReadEachDay: the first time may have been in a start after a kill.
func TestAServedFileIsReadEachDay(t *testing.T) {
	for _, killed := range []bool{false, true} {
		path, o := filled(t)
		clock := &testClock{now: o.Clock()}
		o.Path, o.Clock = path, clock.Now
		if !killed {
			if err := openStore(t, o).Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := openStore(t, o)
		if s.killed != killed {
			t.Fatalf("killed: %t", s.killed)
		}
		if err := s.CheckWhole(t.Context()); err != nil {
			t.Fatal(err)
		}
		damageAt(t, path, rootOf(t, path, "reports"))
		for _, tt := range []struct {
			later time.Duration
			found bool
		}{{23 * time.Hour, false}, {time.Hour + time.Second, true}} {
			clock.Advance(tt.later)
			if err := s.CheckWhole(t.Context()); errors.Is(err, ErrDamaged) != tt.found {
				t.Errorf("killed %t, %v later: %v", killed, tt.later, err)
			}
		}
	}
}

func TestAWholeFileIsFoundWhole(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	s.ok(s.CheckWhole(context.Background()))
	if s.Failure() != nil {
		t.Error(s.Failure())
	}
}

// TestAForeignFileIsLeftAsItIs: another program's, in each state that SQLite leaves
// one in. What is another's may be in use.
func TestAForeignFileIsLeftAsItIs(t *testing.T) {
	make := func(journal string, crash bool) func(path string) error {
		return func(path string) error {
			from := filepath.Join(t.TempDir(), "foreign.db")
			db, err := connect(context.Background(), from, "", 1, "journal_mode("+journal+")", "wal_autocheckpoint(0)")
			if err != nil {
				return err
			}
			defer db.Close()
			if _, err := db.Exec(`CREATE TABLE customers (name TEXT)`); err != nil {
				return err
			}
			if !crash {
				if err := db.Close(); err != nil {
					return err
				}
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				data, err := os.ReadFile(from + suffix)
				if err == nil {
					err = os.WriteFile(path+suffix, data, 0o600)
				}
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
			return nil
		}
	}
	for name, tt := range map[string]struct {
		make func(path string) error
		want error
	}{
		"a rollback journal":          {make("DELETE", false), ErrForeign},
		"a write-ahead log":           {make("WAL", false), ErrForeign},
		"a log that is not folded in": {make("WAL", true), ErrForeign},
		"text":                        {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("Dear diary. "), 1000), 0o600) }, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "callbook.db")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, path)
			if _, err := Open(context.Background(), Options{Path: path}); !errors.Is(err, tt.want) {
				t.Errorf("opened: %v", err)
			}
			after := filesOf(t, path)
			delete(before, "callbook.db-shm") // where readers note how far they are
			delete(after, "callbook.db-shm")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// filesOf are the files in a database's folder.
func filesOf(t testing.TB, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		data, readErr := os.ReadFile(filepath.Join(filepath.Dir(path), entry.Name()))
		err = errors.Join(err, readErr)
		files[entry.Name()] = string(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestTheLogShowsThatThereWasADatabase: SQLite would delete it and begin anew.
func TestTheLogShowsThatThereWasADatabase(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	crashed := s.crash()
	s.ok(os.Remove(crashed))
	if _, err := AcquireLock(crashed); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "callbook.db-wal") {
		t.Errorf("begun anew: %v", err)
	}
}

// TestALockThatIsKeptStays: a database that is moved away meanwhile must not be begun
// anew by the next start.
func TestALockThatIsKeptStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	lock.Keep()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireLock(path); !errors.Is(err, ErrGone) {
		t.Errorf("begun anew: %v", err)
	}
}
