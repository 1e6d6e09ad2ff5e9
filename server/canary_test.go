package server

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// The sweep: a directory full of secrets, each of them unlike any other
// text, in which every operation and page is called by every kind of caller.
// Wherever a secret turns up, a permission written here by hand must say that
// this caller may see it there.

// secretText is one that is like no other in the directory.
type secretText struct {
	kind  string // mailbox, owner, key, code, token, form, once
	whose string // the agent it belongs to
	value string

	// Of a mailbox: whether it is its agent's now, whether that has made it public,
	// and whom an accepted request has told it.
	current, public bool
	told            []string
}

// sightPermission says where a secret may be seen.
type sightPermission struct {
	kind, operations string
	may              func(c *secretText, caller string) bool
}

var sightPermissions = []sightPermission{
	{"mailbox", "getMe exportMe", func(c *secretText, caller string) bool { return c.current && c.whose == caller }},
	{"mailbox", "getAgent listAgents", func(c *secretText, _ string) bool { return c.public }},
	{"mailbox", "getMe updateMe confirmVerify registerAgent", func(c *secretText, caller string) bool { return c.public && c.whose == caller }},
	{"mailbox", "getRequest listMyRequests exportMe", func(c *secretText, caller string) bool { return slices.Contains(c.told, caller) }},
	{"mailbox", "acceptRequest", func(c *secretText, caller string) bool { return slices.Contains(c.told, caller) }},
	{"form", "ownerPage", func(c *secretText, caller string) bool { return c.whose == caller }},
}

// issuing are the operations that show a key, once.
const issuing = "registerAgent rotateKey confirmRecovery ownerPage"

// sweep is a site that searches each of its answers.
type sweep struct {
	*site
	secrets  []*secretText
	finder   finder
	keys     map[string]string // of agents that are there, by handle
	requests []string          // ids
	collabs  []string
	posts    []string
	tokens   map[string]string // of owner's pages, by handle
	used     map[int]int       // permissions, by place
	shown    map[string]bool   // keys that an answer has shown
	words    int
	calls    int // whose answers were searched
	failures int // asked for, by the calls of fail
}

// finder finds needles, each of at least 8 bytes, in one pass over a text.
type finder map[uint64][]needle

type needle struct {
	text   string
	secret *secretText
	hash   bool // not the secret, but a plain hash of it
}

func (f finder) add(c *secretText, text string, hash bool) {
	text = strings.ToLower(text)
	first := binary.LittleEndian.Uint64([]byte(text[:8]))
	f[first] = append(f[first], needle{text, c, hash})
}

// addForms adds a secret as it is and as encodings and plain hashes of it look.
func (f finder) addForms(c *secretText, secret string) {
	for _, form := range []string{secret, strings.ToLower(secret)} {
		f.add(c, hex.EncodeToString([]byte(form)), false)
		for skip := range 3 { // base64 of a text that the secret stands in anywhere
			padded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", skip) + form))
			inner := padded[(skip*8+5)/6 : (skip+len(form))*8/6]
			f.add(c, inner, false)
			f.add(c, strings.NewReplacer("+", "-", "/", "_").Replace(inner), false)
		}
		f.add(c, strings.TrimRight(base32.StdEncoding.EncodeToString([]byte(form)), "=")[:12], false)
		sum, old := sha256.Sum256([]byte(form)), md5.Sum([]byte(form))
		for _, hash := range [][]byte{sum[:], old[:]} {
			f.add(c, hex.EncodeToString(hash), true)
			f.add(c, base64.StdEncoding.EncodeToString(hash)[:20], true)
			f.add(c, base64.URLEncoding.EncodeToString(hash)[:20], true)
		}
	}
	f.add(c, secret, false)
}

// find returns the needles in a text, however it is escaped.
func (f finder) find(text []byte) (found []needle) {
	f.findPlain(text, &found)
	if plain := unescaped(text); !bytes.Equal(plain, text) {
		f.findPlain(plain, &found)
	}
	return found
}

func (f finder) findPlain(text []byte, found *[]needle) {
	text = bytes.ToLower(text)
	for i := 0; i+8 <= len(text); i++ {
		for _, n := range f[binary.LittleEndian.Uint64(text[i:])] {
			if bytes.HasPrefix(text[i:], []byte(n.text)) {
				*found = append(*found, n)
			}
		}
	}
}

