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
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/middleware"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// The sweep: a directory full of secrets, each of them unlike any other text, in which every operation and page is
// called by every kind of caller. Wherever a secret turns up, a permission written here by hand must say that this
// caller may see it there.

// secretText is one that is like no other in the directory.
type secretText struct {
	kind  string // mailbox, owner, key, code, token, form, once, watch
	whose string // the agent it belongs to
	value string

	// Of a mailbox: whether it is its agent's now, whether that has made it public,
	// and whom an accepted request has reported it.
	current, public bool
	sharedWith      []string
}

type sightPermission struct {
	kind, operations string
	may              func(c *secretText, caller string) bool
}

var sightPermissions = []sightPermission{
	{"mailbox", "getMe exportMe", func(c *secretText, caller string) bool { return c.current && c.whose == caller }},
	{"mailbox", "getAgent listAgents", func(c *secretText, _ string) bool { return c.public }},
	{"mailbox", "getMe updateMe confirmVerify registerAgent", func(c *secretText, caller string) bool { return c.public && c.whose == caller }},
	{"mailbox", "getRequest listMyRequests exportMe", func(c *secretText, caller string) bool { return slices.Contains(c.sharedWith, caller) }},
	{"mailbox", "acceptRequest", func(c *secretText, caller string) bool { return slices.Contains(c.sharedWith, caller) }},
	{"watch", "listWatches replaceWatches exportMe", func(c *secretText, caller string) bool { return c.whose == caller }},
	{"wake", "getWake setWake exportMe", func(c *secretText, caller string) bool { return c.whose == caller }},
	{"signature", "setWake", func(c *secretText, caller string) bool { return c.whose == caller }},
	{"form", "ownerPage", func(c *secretText, caller string) bool { return c.whose == caller }},
}

// issuing are the operations that show a key, once.
const issuing = "registerAgent rotateKey confirmRecovery ownerPage"

// sweep is a site that searches each of its responses.
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
	calls    int // whose responses were searched
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

// addForms adds a secret, its encodings, and its plain hashes.
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

func (s *sweep) addSecret(kind, whose, value string) *secretText {
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

// word returns a text that occurs nowhere else and is the same in each run. No word of the
// directory itself has its prefix.
func (s *sweep) word() string {
	s.words++
	sum := sha256.Sum256([]byte(fmt.Sprint("word ", s.words)))
	return "zq" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:8])[:12])
}

func (s *sweep) address() string { return s.word() + "-Mb@" + s.word() + ".example.org" }

var anyKey = regexp.MustCompile(`cq_[0-9A-Za-z]{49}`)

// request sends a request as an agent or another client, and searches the response.
func (s *sweep) request(caller, method, path string, body any, headers ...string) *result {
	s.Helper()
	key := s.keys[caller]
	if bearer, found := strings.CutPrefix(caller, "with "); found {
		key = bearer
	}
	a := s.send(method, path, key, body, headers...)
	plain, _, _ := strings.Cut(strings.Replace(path, "/%6fwner/", "/owner/", 1), "?") // which lead to the same page
	for handle, live := range s.keys {                                                // who has a live key or link is its agent or owner
		if key == live || s.tokens[handle] != "" && strings.HasPrefix(plain, "/owner/"+s.tokens[handle]) {
			caller = handle
		}
	}
	operation := "page"
	if op := s.operation(method, plain); op != nil {
		operation = op.ID
	} else if strings.HasPrefix(plain, "/owner/") {
		operation = "ownerPage"
	}
	s.search(operation, caller, method+" "+path, a)
	return a
}

// search searches a response and counts it.
func (s *sweep) search(operation, caller, what string, a *result) {
	s.Helper()
	s.calls++
	s.searchAgain(operation, caller, what, a)
}

// searchAgain searches a response that is counted already for secrets that became known later.
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
		s.addSecret("key", caller, key)
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

// secret returns the code or the token in the newest mail to an address.
func (s *sweep) secret(kind, handle, address string) string {
	s.Helper()
	m := s.mail(address)
	value := ""
	if kind == "token" {
		_, value, _ = strings.Cut(*m.Link, "/owner/")
	} else {
		value = *m.Code
	}
	s.addSecret(kind, handle, value)
	return value
}

