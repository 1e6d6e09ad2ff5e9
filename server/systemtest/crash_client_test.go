package systemtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"callbook/store"
	"callbook/store/domain"
)

// crashClient sends requests one after the other, for agents of its own.
type crashClient struct {
	*crashDirectory
	name     string
	random   *rand.Rand
	words    int
	base     string
	http     *http.Client
	agents   []*crashAgent
	posts    []*crashPost
	requests []*crashRequest
	collabs  []*crashRequest
	reported map[string]bool
	doubt    *crashWrite // the call that was not answered
}

func (c *crashClient) founder(st *store.Store) *crashAgent {
	a := c.newAgent()
	r, _, err := st.Register(c.Context(), domain.Registration{
		Handle: a.handle, Name: a.handle, Owner: "B", Mailbox: a.mailbox, AcceptRules: true, Profile: domain.Profile{DescriptionEN: "D"},
	}, domain.IdempotencyKey{})
	if err = errors.Join(err, st.Verify(c.Context(), a.handle)); err != nil {
		c.Fatal(err)
	}
	a.key, a.rows = r.Key, c.exported(st, a)
	return a
}

func (c *crashClient) newAgent() *crashAgent {
	word := c.word()
	return &crashAgent{handle: word, mailbox: word + "@example.org", rows: crashRows{}}
}

// word returns a new word each time.
func (c *crashClient) word() string {
	c.words++
	return fmt.Sprintf("%sword%06d", c.name, c.words)
}

// text returns a new text each time, of a random length.
func (c *crashClient) text(most int) string {
	text := strings.Repeat(c.word()+" ", 1+c.random.IntN(1+c.random.IntN(200)))
	return strings.TrimSpace(text[:min(most, len(text))])
}

func (c *crashClient) reaches(base string) {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.base, c.http = base, &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}}
}

type crashAnswer struct {
	status   int
	replayed bool
	text     []byte
}

func (c *crashClient) send(method, path, key string, body any, once string) (a crashAnswer, err error) {
	r, err := http.NewRequest(method, c.base+path, crashBody(body))
	if err != nil {
		return a, err
	}
	if _, form := body.(url.Values); form {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if once != "" {
		r.Header.Set("Idempotency-Key", once)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	a.status, a.replayed = answer.StatusCode, answer.Header.Get("Idempotent-Replayed") == "true"
	a.text, err = io.ReadAll(answer.Body)
	return a, err
}

func crashBody(body any) io.Reader {
	switch body := body.(type) {
	case nil:
		return http.NoBody
	case url.Values:
		return strings.NewReader(body.Encode())
	}
	text, _ := json.Marshal(body)
	return bytes.NewReader(text)
}

// get reads from a service that must respond.
func (c *crashClient) get(path, key string, into any) (status int) {
	a, err := c.send("GET", path, key, nil, "")
	if err == nil {
		err = json.Unmarshal(a.text, into)
	}
	if err != nil || a.status >= 500 {
		c.broke("GET %s: %d %s %v", path, a.status, a.text, err)
	}
	return a.status
}

// load retries the request without a response, and goes on until another has none.
func (c *crashClient) load() {
	answered := true
	if c.doubt != nil {
		if answered = c.repeat(); answered {
			c.tally.repeated.Add(1)
		}
	}
	for answered {
		w, how := c.next(), c.random.IntN(20)
		switch {
		case w.once == "" || w.by == nil: // a registration that is repeated gets another key
			answered = c.write(w)
		case how == 0:
			answered = c.cuts(w)
		case how == 1:
			answered = c.writesTwice(w)
		default:
			answered = c.write(w)
		}
	}
}

func (c *crashClient) next() *crashWrite {
	for {
		driver := crashDrivers[c.random.IntN(len(crashDrivers))]
		if w := driver.next(c); w != nil {
			w.operation = driver.operation
			return w
		}
	}
}

// write sends a request. It returns false if there was no response.
func (c *crashClient) write(w *crashWrite) bool {
	a, err := c.send(w.method, w.path, w.key(), w.body, w.once)
	switch {
	case err != nil || a.status >= 500:
		w.answered, c.doubt = a.status/100 == 2, w
		c.mayFail(w, a, err)
		return false
	case a.status/100 != 2:
		c.Errorf("%s: %d %s", w.operation, a.status, a.text)
		return true
	}
	c.acknowledged(w, a)
	return true
}

// mayFail reports whether a response may be an error: only a failing disk may cause one.
func (c *crashClient) mayFail(w *crashWrite, a crashAnswer, err error) {
	if err == nil && !c.failing {
		c.broke("%s: %d %s", w.operation, a.status, a.text)
	}
}

// key returns the key with which a request was sent first: a rotation is retried with it.
func (w *crashWrite) key() string {
	if w.by != nil && w.bearer == "" {
		w.bearer = w.by.key
	}
	return w.bearer
}

// cuts sends a request, closes the connection and retries it, perhaps at the same moment.
func (c *crashClient) cuts(w *crashWrite) bool {
	w.unseen, c.doubt = true, w
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		return false
	}
	body, _ := io.ReadAll(crashBody(w.body))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		w.method, w.path, w.once, w.key(), len(body), body)
	_ = conn.Close()
	return c.repeat()
}