var (
	jsonEscape    = regexp.MustCompile(`\\u00[0-9A-Fa-f]{2}`)
	percentEscape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

// unescaped undoes the escapes of JSON, HTML and URLs.
func unescaped(text []byte) []byte {
	character := func(escape []byte) []byte {
		n, _ := strconv.ParseUint(string(escape[len(escape)-2:]), 16, 8) // the expression says so
		return []byte{byte(n)}
	}
	text = jsonEscape.ReplaceAllFunc(text, character)
	text = []byte(html.UnescapeString(string(text)))
	return percentEscape.ReplaceAllFunc(text, character)
}

// TestFinder_FindsEveryEncoding plants a secret in all the ways in which it might leave.
func TestFinder_FindsEveryEncoding(t *testing.T) {
	const secret = "Zq7harbour-Mailbox"
	f := finder{}
	f.addForms(&secretText{}, secret)
	sum := sha256.Sum256([]byte(strings.ToLower(secret)))
	for name, text := range map[string]string{
		"as it is":          "to " + secret + "@example.org",
		"in small letters":  strings.ToLower(secret),
		"JSON":              `"\u005a\u0071\u0037harbour\u002dMailbox"`,
		"HTML":              "Zq7harbour&#45;Mailbox &#x5a;q7harbour&#x2d;Mailbox",
		"percent":           "?q=%5Aq7harbour%2DMailbox",
		"hex":               hex.EncodeToString([]byte("x" + secret)),
		"hex in capitals":   strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"base64":            base64.StdEncoding.EncodeToString([]byte(secret + "@example.org")),
		"base64, one on":    base64.StdEncoding.EncodeToString([]byte("x" + secret + "@example.org")),
		"base64, two on":    base64.URLEncoding.EncodeToString([]byte("xy" + secret + "@example.org")),
		"base32":            base32.StdEncoding.EncodeToString([]byte(secret)),
		"SHA-256":           hex.EncodeToString(sum[:]),
		"SHA-256 in base64": base64.StdEncoding.EncodeToString(sum[:]),
	} {
		if len(f.find([]byte(text))) == 0 {
			t.Errorf("%s: not found in %s", name, text)
		}
	}
	if found := f.find([]byte(strings.Repeat("Zq7harbour Mailbox zq7harbour-mailbo", 9))); len(found) != 0 {
		t.Errorf("found where it is not: %v", found)
	}
}

// know adds a secret to those that are searched for.
func (s *sweep) know(kind, whose, value string) *secretText {
	c := &secretText{kind: kind, whose: whose, value: value}
	s.secrets = append(s.secrets, c)
	switch kind {
	case "mailbox", "owner":
		local, domain, _ := strings.Cut(value, "@")
		s.finder.addForms(c, local)
		s.finder.addForms(c, strings.TrimSuffix(domain, ".example.org"))
		s.finder.addForms(c, value)
	case "key", "token": // a part of one would be one too many
		value = strings.TrimPrefix(value, "cq_")
		s.finder.addForms(c, value[:16])
		s.finder.addForms(c, value[len(value)-16:])
		s.finder.addForms(c, c.value)
	case "code":
		s.finder.add(c, value, false)
		s.finder.addForms(c, strings.ReplaceAll(value, "-", ""))
	default:
		s.finder.addForms(c, value)
	}
	return c
}

// word is a text that stands nowhere else, the same in each run. No word of the
// directory's own begins so.
func (s *sweep) word() string {
	s.words++
	sum := sha256.Sum256([]byte(fmt.Sprint("word ", s.words)))
	return "zq" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:8])[:12])
}

func (s *sweep) address() string { return s.word() + "-Mb@" + s.word() + ".example.org" }

var anyKey = regexp.MustCompile(`cq_[0-9A-Za-z]{49}`)

// asked makes a call as an agent, or as somebody else, and searches the answer.
func (s *sweep) asked(caller, method, path string, body any, headers ...string) *result {
	s.Helper()
	key := s.keys[caller]
	if bearer, found := strings.CutPrefix(caller, "with "); found {
		key = bearer
	}
	a := s.call(method, path, key, body, headers...)
	for handle, live := range s.keys { // who has a live key or link is its agent or owner
		if key == live || s.tokens[handle] != "" && strings.HasPrefix(path, "/owner/"+s.tokens[handle]) {
			caller = handle
		}
	}
	operation := "page"
	plain, _, _ := strings.Cut(path, "?")
	if op := s.operation(method, plain); op != nil {
		operation = op.ID
	} else if strings.HasPrefix(path, "/owner/") {
		operation = "ownerPage"
	}
	s.search(operation, caller, method+" "+path, a)
	return a
}

// search looks through an answer, and counts it.
func (s *sweep) search(operation, caller, what string, a *result) {
	s.Helper()
	s.calls++
	s.searchAgain(operation, caller, what, a)
}

// searchAgain looks through an answer that is counted already, as one does when a
// secret has become known since.
func (s *sweep) searchAgain(operation, caller, what string, a *result) {
	s.Helper()
	text := bytes.Clone(a.Body)
	for name, values := range a.Header {
		text = append(text, "\n"+name+": "+strings.Join(values, ", ")...)
	}
	for _, n := range s.finder.find(text) {
		if !s.permitted(n, operation, caller) {
			s.Errorf("%s by %.40s (%d) shows the %s of %s as %q:\n%.600s", what, caller, a.Status, n.secret.kind, n.secret.whose, n.text, text)
		}
	}
	for _, key := range anyKey.FindAllString(string(text), -1) {
		if !names(issuing, operation) || a.Status >= 300 || s.shown[key] {
			s.Errorf("%s by %.40s (%d) shows a key:\n%.600s", what, caller, a.Status, text)
		}
		s.shown[key] = true
		s.know("key", caller, key)
	}
}

func (s *sweep) permitted(n needle, operation, caller string) bool {
	for i, p := range sightPermissions {
		if p.kind == n.secret.kind && names(p.operations, operation) && !n.hash && p.may(n.secret, caller) {
			s.used[i]++
			return true
		}
	}
	return false
}

