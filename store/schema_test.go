package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/schema"
	"callbook/store/backup"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/query"
)

// migrations calls f with the lines of each migration.
func migrations(t testing.TB, f func(file string, lines []string)) {
	t.Helper()
	files, err := fs.Glob(schema.Migrations, schema.Folder+"/*.sql")
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
	s.ok(s.db.Select(context.Background(), &keys, `
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
	s.ok(s.db.Select(context.Background(), &broken, `SELECT "table" FROM pragma_foreign_key_check`))
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
	ours := goMod(t, filepath.Join("..", "go.mod"))
	out, err := exec.Command("go", "list", "-m", "-f", "{{.GoMod}}", "modernc.org/sqlite").Output()
	if err != nil {
		t.Skipf("the go command does not say where modernc.org/sqlite is: %v", err)
	}
	theirs := goMod(t, strings.TrimSpace(string(out)))
	if ours["modernc.org/libc"] == "" || ours["modernc.org/libc"] != theirs["modernc.org/libc"] {
		t.Errorf("modernc.org/libc is %s, and modernc.org/sqlite asks for %s", ours["modernc.org/libc"], theirs["modernc.org/libc"])
	}
}

// goMod reads the versions that a go.mod asks for.
func goMod(t testing.TB, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(strings.TrimPrefix(line, "require ")); len(words) >= 2 {
			versions[words[0]] = words[1]
		}
	}
	return versions
}

// notInEverything are methods of Store without SQL of their own, and those that replace or
// close the database.
var notInEverything = strings.Fields("Alive Broken CopyState Disk Normal ForgotCrash Upgraded MarkDev SetDB Committed Clear Watch MailCaps Quotas CheckFile Compact")

// TestQueries_EverythingCallsEachOperation finds the exported methods of Store, its Reader and its Operator
// that everything does not call, directly or by other methods. Their SQL would go unexamined.
func TestQueries_EverythingCallsEachOperation(t *testing.T) {
	calls, operations := map[string][]string{}, []string{}
	var files []string
	for _, pattern := range []string{"*.go", "admin/*.go", "query/*.go"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			receiver, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			if name := fmt.Sprint(receiver.X); (name == "Store" || name == "Reader" || name == "Operator") && f.Name.IsExported() {
				operations = append(operations, f.Name.Name)
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if called, ok := n.(*ast.SelectorExpr); ok {
					calls[f.Name.Name] = append(calls[f.Name.Name], called.Sel.Name)
				}
				return true
			})
		}
	}
	called := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		for _, next := range calls[name] {
			if !called[next] {
				called[next] = true
				follow(next)
			}
		}
	}
	follow("everything")
	for _, name := range operations {
		if called[name] == slices.Contains(notInEverything, name) {
			t.Errorf("%s: either everything calls it, or notInEverything lists it", name)
		}
	}
}

// wakes wakes an agent in all ways: its request succeeds, is delayed, and fails for good.
func (s *testStore) wakes(c, other domain.Caller, post domain.PostDocument) {
	s.Helper()
	ctx := context.Background()
	s.ok(errOf3(s.SetWake(ctx, c, "https://harbour.example.org/")))
	s.ok(errOf(s.Wake(ctx, c)))
	for _, outcome := range []domain.WakeOutcome{domain.WakeDelivered, domain.WakeDelayed, domain.WakeFailed, domain.WakeFailed, domain.WakeFailed, domain.WakeFailed} {
		s.reply(other, post, "news")
		s.clock.Advance(3 * time.Hour)
		due, err := s.StartWakes(ctx, 1, false)
		s.ok(err)
		s.ok(s.FinishWake(ctx, due[0], outcome))
	}
	s.reply(other, post, "and seen")
	_, err := s.NextWakeAt(ctx)
	s.ok(errors.Join(err, s.RemoveWake(ctx, c)))
}

// everything calls each operation once, so that all SQL was prepared.
func (s *testStore) everything() {
	s.Helper()
	ctx := context.Background()
	yes, no := true, false
	caller, key := s.register("harbour-pilot")
	partner, partnerKey := s.register("lighthouse")
	s.ok(errOf(s.Authenticate(ctx, key)))
	s.ok(s.Verify(ctx, caller.Handle))
	s.claim(caller, 1)
	s.claim(partner, 2)
	s.collab("col_1", caller, partner)
	s.ok(errOf(s.ReplaceOfferings(ctx, caller, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "t", Deliverable: "d", Mode: "free"}}})))
	post, _, err := s.CreatePost(ctx, caller, domain.PostDraft{Kind: "seeking", Title: "t", Body: "b", Deadline: "2026-11-21"}, domain.NewIdempotencyKey("createPost", onceKey, ""))
	s.ok(err)
	s.ok(s.DeleteReply(ctx, caller, s.reply(partner, post, "b").ID))
	reply := s.reply(partner, post, "b")
	s.ok(errOf(s.Post(ctx, post.ID)))
	s.ok(errOf(s.Replies(ctx, post, listing.Page{Limit: 1})))
	s.ok(errOf(s.RepliesTo(ctx, caller, 0, listing.Page{Limit: 1})))
	for offset := range 2 { // past the end of a list its total alone is asked for
		page := listing.Page{Limit: 1, Offset: offset}
		for _, f := range []document.AgentFilter{
			{}, {Brief: true}, {New: true}, {Query: "pilot"}, {Query: "pilot", Brief: true},
			{Verified: &yes, MinLevel: 2, Language: "zh"}, {Verified: &no, Capability: "a", Query: "a b", New: true},
		} {
			s.ok(errOf(s.Agents(ctx, f, page)))
		}
		for _, f := range []document.PostFilter{{}, {Kind: "seeking"}, {Open: true}, {Query: "t", Kind: "seeking", Tag: "a", Author: "b"}, {Query: "t", Open: true}, {Query: "t", Newest: true}} {
			s.ok(errOf(s.Posts(ctx, f, page)))
		}
	}
	s.watches(partner, domain.WatchDraft{Kind: "seeking", Q: "b", Tag: "a", Language: "zh"})
	s.watches(partner, domain.WatchDraft{Kind: "seeking"}, domain.WatchDraft{Q: "b"})
	s.post(caller)
	s.ok(s.MatchPosts(ctx))
	s.ok(errOf(s.Card(ctx, caller.Handle)))
	s.ok(errOf(s.Me(ctx, caller)))
	box, err := s.Inbox(ctx, caller)
	s.ok(err)
	s.ok(s.MarkSeen(ctx, caller, box.Next))
	s.wakes(caller, partner, post)
	s.ok(errOf(s.Export(ctx, caller)))
	s.ok(errOf(s.Stats(ctx)))
	s.ok(errOf(s.Facets(ctx)))
	for _, kind := range []query.PageKind{query.AgentPages, query.PostPages} {
		s.ok(errOf(s.Pages(ctx, kind, 0, 100)))
		s.ok(errOf3(s.FirstPage(ctx, kind, 0)))
	}
	s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}))
	s.ok(s.ReportReply(ctx, reply.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}))
	s.ok(s.ReportAgent(ctx, caller.Handle, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}))
	_, err = s.UpdateAgent(ctx, caller, func(set *domain.Settings) error {
		set.Mailbox, set.Name = "other@agents.example.org", "Other"
		return nil
	})
	s.ok(err)
	s.clock.Advance(10 * domain.Day)
	s.ok(errOf(s.Authenticate(ctx, partnerKey)))
	s.ok(errOf3(s.RotateKey(ctx, s.keyed(partnerKey))))
	s.mailsAndClaims()
	s.ok(errOf(s.ChangeBlocklist(ctx, "block-word", "slot machine")))
	s.ok(errOf(s.ChangeBlocklist(ctx, "block-host", "other.example.org")))
	s.ok(errOf(s.Blocklist(ctx)))
	s.ok(errOf(s.ChangeBlocklist(ctx, "unblock-word", "slot machine")))
	s.contacts()
	s.takeovers()
	s.ok(s.RunJobs(ctx))
	s.ok(errOf(s.Ready(ctx)))
	s.ok(s.DeletePost(ctx, caller, post.ID))
	s.ok(s.DeleteAgent(ctx, caller))
	s.moderation()
}

// moderation calls the operator's operations.
func (s *testStore) moderation() {
	s.Helper()
	ctx := context.Background()
	spammer, reader := s.reachable("spammer"), s.reachable("reader")
	first, second := s.post(spammer), s.post(spammer)
	s.reply(spammer, first, "b")
	reply := s.reply(spammer, second, "b")
	s.linked(spammer, harbourPage, foundIt)
	s.ok(errOf(s.Links(ctx, spammer.ID)))
	request := s.ask(reader, spammer)
	s.ok(errOf(s.DeclineRequest(ctx, spammer, request.ID, domain.DeclineDraft{})))
	s.ok(errOf(s.Request(ctx, reader, request.ID)))
	withdrawn := s.ask(spammer, reader)
	s.ok(errOf(s.WithdrawRequest(ctx, spammer, withdrawn.ID)))
	s.clock.Advance(30 * domain.Day)
	s.ok(errOf(s.ReportRequest(ctx, reader, s.ask(spammer, reader).ID, domain.ReportDraft{})))
	s.ok(s.Unblock(ctx, reader.Handle, spammer.Handle))
	s.ok(s.ReportPost(ctx, second.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}))
	for _, closed := range []bool{false, true} {
		reports, err := s.Reports(ctx, closed, 1)
		s.ok(err)
		if !closed {
			s.ok(s.CloseReport(ctx, reports[0].ID))
		}
	}
	s.ok(s.RemoveReply(ctx, reply.ID))
	s.ok(s.RemovePost(ctx, second.ID))
	s.ok(s.Suspend(ctx, spammer.Handle, "spam", time.Time{}))
	s.ok(s.Unsuspend(ctx, spammer.Handle))
	s.ok(errOf(s.ReplaceKey(ctx, spammer.Handle)))
	s.ok(errOf(s.ExportAgent(ctx, spammer.Handle)))
	s.ok(s.RemoveAgent(ctx, spammer.Handle))
	for _, order := range []domain.AgentOrder{"", domain.MostReported, domain.ByNetwork} {
		s.ok(errOf(s.AgentRecords(ctx, domain.AgentRecordFilter{Query: "a", Reported: true, Order: order}, 1)))
	}
	link, err := s.CreatePageLink(ctx)
	s.ok(errors.Join(err, s.CheckPageLink(ctx, link)))
	s.ok(s.AddAbuse(ctx, 1))
	for kind := range domain.CountedAbuse + 1 {
		s.ok(errOf3(s.CountByDay(ctx, kind, 30)))
	}
	s.invitesAndApprovals()
	s.ok(errOf(s.Acts(ctx, 1)))
	s.ok(errOf(s.NextMailAt(ctx)))
	s.ok(errOf(s.Figures(ctx)))
	s.ok(errOf3(s.Home(ctx, 1, 1)))
	s.RecordUntrustedProxy()
	s.ok(s.DropUnverified(ctx, true))
	s.clock.Advance(domain.UnverifiedRetention)
	s.ok(s.DropUnverified(ctx, true))
}

// invitesAndApprovals is the part of everything about modes of registration.
func (s *testStore) invitesAndApprovals() {
	s.Helper()
	ctx := context.Background()
	before := s.registration
	defer func() { s.registration = before }()
	s.registration = domain.RegistrationApprove
	waiting, _ := s.register("waiting")
	s.ok(errOf(s.Me(ctx, waiting)))
	s.ok(s.Approve(ctx, waiting.Handle))
	s.register("rejected")
	s.ok(s.Reject(ctx, "rejected"))
	s.ok(errOf(s.ActOnAgents(ctx, domain.BulkAct{Act: domain.OperatorSuspend, Handles: []string{waiting.Handle}})))
	secret, invite, err := s.CreateInvite(ctx, 1, s.Now().Add(domain.Day))
	s.ok(err)
	s.registration = domain.RegistrationInvite
	s.register("invited", func(r *domain.Registration) { r.Invite, r.From = secret, netip.MustParseAddr("192.0.2.1") })
	s.ok(errOf(s.Invites(ctx)))
	s.ok(s.RevokeInvite(ctx, invite.ID))
}

// mailsAndClaims is the part of everything that mails go out for.
func (s *testStore) mailsAndClaims() {
	s.Helper()
	ctx := context.Background()
	fresh, _ := s.register("fresh")
	s.ok(s.confirm(fresh, s.code(fresh)))
	s.clock.Advance(time.Hour)
	key, err := s.recover(fresh, s.recoveryCode(fresh))
	s.ok(err)
	fresh = s.keyed(key)
	s.clock.Advance(time.Hour)
	s.pressed(s.invite(fresh, ada), domain.OwnerReject)
	s.clock.Advance(time.Hour)
	token := s.owned(fresh, mei)
	s.update(fresh, func(a *domain.Settings) {
		a.ContactPolicy.RequireOwnerReceipt, a.ContactPolicy.RequireOffering = true, false
	})
	for i, act := range []domain.OwnerAction{domain.OwnerAgree, domain.OwnerRefuse} {
		r := s.ask(s.reachable(fmt.Sprintf("asker-%d", i)), fresh)
		s.ok(errOf(s.AcceptRequest(ctx, fresh, r.ID)))
		s.pressed(token, act, about(r.ID))
	}
	s.link(fresh, harbourPage)
	s.look(fresh, harbourPage, foundIt, true)
	s.look(fresh, harbourPage, tooSlow, true)
	s.look(fresh, harbourPage, notThere, true)
	s.link(fresh, codePage)
	s.clock.Advance(2 * domain.Day)
	s.due(1)
	s.ok(errOf(s.RemoveLink(ctx, fresh, codePage)))
	for _, outcome := range []domain.MailOutcome{domain.MailDelayed, domain.MailUncertain} {
		s.clock.Advance(domain.Day)
		s.ok(s.sends()["claim mei"](fresh))
		mail, _ := s.begin()
		s.ok(s.FinishMail(ctx, mail, outcome))
		s.ok(s.StopMails(ctx, mail.Stop, true))
		s.ok(s.StopMails(ctx, mail.Stop, false))
		s.ok(errOf(s.MailsStopped(ctx, mail.Stop)))
	}
	s.ok(errOf(s.MailPools(ctx)))
	s.clock.Advance(time.Hour)
	_, err = s.ClaimOwner(ctx, from(fresh, "192.0.2.7"), "m.ei@gmail.com") // a spelling of its own in older versions
	wantOutcome(s, "another owner", err, "already_claimed")
	s.clock.Advance(domain.Day)
	s.pressed(s.invite(fresh, mei), domain.OwnerRotateKey)
}

// takeovers is the part of everything after a key leaked.
func (s *testStore) takeovers() {
	s.Helper()
	ctx := context.Background()
	stolen := s.verified("stolen")
	s.update(stolen, func(a *domain.Settings) { a.Mailbox = thief })
	s.ok(s.Verify(ctx, stolen.Handle))
	token := s.owned(stolen, ada)
	s.ok(s.DeleteAgent(ctx, stolen))
	s.ok(errOf(s.Me(ctx, stolen)))
	s.pressed(token, domain.OwnerKeep)
	s.update(stolen, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
	s.pressed(token, domain.OwnerWaive)
	done, err := s.ConfirmRecovery(ctx, stolen.Handle, s.codes(stolen)["stolen@agents.example.org"], true)
	s.ok(err)
	stolen = s.keyed(done.Key)
	s.clock.Advance(domain.Day)
	s.owned(stolen, mei)
	s.ok(s.Unclaim(ctx, stolen.Handle))
	s.ok(s.Unverify(ctx, stolen.Handle))
}

// contacts is the part of everything between two agents.
func (s *testStore) contacts() {
	s.Helper()
	ctx := context.Background()
	p := s.play()
	p.do("pilot accepts")
	s.ok(errOf3(s.SendRequest(ctx, p.asker, p.pilot.Handle, plainDraft, domain.NewIdempotencyKey("createRequest", onceKey, ""))))
	wantOutcome(s, "a dry run", s.TryRequest(ctx, p.asker, p.pilot.Handle, plainDraft), "duplicate")
	p.do("pilot reports")
	p.id = s.boxed(p.asker, RequestFilter{Sent: true, Status: "pending"})[0]
	p.do("asker withdraws")
	p.id = s.ask(p.asker, p.stranger).ID
	s.clock.Advance(8 * domain.Day)
	p.do("asker withdraws")
	s.ask(p.asker, p.stranger)
	s.ask(p.pilot, p.asker)
	s.ok(errOf(s.Requests(ctx, p.asker, RequestFilter{}, listing.Page{Limit: 1, Offset: 1})))
	s.settled(p.pilot, p.asker, "confirmed")
	s.record(p.asker, p.stranger)
	s.record(p.stranger, p.asker)
	for _, handle := range []string{"", p.asker.Handle} {
		s.ok(errOf(s.Collabs(ctx, handle, listing.Page{Limit: 1, Offset: 1})))
	}
	for _, status := range []string{"", "pending"} {
		s.ok(errOf(s.OwnCollabs(ctx, p.asker, status, listing.Page{Limit: 1, Offset: 1})))
	}
	s.story(p.asker)
	s.ok(s.DeleteAgent(ctx, p.asker))
	s.pressed(p.token, domain.OwnerWithdraw)
}

var placeholder = regexp.MustCompile(`\?(\d*)`)

// values are as many as a SQL text asks for.
func values(query string) []any {
	n := 0 // one without a number follows the highest so far
	for _, p := range placeholder.FindAllStringSubmatch(query, -1) {
		number, err := strconv.Atoi(p[1])
		if err != nil {
			number = n + 1
		}
		n = max(n, number)
	}
	return make([]any, n)
}

// plan is how SQLite goes about a query, a step a line.
func plan(t testing.TB, db *sqlx.DB, query string) string {
	t.Helper()
	var steps []struct {
		ID      int    `db:"id"`
		Parent  int    `db:"parent"`
		NotUsed int    `db:"notused"`
		Detail  string `db:"detail"`
	}
	if err := db.Select(&steps, "EXPLAIN QUERY PLAN "+query, values(query)...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var b strings.Builder
	for _, step := range steps {
		b.WriteString(step.Detail + "\n")
	}
	return b.String()
}

var (
	explainable = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE)`)
	// A walk: through a table or an index from its start, or from one row on.
	walk = regexp.MustCompile(`(?m)^(SCAN \S+.*|SEARCH \S+$|.*\(rowid[<>].*)$`)
	// What looks like one: a look-up in a search table, a subquery's own rows.
	noWalk = regexp.MustCompile(`VIRTUAL TABLE INDEX \d+:(M|=)|^SCAN (m|\(subquery-\d+\)|CONSTANT ROW)$`)
)

// boundedWalks are the queries that may walk, by a part of their text.
var boundedWalks = []string{
	"FROM agent_documents WHERE rowid <",                                                    // a page of all agents
	"FROM agent_documents WHERE rowid >= ? LIMIT",                                           // their total, up to 1000
	"FROM post_documents WHERE post_seq <",                                                  // a page of all posts
	"(SELECT post_seq FROM post_documents LIMIT ?",                                          // their total, up to 1000
	"FROM agent_documents WHERE agent_id >= ? ORDER BY agent_id LIMIT 1",                    // the first agent of a part of the sitemap
	"FROM post_documents WHERE post_seq >= ? ORDER BY post_seq LIMIT 1",                     // likewise
	"WHERE agent_id >= ? AND agent_id < ? ORDER BY agent_id",                                // a part of the sitemap, of 10,000 numbers
	"WHERE d.post_seq >= ? AND d.post_seq < ? ORDER BY d.post_seq",                          // likewise
	"SELECT EXISTS (SELECT 1 FROM watches)",                                                 // the first row
	"JOIN handles h ON h.id = p.author_id WHERE d.post_seq > ? ORDER BY d.post_seq LIMIT ?", // new posts, a few at a time
	"FROM agent_values WHERE term >= ? AND term < ?",                                        // the facets of a kind, at most every minute
	"COALESCE(MAX(",                        // the last row
	"(SELECT 1 FROM collabs c LEFT JOIN",   // the total of all collaborations, up to 1000
	"AS agents_verified",                   // counts, at most every ten seconds
	"UPDATE reports SET reporter = NULL",   // the reports of a day
	"FROM agents ORDER BY id",              // after an upgrade, once
	"FROM site",                            // a handful of rows
	"FROM blocklist",                       // 1000 entries of each list at the most
	"AND url LIKE '%'",                     // the verified links, when the operator blocks a host
	"FROM invites",                         // those that the operator made
	"FROM operator_links",                  // likewise, of half a day
	"FROM abuse_days",                      // 31 days at the most
	"SELECT COUNT(*) FROM outbox",          // the mails that wait, for metrics
	"SELECT seq, recipient FROM outbox",    // the mails that wait, when a person ends those to an address
	"FROM reports WHERE closed_at IS NULL", // the open reports, for metrics
	"ORDER BY r.seq LIMIT",                 // the oldest open reports, for the operator
	"ORDER BY r.closed_at DESC",            // the reports closed last, for the operator
	"FROM audit ORDER BY seq DESC LIMIT",   // the newest acts, for the operator
	"ORDER BY d.level = 0",                 // the agents of the home page, of each level
	"ORDER BY a.level = 0, n.post_seq",     // its posts, of the newest 2000
}

var (
	tables    = regexp.MustCompile(`(?m)^(SCAN|SEARCH) (agents|agent_documents|offerings|posts|p|replies|r|requests)\b.*$`)
	indexOnly = regexp.MustCompile(`COVERING INDEX|\(rowid=\?\)|posts_author `) // the posts of hidden authors
)

// planRules are what the plans of some queries must or must not contain.
var planRules = []struct {
	name, query string // a part of the text
	least       int    // queries that there are
	ok          func(plan string) bool
}{
	// What a recipient ever got may be very much.
	{"a pair is found by its sender", "AS declined", 1, func(plan string) bool {
		return strings.Contains(plan, "requests_from") && !strings.Contains(plan, "(to_id=?")
	}},
	// Sorting would copy all their documents.
	{"the rows of a page come in the order of the index", ") m JOIN ", 4, func(plan string) bool { return !strings.Contains(plan, "TEMP B-TREE") }},
	{"posts of a kind use their index", "WHERE p.kind = ?", 2, func(plan string) bool {
		return !strings.Contains(plan, "TEMP B-TREE") && strings.Contains(plan, "USING COVERING INDEX posts_kind (kind=?")
	}},
	// A table has all texts. SQLite reads whole tables to merge the sides of a UNION, and all posts of a kind to find
	// those of few authors.
	{"counts read indexes only", "AS agents_verified", 1, func(plan string) bool {
		return !slices.ContainsFunc(tables.FindAllString(plan, -1), func(step string) bool { return !indexOnly.MatchString(step) })
	}},
}

// TestQueries_Plans: no query walks through a table that grows, and planRules hold.
func TestQueries_Plans(t *testing.T) {
	s := newStore(t)
	s.everything()
	db, n, met := s.connection("ro"), 0, make([]int, len(planRules))
	for _, query := range s.db.Statements() {
		line := strings.Join(strings.Fields(query), " ")
		bounded := slices.ContainsFunc(boundedWalks, func(part string) bool { return strings.Contains(line, part) })
		if explainable.MatchString(query) {
			n++
			for _, step := range walk.FindAllString(plan(t, db, query), -1) {
				if !bounded && !noWalk.MatchString(step) {
					t.Errorf("%s\n  %s", line, step)
				}
			}
		}
		for i, rule := range planRules {
			if strings.Contains(query, rule.query) {
				if met[i]++; !rule.ok(plan(t, db, query)) {
					t.Errorf("not so: %s: %s", rule.name, line)
				}
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d queries were looked at", n)
	}
	for i, rule := range planRules {
		if met[i] < rule.least {
			t.Errorf("%s: only %d queries", rule.name, met[i])
		}
	}
}
