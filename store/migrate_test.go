package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
	next "callbook/testdata/upgrade"
)

// version is the schema's, as the file says.
func version(t testing.TB, path string) (version int64) {
	t.Helper()
	visited(t, path, func(db *sqlx.DB) {
		if err := db.Get(&version, `SELECT MAX(version_id) FROM goose_db_version`); err != nil {
			t.Fatal(err)
		}
	})
	return version
}

// upgrade is what a start did to the schema.
type upgrade struct {
	from, to int64
	kept     string // the copy from before
}

// keptCopy is the copy that an upgrade by so many steps keeps.
func keptCopy(path string, steps int64) string {
	return fmt.Sprintf("%s.pre-migrate-%d-%d.db", path, next.Released, next.Released+steps)
}

// draftsOf returns the unfinished files of an upgrade: the copy that is kept and the one that is
// migrated, and what SQLite keeps beside them.
func draftsOf(path string) []string {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	return []string{draft + ".pre-migrate", draft + ".migrating", draft + ".pre-migrate-journal", draft + ".migrating-journal"}
}

// start is the whole start of a program with these migrations.
func start(path string, migrations fs.FS) (u upgrade, err error) {
	s, err := Open(context.Background(), Options{Path: path, Migrations: migrations, Normal: true})
	if err != nil {
		return u, err
	}
	u.from, u.to, u.kept = s.Upgraded()
	return u, s.Close()
}

// state is all that a failed upgrade leaves as it was. The table site is left out: each
// start writes the time into it.
type state struct {
	Version  int64
	Schema   map[string]string
	Contents map[string]string
}

func stateOf(t testing.TB, path string) state {
	t.Helper()
	held := contents(t, path)
	delete(held, "site")
	return state{version(t, path), schemaOf(t, path), held}
}

func wantState(t testing.TB, what string, want state, path string) {
	t.Helper()
	if others := want.others(stateOf(t, path)); len(others) > 0 {
		t.Errorf("%s, other than it should be: %q", what, others)
	}
}

// others names what two states do not have in common.
func (s state) others(got state) (names []string) {
	if s.Version != got.Version {
		names = append(names, fmt.Sprintf("version %d, not %d", got.Version, s.Version))
	}
	names = append(names, differing(s.Schema, got.Schema)...)
	for _, table := range differing(s.Contents, got.Contents) {
		names = append(names, "rows of "+table)
	}
	return names
}

func differing(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	maps.DeleteFunc(all, func(name, _ string) bool { return a[name] == b[name] })
	return slices.Sorted(maps.Keys(all))
}