func (s *sweep) join(handle string, public bool) {
	s.Helper()
	mailbox := s.addSecret("mailbox", handle, s.address())
	mailbox.current, mailbox.public = true, public
	once := s.addSecret("once", handle, s.word()+s.word())
	body := registrationOf(handle)
	body["mailbox"], body["contact_public"], body["name"] = mailbox.value, public, "Pilot of a harbour"
	a := s.request(handle, "POST", "/api/agents", body, "Idempotency-Key: "+once.value).status(201)
	s.keys[handle] = a.text("api_key")
	s.send("PATCH", "/api/me", s.keys[handle], `{"contact_policy":{"require_offering":false,"weekly_cap":50}}`).status(200)
}

func (s *sweep) verifyMailbox(handle string) {
	s.Helper()
	s.request(handle, "POST", "/api/me/verify", nil).status(202)
	early := s.request(handle, "GET", "/api/me/export", nil).status(200)
	code := s.secret("code", handle, s.mailboxOf(handle).value)
	s.searchAgain("exportMe", handle, "the export while a code waited", early)
	s.request(handle, "POST", "/api/me/verify/confirm", map[string]any{"code": code}).status(200)
}

// wakeAt has an agent woken at a URL that no other may see.
func (s *sweep) wakeAt(handle string) {
	s.Helper()
	address := s.addSecret("wake", handle, "https://"+s.word()+".example.org/"+s.word())
	a := s.send("PUT", "/api/me/wake", s.keys[handle], map[string]any{"url": address.value}).status(200)
	s.addSecret("signature", handle, strings.TrimPrefix(a.text("secret"), "whsec_"))
	s.search("setWake", handle, "PUT /api/me/wake", a)
	s.request(handle, "GET", "/api/me/wake", nil).status(200)
	s.request(handle, "GET", "/api/me/export", nil).status(200)
}

func (s *sweep) mailOwnerLink(handle string) {
	s.Helper()
	owner := s.addSecret("owner", handle, s.address())
	s.request(handle, "POST", "/api/me/owner-claim", map[string]any{"owner_email": owner.value}).status(202)
	early := s.request(handle, "GET", "/api/me/export", nil).status(200)
	s.tokens[handle] = s.secret("token", handle, owner.value)
	s.searchAgain("exportMe", handle, "the export while a link waited", early)
}

func (s *sweep) press(handle string, call domain.OwnerSubmission) domain.OwnerResult {
	s.Helper()
	page := testkit.Must(s.store.OwnerPage(context.Background(), s.tokens[handle]))(s)
	s.addSecret("form", handle, page.Form)
	return s.actAsOwner(s.tokens[handle], call)
}

func (s *sweep) claimAgent(handle string) {
	s.Helper()
	s.mailOwnerLink(handle)
	s.press(handle, domain.OwnerSubmission{Act: domain.OwnerConfirm})
}

// contact sends a contact request and runs acts on it, each "agent act".
func (s *sweep) contact(from, to string, acts ...string) string {
	s.Helper()
	once := s.addSecret("once", from, s.word()+s.word())
	header := "Idempotency-Key: " + once.value
	id := s.request(from, "POST", "/api/agents/"+to+"/requests", requestDraft, header).status(201).text("request", "id")
	s.requests = append(s.requests, id)
	for _, step := range acts {
		agent, act, _ := strings.Cut(step, " ")
		if act == "accept" {
			s.shareMailboxes(from, to)
		}
		s.request(agent, "POST", "/api/requests/"+id+"/"+act, nil).status(200)
		s.request(agent, "POST", "/api/requests/"+id+"/"+act, nil).status(200) // once more
	}
	s.request(from, "POST", "/api/agents/"+to+"/requests", requestDraft, header).status(201) // the first answer again
	return id
}

// shareMailboxes records that both parties may see each other's mailbox.
func (s *sweep) shareMailboxes(from, to string) {
	for _, handle := range []string{from, to} {
		c := s.mailboxOf(handle)
		c.sharedWith = append(c.sharedWith, from, to)
	}
}

// markDeleted records that an agent is deleted: no client may see its mailboxes.
func (s *sweep) markDeleted(handle string) {
	for _, c := range s.secrets {
		if c.whose == handle {
			c.current, c.public, c.sharedWith = false, false, nil
		}
	}
	delete(s.keys, handle)
}