// mailboxOf is an agent's mailbox as it is now.
func (s *sweep) mailboxOf(handle string) *secretText {
	s.Helper()
	for _, c := range s.secrets {
		if c.kind == "mailbox" && c.whose == handle && c.current {
			return c
		}
	}
	s.Fatalf("%s has no mailbox", handle)
	return nil
}

// secret takes the code or the link's token out of the newest mail to an address.
func (s *sweep) secret(kind, handle, address string) string {
	s.Helper()
	m := s.mail(address)
	value := ""
	if kind == "token" {
		_, value, _ = strings.Cut(*m.Link, "/owner/")
	} else {
		value = *m.Code
	}
	s.know(kind, handle, value)
	return value
}

// join registers an agent.
func (s *sweep) join(handle string, public bool) {
	s.Helper()
	mailbox := s.know("mailbox", handle, s.address())
	mailbox.current, mailbox.public = true, public
	once := s.know("once", handle, s.word()+s.word())
	body := registrationOf(handle)
	body["mailbox"], body["contact_public"], body["name"] = mailbox.value, public, "Pilot of a harbour"
	a := s.asked(handle, "POST", "/api/agents", body, "Idempotency-Key: "+once.value).status(201)
	s.keys[handle] = a.text("api_key")
	s.call("PATCH", "/api/me", s.keys[handle], `{"contact_policy":{"require_offering":false,"weekly_cap":50}}`).status(200)
}

func (s *sweep) prove(handle string) {
	s.Helper()
	s.asked(handle, "POST", "/api/me/verify", nil).status(202)
	early := s.asked(handle, "GET", "/api/me/export", nil).status(200)
	code := s.secret("code", handle, s.mailboxOf(handle).value)
	s.searchAgain("exportMe", handle, "the export while a code waited", early)
	s.asked(handle, "POST", "/api/me/verify/confirm", map[string]any{"code": code}).status(200)
}

// nameOwner has a link mailed to a person.
func (s *sweep) nameOwner(handle string) {
	s.Helper()
	owner := s.know("owner", handle, s.address())
	s.asked(handle, "POST", "/api/me/owner-claim", map[string]any{"owner_email": owner.value}).status(202)
	early := s.asked(handle, "GET", "/api/me/export", nil).status(200)
	s.tokens[handle] = s.secret("token", handle, owner.value)
	s.searchAgain("exportMe", handle, "the export while a link waited", early)
}

// press presses a button of the owner's page.
func (s *sweep) press(handle string, call domain.OwnerSubmission) domain.OwnerResult {
	s.Helper()
	page, err := s.store.OwnerPage(context.Background(), s.tokens[handle])
	if err != nil {
		s.Fatal(err)
	}
	s.know("form", handle, page.Form)
	return s.actAsOwner(s.tokens[handle], call)
}

func (s *sweep) own(handle string) {
	s.Helper()
	s.nameOwner(handle)
	s.press(handle, domain.OwnerSubmission{Act: domain.OwnerConfirm})
}

// contact sends a contact request, and does to it what acts say, each "agent act".
func (s *sweep) contact(from, to string, acts ...string) string {
	s.Helper()
	once := s.know("once", from, s.word()+s.word())
	header := "Idempotency-Key: " + once.value
	id := s.asked(from, "POST", "/api/agents/"+to+"/requests", requestDraft, header).status(201).text("request", "id")
	s.requests = append(s.requests, id)
	for _, step := range acts {
		agent, act, _ := strings.Cut(step, " ")
		if act == "accept" {
			s.exchange(from, to)
		}
		s.asked(agent, "POST", "/api/requests/"+id+"/"+act, nil).status(200)
		s.asked(agent, "POST", "/api/requests/"+id+"/"+act, nil).status(200) // once more
	}
	s.asked(from, "POST", "/api/agents/"+to+"/requests", requestDraft, header).status(201) // the first answer again
	return id
}

// exchange says that both sides may know each other's mailbox from now on.
func (s *sweep) exchange(from, to string) {
	for _, handle := range []string{from, to} {
		c := s.mailboxOf(handle)
		c.told = append(c.told, from, to)
	}
}

// leave says that an agent is deleted: nobody may know its mailboxes any more.
func (s *sweep) leave(handle string) {
	for _, c := range s.secrets {
		if c.whose == handle {
			c.current, c.public, c.told = false, false, nil
		}
	}
	delete(s.keys, handle)
}

// move gives an agent another mailbox.
func (s *sweep) move(handle string) {
	s.Helper()
	next := s.know("mailbox", handle, s.address())
	old := s.mailboxOf(handle)
	next.current, next.public = true, old.public
	old.current, old.public = false, false
	s.asked(handle, "PATCH", "/api/me", map[string]any{"mailbox": next.value}).status(200)
}

// heldFiles are files of a live database. They stay open until the store is
// closed: closing one drops SQLite's locks on it.
type heldFiles struct {
	testing.TB
	path string
	open []*os.File
}

func holdFiles(t testing.TB, path string) *heldFiles {
	h := &heldFiles{TB: t, path: path}
	t.Cleanup(func() {
		for _, f := range h.open {
			f.Close()
		}
	})
	return h
}

