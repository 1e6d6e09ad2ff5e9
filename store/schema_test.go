package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
)

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

// TestSchema_FillFillsEveryTable looks for three rows in every table, and by every foreign key, of the
// directory that tests use as a full one.
func TestSchema_FillFillsEveryTable(t *testing.T) {
	visited(t, filledFile(t), func(db *sqlx.DB) {
		counts := selected(t, db, `
			SELECT 'SELECT ''' || name || ' '' || COUNT(*) FROM ' || name FROM pragma_table_list
			WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'
			UNION ALL
			SELECT 'SELECT ''' || m.name || '.' || f."from" || ' '' || COUNT(' || f."from" || ') FROM ' || m.name
			FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`)
		if len(counts) < 40 {
			t.Fatalf("only %d tables and foreign keys found", len(counts))
		}

		for _, count := range selected(t, db, strings.Join(counts, " UNION ALL ")) {
			name, n, _ := strings.Cut(count, " ")
			if len(n) == 1 && n < "3" {
				t.Errorf("%s has %s rows", name, n)
			}
		}
	})
}

// filledFile returns the path of a copy of a filled directory that is not served.
func filledFile(t testing.TB) string {
	t.Helper()
	fillOnce.Do(func() {
		s := newStore(t, func(o *Options) { o.Mails = &domain.MailCaps{Network: domain.DefaultMailCaps.Network} })
		s.fill()
		s.stop()
		file, err := os.ReadFile(s.path)
		s.ok(err)
		filledBytes = file
	})

	path := filepath.Join(t.TempDir(), "callbook.db")
	if err := os.WriteFile(path, filledBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	fillOnce    sync.Once
	filledBytes []byte
)

// fill makes a directory with at least three rows in every table, also by every
// foreign key, where the newest of those that are never numbered again are deleted.
func (s *testStore) fill() {
	s.Helper()
	ctx := context.Background()
	s.ok(s.DropUnverified(ctx, true)) // which notes since when mails are sent
	crowd := s.reachableAgents("crowd", 3)
	for i, c := range crowd {
		next, other := crowd[(i+1)%3], s.reachable(fmt.Sprintf("other-%d", i))
		s.fillProfile(c)
		s.claimBy(c, fmt.Sprintf("owner-%d@people.example.org", i))
		post, _, err := s.CreatePost(ctx, c, domain.PostDraft{
			Kind: "seeking", Title: "潮汐 tides", Body: "Hourly levels of 'Skagen';\nfrom 2024.", Deadline: "2026-12-24", Tags: []string{"tide"},
		}, domain.NewIdempotencyKey("createPost", fmt.Sprintf("%s-%d", onceKey, i), ""))
		s.ok(err)
		s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{Reason: "Spam"}))
		s.reply(next, post, "Here they are 🌊")
		s.ok(errOf(s.ActOnRequest(ctx, next, s.sendRequest(c, next).ID, domain.ActAccept, "")))
		s.ok(errOf(s.ActOnRequest(ctx, c, s.sendRequest(other, c).ID, domain.ActReport, "")))
		s.sendRequest(c, other)
		s.decidedCollab(c, next, "confirmed")
		s.recordCollab(next, other)
		s.addCheckedLink(c, harbourPage, foundIt)
		s.setWake(c)
		s.execSQL(`INSERT INTO blocklist (kind, entry, created_at) VALUES ('word', ?, 1)`, fmt.Sprintf("word-%d", i))
		s.ok(errOf(s.CreatePageLink(ctx)))
		s.ok(errOf3(s.CreateInvite(ctx, 3, s.Now().Add(domain.Day))))
		s.ok(errOf(s.ReplaceWatches(ctx, c, domain.WatchDrafts{Watches: []domain.WatchDraft{{Q: "tides 港口", Language: "zh"}}})))
		s.execSQL(`INSERT INTO network_usage (network, act, number, at) VALUES (zeroblob(32), 'post', ?1, ?1)`, i)
		s.execSQL(`INSERT INTO abuse_days (day, requests) VALUES (?, 1)`, i)
	}
	s.registerAndDelete(crowd[0])
	for i := range 3 {
		s.update(s.verified(fmt.Sprintf("moved-%d", i)), func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	}
	for i := range 3 { // whose mails are still on their way
		c, _ := s.register(fmt.Sprintf("fresh-%d", i))
		s.ok(s.mailRequests()["verify"](fromAddress(c, fmt.Sprintf("192.0.2.%d", i))))
		s.execSQL(`INSERT INTO mail_stops (mailbox_hash, created_at) VALUES (?, 1)`, domain.HashKey(c.Handle))
	}
}

// fillProfile has an agent say all that it can of itself.
func (s *testStore) fillProfile(c domain.Caller) {
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

// registerAndDelete has an agent come, deal with another and go.
func (s *testStore) registerAndDelete(other domain.Caller) {
	s.Helper()
	c := s.reachable("leaving")
	s.reply(other, s.post(c), "Pity")
	s.decidedCollab(other, c, "confirmed")
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
