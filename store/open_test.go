package store

import (
	"bytes"
	"context"
	"errors"
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

	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// pragma reads a setting of the writing connection.
func (s *testStore) pragma(name string) (value int) {
	s.Helper()
	s.ok(s.db.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		return conn.GetContext(context.Background(), &value, "PRAGMA "+name)
	}))
	return value
}

// TestOpen_WaitsForASlowDisk: no checkpoint waits for it yet, unlike for reads of
// the service.
func TestOpen_WaitsForASlowDisk(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	s.reopen(func(o *Options) { o.ReadTimeout = time.Nanosecond })
	if _, err := s.Card(context.Background(), "harbour-pilot"); err != nil {
		t.Error(err)
	}
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

var whatSQLiteFinds = regexp.MustCompile(`page \d+|listing.Page \d+|malformed|not a database`)

// TestOpen_FindsDamage overwrites pages at random, of a directory
// whose program was killed: either the start is rejected, or the check finds the damage, or
// all that is read is right.
func TestOpen_FindsDamage(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	path, o := filled(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	opened := false
	openAt := func(data []byte) (path string, err error) {
		path = filepath.Join(t.TempDir(), "callbook.db")
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		o.Path = path
		s, err := Open(context.Background(), o)
		if opened = err == nil; opened {
			err = errors.Join(s.CheckFile(context.Background()), s.Close())
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
		if text := err.Error(); !errors.Is(err, sqlitedb.ErrDamaged) || !opened && !strings.Contains(text, path) || !whatSQLiteFinds.MatchString(text) || strings.Contains(text, "\n") {
			t.Errorf("seed %d: %v", seed, err)
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

// TestCheckFile_FindsDamage: after a stop in good order the whole file is
// read in the background.
func TestCheckFile_FindsDamage(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.stop()
	damageAt(t, s.path, rootOf(t, s.path, "reports"))
	damaged, err := os.ReadFile(s.path)
	s.ok(err)

	s.clock.Advance(time.Hour) // the look at the start then writes something into the log
	again := openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
	if err := again.CheckFile(context.Background()); !errors.Is(err, sqlitedb.ErrDamaged) || !whatSQLiteFinds.MatchString(err.Error()) {
		t.Errorf("found: %v", err)
	}
	wantStopped(t, again, sqlitedb.ErrDamaged)
	after, err := os.ReadFile(s.path)
	if err != nil || !bytes.Equal(after, damaged) {
		t.Errorf("the file was changed (%v)", err)
	}
}

// TestCheckFile_ReadsTheFileAfterAnUncleanEnd, whenever it was last checked.
func TestCheckFile_ReadsTheFileAfterAnUncleanEnd(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.ok(s.CheckFile(t.Context()))
	s.reopen()
	s.register("the-last") // so that a log is left
	root, path := rootOf(t, s.path, "reports"), s.crash()
	damageAt(t, path, root)

	again := openStore(t, Options{Path: path, Clock: s.clock.Now, Normal: true})
	if err := again.CheckFile(t.Context()); !errors.Is(err, sqlitedb.ErrDamaged) {
		t.Error(err)
	}
}

// TestCheckFile_TrustsACheckForADay: starting a large directory anew costs little.
func TestCheckFile_TrustsACheckForADay(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.ok(s.CheckFile(context.Background()))
	s.stop()
	damageAt(t, s.path, rootOf(t, s.path, "reports"))
	for _, tt := range []struct {
		after time.Duration
		found bool
	}{{23 * time.Hour, false}, {-24 * time.Hour, true}} {
		s.clock.Advance(tt.after)
		again := openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
		if err := again.CheckFile(context.Background()); errors.Is(err, sqlitedb.ErrDamaged) != tt.found {
			t.Errorf("%v later: %v", tt.after, err)
		}
		if !tt.found {
			_ = again.Close()
		}
	}
}

// TestCheckFile_RunsEachDay: the first time may have been in a start after a kill.
func TestCheckFile_RunsEachDay(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		path, o := filled(t)
		clock := testkit.NewClock()
		clock.Advance(o.Clock().Sub(clock.Now()))
		o.Path, o.Clock = path, clock.Now
		if !killed {
			if err := openStore(t, o).Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := openStore(t, o)
		if s.db.Unclean() != killed {
			t.Fatalf("killed: %t", s.db.Unclean())
		}
		if err := s.CheckFile(t.Context()); err != nil {
			t.Fatal(err)
		}
		damageAt(t, path, rootOf(t, path, "reports"))
		for _, tt := range []struct {
			later time.Duration
			found bool
		}{{23 * time.Hour, false}, {time.Hour + time.Second, true}} {
			clock.Advance(tt.later)
			if err := s.CheckFile(t.Context()); errors.Is(err, sqlitedb.ErrDamaged) != tt.found {
				t.Errorf("killed %t, %v later: %v", killed, tt.later, err)
			}
		}
	}
}