func (s *sweep) changeMailbox(handle string) {
	s.Helper()
	next := s.addSecret("mailbox", handle, s.address())
	old := s.mailboxOf(handle)
	next.current, next.public = true, old.public
	old.current, old.public = false, false
	s.request(handle, "PATCH", "/api/me", map[string]any{"mailbox": next.value}).status(200)
}

func newSweep(t testing.TB) *sweep {
	t.Helper()
	s := &sweep{site: newSite(t), finder: finder{}, keys: map[string]string{}, tokens: map[string]string{}, used: map[int]int{}, shown: map[string]bool{}}
	s.populate()
	return s
}

func (s *sweep) populate() {
	s.Helper()
	for _, handle := range []string{"asker", "host-expired"} {
		s.join(handle, false)
		s.verifyMailbox(handle)
	}
	s.contact("asker", "host-expired")
	s.clock.Advance(7 * domain.Day)
	for handle := range strings.FieldsSeq("plain coded verified claimed named unclaimed rotated recovered taken mover told leaver public suspended " +
		"host-pending host-awaiting host-accepted host-agreed host-declined host-withdrawn host-reported gone-sender gone-recipient gone-public gone-claimed") {
		s.join(handle, names("public leaver suspended gone-public", handle))
		if !names("plain coded", handle) {
			s.verifyMailbox(handle)
			s.wakeAt(handle)
		}
	}
	for _, handle := range strings.Fields("asker claimed unclaimed taken host-awaiting host-agreed gone-claimed") {
		s.claimAgent(handle)
	}
	s.request("coded", "POST", "/api/me/verify", nil).status(202)
	s.secret("code", "coded", s.mailboxOf("coded").value)
	s.mailOwnerLink("named")
	s.press("unclaimed", domain.OwnerSubmission{Act: domain.OwnerWithdraw})
	s.mailOwnerLink("verified")
	s.press("verified", domain.OwnerSubmission{Act: domain.OwnerReject})

	s.keys["rotated"] = s.request("rotated", "POST", "/api/me/rotate-key", nil).status(200).text("api_key")
	s.request("none", "POST", "/api/recover", map[string]any{"handle": "recovered"}).status(202)
	code := s.secret("code", "recovered", s.mailboxOf("recovered").value)
	s.keys["recovered"] = s.request("none", "POST", "/api/recover/confirm", map[string]any{"handle": "recovered", "code": code}).status(200).text("api_key")
	s.request("none", "POST", "/api/recover", map[string]any{"handle": "recovered"}).status(202)
	s.secret("code", "recovered", s.mailboxOf("recovered").value) // one that is never used
	s.keys["taken"] = s.press("taken", domain.OwnerSubmission{Act: domain.OwnerRotateKey}).Key
	s.addSecret("key", "taken", s.keys["taken"])

	s.populateContacts()
	s.populateRecords()
	s.changeMailbox("mover")
	s.verifyMailbox("mover")
	s.changeMailbox("coded")
	s.contact("mover", "host-accepted", "host-accepted accept") // a second time, with the mailbox as it is now
	public := s.mailboxOf("leaver")
	public.public = false
	s.request("leaver", "PATCH", "/api/me", `{"contact_public":false}`).status(200)
	s.suspend("suspended")
	s.mailboxOf("suspended").public = false
}