// read returns the bytes of the database, of its log and of the log's index.
func (h *heldFiles) read() map[string][]byte {
	h.Helper()
	files := map[string][]byte{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		f, err := os.Open(h.path + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			h.Fatal(err)
		}
		h.open = append(h.open, f)
		if files["the database"+suffix], err = io.ReadAll(f); err != nil {
			h.Fatal(err)
		}
	}
	return files
}

// holdNone fails the test for each secret in the files that may not be there.
func (s *sweep) holdNone(files *heldFiles, when string, secret func(*secretText) bool) {
	s.Helper()
	for name, data := range files.read() {
		for _, n := range s.found(data, secret) {
			s.Errorf("%s %s holds the %s of %s as %q", name, when, n.secret.kind, n.secret.whose, n.text)
		}
	}
}

// found are the secrets in the bytes of a file. Plain hashes do not count: of keys
// and tokens they are what is kept.
func (s *sweep) found(data []byte, which func(*secretText) bool) []needle {
	return slices.DeleteFunc(s.finder.find(data), func(n needle) bool { return n.hash || !which(n.secret) })
}

func (s *sweep) runDue() {
	s.Helper()
	if err := s.server.RunDue(context.Background()); err != nil {
		s.Fatal(err)
	}
}

func newSweep(t testing.TB) (*sweep, *heldFiles) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	files := holdFiles(t, path) // before the site, so that they are closed after it
	s := &sweep{
		site: newSite(t, func(o *siteOptions) { o.path = path }), finder: finder{}, keys: map[string]string{},
		tokens: map[string]string{}, used: map[int]int{}, shown: map[string]bool{},
	}
	return s, files
}

// furnish makes agents, requests, posts and collaborations in all their states.
func (s *sweep) furnish() {
	s.Helper()
	for _, handle := range []string{"asker", "host-expired"} {
		s.join(handle, false)
		s.prove(handle)
	}
	s.contact("asker", "host-expired")
	s.clock.Advance(7 * domain.Day)
	for handle := range strings.FieldsSeq("plain coded verified claimed named unclaimed rotated recovered taken mover told leaver public suspended " +
		"host-pending host-awaiting host-accepted host-agreed host-declined host-withdrawn host-reported gone-sender gone-recipient gone-public gone-claimed") {
		s.join(handle, names("public leaver suspended gone-public", handle))
		if !names("plain coded", handle) {
			s.prove(handle)
		}
	}
	for _, handle := range strings.Fields("asker claimed unclaimed taken host-awaiting host-agreed gone-claimed") {
		s.own(handle)
	}
	s.asked("coded", "POST", "/api/me/verify", nil).status(202)
	s.secret("code", "coded", s.mailboxOf("coded").value)
	s.nameOwner("named")
	s.press("unclaimed", domain.OwnerSubmission{Act: domain.OwnerWithdraw})
	s.nameOwner("verified")
	s.press("verified", domain.OwnerSubmission{Act: domain.OwnerReject})

	s.keys["rotated"] = s.asked("rotated", "POST", "/api/me/rotate-key", nil).status(200).text("api_key")
	s.asked("none", "POST", "/api/recover", map[string]any{"handle": "recovered"}).status(202)
	code := s.secret("code", "recovered", s.mailboxOf("recovered").value)
	s.keys["recovered"] = s.asked("none", "POST", "/api/recover/confirm", map[string]any{"handle": "recovered", "code": code}).status(200).text("api_key")
	s.asked("none", "POST", "/api/recover", map[string]any{"handle": "recovered"}).status(202)
	s.secret("code", "recovered", s.mailboxOf("recovered").value) // one that is never used
	s.keys["taken"] = s.press("taken", domain.OwnerSubmission{Act: domain.OwnerRotateKey}).Key
	s.know("key", "taken", s.keys["taken"])

	s.furnishContacts()
	s.furnishRecords()
	s.move("mover")
	s.prove("mover")
	s.move("coded")
	s.contact("mover", "host-accepted", "host-accepted accept") // a second time, with the mailbox as it is now
	public := s.mailboxOf("leaver")
	public.public = false
	s.asked("leaver", "PATCH", "/api/me", `{"contact_public":false}`).status(200)
	s.suspend("suspended")
	s.mailboxOf("suspended").public = false
}

func (s *sweep) furnishContacts() {
	s.Helper()
	for _, handle := range []string{"host-awaiting", "host-agreed"} {
		s.asked(handle, "PATCH", "/api/me", `{"contact_policy":{"require_owner_receipt":true}}`).status(200)
	}
	s.contact("asker", "host-pending")
	s.contact("asker", "host-accepted", "host-accepted accept")
	s.contact("asker", "host-declined", "host-declined decline")
	s.contact("asker", "host-withdrawn", "asker withdraw")
	s.contact("asker", "host-reported", "host-reported report")
	for _, handle := range []string{"host-awaiting", "host-agreed"} {
		id := s.contact("asker", handle)
		s.asked(handle, "POST", "/api/requests/"+id+"/accept", nil).status(200)
		if handle == "host-agreed" {
			s.exchange("asker", handle)
			s.press(handle, domain.OwnerSubmission{Act: domain.OwnerAgree, Request: id})
		}
	}
	s.contact("mover", "told", "told accept")
	s.contact("told", "mover", "mover accept")
	s.contact("asker", "public", "public accept")
	s.contact("asker", "leaver", "leaver accept")
	s.contact("suspended", "told", "told accept")
	for _, handle := range []string{"gone-sender", "gone-public", "gone-claimed"} {
		s.contact(handle, "told", "told accept")
		s.contact("told", handle, handle+" accept")
		s.contact(handle, "host-pending")
	}
	s.contact("told", "gone-recipient", "gone-recipient accept")
	s.contact("asker", "gone-recipient")
}

