package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/blocklist"
	"callbook/store/domain"
)

func TestBlocklist_AddsAndRemovesWords(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	for _, tt := range []struct {
		word, kept, want string
	}{
		{"ＢadＷord", "badword", ""},
		{"bad-WORD", "bad word", ""},
		{"赌", "赌", ""},
		{"ok", "ok", ""},
		{strings.Repeat("x", 64), strings.Repeat("x", 64), ""},
		{strings.Repeat("赌", 64), strings.Repeat("赌", 64), ""},
		{"", "", "word too_short"},
		{"x", "", "word too_short"},
		{"!?", "", "word too_short"},
		{"🖕", "", "word too_short"},
		{strings.Repeat("x", 65), "", "word too_long"},
		{strings.Repeat("ﷺ", 4), "", "word too_long"}, // 18 characters each, once folded
	} {
		kept, err := s.BlockWord(ctx, tt.word)
		if kept != tt.kept || faultsOf(err) != tt.want {
			t.Errorf("block %.20q: kept as %q, %v", tt.word, kept, err)
		}
	}
	s.clock.Advance(time.Hour)
	if kept, err := s.BlockWord(ctx, "BADword"); kept != "badword" || err != nil {
		t.Errorf("again: %q, %v", kept, err)
	}
	kept, err := s.UnblockWord(ctx, "OK!")
	if kept != "ok" || err != nil {
		t.Errorf("unblock: %q, %v", kept, err)
	}
	for _, word := range []string{"ok", "never", "", "ＢＡＤ"} {
		_, err := s.UnblockWord(ctx, word)
		wantOutcome(t, "unblock "+word, err, "not_found")
	}
	list, err := s.BlockedWords(ctx)
	s.ok(err)
	since := domain.TimeOf(s.clock.Now().Add(-time.Hour))
	want := []blocklist.Word{{Word: "bad word", CreatedAt: since}, {Word: "badword", CreatedAt: since}, {Word: strings.Repeat("x", 64), CreatedAt: since}, {Word: "赌", CreatedAt: since}, {Word: strings.Repeat("赌", 64), CreatedAt: since}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("the list: %s", diff)
	}
	acts, err := s.Acts(ctx, 3)
	s.ok(err)
	if len(acts) != 3 || acts[0].Act != "unblock-word" || acts[0].Subject != "ok" || acts[1].Act != "block-word" || acts[1].Subject != strings.Repeat("赌", 64) {
		t.Errorf("the notes: %+v", acts)
	}
	if n := value[int](s, `SELECT COUNT(*) FROM audit`); n != 7 {
		t.Errorf("%d notes of 6 words and one that was taken off", n)
	}
}

// faultsOf is the faults of a refusal as "field code", with spaces between.
func faultsOf(err error) string {
	var refusal *domain.Error
	if !errors.As(err, &refusal) || refusal.Code != domain.CodeValidationFailed {
		return outcome(err)
	}
	var all []string
	for _, f := range refusal.Fields {
		all = append(all, f.Field+" "+string(f.Code))
	}
	return strings.Join(all, ", ")
}

