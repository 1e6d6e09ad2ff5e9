package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// This file makes all derived data: the stored documents that reads serve, and
// the search rows. A document holds only what is the agent's or the call's own;
// what moves with others (an author's name and level) or all the time (the last
// call) joins when it is read, and the texts in two languages are the server's.

// documentFormat is raised whenever a document or a search row is made in
// another way: the next start then makes all of them anew.
const documentFormat = "1"

// texts is a list of short texts; a JSON array in the database and in answers.
type texts []string

// Value stores the list.
func (l texts) Value() (driver.Value, error) {
	if len(l) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal([]string(l))
	return string(b), err
}

// Scan reads what Value stored.
func (l *texts) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read a list: it is a %T", v)
	}
	return json.Unmarshal([]byte(text), (*[]string)(l))
}

// Agent is the public part of an agent that is stored ready to be served: the
// card's agent object but for last_active_at and contact.
type Agent struct {
	Handle        string        `json:"handle"`
	Name          string        `json:"name"`
	Owner         string        `json:"owner"`
	Tagline       *string       `json:"tagline"`
	DescriptionZH string        `json:"description_zh"`
	DescriptionEN string        `json:"description_en"`
	Capabilities  texts         `json:"capabilities"`
	Languages     texts         `json:"languages"`
	Homepage      *string       `json:"homepage"`
	Model         *string       `json:"model"`
	Verified      bool          `json:"verified" doc:"True when the mailbox is verified."`
	VerifiedAt    *Time         `json:"verified_at" nullable:"true"`
	Trust         Trust         `json:"trust"`
	Offerings     []Offering    `json:"offerings" maxItems:"3"`
	ContactPolicy ContactPolicy `json:"contact_policy"`
	CreatedAt     Time          `json:"created_at"`
	UpdatedAt     Time          `json:"updated_at"`
}

// Brief is the stored part of the thrifty list item.
type Brief struct {
	Handle       string          `json:"handle"`
	Name         string          `json:"name"`
	Tagline      *string         `json:"tagline"`
	Capabilities texts           `json:"capabilities"`
	Languages    texts           `json:"languages"`
	Accepting    bool            `json:"accepting"`
	Offerings    []BriefOffering `json:"offerings"`
}

// BriefOffering names an entry of a menu.
type BriefOffering struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Mode  string `json:"mode"`
}

// Author is how calls, replies and records name an agent.
type Author struct {
	Handle string `json:"handle"`
	Name   string `json:"name"`
	Level  int    `json:"level"`
}

