package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
)

// TestCheck_ReadsTextFields names each field of each draft that is a text, so that a new field is
// decided upon.
func TestCheck_ReadsTextFields(t *testing.T) {
	for _, tt := range []struct {
		draft any
		want  string
	}{
		{domain.Registration{}, "handle name owner mailbox tagline description_en description_zh capabilities[0] homepage model"},
		{domain.Settings{}, "handle name owner mailbox tagline description_en description_zh capabilities[0] homepage model contact_policy.note"},
		{domain.Menu{}, "offerings[0].title offerings[0].deliverable offerings[0].for_whom offerings[0].not_doing offerings[0].tags[0]"},
		{domain.PostDraft{}, "title body deliverable constraints tags[0]"},
		{domain.ReplyDraft{}, "body"},
		{domain.ContactRequestDraft{}, "purpose deliverable context"},
		{domain.CollabDraft{}, "summary"},
		{domain.LinkDraft{}, "url"},
		{domain.WakeDraft{}, "url"},
	} {
		draft := reflect.New(reflect.TypeOf(tt.draft)).Elem()
		fill(draft)
		var fields []string
		eachText("", "", draft, func(path, _, text string) {
			if text != "filled" {
				t.Errorf("%T: %s is %q", tt.draft, path, text)
			}
			fields = append(fields, path)
		})
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("%T: %s", tt.draft, got)
		}
	}
}

// fill sets every string of a value, and makes every list one of one item.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("filled")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	}
}

func TestForm_FindsBlockedWords(t *testing.T) {
	for _, tt := range []struct {
		word, text string
		found      bool
	}{
		{"ass", "You ass!", true},
		{"ass", "ass", true},
		{"ass", "a class of assets, a mass", false},
		{"ass", "a class, then an ass", true},
		{"ass", "an-ass_of-it", true},
		{"ass", "ass9", false},
		{"ass", "line one\nass\nline three", true},
		{"ass", "#ass", true},
		{"ass", "ass#", true}, // signs are part of words, for C++ and C#; they hide none
		{"ass", "free+ass", true},
		{"ass", "大ass屁", true}, // a word of its own for searches too
		{"ass", "assᷓ", false}, // a mark that folding keeps: another word
		{"Ass", "aSS", true},
		{"ass", "ＡＳＳ", true},
		{"ASS", "åśş", true},
		{"ass", "a s s", false}, // nothing more clever than folding
		{"ass", "@ss", false},
		{"naïve", "NAIVE", true},
		{"ﬁg", "a fig", true},
		{"c++", "we write C++.", true},
		{"c++", "we write C.", false},
		{"c#", "ｃ＃", true},
		{"дурак", "Дурак!", true},
		{"дурак", "дураки", false},
		{"cheap pills", "Cheap pills, here", true},
		{"cheap pills", "cheap -- \n PILLS", true},
		{"cheap pills", "cheap good pills", false},
		{"cheap pills", "pills cheap", false},
		{"cheap pills", "dirtcheap pills", false},
		{"cheap pills", "cheap pillsbury", false},
		{"  Cheap,  pills!", "cheap pills", true},
		{"pills", "cheap pills", true},
		{"赌博", "在线赌博网站", true},
		{"赌博", "赌", false},
		{"赌博", "赌 博", false},
		{"赌博", "博赌", false},
		{"赌", "在线赌博", true},
		{"赌 博", "赌, 博", true},
		{"ラーメン", "ﾗｰﾒﾝ屋", true},
		{"카지노", "온라인카지노", true},
		{"การพนัน", "เว็บการพนันออนไลน์", true},
		{"加vx", "请加VX号", true},
		{"加vx", "请加 vx", true},
		{"加vx", "加v", false},
		{"spam.example", "see https://spam.example/now", true},
		{"spam.example", "see https://spam.example.org/now", true},
		{"spam.example", "see https://notspam.example/now", false},
		{"ass", "", false},
	} {
		if got := holds(tt.text, []string{blockForm(tt.word)}); got != tt.found {
			t.Errorf("%q in %q: %v", tt.word, tt.text, got)
		}
	}
}