func (s *sweep) furnishRecords() {
	s.Helper()
	for i, author := range []string{"asker", "public", "suspended", "gone-public", "told"} {
		once := s.know("once", author, s.word()+s.word())
		body := map[string]any{"kind": "seeking", "title": "Tides", "body": "Tide levels."}
		post := s.asked(author, "POST", "/api/posts", body, "Idempotency-Key: "+once.value).status(201).text("post", "id")
		s.asked(author, "POST", "/api/posts", body, "Idempotency-Key: "+once.value).status(201)
		s.posts = append(s.posts, post)
		s.asked("gone-sender", "POST", "/api/posts/"+post+"/replies", map[string]any{"body": "I have them."}).status(201)
		partner := []string{"claimed", "told", "public", "mover", "gone-public"}[i]
		collab := s.asked(author, "POST", "/api/collabs", map[string]any{"partner": partner, "summary": "Tides"}).status(201).text("collab", "id")
		s.collabs = append(s.collabs, collab)
		if i != 1 {
			s.asked(partner, "POST", "/api/collabs/"+collab+"/confirm", nil).status(200)
		}
	}
}

func TestSecrets_NeverShown(t *testing.T) {
	proof.OneByOne(t)
	s, files := newSweep(t)
	s.furnish()
	s.runDue()
	s.holdNone(files, "once all mails are delivered", func(c *secretText) bool { return c.kind != "mailbox" })
	s.askAll()
	s.askWrongly()
	s.openPages()
	s.oddAddresses()

	gone := strings.Fields("gone-sender gone-recipient gone-public gone-claimed")
	before := files.read()["the database"]
	for _, handle := range gone {
		if len(s.found(before, func(c *secretText) bool { return c.whose == handle && c.kind == "mailbox" })) == 0 {
			t.Errorf("the mailbox of %s is not found in the database, where it stands", handle)
		}
	}
	s.depart(gone)
	s.askAll()
	s.clock.Advance(26 * time.Hour) // the file is compacted in the night
	s.runDue()
	s.holdNone(files, "after the deletion", func(c *secretText) bool { return slices.Contains(gone, c.whose) })

	s.fail(t)
	for line := range strings.Lines(s.log.String()) {
		if found := s.finder.find([]byte(line)); len(found) > 0 {
			t.Errorf("the log holds the %s of %s: %s", found[0].secret.kind, found[0].secret.whose, line)
		}
	}
	for i, p := range sightPermissions {
		if s.used[i] == 0 {
			t.Errorf("nobody makes use of the permission to see a %s in %s", p.kind, p.operations)
		}
	}
	proof.Figure(t, "answers", s.calls)
	proof.Figure(t, "secrets", len(s.secrets))
}

// depart deletes agents while mails of theirs wait, one of them by its owner.
func (s *sweep) depart(gone []string) {
	s.Helper()
	for _, handle := range gone {
		owner := s.know("owner", handle, s.address())
		if handle != "gone-claimed" {
			s.asked(handle, "POST", "/api/me/owner-claim", map[string]any{"owner_email": owner.value}).status(202)
		}
		s.asked("none", "POST", "/api/recover", map[string]any{"handle": handle}).status(202)
		if handle == "gone-claimed" {
			s.press(handle, domain.OwnerSubmission{Act: domain.OwnerRetire, Confirm: handle})
		} else {
			s.asked(handle, "DELETE", "/api/me?confirm="+handle, nil).status(204)
		}
		s.leave(handle)
	}
}

// callers are all agents that are there, nobody, and those who show a key that is
// dead.
func (s *sweep) callers() []string {
	callers := []string{"none"}
	live := map[string]bool{}
	for handle, key := range s.keys {
		callers, live[key] = append(callers, handle), true
	}
	for _, c := range s.secrets {
		if c.kind == "key" && !live[c.value] {
			callers = append(callers, "with "+c.value)
		}
	}
	return callers
}

// askAll has everybody read everything, with every filter, page by page. What is
// public is read by two.
func (s *sweep) askAll() {
	s.Helper()
	for _, op := range s.server.engine.Operations {
		if !op.Reads() {
			continue
		}
		callers := s.callers()
		if !op.Keyed {
			callers = []string{"none", "told"}
		}
		for _, path := range s.pathsOf(op) {
			s.asked("told", "HEAD", path, nil)
			s.asked("told", "OPTIONS", path, nil)
			for _, query := range s.queriesOf(op) {
				for _, caller := range callers {
					s.walk(caller, path+query)
				}
			}
		}
	}
}