// writesTwice sends a request, and retries it after its response.
func (c *crashClient) writesTwice(w *crashWrite) bool {
	if !c.write(w) {
		return false
	}
	w.found, c.doubt = true, w
	return c.repeat()
}

// acknowledged records the effect of a request with a response.
func (c *crashClient) acknowledged(w *crashWrite, a crashAnswer) {
	if !w.answered {
		c.tally.mu.Lock()
		c.tally.acted[w.operation]++
		c.tally.mu.Unlock()
		c.tally.acknowledged.Add(1)
	}
	w.answered = true
	var answer map[string]any
	if len(a.text) > 0 && a.text[0] == '{' {
		if err := json.Unmarshal(a.text, &answer); err != nil {
			c.Errorf("%s: %v", w.operation, err)
		}
	}
	if key, ok := answer["api_key"].(string); ok {
		c.rekey(w.of, key)
	}
	switch id := crashID(w.makes, answer); {
	case !w.found:
		c.keep(w, id)
	case w.makes != "" && w.of.rows[w.makes+" "+id] == "":
		c.tally.doubled.Add(1)
		c.Errorf("%s: repeated, it makes %s", w.operation, id)
	}
}

// rekey records a new key, perhaps an unknown one.
func (c *crashClient) rekey(a *crashAgent, key string) {
	if a.key != "" {
		a.dead = append(a.dead, a.key)
	}
	a.key, a.changed = key, true
}

func crashID(table string, answer map[string]any) string {
	switch table {
	case "":
		return ""
	case "offerings":
		menu := answer[table].([]any)
		return menu[len(menu)-1].(map[string]any)["id"].(string)
	case "replies":
		return answer["reply"].(map[string]any)["id"].(string)
	}
	return answer[strings.TrimSuffix(table, "s")].(map[string]any)["id"].(string)
}

// keep records the effect of a stored request.
func (c *crashClient) keep(w *crashWrite, id string) {
	for a, rows := range w.draft(id) {
		a.rows, a.changed = rows, true
	}
	if w.then != nil {
		w.then(id)
	}
}

// repeat retries the request without a response.
func (c *crashClient) repeat() bool {
	w := c.doubt
	a, err := c.send(w.method, w.path, w.key(), w.body, w.once)
	if err != nil || a.status >= 500 {
		w.answered = w.answered || a.status/100 == 2
		c.mayFail(w, a, err)
		return false
	}
	c.doubt = nil
	switch {
	case a.status/100 == 2 && w.once != "" && !w.unseen && a.replayed != w.found:
		c.tally.doubled.Add(1)
		c.Errorf("%s: it was stored: %v, replayed: %v", w.operation, w.found, a.replayed)
	case a.status/100 == 2:
	case a.status == w.refused && w.found:
		return true
	case a.status == w.refused && w.unseen:
		c.keep(w, "")
		return true
	default:
		c.broke("%s, repeated: %d %s; it was stored: %v", w.operation, a.status, a.text, w.found)
		return true
	}
	c.acknowledged(w, a)
	return true
}

// crashReader reads the stored rows of an agent, if they can be read.
type crashReader func(*crashAgent) (rows crashRows, seen bool)