func FuzzBlockedWord(f *testing.F) {
	f.Add("ass", "a class")
	f.Add("赌博 c++", "在线赌博C++")
	f.Add("\xff", "İﬃ")
	f.Add("\xf5ϑ", "0")
	f.Fuzz(func(t *testing.T, word, text string) {
		form := blockForm(word)
		if form == "" {
			return
		}
		if again := blockForm(form); again != form {
			t.Errorf("%q, kept as %q, cannot be taken off by that: %q", word, form, again)
		}
		if !holds(text+" "+word+" "+text, []string{form}) {
			t.Errorf("%q is not found beside %q", word, text)
		}
		if holds(text, []string{form}) && !strings.Contains(blockForm(text), form) {
			t.Errorf("%q is found in %q", word, text)
		}
	})
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

func TestBlocklist_HasAtMost1000EntriesOfAKind(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	for kind, after := range map[string]string{"word": "", "host": ".example"} {
		s.ok(s.write(ctx, func(t *tx) error {
			for i := range 1000 - 1 {
				if err := t.Exec(`INSERT INTO blocklist (kind, entry, created_at) VALUES (?, ?, ?)`, kind, fmt.Sprintf("word%d%s", i, after), t.Now); err != nil {
					return err
				}
			}
			return nil
		}))
		for _, tt := range []struct{ entry, want string }{{"last", ""}, {"onemore", "entry too_many"}, {"word7", ""}, {"last", ""}} {
			if _, err := s.ChangeBlocklist(ctx, "block-"+kind, tt.entry+after); faultsOf(err) != tt.want {
				t.Errorf("block the %s %s: %v", kind, tt.entry, err)
			}
		}
		if n := value[int](s, `SELECT COUNT(*) FROM blocklist WHERE kind = ?`, kind); n != 1000 {
			t.Errorf("%d entries of %s", n, kind)
		}
	}
}

// textWrites are all that agents write for others, each with a text in all its fields and an idempotency key.
func (s *testStore) textWrites(by, to domain.Caller, post domain.PublicPost, offering string) map[string]func(text string) error {
	ctx := context.Background()
	key := func(operation, text string) domain.IdempotencyKey {
		return domain.NewIdempotencyKey(operation, onceKey, text)
	}
	return map[string]func(text string) error{
		"post": func(text string) error {
			draft := domain.PostDraft{Kind: "seeking", Title: text, Body: text, Constraints: text, Tags: []string{"tag", text}}
			return errOf3(s.CreatePost(ctx, by, draft, key("post", text)))
		},
		"reply": func(text string) error {
			return errOf3(s.CreateReply(ctx, by, post.ID, domain.ReplyDraft{Body: text}, key("reply", text)))
		},
		"request": func(text string) error {
			draft := domain.ContactRequestDraft{Purpose: text, Deliverable: text, Compensation: "none", OfferingID: offering, Context: text}
			return errOf3(s.SendRequest(ctx, by, to.Handle, draft, key("request", text)))
		},
		"collaboration": func(text string) error {
			return errOf3(s.RecordCollab(ctx, by, domain.CollabDraft{Partner: to.Handle, Summary: text}, key("collab", text)))
		},
	}
}

// senderAndRecipient are a sender that may ask a recipient for contact, and a call of the
// latter.
func (s *testStore) senderAndRecipient() (by, to domain.Caller, post domain.PublicPost, offering string) {
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
	s.changeBlocklist("block-word", word)
}

// changeBlocklist changes a list of the operator.
func (s *testStore) changeBlocklist(act, entry string) {
	s.Helper()
	s.ok(errOf(s.ChangeBlocklist(context.Background(), act, entry)))
}

// TestBlocklist_ReportsWithOtherErrors of the fields, all at once.
func TestBlocklist_ReportsWithOtherErrors(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	by, _, _, _ := s.senderAndRecipient()
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
	by, to, post, offering := s.senderAndRecipient()
	const text = "A casino"
	for _, write := range s.textWrites(by, to, post, offering) {
		s.ok(write(text))
	}
	rename := func(set *domain.Settings) error { set.Name = text; return nil }
	s.ok(errOf(s.UpdateAgent(ctx, by, rename)))
	s.ok(errOf(s.ReplaceOfferings(ctx, by, domain.Menu{Offerings: []domain.OfferingDraft{{Title: text, Deliverable: "D", Mode: "free"}}})))
	const link = "https://casino.example.org/"
	s.ok(errOf(s.AddLink(ctx, by, link, "website")))

	s.blockWord("casino")
	doc, err := s.UpdateAgent(ctx, by, func(set *domain.Settings) error { set.Tagline = "Another"; return nil })
	s.ok(err)
	if doc.Name != text || domain.Deref(doc.Tagline) != "Another" {
		t.Errorf("the card: %+v", doc)
	}
	if _, err := s.UpdateAgent(ctx, by, rename); faultsOf(err) != "name bad_value" {
		t.Errorf("the same name once more: %v", err)
	}
	if _, err := s.AddLink(ctx, by, link, "website"); err != nil {
		t.Errorf("a look at a link that is there: %v", err)
	}
	// A repeated request stores nothing, so it gets its first response.
	for name, write := range s.textWrites(by, to, post, offering) {
		if err := write(text); err != nil {
			t.Errorf("%s, repeated: %v", name, err)
		}
	}
	s.reply(by, post, "Another body.")
	s.ok(errOf(s.RemoveLink(ctx, by, link)))
}

func TestBlocklist_ParsesEntries(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	for _, tt := range []struct{ act, written, stored, want string }{
		{"block-word", "ＢadＷord", "badword", ""},
		{"block-word", "bad-WORD", "bad word", ""},
		{"block-word", "BADword", "badword", ""}, // once more: no note
		{"block-word", "赌", "赌", ""},
		{"block-word", strings.Repeat("赌", 64), strings.Repeat("赌", 64), ""},
		{"block-word", "", "", "entry too_short"},
		{"block-word", "x", "", "entry too_short"},
		{"block-word", "!?", "", "entry too_short"},
		{"block-word", "🖕", "", "entry too_short"},
		{"block-word", strings.Repeat("x", 65), "", "entry too_long"},
		{"block-word", strings.Repeat("ﷺ", 4), "", "entry too_long"}, // 18 characters each, once folded
		{"unblock-word", "Bad, word!", "bad word", ""},
		{"unblock-word", "ＢＡＤ", "bad", "not_found"},
		{"block-domain", " @Mail.Example ", "mail.example", ""},
		{"block-host", "mail.example", "mail.example", ""}, // a list of its own
		{"block-host", "xn--fiq228c.example", "xn--fiq228c.example", ""},
		{"block-network", "192.0.2.77", "192.0.2.77/32", ""},
		{"block-network", "192.0.2.77/24", "192.0.2.0/24", ""},
		{"block-network", "::ffff:198.51.100.7", "198.51.100.7/32", ""},
		{"block-network", "::ffff:198.51.100.7/120", "198.51.100.0/24", ""},
		{"block-network", "2001:db8:1:2:3::4", "2001:db8:1:2::/64", ""},
		{"exempt-network", "2001:db8::/32", "2001:db8::/32", ""},
		{"exempt-network", "10.0.0.0/8", "10.0.0.0/8", ""},
		{"block-domain", "example", "", "entry bad_format"},
		{"block-domain", "agent@mail.example", "", "entry bad_format"},
		{"block-host", "https://spam.example/", "", "entry bad_format"},
		{"block-host", "192.0.2.1", "", "entry bad_format"}, // no link may have one
		{"block-host", "垃圾.example", "", "entry bad_format"},
		{"block-network", "spam.example", "", "entry bad_format"},
		{"block-network", "fe80::1%eth0", "", "entry bad_format"},
		{"block-network", "0.0.0.0/0", "", "entry bad_format"},
		{"block-network", "10.0.0.0/7", "", "entry bad_format"},
		{"exempt-network", "::/0", "", "entry bad_format"},
		{"exempt-network", "192.0.2.0/33", "", "entry bad_format"},
		{"block", "spam.example", "", "invalid_query"},
		{"unblock-network", "2001:db8:1:2::9", "2001:db8:1:2::/64", ""},
		{"unblock-domain", "MAIL.example", "mail.example", ""},
		{"unblock-domain", "mail.example", "mail.example", "not_found"},
		{"unexempt-network", "10.1.0.0/16", "10.1.0.0/16", "not_found"}, // within one, but none
	} {
		stored, err := s.ChangeBlocklist(ctx, tt.act, tt.written)
		if stored != tt.stored || faultsOf(err) != tt.want {
			t.Errorf("%s %s: %q, %q", tt.act, tt.written, stored, faultsOf(err))
		}
	}
	list, err := s.Blocklist(ctx)
	s.ok(err)
	var entries []string
	for _, e := range list {
		entries = append(entries, e.Kind.Act()+" "+e.Entry)
	}
	want := []string{
		"exempt-network 10.0.0.0/8", "exempt-network 2001:db8::/32", "block-host mail.example", "block-host xn--fiq228c.example",
		"block-network 192.0.2.0/24", "block-network 192.0.2.77/32", "block-network 198.51.100.0/24", "block-network 198.51.100.7/32",
		"block-word badword", "block-word 赌", "block-word " + strings.Repeat("赌", 64),
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Error(diff)
	}
	if notes := s.actLines(); len(notes) != 17 || notes[0] != "block-word badword" || notes[15] != "unblock-network 2001:db8:1:2::/64" {
		t.Errorf("the notes: %q", notes)
	}
}

// TestBlocklist_RejectsMailboxesAtADomain that are new. An agent that has one already keeps it.
func TestBlocklist_RejectsMailboxesAtADomain(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	mailbox := func(address string) func(*domain.Registration) {
		return func(r *domain.Registration) { r.Mailbox = address }
	}
	earlier, _ := s.register("earlier", mailbox("a@mail.example"))
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, "earlier"))
	s.changeBlocklist("block-domain", "mail.example")
	for i, tt := range []struct{ address, want string }{
		{"a@mail.example", "mailbox bad_value"}, {"a@MAIL.Example", "mailbox bad_value"}, {"a@eu.mail.example", "mailbox bad_value"},
		{"a@othermail.example", ""}, {"mail.example@example.org", ""}, {"a@example", ""},
	} {
		r := registration(fmt.Sprintf("agent-%d", i))
		r.Mailbox = tt.address
		_, _, err := s.Register(ctx, r, domain.IdempotencyKey{})
		if got := faultsOf(err); got != tt.want {
			t.Errorf("a registration with %s: %s", tt.address, got)
		}
	}
	set := func(address string) error {
		return errOf(s.UpdateAgent(ctx, earlier, func(set *domain.Settings) error { set.Mailbox, set.Tagline = address, "T"; return nil }))
	}
	for address, want := range map[string]string{"a@mail.example": "", "b@mail.example": "mailbox bad_value", "a@mx.mail.example": "mailbox bad_value"} {
		if got := faultsOf(set(address)); got != want {
			t.Errorf("the mailbox %s: %s", address, got)
		}
	}
	_, err := s.ClaimOwner(ctx, earlier, "mei@mail.example")
	if got := faultsOf(err); got != "owner_email bad_value" {
		t.Errorf("a claim: %s", got)
	}
	s.ok(errOf(s.ClaimOwner(ctx, earlier, mei)))
	s.ok(errOf(s.StartRecovery(ctx, "earlier", netip.Addr{})))
	if n := value[int](s, `SELECT COUNT(*) FROM outbox WHERE recipient = 'a@mail.example'`); n != 1 {
		t.Errorf("%d codes for a lost key", n)
	}
	s.changeBlocklist("unblock-domain", "mail.example")
	s.ok(set("b@mail.example"))
}