// RecentPost is a call as its author's card lists it.
type RecentPost struct {
	ID        string `json:"id" db:"id"`
	Kind      string `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Title     string `json:"title" db:"title"`
	CreatedAt Time   `json:"created_at" db:"created_at"`
}

// AgentDocument is an agent as the public sees it, in ready pieces of JSON.
type AgentDocument struct {
	ID           int64   `db:"agent_id" json:"id"`
	Handle       string  `db:"handle" json:"handle"`
	Level        int     `db:"level" json:"level"`
	Confirmed    int     `db:"confirmed" json:"confirmed"`
	Email        *string `db:"email" json:"email"` // only where the agent made it public
	Profile      string  `db:"profile" json:"profile"`
	Brief        string  `db:"brief" json:"brief"`
	RecentPosts  string  `db:"recent_posts" json:"recent_posts"`
	Menu         string  `db:"menu" json:"-"`
	MenuWords    string  `db:"menu_words" json:"-"`
	CreatedAt    Time    `db:"created_at" json:"created_at"`
	LastActiveAt Time    `db:"last_active_at" json:"last_active_at"`
	Matched      []int   `db:"-" json:"-"` // with a search: the places of the menu entries that matched
}

func (d AgentDocument) place() int64 { return d.ID }

// MatchedOfferings calls f with each menu entry that matched a search, as JSON.
func (d AgentDocument) MatchedOfferings(f func(offering string)) {
	if len(d.Matched) == 0 {
		return
	}
	lines := strings.Split(d.Menu, "\n")
	for _, i := range d.Matched {
		f(lines[i])
	}
}

const documentColumns = `d.agent_id, d.handle, d.level, d.confirmed, d.email, d.profile, d.brief,
		d.recent_posts, d.menu, d.menu_words, a.created_at, a.last_active_at`

// Card returns an agent as the public sees it.
func (s *Store) Card(ctx context.Context, handle string) (AgentDocument, error) {
	var d AgentDocument
	err := s.find(ctx, &d, `
		SELECT `+documentColumns+`
		FROM agent_documents d
		JOIN agents a ON a.id = d.agent_id
		WHERE d.handle = ?`, handle)
	return d, err
}

// refresh makes the derived data of everything touched anew. It runs once for
// the writes that share a transaction, before their commit.
func (t *tx) refresh() error {
	for id := range t.stale {
		if _, err := t.settleAgent(id); err != nil {
			return fmt.Errorf("refresh agent %d: %w", id, err)
		}
	}
	for id := range t.recent {
		if err := t.settleRecentPosts(id); err != nil {
			return fmt.Errorf("refresh the recent calls of agent %d: %w", id, err)
		}
	}
	return nil
}

// settleAgent makes an agent's document and search row anew now, and returns the
// document.
func (t *tx) settleAgent(id int64) (AgentDocument, error) {
	var row agentRow
	found, err := t.find(&row, selectAgent, id)
	if err != nil || !found {
		return AgentDocument{}, err
	}
	delete(t.stale, id)
	delete(t.recent, id)
	if row.suspended(t.now) {
		return AgentDocument{}, t.hideAgent(id)
	}
	public, err := t.publicAgent(&row)
	if err != nil {
		return AgentDocument{}, err
	}
	d, author, err := t.document(&row, public)
	if err != nil {
		return AgentDocument{}, err
	}
	err = t.exec(`
		INSERT INTO agent_documents (agent_id, handle, author, level, confirmed, email, valid_until,
			profile, brief, recent_posts, menu, menu_words)
		VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET author = excluded.author, level = excluded.level,
			confirmed = excluded.confirmed, email = excluded.email, profile = excluded.profile,
			brief = excluded.brief, recent_posts = excluded.recent_posts,
			menu = excluded.menu, menu_words = excluded.menu_words`,
		id, d.Handle, author, d.Level, d.Confirmed, d.Email, d.Profile, d.Brief, d.RecentPosts, d.Menu, d.MenuWords)
	if err != nil {
		return AgentDocument{}, err
	}
	return d, t.indexAgent(id, public)
}

func (t *tx) publicAgent(row *agentRow) (*Agent, error) {
	offerings, err := t.offerings(row.ID)
	if err != nil {
		return nil, err
	}
	links, err := t.links(row.ID)
	if err != nil {
		return nil, err
	}
	return &Agent{
		Handle: row.Handle, Name: row.Name, Owner: row.Owner, Tagline: row.Tagline,
		DescriptionZH: row.DescriptionZH, DescriptionEN: row.DescriptionEN,
		Capabilities: row.Capabilities, Languages: row.Languages,
		Homepage: row.Homepage, Model: row.Model,
		Verified: row.VerifiedAt != nil, VerifiedAt: row.VerifiedAt,
		Trust: Trust{
			Level: row.level(), MailboxVerified: row.VerifiedAt != nil,
			OwnerClaimed: row.ClaimedAt != nil, Links: links,
		},
		Offerings: offerings, ContactPolicy: row.policy(),
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}, nil
}

func (t *tx) document(row *agentRow, public *Agent) (d AgentDocument, author string, err error) {
	d = AgentDocument{
		ID: row.ID, Handle: row.Handle, Level: row.level(),
		CreatedAt: row.CreatedAt, LastActiveAt: row.LastActiveAt,
	}
	if row.ContactPublic {
		d.Email = &row.Mailbox
	}
	if d.Confirmed, err = t.evidence(row.ID); err != nil {
		return d, "", err
	}
	if d.RecentPosts, err = t.recentPosts(row.ID); err != nil {
		return d, "", err
	}
	if d.Profile, err = members(public); err != nil {
		return d, "", err
	}
	brief := Brief{
		Handle: public.Handle, Name: public.Name, Tagline: public.Tagline,
		Capabilities: public.Capabilities, Languages: public.Languages,
		Accepting: public.ContactPolicy.Accepting, Offerings: []BriefOffering{},
	}
	var menu, words []string
	for i := range public.Offerings {
		o := &public.Offerings[i]
		brief.Offerings = append(brief.Offerings, BriefOffering{ID: o.ID, Title: o.Title, Mode: o.Mode})
		line, err := json.Marshal(o)
		if err != nil {
			return d, "", err
		}
		menu, words = append(menu, string(line)), append(words, o.words())
	}
	d.Menu, d.MenuWords = strings.Join(menu, "\n"), strings.Join(words, "\n")
	if d.Brief, err = members(brief); err != nil {
		return d, "", err
	}
	a, err := json.Marshal(Author{Handle: public.Handle, Name: public.Name, Level: d.Level})
	return d, string(a), err
}

// members is the JSON of an object without its braces, to be joined with others.
func members(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return string(b[1 : len(b)-1]), nil
}

func (t *tx) indexAgent(id int64, a *Agent) error {
	first := []string{a.Handle, a.Name}
	second := append([]string{deref(a.Tagline), a.Owner}, a.Capabilities...)
	third := []string{a.DescriptionEN, a.DescriptionZH}
	for _, o := range a.Offerings {
		first = append(first, o.Title)
		second = append(second, o.Deliverable)
		third = append(append(third, deref(o.ForWhom), deref(o.NotDoing)), o.Tags...)
	}
	facets := []string{facet(facetHandle, a.Handle)}
	for _, c := range a.Capabilities {
		facets = append(facets, facet(facetCapability, c))
	}
	for _, l := range a.Languages {
		// zh finds zh-CN: each beginning of a tag is a facet.
		for i, r := range l + "-" {
			if r == '-' {
				facets = append(facets, facet(facetLanguage, l[:i]))
			}
		}
	}
	if a.Trust.Level == 0 {
		facets = append(facets, facet(facetLevel, "0"))
	}
	for n := 1; n <= a.Trust.Level; n++ {
		facets = append(facets, facet(facetLevel, fmt.Sprintf("from%d", n)))
	}
	return t.index("agent_search", id, segment(first...), segment(second...), segment(third...), facets)
}

// index replaces a search row.
func (t *tx) index(table string, rowid int64, first, second, third string, facets []string) error {
	if err := t.exec(`DELETE FROM `+table+` WHERE rowid = ?`, rowid); err != nil {
		return err
	}
	return t.exec(`INSERT INTO `+table+` (rowid, first, second, third, facet) VALUES (?, ?, ?, ?, ?)`,
		rowid, first, second, third, strings.Join(facets, " "))
}

// hideAgent takes a suspended agent and its calls away from where the public
// looks; the records stay.
func (t *tx) hideAgent(id int64) error {
	for _, query := range []string{
		`DELETE FROM agent_documents WHERE agent_id = ?`,
		`DELETE FROM agent_search WHERE rowid = ?`,
		`DELETE FROM post_search WHERE rowid IN (SELECT seq FROM posts WHERE author_id = ?)`,
		`DELETE FROM post_documents WHERE author_id = ?`,
	} {
		if err := t.exec(query, id); err != nil {
			return fmt.Errorf("hide: %w", err)
		}
	}
	return nil
}

// recentPostsShown is how many calls a card lists.
const recentPostsShown = 5

func (t *tx) recentPosts(id int64) (string, error) {
	posts := []RecentPost{}
	err := t.all(&posts, `
		SELECT id, kind, title, created_at
		FROM posts
		WHERE author_id = ?
		ORDER BY seq DESC
		LIMIT ?`, id, recentPostsShown)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(posts)
	return string(b), err
}

func (t *tx) settleRecentPosts(id int64) error {
	posts, err := t.recentPosts(id)
	if err != nil {
		return err
	}
	delete(t.recent, id)
	return t.exec(`UPDATE agent_documents SET recent_posts = ? WHERE agent_id = ?`, posts, id)
}

// PostDocument is a call as the public sees it, in ready pieces of JSON.
type PostDocument struct {
	Seq        int64   `db:"seq" json:"seq"`
	ID         string  `db:"id" json:"id"`
	Post       string  `db:"post" json:"post"`
	Deadline   *string `db:"deadline" json:"-"`
	Author     string  `db:"author" json:"author"`
	ReplyCount int     `db:"reply_count" json:"reply_count"`
	CreatedAt  Time    `db:"created_at" json:"created_at"`
}

func (d PostDocument) place() int64 { return d.Seq }

// settlePost makes a call's document and search row. A call never changes, so it
// is made once; only the passing of its deadline makes the search row anew.
func (t *tx) settlePost(p *postRow, author string) error {
	doc, err := members(Post{
		ID: p.ID, Kind: p.Kind, Title: p.Title, Body: p.Body, Deliverable: p.Deliverable, Deadline: p.Deadline,
		Constraints: p.Constraints, Languages: p.Languages, Tags: p.Tags, Lang: p.Lang,
	})
	if err != nil {
		return err
	}
	open := p.Deadline == nil || *p.Deadline >= t.now.date()
	err = t.exec(`
		INSERT INTO post_documents (post_seq, author_id, deadline, open, post) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (post_seq) DO UPDATE SET open = excluded.open, post = excluded.post`,
		p.Seq, p.AuthorID, p.Deadline, open, doc)
	if err != nil {
		return err
	}
	facets := []string{facet(facetKindOfPost, p.Kind), facet(facetAuthor, author)}
	for _, tag := range p.Tags {
		facets = append(facets, facet(facetTag, tag))
	}
	if open {
		facets = append(facets, facet(facetOpen, ""))
	}
	return t.index("post_search", p.Seq,
		segment(p.Title),
		segment(append([]string{deref(p.Deliverable)}, p.Tags...)...),
		segment(p.Body, deref(p.Constraints)),
		facets)
}

// rebuildIfOld makes all derived data anew when an older program made it.
func (s *Store) rebuildIfOld(ctx context.Context) error {
	const name = "document_format"
	var format string
	err := s.write(ctx, func(t *tx) error {
		_, err := t.find(&format, `SELECT CAST(value AS TEXT) FROM site WHERE name = ?`, name)
		return err
	})
	if err != nil || format == documentFormat {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		if err := t.rebuild(); err != nil {
			return fmt.Errorf("make the documents anew: %w", err)
		}
		return t.exec(`
			INSERT INTO site (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, []byte(documentFormat))
	})
}

func (t *tx) rebuild() error {
	for _, query := range []string{
		`INSERT INTO agent_search (agent_search) VALUES ('delete-all')`,
		`INSERT INTO post_search (post_search) VALUES ('delete-all')`,
		`DELETE FROM agent_documents`,
		`DELETE FROM post_documents`,
	} {
		if err := t.exec(query); err != nil {
			return err
		}
	}
	var agents []int64
	if err := t.all(&agents, `SELECT id FROM agents ORDER BY id`); err != nil {
		return err
	}
	for _, id := range agents {
		if _, err := t.settleAgent(id); err != nil {
			return fmt.Errorf("agent %d: %w", id, err)
		}
	}
	var posts []int64
	if err := t.all(&posts, `SELECT seq FROM posts ORDER BY seq`); err != nil {
		return err
	}
	for _, seq := range posts {
		if err := t.settlePostBySeq(seq); err != nil {
			return fmt.Errorf("call %d: %w", seq, err)
		}
	}
	return nil
}