// settle determines whether the request without a response is stored: as a whole or not at all.
func (c *crashClient) settle(read crashReader) {
	w := c.doubt
	if w == nil || w.found {
		return
	}
	got, appeared := w.touched(read)
	id := w.made(got[w.of])
	w.unseen = len(got) == 0 && !appeared
	switch after := w.draft(id); {
	case w.unseen:
	case !appeared && got.equal(nil):
		if w.answered {
			c.lose("%s, answered with success", w.operation)
		}
	case appeared && w.rekeys:
		c.rekey(w.of, "")
		fallthrough
	case appeared, got.equal(after):
		c.keep(w, id)
		w.found = !w.again
	case w.half != nil && got.equal(w.first()):
		for a, rows := range w.first() {
			a.rows = rows
		}
	default:
		for a, rows := range got {
			c.broke("%s is stored in part (-before +now):\n%s\n(-after +now):\n%s", w.operation, cmp.Diff(a.rows, rows), cmp.Diff(after[a], rows))
		}
	}
}

// touched returns the present rows of the agents that a request concerns. An agent that cannot show them, because it
// is new or has another key, shows that the request is stored.
func (w *crashWrite) touched(read crashReader) (got crashDraft, appeared bool) {
	got = crashDraft{}
	for a := range w.draft("?") {
		rows, seen := read(a)
		if seen {
			got[a] = rows
		} else {
			appeared = appeared || len(a.rows) == 0 || w.rekeys && a.key != ""
		}
	}
	return got, appeared
}

// made returns the id of the record that a request has created.
func (w *crashWrite) made(rows crashRows) string {
	if w.makes == "" {
		return ""
	}
	before := w.of.rows.ids(w.makes)
	return strings.Join(slices.DeleteFunc(rows.ids(w.makes), func(id string) bool { return slices.Contains(before, id) }), " ")
}

func (w *crashWrite) first() crashDraft {
	d := crashDraft{}
	w.half(d)
	return d
}

// equal reports whether rows are as wanted; for nil, as before.
func (d crashDraft) equal(want crashDraft) bool {
	for a, rows := range d {
		wanted := a.rows
		if want != nil {
			wanted = want.of(a)
		}
		if !maps.Equal(rows, wanted) {
			return false
		}
	}
	return true
}

// looks compares the responses of the service with what the client knows: all of it, or the changes since the last
// time.
func (c *crashClient) looks(all bool) {
	c.settle(c.shown)
	for _, a := range c.agents {
		if !all && !a.changed {
			continue
		}
		a.changed = false
		c.compare(a, c.shown)
		c.looksAtCard(a)
		for _, key := range a.dead {
			if status := c.get("/api/me", key, &struct{}{}); status != 401 {
				c.lose("the rotation of a key of %s: %d", a.handle, status)
			}
		}
	}
	for _, p := range c.posts {
		if all || p.changed {
			p.changed = false
			c.looksAtPost(p)
		}
	}
	c.searches()
}

// exports is held during an export: the service builds two at once for a network.
var exports sync.Mutex

// shown returns the rows that an agent can read with its key. If there is no such agent, nothing is stored about it.
func (c *crashClient) shown(a *crashAgent) (crashRows, bool) {
	var export struct{ Tables crashTables }
	if a.key != "" {
		exports.Lock()
		status := c.get("/api/me/export", a.key, &export)
		exports.Unlock()
		if status == 200 {
			return export.Tables.rows(), true
		}
	}
	return crashRows{}, c.get("/api/agents/"+a.handle, "", &struct{}{}) == 404
}

func (c *crashClient) compare(a *crashAgent, read crashReader) {
	rows, seen := read(a)
	switch {
	case !seen && a.key != "":
		c.lose("the key of %s", a.handle)
	case !seen || maps.Equal(rows, a.rows):
		return
	}
	for name, value := range a.rows {
		if got, ok := rows[name]; !ok || got != value {
			c.tally.lost.Add(1)
		}
	}
	for name := range rows {
		if _, ok := a.rows[name]; !ok {
			c.tally.doubled.Add(1)
		}
	}
	c.Errorf("%s (-acknowledged +stored):\n%s", a.handle, cmp.Diff(a.rows, rows))
}

