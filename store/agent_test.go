package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// TestRegister_ChecksNames with the rules of package text.
func TestRegister_ChecksNames(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	taken, _ := s.register("harbour-pilot")
	gone, _ := s.register("gone")
	s.ok(s.DeleteAgent(ctx, gone))
	for _, tt := range []struct{ handle, name, owner, want string }{
		{taken.Handle, "Name", "Mei Lin", "handle_taken"},
		{gone.Handle, "Name", "Mei Lin", "handle_taken"},
		{"ca11book", "Name", "Mei Lin", "handle_taken"},
		{"tide-gauge", "Callbook Support", "Mei Lin", "validation_failed [{name bad_value name_reserved Callbook}]"},
		{"tide-gauge", "\u0301", "Mei Lin", "validation_failed [{name bad_value name_blank}]"},
		{"tide-gauge", "Name", "ｃａ11ｂook", "validation_failed [{owner bad_value name_reserved Callbook}]"},
		{"callboat", "Name", "Security Systems Ltd", ""},
	} {
		r := registration(tt.handle)
		r.Name, r.Owner = tt.name, tt.owner
		_, _, err := s.Register(ctx, r, domain.IdempotencyKey{})
		if got := errorLine(err, testkit.Start()); !strings.HasPrefix(got, tt.want) || tt.want == "" && err != nil {
			t.Errorf("%s, %s, %s: %q, want %q", tt.handle, tt.name, tt.owner, got, tt.want)
		}
	}
	if next, _ := s.register("next"); next.ID != gone.ID+2 {
		t.Errorf("rejected registrations used up numbers: %d after %d", next.ID, gone.ID)
	}
}

// TestSecrets_AreNotStored: of keys, codes, links, forms and the addresses of owners, the file has at most hashes.
func TestSecrets_AreNotStored(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, key := s.register("harbour-pilot")
	s.ok(errOf3(s.Register(ctx, registration("lighthouse"), domain.NewIdempotencyKey("createAgent", onceKey, "body"))))
	code := s.verifyCode(pilot)
	s.ok(s.confirmVerify(pilot, code))
	const owner = "canary7q@people.example.org"
	first := s.claimBy(pilot, owner)
	token := s.ownerLink(pilot, owner)
	form := s.ownerPage(token).Form
	recovery := s.recoveryCode(pilot)
	rotated, _, err := s.RotateKey(ctx, s.callerOf(key))
	s.ok(errors.Join(err, s.RunJobs(ctx)))
	s.stop()
	for name, secret := range map[string]string{
		"the first key": key[3:], "the hash of a dead key": string(domain.HashKey(key)), "the rotated key": rotated[3:], "the prefix of a key": domain.KeyPrefix,
		"an idempotency key": onceKey, "a code": code, "a code without its hyphen": code[:4] + code[5:], "a recovery code": recovery,
		"an owner's address": "canary7q", "the old link": first, "the link": token, "the form": form,
	} {
		if n := s.occurrences([]byte(secret)); n != 0 {
			t.Errorf("%s stands %d times in the file", name, n)
		}
	}
}

// insertSharedRecords stores a request and a collaboration in every state between two agents.
func (s *testStore) insertSharedRecords(a, b domain.Caller, aMailbox, bMailbox string) {
	s.Helper()
	for i, status := range []string{"pending", "accepted"} {
		var from, to *string
		if status == "accepted" {
			from, to = &aMailbox, &bMailbox
		}
		s.execSQL(`
			INSERT INTO requests (id, from_id, to_id, status, purpose, deliverable, compensation, from_mailbox, to_mailbox, created_at, updated_at, expires_at)
			VALUES (?, ?, ?, ?, 'p', 'd', 'none', ?, ?, 1, 1, 9999999999999)`, fmt.Sprintf("req_%d_%d_%d", a.ID, b.ID, i), a.ID, b.ID, status, from, to)
		s.execSQL(`
			INSERT INTO collabs (id, initiator_id, partner_id, status, summary, created_at)
			VALUES (?, ?, ?, ?, 's', 1)`, fmt.Sprintf("col_%d_%d_%d", a.ID, b.ID, i), a.ID, b.ID, []string{"pending", "confirmed"}[i])
	}
}