// TestUpgrade_KeepsAllAndLeavesACopy: the tables whose definition stays keep their rows, no number is
// given twice, and the copy from before is whole.
func TestUpgrade_KeepsAllAndLeavesACopy(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	path := filledFile(t)
	before, given := stateOf(t, path), numbersGiven(t, path)
	for _, name := range append(draftsOf(path), keptCopy(path, 2)) {
		if err := os.WriteFile(name, []byte("of a program that was killed"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil { // as for a group that makes copies
		t.Fatal(err)
	}

	files := next.Migrations(next.Step, `DROP TABLE invites;`)
	got, err := start(path, files)
	if want := (upgrade{next.Released, next.Released + 2, keptCopy(path, 2)}); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}

	others := before.others(stateOf(t, path))
	want := []string{
		"index notes_note", "table agents", "table handles", "table invites", "table notes",
		"trigger notes_gone", "rows of agents", "rows of goose_db_version", "rows of handles", "rows of invites", "rows of notes",
	}
	if diff := cmp.Diff(want, others[1:]); diff != "" {
		t.Errorf("what differs after the upgrade (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(given, numbersGiven(t, path)); diff != "" {
		t.Errorf("the highest numbers given (-before +after):\n%s", diff)
	}
	visited(t, path, func(db *sqlx.DB) {
		n := selected(t, db, `SELECT COUNT(*) FROM notes JOIN agents ON id = agent_id WHERE notes.note = name || '; noted' AND noted_at = created_at`)
		if held := before.Contents["agents"]; !strings.HasPrefix(held, n[0]+" rows") {
			t.Errorf("%s agents are noted, of %s", n, held)
		}
	})
	checkUsable(t, path, files)

	wantState(t, "the copy", before, got.kept)
	if _, err := VerifyFile(context.Background(), got.kept, false); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]fs.FileMode{path: 0o640, got.kept: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for _, draft := range draftsOf(path) {
		if !missing(draft) {
			t.Errorf("%s stays", draft)
		}
	}

	got, err = start(path, files)
	if want := (upgrade{next.Released + 2, next.Released + 2, ""}); err != nil || got != want {
		t.Errorf("at the second start %+v, %v, want %+v", got, err, want)
	}
}

// numbersGiven is the highest number that each table gave out, also to rows that are gone.
func numbersGiven(t testing.TB, path string) map[string]int64 {
	t.Helper()
	given := map[string]int64{}
	visited(t, path, func(db *sqlx.DB) {
		for _, table := range selected(t, db, `SELECT name || ' ' || seq FROM sqlite_sequence WHERE name <> 'goose_db_version'`) {
			name, text, _ := strings.Cut(table, " ")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			given[name] = n
		}
	})
	return given
}

// checkUsable writes to an upgraded database, and searches it.
func checkUsable(t testing.TB, path string, migrations fs.FS) {
	t.Helper()
	clock := testkit.NewClock()
	s := &testStore{TB: t, clock: clock, path: path}
	s.Store = openStore(t, Options{Path: path, Migrations: migrations, Clock: clock.Now, Quotas: domain.Quotas{}, Normal: true})
	defer s.stop()

	newcomer, _ := s.register("newcomer")
	s.post(newcomer)
	for query, want := range map[string]int{"潮汐": 3, "Tide data": 1} {
		list, err := s.Posts(context.Background(), domain.PostFilter{Query: query, Match: domain.MatchAll}, listing.Page{Limit: 10})
		if err != nil || len(list.Items) != want {
			t.Errorf("%s: found %d calls, %v, want %d", query, len(list.Items), err, want)
		}
	}
}

// TestUpgrade_BadCopyStopsIt: the copy of a try before stays until there is a whole one.
func TestUpgrade_BadCopyStopsIt(t *testing.T) {
	path := filledFile(t)
	visited(t, path, func(db *sqlx.DB) {
		if _, err := db.Exec(`DELETE FROM agents WHERE id = (SELECT MIN(id) FROM agents)`); err != nil {
			t.Fatal(err)
		}
	})
	before := stateOf(t, path)
	if err := os.WriteFile(keptCopy(path, 1), []byte("of a try before"), 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := start(path, next.Migrations(next.Step)); !errors.Is(err, sqlitedb.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	wantState(t, "the file", before, path)
	if text, err := os.ReadFile(keptCopy(path, 1)); string(text) != "of a try before" || !missing(draftsOf(path)[0]) {
		t.Errorf("the copy before holds %.20q, %v; the draft is gone: %v", text, err, missing(draftsOf(path)[0]))
	}
}

func TestUpgrade_IsAllOrNothing(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	const endless = `
INSERT INTO blocklist (kind, entry, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT 'word', 'endless-' || i, 1 FROM n;`
	for name, tt := range map[string]struct {
		before string // what somebody did to the file by hand
		step   string
		stop   time.Duration // when the start is called off
		want   string
	}{
		"orphans":            {"", `DELETE FROM agents;`, time.Hour, "refer to rows of"},
		"a step that fails":  {"", `DROP TABLE posts; SELECT raise_nosuch;`, time.Hour, fmt.Sprintf("%05d_step.sql: ", next.Released+2)},
		"a stop meanwhile":   {"", endless, 200 * time.Millisecond, "context deadline exceeded"},
		"a schema by hand":   {`CREATE INDEX by_hand ON agents (name); DROP INDEX usage_at`, ``, time.Hour, "as callbook makes them: index by_hand, index usage_at; undo"},
		"a column by hand":   {`ALTER TABLE posts ADD COLUMN by_hand TEXT`, ``, time.Hour, "as callbook makes them: table posts; undo"},
		"statistics by hand": {`ANALYZE`, ``, time.Hour, ""},
	} {
		path := filledFile(t)
		visited(t, path, func(db *sqlx.DB) {
			if _, err := db.Exec(tt.before); err != nil {
				t.Fatal(err)
			}
		})
		before := stateOf(t, path)
		ctx, cancel := context.WithTimeout(context.Background(), tt.stop)
		s, err := Open(ctx, Options{Path: path, Normal: true, Migrations: next.Migrations(next.Step, tt.step)})
		cancel()
		if err == nil && tt.want == "" {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
		wantState(t, name, before, path)
		if u, err := start(path, nil); err != nil || u.to != next.Released {
			t.Errorf("%s: the earlier program: %+v, %v", name, u, err)
		}
	}
}

// TestUpgrade_NeedsTheFileAlone: another process would go on with the file that is replaced.
func TestUpgrade_NeedsTheFileAlone(t *testing.T) {
	t.Parallel()
	path := filledFile(t)
	other := openStore(t, Options{Path: path, Normal: true})
	_, err := start(path, next.Migrations(next.Step))
	if err == nil || !strings.Contains(err.Error(), "another process has the database open") {
		t.Errorf("beside another process: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if u, err := start(path, next.Migrations(next.Step)); err != nil || u.to != next.Released+1 {
		t.Errorf("alone: %+v, %v", u, err)
	}
}

// TestUpgrade_RejectsTheFile: an older program in any case, and one beside a server also with an older file.
func TestUpgrade_RejectsTheFile(t *testing.T) {
	t.Parallel()
	path, newer, from := filledFile(t), filledFile(t), next.Released
	if _, err := start(newer, next.Migrations(next.Step)); err != nil {
		t.Fatal(err)
	}
	tooNew := fmt.Sprintf("schema %d, this program knows %d", from+1, from)
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"an older program", Options{Path: newer}, tooNew},
		{"an older program, beside", Options{Path: newer, Beside: true}, tooNew},
		{
			"a newer program, beside", Options{Path: path, Migrations: next.Migrations(next.Step), Beside: true},
			fmt.Sprintf("schema %d, this program knows %d): start callbook serve", from, from+1),
		},
	} {
		before, err := os.ReadFile(tt.o.Path)
		if err != nil {
			t.Fatal(err)
		}
		tt.o.Normal = true
		_, err = Open(context.Background(), tt.o)
		if err == nil || errors.Is(err, sqlitedb.ErrNewerSchema) != (tt.want == tooNew) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if after, err := os.ReadFile(tt.o.Path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed: %v", tt.name, err)
		}
	}
}

func TestUpgrade_ErasesDroppedData(t *testing.T) {
	t.Parallel()
	path := filledFile(t)
	const secret = "canary@agents.example.org"
	steps := []string{`CREATE TABLE dropped (mailbox TEXT NOT NULL) STRICT; INSERT INTO dropped VALUES ('` + secret + `');`}
	for _, want := range []bool{true, false} {
		if _, err := start(path, next.Migrations(steps...)); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil || bytes.Contains(file, []byte(secret)) != want {
			t.Errorf("the file holds it: %v, want %v; %v", !want, want, err)
		}
		steps = append(steps, `DROP TABLE dropped;`)
	}
}

// widen is a migration that writes about 2 kB for each row. To undo its UPDATE, SQLite
// would keep a temporary file.
func widen(rows int) string {
	return fmt.Sprintf(`
CREATE TABLE wide (n INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO wide (n, word)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
    SELECT i, (1000 + i) || hex(zeroblob(300)) FROM n;
CREATE INDEX wide_word ON wide (word DESC);
UPDATE wide SET word = 'x' || word;
`, rows)
}

// TestUpgrade_ChildProcess is no test: it is the program that TestUpgrade_NeedsNoTemporaryFolder starts.
func TestUpgrade_ChildProcess(t *testing.T) {
	if path := os.Getenv("CALLBOOK_TEST_FILE"); path != "" {
		if _, err := start(path, next.Migrations(next.Step, widen(300))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgrade_NeedsNoTemporaryFolder: with one of another size than the disk's, or
// none at all, an upgrade does not fail for it. SQLite finds other folders, so its calls are traced.
func TestUpgrade_NeedsNoTemporaryFolder(t *testing.T) {
	proof.OneByOne(t)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skipf("needs strace: %v", err)
	}
	path, trace, none := filledFile(t), filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "none")
	cmd := exec.Command("strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=?open,openat", os.Args[0], "-test.run=^TestUpgrade_ChildProcess$")
	cmd.Env = append(os.Environ(), "CALLBOOK_TEST_FILE="+path, "TMPDIR="+none, "SQLITE_TMPDIR="+none, "TEMP="+none, "TMP="+none)
	out, err := cmd.CombinedOutput()
	text, errTrace := os.ReadFile(trace)
	if errTrace != nil || len(text) == 0 {
		t.Skipf("needs strace, and that it may trace: %v: %s", err, out)
	}
	if err != nil || version(t, path) != next.Released+2 {
		t.Fatalf("%v: %s", err, out)
	}
	for call := range strings.Lines(string(text)) {
		if strings.Contains(call, "O_RDWR") && !strings.Contains(call, filepath.Dir(path)) {
			t.Errorf("it opened a file elsewhere: %s", call)
		}
	}
}

// smallDisk mounts one of so many bytes.
func smallDisk(t testing.TB, size string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", folder).CombinedOutput(); err != nil {
		t.Skipf("needs root, to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return folder
}

func TestUpgrade_FullDiskRollsItBack(t *testing.T) {
	older, err := os.ReadFile(filledFile(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := smallDisk(t, fmt.Sprint(len(older)*3))
	path := filepath.Join(folder, "callbook.db")
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, path)
	for _, tt := range []struct {
		times int // the size of the disk in that of the file
		want  string
	}{{3, "too little room on the disk"}, {4, "disk is full"}} {
		resize(t, folder, len(older)*tt.times)
		_, err := start(path, next.Migrations(next.Step, widen(4000)))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("a disk of %d times its size: %v", tt.times, err)
		}
		wantState(t, tt.want, before, path)
		if u, err := start(path, nil); err != nil || u.to != before.Version {
			t.Errorf("%s, the earlier program: %+v, %v", tt.want, u, err)
		}
	}

	resize(t, folder, 32<<20)
	if u, err := start(path, next.Migrations(next.Step, widen(2000))); err != nil || u.to != before.Version+2 {
		t.Errorf("once there is room: %+v, %v", u, err)
	}
}

// resize changes the size of a small disk.
func resize(t testing.TB, folder string, bytes int) {
	t.Helper()
	if out, err := exec.Command("mount", "-o", fmt.Sprint("remount,size=", bytes), folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