func (s *sweep) walk(caller, path string) {
	s.Helper()
	for next := path; next != ""; {
		a := s.asked(caller, "GET", next, nil)
		if next = ""; a.Status == 200 {
			next, _ = a.value("next").(string)
		}
		if !strings.HasPrefix(next, "/") || strings.Contains(path, "events") {
			return
		}
	}
}

// pathsOf are an operation's paths, with everything that may stand in them.
func (s *sweep) pathsOf(op *api.Operation) []string {
	if !strings.Contains(op.Path, "{") {
		return []string{op.Path}
	}
	noun := strings.Split(op.Path, "/")[2]
	things := map[string][]string{"agents": nil, "requests": s.requests, "posts": s.posts, "collabs": s.collabs}[noun]
	if noun == "agents" {
		for _, c := range s.secrets {
			if !slices.Contains(things, c.whose) {
				things = append(things, c.whose)
			}
		}
	}
	var paths []string
	for _, thing := range append(things, "req_06e8mlgv2g5hg0r8fvhlm0q1s4") {
		paths = append(paths, strings.NewReplacer("{handle}", thing, "{id}", thing).Replace(op.Path))
	}
	return paths
}

// queriesOf are values for each of an operation's query parameters, one at a time.
func (s *sweep) queriesOf(op *api.Operation) []string {
	queries := []string{""}
	for _, f := range op.Input.Query {
		if f.Name == "wait" {
			continue
		}
		for _, value := range s.valuesOf(f.Schema) {
			queries = append(queries, "?"+f.Name+"="+url.QueryEscape(value))
		}
	}
	return queries
}

func (s *sweep) valuesOf(schema *huma.Schema) (values []string) {
	switch {
	case len(schema.Enum) > 0:
		for _, v := range schema.Enum {
			values = append(values, fmt.Sprint(v))
		}
	case schema.Type == huma.TypeBoolean:
		values = []string{"true", "false"}
	case schema.Type == huma.TypeInteger:
		values = []string{fmt.Sprint(*schema.Minimum), fmt.Sprint(*schema.Maximum)}
	default:
		values = append(s.samples(), "harbour", "told", "en", "2026-01-01T00:00:00Z")
	}
	return values
}

// samples are one secret of each kind, as it is and in parts.
func (s *sweep) samples() (samples []string) {
	kinds := map[string]bool{}
	for _, c := range s.secrets {
		if !kinds[c.kind] {
			kinds[c.kind] = true
			local, domain, found := strings.Cut(c.value, "@")
			if samples = append(samples, c.value); found {
				samples = append(samples, local, domain)
			}
		}
	}
	return samples
}

// askWrongly makes the calls that write, as they are refused: with secrets wherever
// a call can hold them, and by agents that have no part in what the call is about.
func (s *sweep) askWrongly() {
	s.Helper()
	for _, op := range s.server.engine.Operations {
		if op.Reads() {
			continue
		}
		paths := s.pathsOf(op)
		for _, secret := range s.samples() {
			for _, caller := range []string{"none", "told", "suspended"} {
				s.asked(caller, op.Method, paths[0], s.poisoned(op, secret), "Idempotency-Key: "+secret)
				s.asked(caller, op.Method, paths[0], `{"reason":"`+secret, "X-Forwarded-For: "+url.PathEscape(secret))
			}
		}
		for _, path := range paths {
			if strings.HasPrefix(op.Path, "/api/requests/{id}") || strings.HasPrefix(op.Path, "/api/collabs/{id}") {
				s.asked("plain", op.Method, path, nil).status(404)
			}
			if op.ID == "acceptRequest" || op.ID == "declineRequest" || op.ID == "reportRequest" {
				s.asked("asker", op.Method, path, nil) // who only ever sends
			}
		}
	}
}

// poisoned is a body that is refused, with a secret in all of its fields.
func (s *sweep) poisoned(op *api.Operation, secret string) any {
	body := map[string]any{secret + "@": secret}
	if op.Input.Body != nil {
		for name := range api.Resolve(s.server.engine.Registry, op.Input.Body.Schema).Properties {
			body[name] = secret
		}
	}
	return body
}

// openPages opens the pages, the owners' among them, by every method.
func (s *sweep) openPages() {
	s.Helper()
	for _, path := range strings.Fields("/ /openapi.json /healthz /readyz /style.css /mark.svg /skill.md /robots.txt /nowhere /api/nowhere") {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "DELETE"} {
			s.asked("none", method, path, nil)
			s.asked("told", method, path, nil)
		}
	}
	opened := 0
	for handle, token := range s.tokens {
		page, err := s.store.OwnerPage(context.Background(), token)
		if err == nil {
			s.know("form", handle, page.Form)
		}
		for _, query := range []string{"", "?lang=zh", "?lang=en&form=" + page.Form} {
			for _, method := range []string{"HEAD", "OPTIONS", "PUT", "GET"} {
				if a := s.asked(handle, method, "/owner/"+token+query, nil); err == nil && method == "GET" {
					a.status(200)
					opened++
				}
			}
			s.asked(handle, "POST", "/owner/"+token+query, "form="+page.Form+"&act=nothing", "Content-Type: application/x-www-form-urlencoded")
			s.asked(handle, "POST", "/owner/"+token+query, "form=old&act=confirm", "Content-Type: application/x-www-form-urlencoded")
		}
	}
	if opened == 0 {
		s.Error("no owner's page could be opened")
	}
}

