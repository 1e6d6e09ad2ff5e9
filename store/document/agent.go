package document

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/txn"
)

// RebuildAgent rebuilds the document and search row of an agent, and returns the document. If
// the agent is to be hidden, it hides the agent and its posts, and stores no document; if it no longer is, it
// shows them.
// A changed level is reported to the agent as the event trust.changed.
func RebuildAgent(t *txn.Tx, id int64) (domain.AgentDocument, error) {
	var row AgentRow
	found, err := t.Find(&row, selectAgents+` WHERE h.id = ?`, id)
	if err != nil || !found {
		return domain.AgentDocument{}, err
	}
	delete(t.StaleAgents, id)
	delete(t.StaleRecent, id)
	if err := row.hashMailbox(t); err != nil {
		return domain.AgentDocument{}, err
	}
	var shown struct { // the current document, if the agent is not hidden
		Author string `db:"author"`
		Level  int    `db:"level"`
	}
	visible, err := t.Find(&shown, `SELECT author, level FROM agent_documents WHERE agent_id = ?`, id)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	public, d, author, err := row.build(t)
	switch {
	case err != nil:
		return domain.AgentDocument{}, err
	case row.Hidden(t.Now) && visible:
		return d, hideAgent(t, id)
	case row.Hidden(t.Now):
		return d, nil
	}
	if err := storeDocument(t, public, d, author); err != nil {
		return domain.AgentDocument{}, err
	}
	if author != shown.Author {
		t.TouchAuthors()
	}
	if !visible {
		return d, showPosts(t, id)
	}
	if d.Level != shown.Level {
		err = t.InsertEvent(id, "trust.changed", domain.EventSubject{Handle: d.Handle})
	}
	return d, err
}

// hashMailbox stores the pseudonym of the agent's mailbox if it is verified.
func (a *AgentRow) hashMailbox(t *txn.Tx) error {
	var hash []byte
	if a.VerifiedAt != nil {
		hash = t.MailboxHash(a.Mailbox)
	}
	if bytes.Equal(hash, a.MailboxHash) {
		return nil
	}
	return t.Exec(`UPDATE agents SET mailbox_hash = ? WHERE id = ?`, hash, a.ID)
}

// build reads what the document of an agent shows.
func (a *AgentRow) build(t *txn.Tx) (public *domain.Agent, d domain.AgentDocument, author string, err error) {
	offerings, err := Offerings(t, a.ID)
	if err != nil {
		return nil, d, "", err
	}
	links, err := Links(t, a.ID)
	if err != nil {
		return nil, d, "", err
	}
	counted, err := countEvidence(t, a.ID)
	if err != nil {
		return nil, d, "", err
	}
	recent, err := recentPosts(t, a.ID)
	if err != nil {
		return nil, d, "", err
	}
	public = a.public(offerings, links)
	d, author, err = a.document(public, counted, recent)
	return public, d, author, err
}

// BuildHidden returns the document of an agent that has none stored, because it is hidden.
func BuildHidden(t *txn.Tx, id int64) (domain.AgentDocument, error) {
	row, err := Agent(t, id)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	_, d, _, err := row.build(t)
	return d, err
}

// BuildNewAgent is RebuildAgent for an agent that was just inserted. It reads nothing, since the
// agent has no menu, links, posts and collaborations yet.
func BuildNewAgent(t *txn.Tx, row *AgentRow) (domain.AgentDocument, error) {
	delete(t.StaleAgents, row.ID)
	public := row.public([]domain.Offering{}, []domain.Link{})
	t.TouchAuthors()
	d, author, err := row.document(public, evidence{}, "[]")
	if err != nil {
		return domain.AgentDocument{}, err
	}
	return d, storeDocument(t, public, d, author)
}