func TestDeleteAgent_LeavesNothingInTheFile(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	proof.OneByOne(t)
	ctx := context.Background()
	const n = 50
	var erased []domain.Caller
	var keys []string
	canary := func(what string, i int) string { return fmt.Sprintf("%s%03dq7zk", what, i) }
	neighbours := s.registerAgents("neighbour", n)
	for i := range n {
		c, key := s.register(fmt.Sprintf("canary-%d", i), func(r *domain.Registration) {
			r.Mailbox, r.ContactPublic = canary("box", i)+"@canary.example.org", i%2 == 0
			r.Name, r.Owner, r.DescriptionEN = canary("name", i), canary("owner", i), strings.Repeat(canary("text", i)+" ", i)+"x"
		})
		erased, keys = append(erased, c), append(keys, key)
		s.reply(c, s.post(neighbours[i]), canary("reply", i))
		s.reply(neighbours[i], s.post(c, func(d *domain.PostDraft) { d.Body = strings.Repeat(canary("body", i), 50) }), "b")
		s.insertSharedRecords(c, neighbours[i], canary("box", i)+"@canary.example.org", "neighbour@agents.example.org")
		s.insertSharedRecords(neighbours[i], c, "neighbour@agents.example.org", canary("box", i)+"@canary.example.org")
		s.execSQL(`INSERT INTO codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at) VALUES (?, 'verify', ?, zeroblob(32), 0, 1, 2)`,
			c.ID, canary("box", i)+"@canary.example.org")
		s.execSQL(`INSERT INTO outbox (id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at) VALUES (?, ?, 'verify', ?, ?, 0, 0, 1, 1, 2)`,
			fmt.Sprintf("mail_%d", i), c.ID, canary("box", i)+"@canary.example.org", canary("code", i))
		s.execSQL(`INSERT INTO owner_claims (agent_id, token_hash, acts, owner, mailbox, status, requested_at, expires_at) VALUES (?, randomblob(32), 0, randomblob(32), ?, 'pending', 1, 2)`,
			c.ID, canary("box", i)+"@canary.example.org")
		s.addLink(c, "https://"+canary("link", i)+".example.org")
		if i%3 == 0 {
			s.update(c, func(a *domain.Settings) { a.Name, a.Tagline = canary("name", i)+" two", canary("tag", i) })
		}
	}
	for _, c := range erased {
		s.ok(s.DeleteAgent(ctx, c))
	}
	s.ok(s.RunJobs(ctx))
	if size := s.walSize(); size != 0 {
		t.Errorf("the log has %d bytes after the due jobs", size)
	}
	s.checkOtherSide(erased, neighbours)
	wantNoneLeft := func(whats ...string) {
		t.Helper()
		s.stop()
		for _, what := range whats {
			left := 0
			for i := range n {
				left += s.occurrences([]byte(canary(what, i)))
			}
			if left != 0 {
				t.Errorf("%s: %d places left in the file", what, left)
			}
		}
	}
	wantNoneLeft("code", "link", "reply") // a copy of a row of an agent that SQLite moved stays until the compaction
	for _, key := range keys {
		if s.occurrences(domain.HashKey(key)) != 0 {
			t.Error("the hash of a key is left in the file")
		}
	}
	// Single words of what was public stay in the search index until it is optimized at
	// night; what was private never was in it.
	s.Store = openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
	s.clock.Advance(2 * domain.Day)
	s.ok(s.RunJobs(ctx))
	wantNoneLeft("box", "code", "link", "name", "owner", "text", "tag", "reply", "body")
	proof.Figure(t, "erased", len(erased))
}