// TestBlocklist_RejectsAddressesAtAHost that are new, and has verified links checked again.
func TestBlocklist_RejectsAddressesAtAHost(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	pilot, light := s.verified("harbour-pilot"), s.verified("harbour-light")
	s.addCheckedLink(pilot, "https://spam.example/about", foundIt)
	s.addCheckedLink(pilot, "https://www.spam.example/", notThere)
	s.addCheckedLink(light, "https://eu.spam.example/", foundIt)
	s.addCheckedLink(light, "https://harbour.example.org/", foundIt)
	home := func(address string) error {
		return errOf(s.UpdateAgent(ctx, pilot, func(set *domain.Settings) error { set.Homepage = address; return nil }))
	}
	s.ok(home("https://spam.example/"))
	s.changeBlocklist("block-host", "spam.example")
	for address, want := range map[string]string{
		"https://spam.example/": "homepage bad_value", "https://a.SPAM.example/": "homepage bad_value", "http://spam.example:80/": "homepage bad_value",
		"https://notspam.example/": "", "https://harbour.example.org/spam.example": "",
	} {
		if got := faultsOf(home(address)); got != want {
			t.Errorf("the homepage %s: %s", address, got)
		}
	}
	for address, want := range map[string]string{"https://wake.spam.example/": "url bad_value", "https://harbour.example.org/": ""} {
		if _, _, err := s.SetWake(ctx, pilot, address); faultsOf(err) != want {
			t.Errorf("the wake-up URL %s: %v", address, err)
		}
	}
	var links []string
	for _, c := range []domain.Caller{pilot, light} {
		all, err := s.Links(ctx, c.ID)
		s.ok(err)
		for _, l := range all {
			links = append(links, l.URL+" "+l.Status+" "+domain.Deref(l.Failure))
		}
	}
	if diff := cmp.Diff([]string{
		"https://spam.example/about failed blocked", "https://www.spam.example/ failed not_found_on_page",
		"https://eu.spam.example/ failed blocked", "https://harbour.example.org/ verified ",
	}, links); diff != "" {
		t.Errorf("the links: %s", diff)
	}
}