// storeDocument stores the document and search row of a visible agent.
func storeDocument(t *txn.Tx, public *domain.Agent, d domain.AgentDocument, author string) error {
	t.Index(txn.AgentSearch, d.ID, agentSearchRow(public))
	return t.Exec(`
		INSERT INTO agent_documents (agent_id, handle, author, level, confirmed, confirmed_partners, email, created_at, last_active_at,
			profile, brief, recent_posts, menu, menu_words)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET author = excluded.author, level = excluded.level,
			confirmed = excluded.confirmed, confirmed_partners = excluded.confirmed_partners, email = excluded.email, last_active_at = excluded.last_active_at,
			profile = excluded.profile, brief = excluded.brief, recent_posts = excluded.recent_posts,
			menu = excluded.menu, menu_words = excluded.menu_words`,
		d.ID, d.Handle, author, d.Level, d.Confirmed, d.Partners, d.Email, d.CreatedAt, d.LastActiveAt, d.Profile, d.Brief, d.RecentPosts, d.Menu, d.MenuWords)
}

func (a *AgentRow) public(offerings []domain.Offering, links []domain.Link) *domain.Agent {
	public := a.Agent
	public.Verified = a.VerifiedAt != nil
	public.Trust = domain.Trust{Level: a.Level(), MailboxVerified: public.Verified, OwnerClaimed: a.ClaimedAt != nil, Links: links}
	public.Offerings = offerings
	return &public
}

// document returns the agent's document, and the agent as the author of posts. recent are its
// recent posts as JSON.
func (a *AgentRow) document(public *domain.Agent, counted evidence, recent string) (d domain.AgentDocument, author string, err error) {
	d = domain.AgentDocument{
		ID: a.ID, Handle: a.Handle, Level: a.Level(), Confirmed: counted.Confirmed, Partners: counted.Partners, RecentPosts: recent,
		CreatedAt: a.CreatedAt, LastActiveAt: a.LastActiveAt,
	}
	if a.ContactPublic && a.VerifiedAt != nil { // it may be somebody else's
		d.Email = &a.Mailbox
	}
	if d.Profile, err = members(public); err != nil {
		return d, "", err
	}
	brief := domain.Brief{
		Handle: public.Handle, Name: public.Name, Tagline: public.Tagline,
		Capabilities: public.Capabilities, Languages: public.Languages,
		Accepting: public.ContactPolicy.Accepting, Offerings: []domain.BriefOffering{},
	}
	var menu, words []string
	for i := range public.Offerings {
		o := &public.Offerings[i]
		brief.Offerings = append(brief.Offerings, domain.BriefOffering{ID: o.ID, Title: o.Title, Mode: o.Mode})
		line, err := json.Marshal(o)
		if err != nil {
			return d, "", err
		}
		menu = append(menu, string(line))
		words = append(words, search.Tokens(append([]string{o.Title, o.Deliverable, domain.Deref(o.ForWhom)}, o.Tags...)...))
	}
	d.Menu, d.MenuWords = strings.Join(menu, "\n"), strings.Join(words, "\n")
	if d.Brief, err = members(brief); err != nil {
		return d, "", err
	}
	named, err := json.Marshal(domain.Author{Handle: public.Handle, Name: public.Name, Level: d.Level})
	return d, string(named), err
}

// hideAgent deletes the documents and search rows of a hidden agent and its posts. The
// records stay.
func hideAgent(t *txn.Tx, id int64) error {
	t.TouchAuthors()
	if err := UnindexAgent(t, id); err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM agent_documents WHERE agent_id = ?`,
		`DELETE FROM post_documents WHERE author_id = ?`,
	} {
		if err := t.Exec(query, id); err != nil {
			return fmt.Errorf("hide: %w", err)
		}
	}
	return recountReplies(t, id)
}

// showPosts builds the documents of an agent's posts that have none, and counts its replies
// again, for an agent that was hidden.
func showPosts(t *txn.Tx, id int64) error {
	if err := recountReplies(t, id); err != nil {
		return err
	}
	var hidden []int64
	err := t.Select(&hidden, `
		SELECT seq FROM posts
		WHERE author_id = ? AND NOT EXISTS (SELECT 1 FROM post_documents WHERE post_seq = seq)`, id)
	for _, seq := range hidden {
		err = errors.Join(err, RebuildPost(t, seq))
	}
	return err
}

// UnindexAgent removes an agent and its posts from the full-text tables.
func UnindexAgent(t *txn.Tx, id int64) error {
	t.Unindex(txn.AgentSearch, id)
	var posts []int64
	err := t.Select(&posts, `SELECT seq FROM posts WHERE author_id = ?`, id)
	for _, seq := range posts {
		t.Unindex(txn.PostSearch, seq)
	}
	return err
}