// checkOtherSide looks at what the other side of deleted agents keeps.
func (s *testStore) checkOtherSide(erased, neighbours []domain.Caller) {
	s.Helper()
	const statuses = `SELECT group_concat(status, ' ') FROM (SELECT status FROM `
	for i, c := range erased {
		b := neighbours[i]
		for query, want := range map[string]string{
			statuses + `requests WHERE from_id = ?1 AND to_id = ?2 ORDER BY seq)`:                                                                             "withdrawn accepted",
			statuses + `requests WHERE from_id = ?2 AND to_id = ?1 ORDER BY seq)`:                                                                             "declined accepted",
			statuses + `collabs WHERE initiator_id = ?1 AND partner_id = ?2 ORDER BY seq)`:                                                                    "declined confirmed",
			statuses + `collabs WHERE initiator_id = ?2 AND partner_id = ?1 ORDER BY seq)`:                                                                    "declined confirmed",
			`SELECT COUNT(*) || '' FROM requests WHERE from_id = ?1 AND from_mailbox IS NOT NULL AND ?2`:                                                      "0",
			`SELECT COUNT(*) || '' FROM requests WHERE to_id = ?1 AND to_mailbox IS NOT NULL AND ?2`:                                                          "0",
			`SELECT COUNT(*) || '' FROM requests WHERE ?2 IN (from_id, to_id) AND COALESCE(from_mailbox, to_mailbox) = 'neighbour@agents.example.org' AND ?1`: "2",
		} {
			if got := value[string](s, query, c.ID, b.ID); got != want {
				s.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		_, _, err := s.Register(context.Background(), registration(c.Handle), domain.IdempotencyKey{})
		wantOutcome(s, "the handle again", err, "handle_taken")
	}
}

// TestDeleteAgent_DeletesSharedRecordsWithTheSecondParty: contact requests and collaborations stay for as long
// as one of the two is there.
func TestDeleteAgent_DeletesSharedRecordsWithTheSecondParty(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	agents := s.registerAgents("agent", 3)
	for i, a := range agents {
		for _, b := range agents[i+1:] {
			s.insertSharedRecords(a, b, "a@agents.example.org", "b@agents.example.org")
			s.insertSharedRecords(b, a, "b@agents.example.org", "a@agents.example.org")
		}
	}
	all := value[int](s, `SELECT COUNT(*) FROM requests`)
	for i, of := range []int{3, 2, 0} { // pairs
		s.ok(s.DeleteAgent(ctx, agents[i]))
		for _, table := range []string{"requests", "collabs"} {
			if n := value[int](s, `SELECT COUNT(*) FROM `+table); n != all*of/3 {
				t.Errorf("%d are deleted: %d of %d %s are left", i+1, n, all, table)
			}
		}
	}
}

// TestDeleteAgent_EndsAllOverdueRequests, also those that the job left for its next batches.
func TestDeleteAgent_EndsAllOverdueRequests(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c, _ := s.register("tide-reader")
	for i, sender := range s.registerAgents("sender", jobBatch+1) {
		s.execSQL(`
			INSERT INTO requests (id, from_id, to_id, status, purpose, deliverable, compensation, created_at, updated_at, expires_at)
			VALUES (?, ?, ?, 'pending', 'Tides', 'A table', 'none', 1, 1, 2)`, fmt.Sprintf("req_%026d", i), sender.ID, c.ID)
	}
	s.ok(s.DeleteAgent(context.Background(), c))
	if n := value[int](s, `SELECT COUNT(*) FROM requests WHERE status <> 'expired'`); n > 0 {
		t.Errorf("%d requests have not expired", n)
	}
}

// TestWriteAs_RejectsInactiveCallers: a caller was admitted, and before its act has
// its turn its agent is deleted or suspended, or its key is replaced. It tries every method that takes a caller.
func TestWriteAs_RejectsInactiveCallers(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	post := s.post(s.verified("lighthouse"))
	once := domain.NewIdempotencyKey("createReply", onceKey, "body")
	reply := func(c domain.Caller) error {
		return errOf3(s.CreateReply(ctx, c, post.ID, domain.ReplyDraft{Body: "b"}, once))
	}
	reads := []string{"Me", "Export", "OwnCollabs", "Events", "Inbox", "Watches", "Wake", "OwnCard", "RepliesTo", "Request", "Requests"}
	for ends, c := range map[string]struct {
		end  func(domain.Caller)
		want string
	}{
		"deleted":   {func(c domain.Caller) { s.ok(s.DeleteAgent(ctx, c)) }, "unauthorized"},
		"suspended": {func(c domain.Caller) { s.ok(s.Suspend(ctx, c.Handle, "spam", time.Time{})) }, "suspended"},
		"rotated":   {func(c domain.Caller) { s.ok(errOf3(s.RotateKey(ctx, c))) }, "unauthorized"},
	} {
		caller := s.verified("agent-" + ends)
		s.ok(reply(caller))
		c.end(caller)
		wantOutcome(t, ends+": the same reply, whose response is stored", reply(caller), c.want)
		tried := 0
		for method := range reflect.TypeFor[*Store]().Methods() {
			var args []reflect.Value
			for in := range method.Type.Ins() {
				args = append(args, map[reflect.Type]reflect.Value{
					reflect.TypeFor[*Store](): reflect.ValueOf(s.Store), reflect.TypeFor[context.Context](): reflect.ValueOf(ctx),
					reflect.TypeFor[domain.Caller](): reflect.ValueOf(caller), reflect.TypeFor[string](): reflect.ValueOf("https://example.org/"),
				}[in])
				if last := len(args) - 1; !args[last].IsValid() {
					args[last] = reflect.Zero(in)
				}
			}
			takesCaller := slices.Contains(slices.Collect(method.Type.Ins()), reflect.TypeFor[domain.Caller]())
			mayDelete := method.Name == "DeleteAgent" && ends == "suspended"
			if !takesCaller || mayDelete || slices.Contains(reads, method.Name) {
				continue
			}
			tried++
			results := method.Func.Call(args)
			err, _ := results[len(results)-1].Interface().(error)
			wantOutcome(t, ends+": "+method.Name, err, c.want)
		}
		if tried < 20 {
			t.Errorf("%s: only %d methods are tried", ends, tried)
		}
	}
}

// notExported are the tables that speak of agents and are no part of an export.
var notExported = map[string]string{
	"outbox": "would tell of others who use the mailbox, and of the owner",
}

func TestExport_CoversEveryTableOfAgents(t *testing.T) {
	s := newStore(t)
	about := map[string]bool{}
	for _, k := range s.foreignKeys() {
		if k.Target == "agents" || k.Target == "handles" {
			about[k.Table] = true
		}
	}
	caller, _ := s.register("harbour-pilot")
	exported, err := s.Export(context.Background(), caller)
	s.ok(err)
	delete(exported, "offerings") // lists of the row of the agent
	delete(exported, "links")
	for table := range exported {
		if !about[table] {
			t.Errorf("the export has %s, which does not refer to agents", table)
		}
		delete(about, table)
	}
	for table := range about {
		if notExported[table] == "" {
			t.Errorf("%s is not exported", table)
		}
	}
}

func TestExport_ContainsNoSecret(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, key := s.register("harbour-pilot", func(r *domain.Registration) {
		r.Capabilities, r.From = []string{"tides"}, netip.MustParseAddr("192.0.2.1")
	})
	other, otherKey := s.register("lighthouse")
	s.claim(caller, 1)
	s.insertSharedRecords(caller, other, "harbour-pilot@agents.example.org", "lighthouse@agents.example.org")
	post, _, err := s.CreatePost(ctx, caller, domain.PostDraft{Kind: "seeking", Title: "t", Body: "b"}, domain.NewIdempotencyKey("createPost", onceKey, ""))
	s.ok(err)
	s.reply(caller, post, "own reply")
	s.reply(other, post, "not the caller's")
	s.execSQL(`INSERT INTO codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at) VALUES (?, 'verify', 'm', randomblob(32), 0, 1, 2)`, caller.ID)
	s.execSQL(`INSERT INTO owner_claims (agent_id, token_hash, acts, owner, mailbox, status, requested_at, expires_at) VALUES (?, randomblob(32), 0, randomblob(32), 'm', 'pending', 1, 2)`, caller.ID)
	s.execSQL(`INSERT INTO events (agent_id, type, subject, at) VALUES (?, 'trust.changed', '{"handle":"x"}', 1)`, caller.ID)
	s.execSQL(`INSERT INTO reports (id, about, subject, reporter, reporter_id, created_at) VALUES ('rpt_1', 'request', 'req_1', randomblob(32), ?, 1)`, caller.ID)
	s.execSQL(`INSERT INTO mail_log (agent_id, mailbox_hash, sent, at) VALUES (?, randomblob(32), 1, 1)`, caller.ID)
	s.execSQL(`INSERT INTO outbox (id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at) VALUES ('mail_1', ?, 'verify', 'm', 'SECRETCODE', 0, 0, 1, 1, 2)`, caller.ID)
	s.addLink(caller, harbourPage)
	s.execSQL(`INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, 1)`, caller.ID, other.ID)
	s.setWake(caller)
	s.ok(errOf(s.ReplaceOfferings(ctx, caller, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "t", Deliverable: "d", Mode: "free"}}})))
	s.replaceWatches(caller, domain.WatchDraft{Q: "tides"})

	exported, err := s.Export(ctx, caller)
	s.ok(err)
	encoded, err := json.Marshal(exported)
	s.ok(err)
	text := string(encoded)
	var tables map[string][]map[string]any
	s.ok(json.Unmarshal(encoded, &tables))
	var blobs []string
	for table, rows := range tables {
		if len(rows) == 0 {
			t.Errorf("nothing of %s", table)
		}
		var columns []string
		s.ok(s.db.Select(ctx, &columns, ofTest+`SELECT name FROM pragma_table_info(?) WHERE type = 'BLOB'`, table))
		for _, column := range columns {
			for _, hash := range rowsOf(t, s.connection("ro"), `SELECT hex(`+column+`) AS h FROM `+table) {
				blobs = append(blobs, hash["h"].(string))
			}
			for _, row := range rows {
				if _, shown := row[column]; shown {
					t.Errorf("%s.%s is exported", table, column)
				}
			}
		}
	}
	for _, secret := range append(blobs, key, otherKey, "SECRETCODE", "not the caller's", hex.EncodeToString(domain.HashKey(key))) {
		if len(secret) > 0 && strings.Contains(strings.ToUpper(text), strings.ToUpper(secret)) {
			t.Errorf("the export holds a secret of %d characters", len(secret))
		}
	}
	agent := tables["agents"][0]
	if agent["handle"] != "harbour-pilot" || agent["created_at"] != "2026-11-20T09:30:00.000Z" || fmt.Sprint(agent["capabilities"]) != "[tides]" || agent["id"] != nil {
		t.Errorf("agents: %v", agent)
	}
}