// crashCard is an agent as the public sees it.
type crashCard struct {
	Name, Tagline          string
	Level, Evidence, Posts int
	Menu, Links            []string
}

// card returns the card that an agent must have.
func (c *crashClient) card(a *crashAgent) crashCard {
	card := crashCard{
		Name: a.rows.value("agents", a.handle, "name"), Tagline: a.rows.value("agents", a.handle, "tagline"),
		Posts: min(5, len(a.rows.ids("posts"))), // the newest
	}
	for _, reached := range []string{"verified_at?", "claimed_at?"} {
		if a.is(reached) {
			card.Level++
		}
	}
	partners := map[*crashAgent]bool{} // each has an owner of its own, and counts once
	for _, r := range c.collabs {
		if r.status == "confirmed" && (r.from == a || r.to == a) && r.from.is("claimed_at?") && r.to.is("claimed_at?") {
			partners[r.from], partners[r.to] = true, true
		}
	}
	delete(partners, a)
	card.Evidence = len(partners)
	for _, id := range a.rows.ids("offerings") {
		card.Menu = append(card.Menu, id+" "+a.rows.value("offerings", id, "title"))
	}
	for _, link := range a.rows.ids("links") {
		card.Links = append(card.Links, link+" "+a.rows.value("links", link, "status"))
	}
	return card
}

// looksAtCard checks data derived from an agent's rows.
func (c *crashClient) looksAtCard(a *crashAgent) {
	var shown struct {
		Agent struct {
			Name, Tagline string
			Trust         struct {
				Level int
				Links []struct{ URL, Status string }
			}
			Offerings []struct{ ID, Title string }
		}
		Evidence struct {
			Confirmed int `json:"confirmed_collaborations"`
		}
		RecentPosts []any `json:"recent_posts"`
	}
	if status := c.get("/api/agents/"+a.handle, "", &shown); status == 404 || a.gone {
		if !a.gone || status != 404 {
			c.broke("the card of %s: %d, deleted: %v", a.handle, status, a.gone)
		}
		return
	}
	got := crashCard{shown.Agent.Name, shown.Agent.Tagline, shown.Agent.Trust.Level, shown.Evidence.Confirmed, len(shown.RecentPosts), nil, nil}
	for _, o := range shown.Agent.Offerings {
		got.Menu = append(got.Menu, o.ID+" "+o.Title)
	}
	for _, l := range shown.Agent.Trust.Links {
		got.Links = append(got.Links, l.URL+" "+l.Status)
	}
	slices.Sort(got.Menu)
	slices.Sort(got.Links)
	if diff := cmp.Diff(c.card(a), got); diff != "" {
		c.broke("the card of %s (-stored +shown):\n%s", a.handle, diff)
	}
}

func (c *crashClient) looksAtPost(p *crashPost) {
	var thread struct {
		Post struct {
			Title      string
			ReplyCount int `json:"reply_count"`
		}
		Replies []struct{ ID string }
	}
	status := c.get("/api/posts/"+p.id, "", &thread)
	if p.gone || status == 404 {
		if !p.gone || status != 404 {
			c.broke("a call: %d, deleted: %v", status, p.gone)
		}
		return
	}
	replies := map[string]bool{}
	for _, r := range thread.Replies {
		replies[r.ID] = true
	}
	if thread.Post.Title != p.title || thread.Post.ReplyCount != len(p.replies) || !maps.EqualFunc(replies, p.replies, func(bool, *crashAgent) bool { return true }) {
		c.broke("a call with the replies %v: %+v", p.replies, thread)
	}
}

// searches checks that a search finds existing records and nothing else.
func (c *crashClient) searches() {
	words := map[string]bool{} // of agents and calls, and whether they are there
	for _, p := range c.posts[max(0, len(c.posts)-2):] {
		words["posts?q="+p.title] = !p.gone
	}
	for _, a := range c.agents[len(c.agents)-2:] {
		words["agents?q="+a.handle] = !a.gone
	}
	for word, there := range words {
		var found struct{ Total int }
		if c.get("/api/"+word, "", &found); (found.Total == 1) != there {
			c.broke("%s finds %d; it is there: %v", word, found.Total, there)
		}
	}
}