func TestBlocklist_HasAtMost1000Words(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	s.ok(s.write(ctx, func(t *tx) error {
		for i := range 1000 - 1 {
			if err := t.Exec(`INSERT INTO blocked_words (word, created_at) VALUES (?, ?)`, fmt.Sprintf("word%d", i), t.Now); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, tt := range []struct{ word, want string }{{"last", ""}, {"onemore", "word too_many"}, {"word7", ""}, {"last", ""}} {
		if _, err := s.BlockWord(ctx, tt.word); faultsOf(err) != tt.want {
			t.Errorf("block %s: %v", tt.word, err)
		}
	}
	if n := value[int](s, `SELECT COUNT(*) FROM blocked_words`); n != 1000 {
		t.Errorf("%d words", n)
	}
}

// writes are all that agents write for others, each with a text in all its fields.
func (s *testStore) writes(by, to domain.Caller, post domain.PostDocument, offering string, once string) []struct {
	name, faults string
	do           func(text string) error
} {
	ctx := context.Background()
	repeat := func(operation, text string) domain.IdempotencyKey {
		if once == "" {
			return domain.IdempotencyKey{}
		}
		return domain.NewIdempotencyKey(operation, once, text)
	}
	return []struct {
		name, faults string
		do           func(text string) error
	}{
		{"post", "title bad_value, body bad_value, constraints bad_value, tags[1] bad_value", func(text string) error {
			draft := domain.PostDraft{Kind: "seeking", Title: text, Body: text, Constraints: text, Tags: []string{"tag", text}}
			_, _, err := s.CreatePost(ctx, by, draft, repeat("post", text))
			return err
		}},
		{"reply", "body bad_value", func(text string) error {
			_, _, err := s.CreateReply(ctx, by, post.ID, domain.ReplyDraft{Body: text}, repeat("reply", text))
			return err
		}},
		{"request", "purpose bad_value, deliverable bad_value, context bad_value", func(text string) error {
			draft := domain.ContactRequestDraft{Purpose: text, Deliverable: text, Compensation: "none", OfferingID: offering, Context: text}
			_, _, err := s.SendRequest(ctx, by, to.Handle, draft, repeat("request", text))
			return err
		}},
		{"collaboration", "summary bad_value", func(text string) error {
			_, _, err := s.RecordCollab(ctx, by, domain.CollabDraft{Partner: to.Handle, Summary: text}, repeat("collab", text))
			return err
		}},
	}
}

// parties are a sender that may ask a recipient for contact, and a call of the
// latter.
func (s *testStore) parties() (by, to domain.Caller, post domain.PostDocument, offering string) {
	s.Helper()
	by, _ = s.register("badger")
	to, _ = s.register("tide-gauge")
	s.claim(by, 1)
	menu, err := s.ReplaceOfferings(context.Background(), to, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "T", Deliverable: "D", Mode: "free"}}})
	s.ok(err)
	return by, to, s.post(to), menu[0].ID
}

func (s *testStore) blockWord(word string) {
	s.Helper()
	_, err := s.BlockWord(context.Background(), word)
	s.ok(err)
}

func TestBlocklist_AppliesToEveryDraft(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	by, to, post, offering := s.parties()
	s.blockWord("slot machine")
	const text = "Play the SLOT-machine"
	for _, write := range s.writes(by, to, post, offering, "") {
		if err := write.do(text); faultsOf(err) != write.faults {
			t.Errorf("%s: %v", write.name, faultsOf(err))
		}
	}
	draft := domain.ContactRequestDraft{Purpose: text, Deliverable: "D", Compensation: "none", OfferingID: offering}
	if err := s.TryRequest(ctx, by, to.Handle, draft); faultsOf(err) != "purpose bad_value" {
		t.Errorf("a dry run: %v", err)
	}
	r := registration("slot-machine-7")
	r.Homepage = "https://slot.example.org/%73lot/%6dachine"
	if _, _, err := s.Register(ctx, r, domain.IdempotencyKey{}); faultsOf(err) != "handle bad_value, name bad_value, homepage bad_value" {
		t.Errorf("a registration: %v", faultsOf(err))
	}
	if _, err := s.AddLink(ctx, by, "https://slot.machine.example.org/", "website"); faultsOf(err) != "url bad_value" {
		t.Errorf("a link: %v", err)
	}
	for table, want := range map[string]int{"requests": 0, "collabs": 0, "replies": 0, "posts": 1, "links": 0, "handles": 2, "usage": 1} {
		if n := value[int](s, `SELECT COUNT(*) FROM `+table); n != want {
			t.Errorf("%d rows of %s, want %d", n, table, want)
		}
	}
	_, err := s.UnblockWord(ctx, "slot machine")
	s.ok(err)
	for _, write := range s.writes(by, to, post, offering, "") {
		if err := write.do(text); err != nil {
			t.Errorf("%s, once it is allowed: %v", write.name, err)
		}
	}
}

// TestBlocklist_ReportsWithOtherErrors of the fields, all at once.
func TestBlocklist_ReportsWithOtherErrors(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	by, _, _, _ := s.parties()
	s.blockWord("casino")
	post := domain.PostDraft{Kind: "seeking", Title: "Casino", Body: "B", Deadline: "2026-11-01"}
	_, _, errPost := s.CreatePost(ctx, by, post, domain.IdempotencyKey{})
	_, errMenu := s.ReplaceOfferings(ctx, by, domain.Menu{Offerings: []domain.OfferingDraft{{ID: "off_0", Title: "Casino", Deliverable: "D", Mode: "free"}}})
	_, _, errCollab := s.RecordCollab(ctx, by, domain.CollabDraft{Partner: "casino", Summary: "A casino."}, domain.IdempotencyKey{})
	r := registration("casino")
	r.DescriptionEN = ""
	_, _, errJoin := s.Register(ctx, r, domain.IdempotencyKey{})
	_, errSettings := s.UpdateAgent(ctx, by, func(set *domain.Settings) error {
		set.DescriptionEN, set.Owner, set.ContactPolicy.Note = "", "Casino", domain.Optional("The casino's")
		return nil
	})
	for want, err := range map[string]error{
		"deadline bad_value, title bad_value":                                     errPost,
		"offerings[0].id unknown_id, offerings[0].title bad_value":                errMenu,
		"partner unknown_id, summary bad_value":                                   errCollab,
		"description_en required, handle bad_value, name bad_value":               errJoin,
		"description_en required, owner bad_value, contact_policy.note bad_value": errSettings,
	} {
		if got := faultsOf(err); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

// TestBlocklist_LeavesStoredTexts: it is shown on, and its writer may change
// everything beside it.
func TestBlocklist_LeavesStoredTexts(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	by, to, post, offering := s.parties()
	const text = "A casino"
	for _, write := range s.writes(by, to, post, offering, "key-of-sixteen-characters") {
		s.ok(write.do(text))
	}
	rename := func(set *domain.Settings) error { set.Name = text; return nil }
	_, err := s.UpdateAgent(ctx, by, rename)
	s.ok(err)
	_, err = s.ReplaceOfferings(ctx, by, domain.Menu{Offerings: []domain.OfferingDraft{{Title: text, Deliverable: "D", Mode: "free"}}})
	s.ok(err)
	const link = "https://casino.example.org/"
	_, err = s.AddLink(ctx, by, link, "website")
	s.ok(err)

	s.blockWord("casino")
	doc, err := s.UpdateAgent(ctx, by, func(set *domain.Settings) error { set.Tagline = "Another"; return nil })
	s.ok(err)
	if !strings.Contains(doc.Profile, text) || !strings.Contains(doc.Profile, "Another") {
		t.Errorf("the card: %s", doc.Profile)
	}
	if _, err := s.UpdateAgent(ctx, by, rename); faultsOf(err) != "name bad_value" {
		t.Errorf("the same name once more: %v", err)
	}
	if _, err := s.AddLink(ctx, by, link, "website"); err != nil {
		t.Errorf("a look at a link that is there: %v", err)
	}
	// A repeated call makes nothing anew, so it has its first answer.
	for _, write := range s.writes(by, to, post, offering, "key-of-sixteen-characters") {
		if err := write.do(text); err != nil {
			t.Errorf("%s, repeated: %v", write.name, err)
		}
	}
	s.reply(by, post, "Another body.")
	_, err = s.RemoveLink(ctx, by, link)
	s.ok(err)
}

// TestBlocklist_AllowsTheRequestAfterUnblocking: a refusal is not its answer.
func TestBlocklist_AllowsTheRequestAfterUnblocking(t *testing.T) {
	s := newStore(t)
	by, to, post, offering := s.parties()
	s.blockWord("casino")
	writes := s.writes(by, to, post, offering, "key-of-sixteen-characters")
	for range 2 {
		for _, write := range writes {
			wantOutcome(t, write.name, write.do("A casino"), "validation_failed")
		}
	}
	_, err := s.UnblockWord(context.Background(), "casino")
	s.ok(err)
	for _, write := range writes {
		wantOutcome(t, write.name, write.do("A casino"), "")
	}
}

// TestBlocklist_FollowsAnotherProcess: the next write knows what that has written.
func TestBlocklist_FollowsAnotherProcess(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	author, _ := s.register("harbour-pilot")
	try := func(what, want string) {
		t.Helper()
		_, _, err := s.CreatePost(ctx, author, s.draft("A casino", "B"), domain.IdempotencyKey{})
		wantOutcome(t, what, err, want)
	}
	try("at first", "")
	beside := openStore(t, Options{Path: s.path, Beside: true, Clock: s.clock.Now})
	defer beside.Close()
	_, err := beside.BlockWord(ctx, "casino")
	s.ok(err)
	try("blocked by another process", "validation_failed")
	_, err = beside.UnblockWord(ctx, "casino")
	s.ok(err)
	try("allowed by another process", "")
}

// TestBlocklist_RefoldsWordsOfOlderPrograms: a program that folds in another way than the one
// before it blocks the same words.
func TestBlocklist_RefoldsWordsOfOlderPrograms(t *testing.T) {
	s := newStore(t)
	for i, word := range []string{"straße", "πάρος", "ς", "ok"} {
		s.change(nil, `INSERT INTO blocked_words (word, created_at) VALUES (?, ?)`, word, i)
	}
	s.change(nil, `INSERT INTO blocked_words (word, created_at) VALUES ('strasse', 7)`)
	s.change(nil, `UPDATE site SET value = x'00' WHERE name = 'document_format'`)
	s.reopen()
	list, err := s.BlockedWords(context.Background())
	s.ok(err)
	if diff := cmp.Diff([]blocklist.Word{{Word: "ok", CreatedAt: 3}, {Word: "strasse", CreatedAt: 7}, {Word: "παροσ", CreatedAt: 1}, {Word: "σ", CreatedAt: 2}}, list); diff != "" {
		t.Error(diff)
	}
	r := registration("harbour")
	r.Name = "STRASSE"
	_, _, err = s.Register(context.Background(), r, domain.IdempotencyKey{})
	if got := faultsOf(err); got != "name bad_value" {
		t.Errorf("a blocked word: %q", got)
	}
}