// TestRegister_NameOfTheSiteIsReserved: that of --site-name, however it is written.
// It holds promise 19 of SECURITY.md.
func TestRegister_NameOfTheSiteIsReserved(t *testing.T) {
	s := newStore(t, func(o *Options) { o.SiteName = "Hafen-Buch" })
	handle := registration("my-hafen-buch")
	handle.Name = "Agent"
	_, _, err := s.Register(context.Background(), handle, domain.IdempotencyKey{})
	wantOutcome(t, "a handle", err, "handle_taken")
	handles := 0
	for name, want := range map[string]string{"Hafen Buch II": "validation_failed", "hafеnbuch!": "validation_failed", "Hafen": "", "Buch am Hafen": ""} {
		for _, set := range []func(*domain.Registration){
			func(r *domain.Registration) { r.Name = name }, func(r *domain.Registration) { r.Owner = name },
		} {
			handles++
			r := registration("boat-" + strconv.Itoa(handles))
			set(&r)
			_, _, err := s.Register(context.Background(), r, domain.IdempotencyKey{})
			wantOutcome(t, name, err, want)
		}
	}
}

// TestUpdateProfile_NamesOfBeforeTheRuleStay: what an older program allowed.
// It holds promise 19 of SECURITY.md.
func TestUpdateProfile_NamesOfBeforeTheRuleStay(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("callboat")
	s.execSQL(`UPDATE agents SET name = 'Callbook Support' WHERE id = ?`, caller.ID)
	s.execSQL(`UPDATE handles SET handle = 'callbook-admin' WHERE id = ?`, caller.ID)
	caller.Handle = "callbook-admin"
	s.update(caller, func(a *domain.Settings) { a.Tagline, a.Name = "Berths", "Callbook Support" })
	set := func(name string) error {
		return errOf(s.UpdateAgent(context.Background(), caller, func(a *domain.Settings) error { a.Name = name; return nil }))
	}
	wantOutcome(t, "another such name", set("Callbook Help"), "validation_failed")
	wantOutcome(t, "a good name", set("Callboat"), "")
	wantOutcome(t, "the old one again", set("Callbook Support"), "validation_failed")
	_, err := s.UpdateAgent(context.Background(), caller, func(a *domain.Settings) error { a.Owner = "Callbook"; return nil })
	wantOutcome(t, "an owner with the name of the site", err, "validation_failed")
}