// TestLists_FollowCommits of this process and of others.
func TestLists_FollowCommits(t *testing.T) {
	s := newStore(t)
	blocked := func(address string) bool { return s.Lists.NetworkBlocked(netip.MustParseAddr(address)) }
	if blocked("192.0.2.1") || s.Lists.NetworkBlocked(netip.Addr{}) {
		t.Error("a network is blocked at first")
	}
	s.changeBlocklist("block-network", "192.0.2.0/24")
	s.changeBlocklist("exempt-network", "2001:db8::/48")
	s.changeBlocklist("block-host", "spam.example")
	for address, want := range map[string]bool{"192.0.2.1": true, "::ffff:192.0.2.1": true, "192.0.3.1": false, "2001:db8::1": false} {
		if blocked(address) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
	if !s.Lists.NetworkExempt(netip.MustParseAddr("2001:db8:0:7::1")) || s.Lists.NetworkExempt(netip.MustParseAddr("192.0.2.1")) {
		t.Error("the exempt networks")
	}
	if !s.Lists.HostBlocked("eu.spam.example") || s.Lists.HostBlocked("example") {
		t.Error("the blocked hosts")
	}
	beside := openStore(t, Options{Path: s.path, Beside: true, Clock: s.clock.Now})
	defer beside.Close()
	s.ok(errOf(beside.ChangeBlocklist(context.Background(), "unblock-network", "192.0.2.0/24")))
	for deadline := time.Now().Add(slowRead); blocked("192.0.2.1"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change of another process is not noticed")
		}
	}
}