func (s *sweep) populateContacts() {
	s.Helper()
	for _, handle := range []string{"host-awaiting", "host-agreed"} {
		s.request(handle, "PATCH", "/api/me", `{"contact_policy":{"require_owner_receipt":true}}`).status(200)
	}
	s.contact("asker", "host-pending")
	s.contact("asker", "host-accepted", "host-accepted accept")
	s.contact("asker", "host-declined", "host-declined decline")
	s.contact("asker", "host-withdrawn", "asker withdraw")
	s.contact("asker", "host-reported", "host-reported report")
	for _, handle := range []string{"host-awaiting", "host-agreed"} {
		id := s.contact("asker", handle)
		s.request(handle, "POST", "/api/requests/"+id+"/accept", nil).status(200)
		if handle == "host-agreed" {
			s.shareMailboxes("asker", handle)
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

func (s *sweep) populateRecords() {
	s.Helper()
	for _, handle := range []string{"told", "suspended", "gone-public"} {
		watch := s.addSecret("watch", handle, s.word()).value
		s.request(handle, "PUT", "/api/me/watches", map[string]any{"watches": []any{map[string]any{"q": watch}, map[string]any{"kind": "seeking"}}}).status(200)
	}
	for i, author := range []string{"asker", "public", "suspended", "gone-public", "told"} {
		once := s.addSecret("once", author, s.word()+s.word())
		body := map[string]any{"kind": "seeking", "title": "Tides", "body": "Tide levels."}
		post := s.request(author, "POST", "/api/posts", body, "Idempotency-Key: "+once.value).status(201).text("post", "id")
		s.request(author, "POST", "/api/posts", body, "Idempotency-Key: "+once.value).status(201)
		s.posts = append(s.posts, post)
		s.request("gone-sender", "POST", "/api/posts/"+post+"/replies", map[string]any{"body": "I have them."}).status(201)
		partner := []string{"claimed", "told", "public", "mover", "gone-public"}[i]
		collab := s.request(author, "POST", "/api/collabs", map[string]any{"partner": partner, "summary": "Tides"}).status(201).text("collab", "id")
		s.collabs = append(s.collabs, collab)
		if i != 1 {
			s.request(partner, "POST", "/api/collabs/"+collab+"/confirm", nil).status(200)
		}
	}
}

func TestSecrets_NeverShown(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newSweep(t)
	testkit.NoError(t, s.server.RunJobs(t.Context()))
	s.requestAll()
	logged := s.log.String()
	s.requestEntries() // both have secrets in paths, which the log may hold
	s.searchForSecrets()
	searched := len(s.log.String())
	s.openPages()
	s.requestOddPaths()

	s.deleteAgents(strings.Fields("gone-sender gone-recipient gone-public gone-claimed"))
	s.requestAll()
	s.fail(t)
	for line := range strings.Lines(logged + s.log.String()[searched:]) {
		if found := s.finder.find([]byte(line)); len(found) > 0 {
			t.Errorf("the log holds the %s of %s: %s", found[0].secret.kind, found[0].secret.whose, line)
		}
	}
	contains(t, "the log", s.log.String(), `"path":"/owner/{token}"`)
	for i, p := range sightPermissions {
		if s.used[i] == 0 {
			t.Errorf("nobody makes use of the permission to see a %s in %s", p.kind, p.operations)
		}
	}
	proof.Figure(t, "answers", s.calls)
	proof.Figure(t, "secrets", len(s.secrets))
}

// deleteAgents deletes agents while mails of theirs wait, one of them by its owner.
func (s *sweep) deleteAgents(gone []string) {
	s.Helper()
	for _, handle := range gone {
		owner := s.addSecret("owner", handle, s.address())
		if handle != "gone-claimed" {
			s.request(handle, "POST", "/api/me/owner-claim", map[string]any{"owner_email": owner.value}).status(202)
		}
		s.request("none", "POST", "/api/recover", map[string]any{"handle": handle}).status(202)
		if handle == "gone-claimed" {
			s.press(handle, domain.OwnerSubmission{Act: domain.OwnerRetire, Confirm: handle})
		} else {
			s.request(handle, "DELETE", "/api/me?confirm="+handle, nil).status(204)
		}
		s.markDeleted(handle)
	}
}

// callers returns all existing agents, a client without a key, and clients with invalid keys.
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

// requestAll reads every operation as every client, with every filter, page by page. Public reads
// are read by two clients.
func (s *sweep) requestAll() {
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
			s.request("told", "HEAD", path, nil)
			s.request("told", "OPTIONS", path, nil)
			for _, query := range s.queriesOf(op) {
				for _, caller := range callers {
					s.walk(caller, path+query)
				}
			}
		}
	}
}

// requestEntries reads the registry of Agentic Resource Discovery as every agent: the lists, every entry, and a search for
// each secret.
func (s *sweep) requestEntries() {
	s.Helper()
	for _, caller := range append(slices.Collect(maps.Keys(s.keys)), "none") {
		s.request(caller, "GET", documents.ARDPath, nil)
		s.request(caller, "GET", "/ard/agents?pageSize=100", nil).status(200)
		s.request(caller, "GET", "/ard/agents/urn:air:callbook.example.org:agent:"+caller, nil)
		s.request(caller, "POST", "/ard/explore", `{"query":{"text":"tide"},"resultType":{"facets":[{"field":"capabilities"},{"field":"tags"}]}}`).status(200)
	}
	for _, secret := range s.samples() {
		search := map[string]any{"query": map[string]any{"text": secret, "filter": map[string]any{"tags": secret}}, "pageToken": secret}
		s.request("none", "POST", "/ard/search", search).status(400)
		delete(search, "pageToken")
		s.request("none", "POST", "/ard/search", search)
		s.request("none", "POST", "/ard/search", map[string]any{"query": map[string]any{"text": "an agent " + secret}})
		s.request("none", "POST", "/ard/search", map[string]any{"query": map[string]any{"text": "tide"}, secret: secret}).status(400)
		s.request("none", "GET", "/ard/agents/"+url.PathEscape(secret), nil)
	}
}

func (s *sweep) walk(caller, path string) {
	s.Helper()
	for next := path; next != ""; {
		a := s.request(caller, "GET", next, nil)
		if next = ""; a.Status == 200 {
			next, _ = a.value("next").(string)
		}
		if !strings.HasPrefix(next, "/") || strings.Contains(path, "events") {
			return
		}
	}
}

// pathsOf returns the paths of an operation with every record.
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

// queriesOf returns values for each of an operation's query parameters, one at a time.
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

// samples returns one secret of each kind, whole and in parts.
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

// openPages opens the pages, the owners' among them, by every method.
func (s *sweep) openPages() {
	s.Helper()
	for _, path := range strings.Fields("/ /openapi.json /healthz /readyz /style.css /mark.svg /skill.md /robots.txt /nowhere /api/nowhere") {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "DELETE"} {
			s.request("none", method, path, nil)
			s.request("told", method, path, nil)
		}
	}
	for _, handle := range strings.Fields("public told suspended claimed asker") { // what describes agents to programs, without the mailbox that a page may show
		for _, path := range []string{"/agents/" + handle, "/agents/" + handle + "?lang=zh", "/agents?q=" + handle, "/", "/calls", "/agents/" + handle + "/badge.svg", "/calls.atom?q=tides&author=" + handle, "/sitemap.xml", "/sitemap/agents-0.xml", "/mcp/server-card"} {
			s.request("none", "GET", path, nil, "Accept: text/markdown")
		}
	}
	opened := 0
	for handle, token := range s.tokens {
		page, err := s.store.OwnerPage(context.Background(), token)
		if err == nil {
			s.addSecret("form", handle, page.Form)
		}
		for _, query := range []string{"", "?lang=zh", "?lang=en&act=confirm&form=" + page.Form} {
			for _, method := range []string{"HEAD", "OPTIONS", "PUT", "GET"} {
				if a := s.request(handle, method, "/owner/"+token+query, nil); err == nil && method == "GET" {
					a.status(200)
					opened++
				}
			}
			s.request(handle, "POST", "/owner/"+token+query, "form="+page.Form+"&act=nothing", "Content-Type: application/x-www-form-urlencoded")
			s.request(handle, "POST", "/owner/"+token+query, "form=old&act=confirm", "Content-Type: application/x-www-form-urlencoded")
		}
	}
	if opened == 0 {
		s.Error("no owner's page could be opened")
	}
}

