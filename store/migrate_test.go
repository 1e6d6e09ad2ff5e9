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
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"callbook/store/backup"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
)

// olderFile is the path of a copy of a released database, with the schema that this
// program's own migrations end with: an older file, once steps gives it more of them.
func olderFile(t testing.TB) string {
	t.Helper()
	path := released(t, "schema-1.db")
	s := openStore(t, Options{Path: path, Normal: true, NoBackup: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// steps are the program's own migrations, with more behind them.
func steps(t testing.TB, more ...string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	migrations(t, func(file string, lines []string) {
		files[filepath.Base(file)] = &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))}
	})
	for i, text := range more {
		files[fmt.Sprintf("%05d_step.sql", newest(t)+int64(i)+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + text)}
	}
	return files
}

func newest(t testing.TB) int64 {
	t.Helper()
	version := int64(0)
	migrations(t, func(file string, _ []string) {
		n, err := strconv.ParseInt(filepath.Base(file)[:5], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		version = max(version, n)
	})
	return version
}

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

// draftsOf returns the unfinished files of an upgrade: the copy that is kept and the one that is
// migrated, and what SQLite keeps beside them.
func draftsOf(path string) []string {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	return []string{draft + ".pre-migrate", draft + ".migrating", draft + ".pre-migrate-journal", draft + ".migrating-journal"}
}

// start is the whole start of a program with these migrations.
func start(path string, migrations fs.FS, set ...func(*Options)) (u upgrade, err error) {
	o := Options{Path: path, migrations: migrations, Normal: true}
	for _, f := range set {
		f(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		return u, err
	}
	u.from, u.to, u.kept = s.Upgraded()
	return u, s.Close()
}

func withoutCopy(o *Options) { o.NoBackup = true }

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

// addNotes is a migration in the ways that they mostly are: a table, a column, rows.
const addNotes = `
CREATE TABLE notes (
    agent_id INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- whose
    note     TEXT NOT NULL -- text; with a semicolon
) STRICT;
INSERT INTO notes (agent_id, note) SELECT id, name || '; noted' FROM agents;
ALTER TABLE agents ADD COLUMN noted_at INTEGER; -- or NULL
UPDATE agents SET noted_at = created_at WHERE id IN (SELECT agent_id FROM notes);
-- +goose StatementBegin
CREATE TRIGGER notes_gone AFTER DELETE ON notes BEGIN
    UPDATE agents SET noted_at = NULL WHERE id = old.agent_id;
    DELETE FROM notes WHERE note = ';';
END;
-- +goose StatementEnd
CREATE INDEX notes_note ON notes (note);
`

func TestUpgrade_LeavesAVerifiedCopy(t *testing.T) {
	path, from := olderFile(t), newest(t)
	before := stateOf(t, path)
	kept := fmt.Sprintf("%s.pre-migrate-%d-%d.db", path, from, from+2)
	for _, name := range append(draftsOf(path), kept) {
		if err := os.WriteFile(name, []byte("of a program that was killed"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := steps(t, addNotes, `DROP TABLE blocklist;`+"\n"+`CREATE TABLE blocklist (kind TEXT NOT NULL, entry TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (kind, entry)) STRICT;`)
	got, err := start(path, files)
	if want := (upgrade{from, from + 2, kept}); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	wantState(t, "the copy", before, kept)
	if _, err := backup.Verify(context.Background(), kept, false); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, draft := range draftsOf(path) {
		if !missing(draft) {
			t.Errorf("%s stays", draft)
		}
	}
	visited(t, path, func(db *sqlx.DB) {
		n := selected(t, db, `SELECT COUNT(*) FROM notes JOIN agents ON id = agent_id WHERE note = name || '; noted' AND noted_at = created_at`)
		if held := stateOf(t, kept).Contents["agents"]; !strings.HasPrefix(held, n[0]+" rows") {
			t.Errorf("%s agents are noted, of %s", n, held)
		}
	})
	got, err = start(path, files)
	if want := (upgrade{from + 2, from + 2, ""}); err != nil || got != want {
		t.Errorf("at the second start %+v, %v, want %+v", got, err, want)
	}
}

// TestUpgrade_BadCopyStopsIt: the copy of a try before stays until there is a whole one.
func TestUpgrade_BadCopyStopsIt(t *testing.T) {
	path := olderFile(t)
	visited(t, path, func(db *sqlx.DB) {
		if _, err := db.Exec(`DELETE FROM agents WHERE id = 1`); err != nil {
			t.Fatal(err)
		}
	})
	before, kept := stateOf(t, path), fmt.Sprintf("%s.pre-migrate-%d-%d.db", path, newest(t), newest(t)+1)
	if err := os.WriteFile(kept, []byte("of a try before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(path, steps(t, addNotes)); !errors.Is(err, sqlitedb.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	wantState(t, "the file", before, path)
	if text, err := os.ReadFile(kept); string(text) != "of a try before" || !missing(draftsOf(path)[0]) {
		t.Errorf("the copy before holds %.20q, %v; the draft is gone: %v", text, err, missing(draftsOf(path)[0]))
	}
}

// TestUpgrade_NeedsDiskSpace makes the file look as big as the free room, of which it takes
// none.
func TestUpgrade_NeedsDiskSpace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a file system with sparse files: a file as big as the free room is made")
	}
	path := olderFile(t)
	disk, err := sqlitedb.DiskOf(path)
	if err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, path)
	if err := os.Truncate(path, disk.Free); err != nil {
		t.Skipf("needs a file system with sparse files: %v", err)
	}
	head := fileHead(t, path)
	_, err = start(path, steps(t, addNotes))
	if !errors.Is(err, sqlitedb.ErrNoRoom) {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); !strings.Contains(text, fmt.Sprintf("%d MiB are needed", disk.Free/10*32>>20+1)) || !strings.Contains(text, "--no-backup") {
		t.Error(text)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != disk.Free || !bytes.Equal(head, fileHead(t, path)) {
		t.Errorf("the file was touched: %v, %v", info.Size(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) > 1 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := start(path, steps(t, addNotes), withoutCopy); err != nil {
		t.Error(err)
	}
	if got := contents(t, path)["events"]; got != before.Contents["events"] {
		t.Errorf("the events were %s and are %s", before.Contents["events"], got)
	}
}

func fileHead(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 1<<20)
	if _, err := f.Read(head); err != nil {
		t.Fatal(err)
	}
	return head
}

func TestUpgrade_IsAllOrNothing(t *testing.T) {
	proof.OneByOne(t)
	const endless = `
INSERT INTO blocklist (kind, entry, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT 'word', 'endless-' || i, 1 FROM n;`
	for name, step := range map[string]struct {
		sql  string
		stop time.Duration // when the start is called off
		want string
	}{
		"orphans":           {`DELETE FROM agents;`, time.Hour, "refer to rows of"},
		"a step that fails": {`DROP TABLE posts; SELECT raise_nosuch;`, time.Hour, fmt.Sprintf("%05d_step.sql: ", newest(t)+2)},
		"a stop meanwhile":  {endless, 200 * time.Millisecond, "context deadline exceeded"},
	} {
		path := olderFile(t)
		before := stateOf(t, path)
		ctx, cancel := context.WithTimeout(context.Background(), step.stop)
		_, err := Open(ctx, Options{Path: path, Normal: true, NoBackup: true, migrations: steps(t, addNotes, step.sql)})
		cancel()
		if err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v", name, err)
		}
		wantState(t, name, before, path)
		if u, err := start(path, nil); err != nil || u.to != newest(t) {
			t.Errorf("%s: the earlier program: %+v, %v", name, u, err)
		}
	}
}

// TestUpgrade_ReleasedDatabases: the tables whose definition stays keep their rows, no
// number is given twice, and the schema is that of a new file.
func TestUpgrade_ReleasedDatabases(t *testing.T) {
	fresh := newStore(t)
	proof.OneByOne(t)
	format := value[string](fresh, `SELECT CAST(value AS TEXT) FROM site WHERE name = 'document_format'`)
	fresh.stop()
	want := schemaOf(t, fresh.path)
	for _, name := range releasedDatabases(t) {
		path := released(t, name)
		earlier, before, given := schemaOf(t, path), contents(t, path), numbersGiven(t, path)
		told, remade := int64(0), false
		visited(t, path, func(db *sqlx.DB) {
			remade = selected(t, db, `SELECT CAST(value AS TEXT) FROM site WHERE name = 'document_format'`)[0] != format
		})
		if u, err := start(path, nil, func(o *Options) { o.Rebuilding = func(_, agents int64) { told += agents } }); err != nil || u.to != newest(t) || (told >= 3) != remade {
			t.Errorf("%s: %+v, %v; told of %d agents", name, u, err, told)
		}
		if diff := cmp.Diff(want, schemaOf(t, path)); diff != "" {
			t.Errorf("%s: the schema (-new file +upgraded):\n%s", name, diff)
		}
		for table, after := range contents(t, path) {
			// A program that makes search rows, or folds words, in another way makes all of
			// them anew.
			ours := slices.Contains([]string{"site", "search_dropped", "agent_documents", "blocked_words", "blocklist", "sqlite_sequence", "goose_db_version"}, table) || strings.Contains(table, "_search_")
			if before[table] != after && !ours && want["table "+table] == earlier["table "+table] {
				t.Errorf("%s: %s held %s and holds %s", name, table, before[table], after)
			}
		}
		for table, n := range numbersGiven(t, path) {
			if n < given[table] {
				t.Errorf("%s: %s gave the number %d, and goes on from %d", name, table, given[table], n)
			}
		}
		added := slices.DeleteFunc(slices.Collect(maps.Keys(contents(t, path))), func(table string) bool { _, old := before[table]; return old })
		checkFilled(t, path, append(added, "mail_log.notice_of")...) // a column since schema 7
		checkUsable(t, path)
	}
	proof.Figure(t, "databases", len(releasedMigrations))
}

// numbersGiven is the highest number that each table gave out, also to rows that are gone.
func numbersGiven(t testing.TB, path string) map[string]int64 {
	t.Helper()
	given := map[string]int64{}
	visited(t, path, func(db *sqlx.DB) {
		for _, table := range selected(t, db, `SELECT name || ' ' || seq FROM sqlite_sequence`) {
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

// checkUsable serves an upgraded database and holds its derived data against data
// made anew.
func checkUsable(t testing.TB, path string) {
	t.Helper()
	clock := &testClock{now: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)}
	s := &testStore{TB: t, clock: clock, path: path}
	s.Store = openStore(t, Options{Path: path, Clock: clock.Now, Quotas: domain.Quotas{}, Normal: true})
	defer s.stop()
	s.checkDerived("an upgrade")
	list, err := s.Posts(context.Background(), document.PostFilter{Query: "潮汐"}, listing.Page{Limit: 10})
	if err != nil || len(list.Items) == 0 {
		t.Errorf("found %d calls, %v", len(list.Items), err)
	}
	newcomer, _ := s.register("newcomer")
	s.post(newcomer)
	s.checkDerived("a write")
}

// TestUpgrade_RejectsTheFile: an older program in any case, and one beside a server also with an older file.
func TestUpgrade_RejectsTheFile(t *testing.T) {
	path, from := olderFile(t), newest(t)
	newer := olderFile(t)
	if _, err := start(newer, steps(t, addNotes), withoutCopy); err != nil {
		t.Fatal(err)
	}
	beside := func(o *Options) { o.Beside = true }
	tooNew := fmt.Sprintf("schema %d, this program knows %d", from+1, from)
	for _, tt := range []struct {
		name, path string
		migrations fs.FS
		set        func(*Options)
		want       string
	}{
		{"an older program", newer, nil, func(*Options) {}, tooNew},
		{"an older program, beside", newer, nil, beside, tooNew},
		{"a newer program, beside", path, steps(t, addNotes), beside, fmt.Sprintf("schema %d, this program knows %d): start callbook serve", from, from+1)},
	} {
		before, err := os.ReadFile(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = start(tt.path, tt.migrations, tt.set)
		if err == nil || errors.Is(err, sqlitedb.ErrNewerSchema) != (tt.want == tooNew) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if after, err := os.ReadFile(tt.path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed: %v", tt.name, err)
		}
	}
}

func TestUpgrade_ErasesDroppedData(t *testing.T) {
	path := olderFile(t)
	const secret = "canary@agents.example.org"
	if _, err := start(path, steps(t, `CREATE TABLE dropped (mailbox TEXT NOT NULL) STRICT; INSERT INTO dropped VALUES ('`+secret+`');`), withoutCopy); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		file, err := os.ReadFile(path)
		if err != nil || bytes.Contains(file, []byte(secret)) != want {
			t.Errorf("the file holds it: %v, want %v; %v", !want, want, err)
		}
		if _, err := start(path, steps(t, `SELECT 1;`, `DROP TABLE dropped;`), withoutCopy); err != nil {
			t.Fatal(err)
		}
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
		if _, err := start(path, steps(t, addNotes, widen(300))); err != nil {
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
	path, trace, none := olderFile(t), filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "none")
	cmd := exec.Command("strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=?open,openat", os.Args[0], "-test.run=^TestUpgrade_ChildProcess$")
	cmd.Env = append(os.Environ(), "CALLBOOK_TEST_FILE="+path, "TMPDIR="+none, "SQLITE_TMPDIR="+none, "TEMP="+none, "TMP="+none)
	out, err := cmd.CombinedOutput()
	text, errTrace := os.ReadFile(trace)
	if errTrace != nil || len(text) == 0 {
		t.Skipf("needs strace, and that it may trace: %v: %s", err, out)
	}
	if err != nil || version(t, path) != newest(t)+2 {
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
	older, err := os.ReadFile(olderFile(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := smallDisk(t, "3M")
	path := filepath.Join(folder, "callbook.db")
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, path)
	for name, set := range map[string]func(*Options){"with a copy": func(*Options) {}, "without": withoutCopy} {
		_, err := start(path, steps(t, addNotes, widen(4000)), set)
		if err == nil || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
		wantState(t, name, before, path)
		if u, err := start(path, nil); err != nil || u.to != before.Version {
			t.Errorf("%s, the earlier program: %+v, %v", name, u, err)
		}
	}
	if out, err := exec.Command("mount", "-o", "remount,size=32M", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if u, err := start(path, steps(t, addNotes, widen(2000))); err != nil || u.to != before.Version+2 {
		t.Errorf("once there is room: %+v, %v", u, err)
	}
}