// oddAddresses puts secrets where people and programs paste them by mistake.
func (s *sweep) oddAddresses() {
	s.Helper()
	for _, secret := range s.samples() {
		if len(secret) <= middleware.MaxPathSegment && !strings.Contains(secret, "@") {
			continue // looks like any handle
		}
		escaped := url.PathEscape(secret)
		for _, path := range []string{
			"/", "//", "/owner/", "//owner/", "/OWNER/", "/Owner/x/", "/owner%20/", "/en/owner/", "/api/owner/", "/api/agents/", "/api/requests/", "/api/posts/", "/api/me/",
			"/api?api_key=", "/api/agents?q=", "/api/agents/told?@", "/api/me?key=", "/owner/x?token=", "/api/agents/" + escaped + "/",
		} {
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE", "PATCH"} {
				s.asked("none", method, path+escaped, nil)
			}
		}
		s.asked("with "+secret, "GET", "/api/me", nil, "Cookie: key="+secret, "Referer: https://example.org/"+escaped)
		if strings.HasPrefix(secret, "cq_") {
			s.asked("none", "GET", "/api", nil, "X-Request-Id: "+secret, "User-Agent: "+secret)
		}
	}
}

// fail has every operation fail in two ways, by a panic and by a broken database,
// while secrets are under way.
func (s *sweep) fail(t *testing.T) {
	address := s.know("mailbox", "recovered", s.address()).value
	for _, op := range s.server.engine.Operations {
		run := op.Run
		op.Run = func(*api.Request) (api.Response, error) { panic(errors.New("planted")) }
		if !s.failing(op, address) {
			t.Errorf("%s does not fail by a panic", op.ID)
		}
		op.Run = run
	}
	failed := 0
	for table := range strings.FieldsSeq("requests codes owner_claims outbox mail_log idempotency collabs posts links handles agents site") {
		s.database.MustExec(`ALTER TABLE ` + table + ` RENAME TO away`)
		for _, op := range s.server.engine.Operations {
			if s.failing(op, address) {
				failed++
			}
		}
		s.database.MustExec(`ALTER TABLE away RENAME TO ` + table)
	}
	if failed < 50 {
		t.Errorf("only %d calls failed on the broken database", failed)
	}
	if log := s.log.String(); !strings.Contains(log, "planted") || !strings.Contains(log, "no such table") {
		t.Error("the log does not tell why calls failed")
	}
}

// failing makes a good call of an operation with secrets in it, and tells whether
// it ended in an error of the service.
func (s *sweep) failing(op *api.Operation, address string) bool {
	s.Helper()
	s.failures++
	const who = "recovered"
	registration := registrationOf(fmt.Sprint("newcomer-", s.failures))
	registration["mailbox"] = address
	body := map[string]any{
		"registerAgent": registration, "updateMe": map[string]any{"mailbox": address}, "claimOwner": map[string]any{"owner_email": address},
		"replaceOfferings": []any{}, "confirmVerify": map[string]any{"code": "7K3M-Q9XA"}, "setLink": map[string]any{"url": "https://pages.example.org/"},
		"startRecovery": map[string]any{"handle": "verified"}, "confirmRecovery": map[string]any{"handle": "verified", "code": "7K3M-Q9XA"},
		"sendRequest": requestDraft, "createPost": map[string]any{"kind": "seeking", "title": "Tides", "body": "Tides."},
		"createReply": map[string]any{"body": "Tides."}, "recordCollab": map[string]any{"partner": "told", "summary": "Tides"},
	}[op.ID]
	text, err := json.Marshal(body)
	if body == nil || err != nil {
		text = nil
	}
	path := s.pathsOf(op)[0]
	if op.ID == "deleteMe" {
		path += "?confirm=" + who
	}
	s.server.engine.Cache.Clear() // so that no answer is kept
	r, err := http.NewRequest(op.Method, s.url+path, bytes.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.keys[who])
	r.Header.Set("Idempotency-Key", fmt.Sprint(address, s.failures))
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	a := &result{TB: s.TB, Status: response.StatusCode, Header: response.Header}
	if a.Body, err = io.ReadAll(response.Body); err != nil {
		s.Fatal(err)
	}
	if a.Status >= 500 {
		s.search(op.ID, who, op.Method+" "+path, a)
	} else if key := anyKey.Find(a.Body); op.ID == "rotateKey" && key != nil {
		s.keys[who] = string(key)
		s.know("key", who, s.keys[who])
	}
	return a.Status >= 500
}