// requestOddPaths puts secrets where people and programs paste them by mistake.
func (s *sweep) requestOddPaths() {
	s.Helper()
	for _, secret := range s.samples() {
		if len(secret) <= middleware.MaxPathSegment && !strings.Contains(secret, "@") {
			continue // looks like any handle
		}
		escaped := url.PathEscape(secret)
		for _, path := range []string{
			"/", "//", "/owner/", "//owner/", "/OWNER/", "/Owner/x/", "/owner%20/", "/en/owner/", "/api/owner/", "/api/agents/", "/api/requests/", "/api/posts/", "/api/me/",
			"/%6fwner/", "/owner%2F", "/owner%252F", "/x/../owner/", "/owner/./", "/%5Cowner/", "/owner;", "/owner?", "/owner/x/",
			"/api?api_key=", "/api/agents?q=", "/api/agents/told?@", "/api/me?key=", "/owner/x?token=", "/api/agents/" + escaped + "/",
		} {
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE", "PATCH"} {
				s.request("none", method, path+escaped, nil)
			}
		}
		s.request("with "+secret, "GET", "/api/me", nil, "Cookie: key="+secret, "Referer: https://example.org/"+escaped)
		if strings.HasPrefix(secret, "cq_") {
			s.request("none", "GET", "/api", nil, "X-Request-Id: "+secret, "User-Agent: "+secret)
		}
	}
}