// TestExemptNetwork_CountsForNoLimit of networks; those of agents hold.
func TestExemptNetwork_CountsForNoLimit(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitNetworkPosts: 1, domain.LimitNetworkReplies: 1, domain.LimitNetworkCollabs: 1, domain.LimitNetworkReports: 1, domain.LimitReplies: 2}), func(o *Options) {
		o.Mails = &domain.MailCaps{Network: domain.Share{1, 1, 1}}
	})
	s.changeBlocklist("exempt-network", "192.0.2.0/24")
	one, two := s.verified("harbour-pilot"), s.verified("harbour-light")
	post := s.post(one)
	for address, want := range map[string]string{"192.0.2.7": "", "198.51.100.7": "rate_limited"} {
		for name, act := range map[string]func() error{
			"a post":  func() error { return s.postFrom(one, address) },
			"a reply": func() error { return s.replyFrom(two, post, address) },
			"a mail":  func() error { _, err := s.ClaimOwner(context.Background(), fromAddress(one, address), mei); return err },
			"a report": func() error {
				return s.ReportPost(context.Background(), s.post(two).ID, netip.MustParseAddr(address), domain.ReportDraft{})
			},
		} {
			s.ok(act())
			wantOutcome(t, name+" from "+address, act(), want)
			s.clock.Advance(domain.Day)
		}
	}
	wantOutcome(t, "one reply", s.replyFrom(two, post, "192.0.2.7"), "")
	wantOutcome(t, "two replies", s.replyFrom(two, post, "192.0.2.7"), "")
	wantOutcome(t, "one reply too many of an agent", s.replyFrom(two, post, "192.0.2.7"), "rate_limited")
}