// TestSecrets_NotFoundBySearch asks lists for every beginning of a secret, and
// for as much of a text of the same form that stands nowhere.
func TestSecrets_NotFoundBySearch(t *testing.T) {
	proof.OneByOne(t)
	s, _ := newSweep(t)
	s.furnish()
	filters := []string{"/api/agents?q=", "/api/agents?view=brief&q=", "/api/agents?capability=", "/api/posts?q=", "/api/posts?tag=", "/api/posts?author=", "/api/collabs?handle="}
	for _, c := range s.secrets {
		private := !c.public && names("claimed told leaver suspended recovered", c.whose) || c.whose == "coded" && c.kind == "mailbox"
		if !private {
			continue
		}
		shortest := 1
		switch c.kind { // chance may begin them like a word
		case "key":
			shortest = len("cq_") + 6
		case "code", "token", "form":
			shortest = 6
		}
		parts := []string{c.value}
		if _, domain, found := strings.Cut(c.value, "@"); found {
			parts = append(parts, domain)
		}
		for _, part := range parts {
			for n := shortest; n <= len(part); n++ {
				for _, filter := range filters[:min(len(filters), 2+n%len(filters))] {
					s.blind(filter, part[:n])
				}
			}
			for _, filter := range filters {
				s.blind(filter, part)
			}
		}
	}
	for _, filter := range filters[:2] {
		if s.list(filter, "told") == s.list(filter, unlike("told")) {
			t.Errorf("%s finds nobody at all", filter)
		}
	}
}

// blind fails the test if a list tells a secret from what is none.
func (s *sweep) blind(filter, secret string) {
	s.Helper()
	if got, want := s.list(filter, secret), s.list(filter, unlike(secret)); got != want {
		s.Errorf("%s%s finds\n%.300s\nbut %s\n%.300s", filter, secret, got, unlike(secret), want)
	}
}

func (s *sweep) list(filter, value string) string {
	s.Helper()
	a := s.call("GET", filter+url.QueryEscape(value), "", nil)
	return fmt.Sprint(a.Status, " ", string(a.Body))
}

// shortRun is letters or digits behind others that are so few that they may begin
// any word: a search lists records that match them alone.
var shortRun = regexp.MustCompile(`[^0-9A-Za-z][0-9A-Za-z]{1,2}\b`)

// unlike returns a text of the same form as a secret that has nothing but its first
// character, its short runs, and what is neither letter nor digit, in common with it.
func unlike(secret string) string {
	other := []byte(secret)
	keep := map[int]bool{0: true}
	for _, run := range shortRun.FindAllStringIndex(secret, -1) {
		for i := run[0]; i < run[1]; i++ {
			keep[i] = true
		}
	}
	for i := range other {
		switch c := other[i]; {
		case keep[i]:
		case 'a' <= c && c <= 'z':
			other[i] = 'a' + (c-'a'+7)%26
		case 'A' <= c && c <= 'Z':
			other[i] = 'A' + (c-'A'+7)%26
		case '0' <= c && c <= '9':
			other[i] = '0' + (c-'0'+7)%10
		}
	}
	return string(other)
}

// TestMailboxes_UseIsNotDisclosed makes the same calls with addresses that others use,
// and have had so many mails sent to that no more go out, and with fresh ones.
func TestMailboxes_UseIsNotDisclosed(t *testing.T) {
	s := newSite(t, func(o *siteOptions) { o.mails = domain.MailCaps{Mailbox: 3} })
	for _, handle := range []string{"user-a", "user-b", "user-c"} {
		key := s.agent(handle, "mailbox", "mailbox-1@example.org")
		s.verify(key)
		s.call("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": "mailbox-1-owner@example.org"}).status(202)
		s.mail("mailbox-1-owner@example.org")
	}
	deliver := func() {
		if err := s.server.DeliverMail(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(handle, use string) (all []string) {
		note := func(a *result) {
			text := fmt.Sprint(a.Status, anyKey.ReplaceAllString(string(a.Body), "{key}"), sharedHeaders(a.Header))
			all = append(all, strings.NewReplacer(handle, "{handle}", use, "{use}").Replace(text))
		}
		body := registrationOf(handle)
		body["mailbox"] = use + "@example.org"
		registered := s.call("POST", "/api/agents", "", body)
		note(registered)
		key := registered.text("api_key")
		note(s.call("POST", "/api/me/verify", key, nil))
		note(s.call("GET", "/api/me/export", key, nil))
		deliver()
		note(s.call("POST", "/api/me/verify/confirm", key, map[string]any{"code": "0000-0000"}))
		note(s.call("PATCH", "/api/me", key, map[string]any{"mailbox": handle + "@example.org"}))
		s.verify(key)
		note(s.call("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": use + "-owner@example.org"}))
		note(s.call("GET", "/api/me", key, nil))
		note(s.call("GET", "/api/me/export", key, nil))
		deliver()
		return all
	}
	used, fresh := answers("agent-1", "mailbox-1"), answers("agent-2", "mailbox-2")
	if diff := cmp.Diff(fresh, used); diff != "" {
		t.Errorf("addresses in use are told from fresh ones (-fresh +used): %s", diff)
	}
	sent := map[string]int{}
	for _, m := range s.outgoing.Messages() {
		sent[m.To]++
	}
	want := map[string]int{"mailbox-1@example.org": 3, "mailbox-1-owner@example.org": 3, "mailbox-2@example.org": 1, "mailbox-2-owner@example.org": 1}
	for address, n := range want {
		if sent[address] != n {
			t.Errorf("%d mails went to %s, want %d", sent[address], address, n)
		}
	}
}