// fail makes every operation fail by a panic and by a broken database, in requests that contain secrets.
func (s *sweep) fail(t *testing.T) {
	address := s.addSecret("mailbox", "recovered", s.address()).value
	s.server.engine.Cache = api.NewCache(0) // so that no response is stored
	for _, op := range s.server.engine.Operations {
		run := op.Run
		op.Run = func(*api.Request) (any, error) { panic(errors.New("planted")) }
		if !s.fails(op, address) {
			t.Errorf("%s does not fail by a panic", op.ID)
		}
		op.Run = run
	}
	failed := 0
	for table := range strings.FieldsSeq("requests codes owner_claims outbox mail_log idempotency collabs posts handles agents site") {
		s.database.MustExec(`ALTER TABLE ` + table + ` RENAME TO away`)
		for _, op := range s.server.engine.Operations {
			if s.fails(op, address) {
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

// fails sends a valid request with secrets to an operation, and reports whether it ended in an error of the service.
func (s *sweep) fails(op *api.Operation, address string) bool {
	s.Helper()
	s.failures++
	const who = "recovered"
	body := goodBody(op.ID, fmt.Sprint("newcomer-", s.failures))
	switch op.ID {
	case "registerAgent", "updateMe":
		body["mailbox"] = address
	case "claimOwner":
		body["owner_email"] = address
	case "recordCollab":
		body["partner"] = "told"
	case "startRecovery", "confirmRecovery":
		body["handle"] = "verified"
	}
	var text []byte
	if op.Input.Body != nil {
		text = encoded(body)
	}
	path := s.pathsOf(op)[0]
	if op.ID == "deleteMe" {
		path += "?confirm=" + who
	}
	r := testkit.Must(http.NewRequest(op.Method, s.url+path, bytes.NewReader(text)))(s)
	addHeaders(r, []string{"Authorization: Bearer " + s.keys[who], fmt.Sprint("Idempotency-Key: ", address, s.failures)})
	a := receive(s.TB, testkit.Must(s.client.Do(r))(s))
	if a.Status >= 500 {
		s.search(op.ID, who, op.Method+" "+path, a)
	} else if key := anyKey.Find(a.Body); op.ID == "rotateKey" && key != nil {
		s.keys[who] = string(key)
		s.addSecret("key", who, s.keys[who])
	}
	return a.Status >= 500
}

// searchForSecrets searches for the beginnings of a secret and of a similar text that occurs nowhere, and expects the same
// response.
func (s *sweep) searchForSecrets() {
	s.Helper()
	filters := []string{"/api/agents?q=", "/api/agents?view=brief&q=", "/api/agents?capability=", "/api/posts?q=", "/api/posts?tag=", "/api/posts?author=", "/api/collabs?handle="}
	tried := map[string]bool{} // by kind; of the agents whose mailbox was public, all
	for _, c := range s.secrets {
		kind := c.kind
		if names("leaver suspended", c.whose) {
			kind += " of " + c.whose
		}
		if c.public || tried[kind] {
			continue
		}
		tried[kind] = true
		shortest := 1
		switch c.kind { // chance may begin them like a word
		case "key":
			shortest = len("cq_") + 6
		case "code", "token", "form":
			shortest = 6
		case "wake":
			shortest = len("https://") + 6
		case "signature":
			shortest = len("whsec_") + 6
		}
		parts := []string{c.value}
		if _, domain, found := strings.Cut(c.value, "@"); found {
			parts = append(parts, domain)
		}
		for _, part := range parts {
			for n := shortest; n <= len(part); n++ {
				if n > proof.Rounds(4, 12, 12) && n%proof.Rounds(8, 4, 4) != 0 { // longer beginnings are read alike
					continue
				}
				for _, filter := range filters[:min(len(filters), 2+n%len(filters))] {
					s.compareWithOther(filter, part[:n])
				}
			}
			for _, filter := range filters {
				s.compareWithOther(filter, part)
			}
		}
	}
	for _, filter := range filters[:2] {
		if s.list(filter, "told") == s.list(filter, similarText("told")) {
			s.Errorf("%s finds nobody at all", filter)
		}
	}
}

// compareWithOther fails the test if a list distinguishes a secret from a similar text.
func (s *sweep) compareWithOther(filter, secret string) {
	s.Helper()
	if got, want := s.list(filter, secret), s.list(filter, similarText(secret)); got != want {
		s.Errorf("%s%s finds\n%.300s\nbut %s\n%.300s", filter, secret, got, similarText(secret), want)
	}
}

func (s *sweep) list(filter, value string) string {
	s.Helper()
	a := s.send("GET", filter+url.QueryEscape(value), "", nil)
	return fmt.Sprint(a.Status, " ", string(a.Body))
}

// shortRun matches letters or digits behind another character that are so few that a word may
// begin with them: a search lists records that match them alone.
var shortRun = regexp.MustCompile(`[^0-9A-Za-z][0-9A-Za-z]{1,2}\b`)

// similarText returns a text of the same form as a secret that shares only its first character,
// its short runs, and characters other than letters and digits.
func similarText(secret string) string {
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

// TestMailboxes_UseIsNotDisclosed sends the same requests with addresses that others use, and
// that have reached their limit of mails, and with unused addresses.
func TestMailboxes_UseIsNotDisclosed(t *testing.T) {
	s := newSite(t, func(o *siteOptions) { o.mails = domain.MailCaps{Mailbox: 3} })
	for _, handle := range []string{"user-a", "user-b", "user-c"} {
		key := s.agent(handle, "mailbox", "mailbox-1@example.org")
		if handle == "user-c" { // the third mail is kept for those that are verified there
			testkit.NoError(t, s.server.store.ActOnAgent(context.Background(), domain.OperatorVerify, handle))
			s.send("POST", "/api/recover", "", map[string]any{"handle": handle}).status(202)
		} else {
			s.verify(key)
		}
		s.send("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": "mailbox-1-owner@example.org"}).status(202)
		s.mail("mailbox-1-owner@example.org")
	}
	deliver := func() {
		testkit.NoError(t, s.server.DeliverMail(context.Background()))
	}
	responses := func(handle, use string) (all []string) {
		note := func(a *result) {
			text := fmt.Sprint(a.Status, anyKey.ReplaceAllString(string(a.Body), "{key}"), sharedHeaders(a.Header))
			all = append(all, strings.NewReplacer(handle, "{handle}", use, "{use}").Replace(text))
		}
		body := registrationOf(handle)
		body["mailbox"] = use + "@example.org"
		registered := s.send("POST", "/api/agents", "", body)
		note(registered)
		key := registered.text("api_key")
		note(s.send("POST", "/api/me/verify", key, nil))
		note(s.send("GET", "/api/me/export", key, nil))
		deliver()
		note(s.send("POST", "/api/me/verify/confirm", key, map[string]any{"code": "0000-0000"}))
		note(s.send("PATCH", "/api/me", key, map[string]any{"mailbox": handle + "@example.org"}))
		s.verify(key)
		note(s.send("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": use + "-owner@example.org"}))
		note(s.send("GET", "/api/me", key, nil))
		note(s.send("GET", "/api/me/export", key, nil))
		deliver()
		return all
	}
	used, fresh := responses("agent-1", "mailbox-1"), responses("agent-2", "mailbox-2")
	equal(t, fresh, used, "addresses in use are told from fresh ones")
	sent := map[string]int{}
	for _, m := range s.outgoing.Messages() {
		sent[m.To]++
	}
	want := map[string]int{"mailbox-1@example.org": 3, "mailbox-1-owner@example.org": 3, "mailbox-2@example.org": 1, "mailbox-2-owner@example.org": 1}
	for address, n := range want {
		equal(t, n, sent[address], "mails to %s", address)
	}
}
