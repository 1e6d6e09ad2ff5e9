package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"callbook/schema"
	"callbook/store/backup"
	"callbook/store/domain"
)

// migrations calls f with the lines of each migration.
func migrations(t testing.TB, f func(file string, lines []string)) {
	t.Helper()
	files, err := fs.Glob(schema.Migrations, "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("migrations: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(schema.Migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		f(file, strings.Split(string(text), "\n"))
	}
}

var (
	forbidden    = regexp.MustCompile(`(?i)NO TRANSACTION|\b(PRAGMA|VACUUM|ATTACH|BEGIN|COMMIT)\b`)
	columnOfSQL  = regexp.MustCompile(`^\s+([a-z_]+)(\s+(TEXT|INTEGER|BLOB|REAL|ANY)\b|,?\s+--)`)
	commentOfSQL = regexp.MustCompile(`--\s*\S`)
)

func TestMigrations_KeepTheRules(t *testing.T) {
	migrations(t, func(file string, lines []string) {
		// All of the text is run, so what goose would take for the way back would run too.
		if text := strings.Join(lines, "\n"); strings.TrimSpace(lines[0]) != "-- +goose Up" || strings.Count(text, "+goose") > 1 {
			t.Errorf("%s: it begins with the line -- +goose Up, and holds no other of goose's words", file)
		}
		table := ""
		for i, line := range lines {
			where := fmt.Sprintf("%s:%d", file, i+1)
			sql, _, _ := strings.Cut(line, "--")
			if forbidden.MatchString(sql) || strings.Contains(strings.ToUpper(line), "NO TRANSACTION") {
				t.Errorf("%s: a migration runs inside one transaction: %s", where, line)
			}
			switch {
			case strings.HasPrefix(sql, "CREATE"):
				table = sql
			case strings.HasPrefix(sql, ")"):
				if strings.HasPrefix(table, "CREATE TABLE") && strings.TrimSpace(sql) != ") STRICT;" {
					t.Errorf("%s: %s is not STRICT", where, table)
				}
				table = ""
			case table != "" && columnOfSQL.MatchString(line) && !commentOfSQL.MatchString(line):
				t.Errorf("%s: the column has no comment: %s", where, strings.TrimSpace(line))
			}
		}
	})
}

// foreignKey is one REFERENCES of the schema.
type foreignKey struct {
	Table  string `db:"table_name"`
	Column string `db:"column_name"`
	Target string `db:"target"`
}

func (s *testStore) foreignKeys() []foreignKey {
	s.Helper()
	var keys []foreignKey
	s.ok(s.db.Select(context.Background(), &keys, ofTest+`
		SELECT m.name AS table_name, f."from" AS column_name, f."table" AS target
		FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table'
		ORDER BY 1, 2`))
	return keys
}

// Deleting a row looks for all that refers to it: without an index that is a
// walk through the whole table.
func TestSchema_EveryForeignKeyHasAnIndex(t *testing.T) {
	s := newStore(t)
	keys := s.foreignKeys()
	if len(keys) < 15 {
		t.Fatalf("only %d foreign keys found", len(keys))
	}
	for _, k := range keys {
		n := value[int](s, `
			SELECT (SELECT COUNT(*) FROM pragma_index_list(?1) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND i.name = ?2)
				+ (SELECT COUNT(*) FROM pragma_table_info(?1) WHERE name = ?2 AND pk = 1)`, k.Table, k.Column)
		if n == 0 {
			t.Errorf("%s.%s has no index", k.Table, k.Column)
		}
	}
}

func TestSchema_NewFileIsSound(t *testing.T) {
	s := newStore(t)
	s.register("harbour-pilot")
	if got := value[string](s, `PRAGMA integrity_check`); got != "ok" {
		t.Error(got)
	}
	var broken []string
	s.ok(s.db.Select(context.Background(), &broken, ofTest+`SELECT "table" FROM pragma_foreign_key_check`))
	if len(broken) > 0 {
		t.Errorf("broken references in %v", broken)
	}
	// The search tables' own tables are SQLite's.
	loose := value[string](s, `
		SELECT COALESCE(group_concat(name, ' '), '') FROM pragma_table_list
		WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'`)
	if loose != "" {
		t.Errorf("not STRICT: %s", loose)
	}
}

// releasedMigrations are the checksums of the migrations that databases out there
// have run. Such a file is never edited: what it should have done is the next one's.
var releasedMigrations = map[string]string{
	"00001_directory.sql":   "c50b8e5599bd112474d7013d766a19968e20436369ea0d8111567464cb74d978",
	"00002_search.sql":      "28d8874b1e4b4af7f26e7099d38c191373ca9f0e5c28a6b3215cd59214edb766",
	"00003_completions.sql": "7b5ed32a786d5265a250590db7606efe708b313482d29602f0173c8c2fd79547",
	"00004_lists.sql":       "74567aa2ffb231a5c961aeb742fdbe7418cc6da92cbe52b2d30fb5f315d804f0",
	"00005_search.sql":      "47246361c5190877d27fbfa7de2159097e90344c774c5f752ee67b3ef8aa91b1",
	"00006_abuse.sql":       "77fd80933c9e1c24299787ce2f156b025d43e19139553ac80a28174965d68f19",
	"00007_hardening.sql":   "1774cf85f9bc8e18deb07d1ed2178a985d1dc9d582c514471f3c10561389ce9e",
	"00008_agents.sql":      "17b4477fde14a4b2677fb37ac8a61797f2c43092f3f4305cf6fdf1947c6ce031",
}

func TestMigrations_ReleasedFilesAreUnchanged(t *testing.T) {
	n := 0
	migrations(t, func(file string, lines []string) {
		n++
		// Git may give a checkout on Windows other ends of lines.
		text := strings.ReplaceAll(strings.Join(lines, "\n"), "\r\n", "\n")
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		if want := releasedMigrations[path.Base(file)]; want != "" && sum != want {
			t.Errorf("%s was released and is changed: its checksum is %s, not %s", file, sum, want)
		}
	})
	if n-len(releasedMigrations) > 1 {
		t.Errorf("%d migrations, %d of them listed in releasedMigrations: add to the newest file if it has not reached the main branch, "+
			"or list its checksum and make its database with CALLBOOK_RELEASE=1 go test ./store -run NextReleasesDatabase", n, len(releasedMigrations))
	}
}

// releasedDatabases are the names of databases as released programs made them, one for each released migration.
func releasedDatabases(t testing.TB) (names []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("..", "testdata", "databases"))
	if err != nil || len(files) != len(releasedMigrations) {
		t.Fatalf("%d released databases, %v; want %d", len(files), err, len(releasedMigrations))
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

// released returns the path of a copy of such a database.
func released(t testing.TB, name string) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("..", "testdata", "databases", name))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "callbook.db")
	if err := os.WriteFile(copied, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// visited opens a database file as it is, for one act.
func visited(t testing.TB, path string, act func(*sqlx.DB)) {
	t.Helper()
	db := connectFile(t, path, "rw")
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	act(db)
}

// contents is what a database holds, by table: how many rows, and their checksum.
func contents(t testing.TB, path string) map[string]string {
	t.Helper()
	held := map[string]string{}
	visited(t, path, func(db *sqlx.DB) {
		// The rows of the search tables are in tables of their own.
		for _, table := range selected(t, db, `
			SELECT name FROM pragma_table_list
			WHERE schema = 'main' AND type IN ('table', 'shadow') AND name <> 'sqlite_schema'`) {
			row := selected(t, db, `SELECT group_concat('quote("' || name || '")', ' || '','' || ') FROM pragma_table_info(?)`, table)[0]
			rows := selected(t, db, `SELECT `+row+` FROM "`+table+`" ORDER BY 1`)
			if table == "sqlite_sequence" { // each migration has a number in goose's own table
				rows = slices.DeleteFunc(rows, func(row string) bool { return strings.Contains(row, "goose_db_version") })
			}
			held[table] = fmt.Sprintf("%d rows, %x", len(rows), sha256.Sum256([]byte(strings.Join(rows, "\n"))))
		}
	})
	return held
}

func selected(t testing.TB, db *sqlx.DB, query string, args ...any) (texts []string) {
	t.Helper()
	if err := db.Select(&texts, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return texts
}

var (
	commentInSQL = regexp.MustCompile(`--[^\n]*`)
	sqlNoise     = strings.NewReplacer(`"`, "", " (", "(", "( ", "(", " )", ")", ", ", ",")
)

// schemaOf is the schema of a database, without what SQLite and people write in
// different ways.
func schemaOf(t testing.TB, path string) map[string]string {
	t.Helper()
	parts := map[string]string{}
	visited(t, path, func(db *sqlx.DB) {
		for _, part := range selected(t, db, `SELECT type || ' ' || name || char(10) || COALESCE(sql, '') FROM sqlite_schema`) {
			name, sql, _ := strings.Cut(part, "\n")
			parts[name] = sqlNoise.Replace(strings.Join(strings.Fields(commentInSQL.ReplaceAllString(sql, "")), " "))
		}
	})
	return parts
}

// checkFilled looks for three rows in every table, except those that may be empty, and by every
// foreign key.
func checkFilled(t testing.TB, path string, mayBeEmpty ...string) {
	t.Helper()
	visited(t, path, func(db *sqlx.DB) {
		counts := selected(t, db, `
			SELECT 'SELECT ''' || name || ' '' || COUNT(*) FROM ' || name FROM pragma_table_list
			WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'
				AND name NOT IN ('goose_db_version', 'search_dropped') -- an old table that kept nothing for long
			UNION ALL
			SELECT 'SELECT ''' || m.name || '.' || f."from" || ' '' || COUNT(' || f."from" || ') FROM ' || m.name
			FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`)
		if len(counts) < 40 {
			t.Fatalf("only %d tables and foreign keys found", len(counts))
		}
		for _, count := range selected(t, db, strings.Join(counts, " UNION ALL ")) {
			name, n, _ := strings.Cut(count, " ")
			table, _, _ := strings.Cut(name, ".")
			if len(n) == 1 && n < "3" && !slices.Contains(mayBeEmpty, table) && !slices.Contains(mayBeEmpty, name) {
				t.Errorf("%s: %s has %s rows", path, name, n)
			}
		}
	})
}

// TestMigrations_NextReleasesDatabase makes the database that stands for this program among
// the released ones. With CALLBOOK_RELEASE=1 it is put among them, before a release
// that has a new schema.
func TestMigrations_NextReleasesDatabase(t *testing.T) {
	s := newStore(t, func(o *Options) {
		o.Random, o.Mails = rand.NewChaCha8([32]byte{}), &domain.MailCaps{Network: domain.DefaultMailCaps.Network}
	})
	s.fill()
	s.change(nil, `UPDATE goose_db_version SET tstamp = '2026-11-20 09:30:00'`)
	s.stop()
	folder := t.TempDir()
	if os.Getenv("CALLBOOK_RELEASE") != "" {
		folder = filepath.Join("..", "testdata", "databases")
	}
	name := filepath.Join(folder, fmt.Sprintf("schema-%d.db", newest(t)))
	made, err := backup.Make(context.Background(), s.path, name)
	s.ok(err)
	if made.Bytes > 700_000 {
		t.Errorf("%s has %d bytes", name, made.Bytes)
	}
	checkFilled(t, name)
}

// fill makes a directory with at least three rows in every table, also by every
// foreign key, where the newest of those that are never numbered again are deleted.
func (s *testStore) fill() {
	s.Helper()
	ctx := context.Background()
	crowd := s.crowdOf("crowd", 3)
	for i, c := range crowd {
		next, other := crowd[(i+1)%3], s.reachable(fmt.Sprintf("other-%d", i))
		s.present(c)
		s.owned(c, fmt.Sprintf("owner-%d@people.example.org", i))
		post, _, err := s.CreatePost(ctx, c, domain.PostDraft{
			Kind: "seeking", Title: "潮汐 tides", Body: "Hourly levels of 'Skagen';\nfrom 2024.", Deadline: "2026-12-24", Tags: []string{"tide"},
		}, domain.NewIdempotencyKey("createPost", fmt.Sprintf("%s-%d", onceKey, i), ""))
		s.ok(err)
		s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{Reason: "Spam"}))
		s.reply(next, post, "Here they are 🌊")
		s.ok(errOf(s.AcceptRequest(ctx, next, s.ask(c, next).ID)))
		s.ok(errOf(s.ReportRequest(ctx, c, s.ask(other, c).ID, domain.ReportDraft{})))
		s.ask(c, other)
		s.settled(c, next, "confirmed")
		s.record(next, other)
		s.linked(c, harbourPage, foundIt)
		s.setWake(c)
		s.change(nil, `INSERT INTO blocklist (kind, entry, created_at) VALUES ('word', ?, 1)`, fmt.Sprintf("word-%d", i))
		s.ok(errOf(s.CreatePageLink(ctx)))
		s.ok(errOf3(s.CreateInvite(ctx, 3, s.Now().Add(domain.Day))))
		s.ok(errOf(s.ReplaceWatches(ctx, c, domain.WatchDrafts{Watches: []domain.WatchDraft{{Q: "tides 港口", Language: "zh"}}})))
		s.change(nil, `INSERT INTO network_usage (network, act, number, at) VALUES (zeroblob(32), 'post', ?1, ?1)`, i)
		s.change(nil, `INSERT INTO abuse_days (day, requests) VALUES (?, 1)`, i)
	}
	s.leave(crowd[0])
	for i := range 3 {
		s.update(s.verified(fmt.Sprintf("moved-%d", i)), func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	}
	for i := range 3 { // whose mails are still on their way
		c, _ := s.register(fmt.Sprintf("fresh-%d", i))
		s.ok(s.sends()["verify"](from(c, fmt.Sprintf("192.0.2.%d", i))))
		s.change(nil, `INSERT INTO mail_stops (mailbox_hash, created_at) VALUES (?, 1)`, domain.HashKey(c.Handle))
	}
}

// present has an agent say all that it can of itself.
func (s *testStore) present(c domain.Caller) {
	s.Helper()
	s.update(c, func(a *domain.Settings) {
		a.Tagline, a.DescriptionZH, a.Homepage, a.Model = `Berths & "tides"`, "为小港口安排泊位。", "https://harbour.example.org", "Model 1"
		a.Capabilities, a.Languages = []string{"tide tables", "泊位"}, []string{"en", "zh-CN"}
	})
	_, err := s.ReplaceOfferings(context.Background(), c, domain.Menu{Offerings: []domain.OfferingDraft{
		{Title: "Tide table", Deliverable: "A CSV", Mode: "free", TurnaroundDays: 2, Tags: []string{"tide"}},
		{Title: "泊位", Deliverable: "一张表", Mode: "quote", ForWhom: "Ports", NotDoing: "Pilotage"},
	}})
	s.ok(err)
}

// leave has an agent come, deal with another and go.
func (s *testStore) leave(other domain.Caller) {
	s.Helper()
	c := s.reachable("leaving")
	s.reply(other, s.post(c), "Pity")
	s.settled(other, c, "confirmed")
	s.ok(s.DeleteAgent(context.Background(), c))
}

// modernc.org/sqlite works with one version of modernc.org/libc only.
func TestSchema_VersionOfLibc(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.GoMod}} {{.Version}}", "modernc.org/sqlite", "modernc.org/libc").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 4 {
		t.Skipf("the go command does not say where modernc.org/sqlite is: %v: %s", err, out)
	}
	theirs, err := os.ReadFile(words[0])
	if ours := "modernc.org/libc " + words[3]; err != nil || !strings.Contains(string(theirs), ours+"\n") {
		t.Errorf("the program uses %s, and modernc.org/sqlite asks for another: %v", ours, err)
	}
}
