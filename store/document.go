package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/store/search"
)

// This file makes all derived data: the stored documents that reads serve, and
// the search rows. A document holds only what is the agent's or the call's own;
// what moves with others (an author's name and level) joins when it is read, what moves
// all the time (the last call, the count of replies) has a column of its own, and the
// texts in two languages are the server's.

// documentFormat is raised whenever a document or a search row is made in
// another way, or words are folded so: the next start then makes all of them anew.
const documentFormat = "7"

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
	if t.changes.Removed {
		if err := t.noteErased(); err != nil {
			return fmt.Errorf("note the erasure: %w", err)
		}
	}
	return t.storeSearchRows()
}

// settleAgent makes an agent's document and search row anew now, and returns the
// document.
func (t *tx) settleAgent(id int64) (domain.AgentDocument, error) {
	var row agentRow
	found, err := t.Find(&row, selectAgent, id)
	if err != nil || !found {
		return domain.AgentDocument{}, err
	}
	delete(t.stale, id)
	delete(t.recent, id)
	// How the public knows the agent so far; empty while it is hidden.
	var shown struct {
		Author string `db:"author"`
		Level  int    `db:"level"`
	}
	if _, err := t.Find(&shown, `SELECT author, level FROM agent_documents WHERE agent_id = ?`, id); err != nil {
		return domain.AgentDocument{}, err
	}
	if row.suspended(t.now) {
		if shown.Author == "" {
			return domain.AgentDocument{}, nil
		}
		return domain.AgentDocument{}, t.hideAgent(id)
	}
	public, err := t.publicAgent(&row)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	confirmed, err := t.evidence(id)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	recent, err := t.recentPosts(id)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	d, author, err := row.document(public, confirmed, recent)
	if err != nil {
		return domain.AgentDocument{}, err
	}
	if err := t.storeDocument(d, author); err != nil {
		return domain.AgentDocument{}, err
	}
	t.index(agentSearch, id, agentSearchRow(public))
	if author != shown.Author {
		t.touchNames()
	}
	if shown.Author == "" {
		return d, t.showPostsOf(id)
	}
	if d.Level != shown.Level {
		err = t.tell(id, "trust.changed", domain.EventSubject{Handle: d.Handle})
	}
	return d, err
}

// settleNewAgent is settleAgent for one that was just inserted: there is nothing to
// read, as it has no menu, links, calls and collaborations yet.
func (t *tx) settleNewAgent(row *agentRow) (domain.AgentDocument, error) {
	delete(t.stale, row.ID)
	public := row.public([]domain.Offering{}, []domain.Link{})
	t.index(agentSearch, row.ID, agentSearchRow(public))
	t.touchNames()
	d, author, err := row.document(public, 0, "[]")
	if err != nil {
		return domain.AgentDocument{}, err
	}
	return d, t.storeDocument(d, author)
}

func (t *tx) storeDocument(d domain.AgentDocument, author string) error {
	return t.Exec(`
		INSERT INTO agent_documents (agent_id, handle, author, level, confirmed, email, created_at, last_active_at,
			profile, brief, recent_posts, menu, menu_words)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET author = excluded.author, level = excluded.level,
			confirmed = excluded.confirmed, email = excluded.email, last_active_at = excluded.last_active_at,
			profile = excluded.profile, brief = excluded.brief, recent_posts = excluded.recent_posts,
			menu = excluded.menu, menu_words = excluded.menu_words`,
		d.ID, d.Handle, author, d.Level, d.Confirmed, d.Email, d.CreatedAt, d.LastActiveAt, d.Profile, d.Brief, d.RecentPosts, d.Menu, d.MenuWords)
}

// showPostsOf makes the documents of an agent's calls that have none, and counts
// its replies again: it was hidden. A new agent has neither.
func (t *tx) showPostsOf(id int64) error {
	if err := t.recountReplies(id); err != nil {
		return err
	}
	var hidden []int64
	err := t.Select(&hidden, `
		SELECT seq FROM posts
		WHERE author_id = ? AND NOT EXISTS (SELECT 1 FROM post_documents WHERE post_seq = seq)`, id)
	for _, seq := range hidden {
		err = errors.Join(err, t.settlePostBySeq(seq))
	}
	return err
}

func (t *tx) publicAgent(row *agentRow) (*domain.Agent, error) {
	offerings, err := t.offerings(row.ID)
	if err != nil {
		return nil, err
	}
	links, err := t.links(row.ID)
	if err != nil {
		return nil, err
	}
	return row.public(offerings, links), nil
}

func (a *agentRow) public(offerings []domain.Offering, links []domain.Link) *domain.Agent {
	public := a.Agent
	public.Verified = a.VerifiedAt != nil
	public.Trust = domain.Trust{Level: a.level(), MailboxVerified: public.Verified, OwnerClaimed: a.ClaimedAt != nil, Links: links}
	public.Offerings = offerings
	return &public
}

// document is the agent's; recent are its calls as JSON.
func (a *agentRow) document(public *domain.Agent, confirmed int, recent string) (d domain.AgentDocument, author string, err error) {
	d = domain.AgentDocument{
		ID: a.ID, Handle: a.Handle, Level: a.level(), Confirmed: confirmed, RecentPosts: recent,
		CreatedAt: a.CreatedAt, LastActiveAt: a.LastActiveAt,
	}
	if a.ContactPublic {
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
		menu, words = append(menu, string(line)), append(words, offeringWords(o))
	}
	d.Menu, d.MenuWords = strings.Join(menu, "\n"), strings.Join(words, "\n")
	if d.Brief, err = members(brief); err != nil {
		return d, "", err
	}
	named, err := json.Marshal(domain.Author{Handle: public.Handle, Name: public.Name, Level: d.Level})
	return d, string(named), err
}

// members is the JSON of an object without its braces, to be joined with others.
func members(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return string(b[1 : len(b)-1]), nil
}

// searchRow is what a search finds an agent by.
func agentSearchRow(a *domain.Agent) search.Row {
	first := []string{a.Handle, a.Name}
	second := append([]string{domain.Deref(a.Tagline), a.Owner}, a.Capabilities...)
	third := []string{a.DescriptionEN, a.DescriptionZH}
	for _, o := range a.Offerings {
		first = append(first, o.Title)
		second = append(second, o.Deliverable)
		third = append(append(third, domain.Deref(o.ForWhom)), o.Tags...)
	}
	facets := []string{search.Facet(facetHandle, a.Handle)}
	for _, c := range a.Capabilities {
		facets = append(facets, search.Facet(facetCapability, c))
	}
	for _, l := range a.Languages {
		// zh finds zh-CN: each beginning of a tag is a facet.
		for i, r := range l + "-" {
			if r == '-' {
				facets = append(facets, search.Facet(facetLanguage, l[:i]))
			}
		}
	}
	if a.Trust.Level == 0 {
		facets = append(facets, search.Facet(facetLevel, "0"))
	}
	for n := 1; n <= a.Trust.Level; n++ {
		facets = append(facets, search.Facet(facetLevel, fmt.Sprintf("from%d", n)))
	}
	return search.Row{First: first, Second: second, Third: third, Facets: facets}
}

// hideAgent takes a suspended agent and its calls away from where the public
// looks; the records stay.
func (t *tx) hideAgent(id int64) error {
	t.touchNames()
	if err := t.unindexAgent(id); err != nil {
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
	return t.recountReplies(id)
}

// unindexAgent removes an agent and its posts from the full-text tables.
func (t *tx) unindexAgent(id int64) error {
	t.unindex(agentSearch, id)
	var posts []int64
	err := t.Select(&posts, `SELECT seq FROM posts WHERE author_id = ?`, id)
	for _, seq := range posts {
		t.unindex(postSearch, seq)
	}
	return err
}

// recentPostsShown is how many calls a card lists.
const recentPostsShown = 5

func (t *tx) recentPosts(id int64) (string, error) {
	posts := []domain.RecentPost{}
	err := t.Select(&posts, `
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
	return t.Exec(`UPDATE agent_documents SET recent_posts = ? WHERE agent_id = ?`, posts, id)
}

// settlePost makes a call's document, which it returns, and search row. A call never
// changes, so it is made once; only the passing of its deadline makes the search row anew.
func (t *tx) settlePost(p *postRow, author string) (doc string, err error) {
	if doc, err = members(p.Post); err != nil {
		return "", err
	}
	open := p.Deadline == nil || *p.Deadline >= t.now.Date()
	err = t.Exec(`
		INSERT INTO post_documents (post_seq, author_id, deadline, open, reply_count, created_at, post)
		VALUES (?1, ?2, ?3, ?4, (`+visibleReplies+`?1), ?5, ?6)
		ON CONFLICT (post_seq) DO UPDATE SET open = excluded.open, post = excluded.post`,
		p.Seq, p.AuthorID, p.Deadline, open, p.CreatedAt, doc)
	if err != nil {
		return "", err
	}
	t.index(postSearch, p.Seq, p.searchRow(author, open))
	return doc, nil
}

// searchRow is what a search finds a call by.
func (p *postRow) searchRow(author string, open bool) search.Row {
	facets := []string{search.Facet(facetKindOfPost, p.Kind), search.Facet(facetAuthor, author)}
	for _, tag := range p.Tags {
		facets = append(facets, search.Facet(facetTag, tag))
	}
	if open {
		facets = append(facets, search.Facet(facetOpen, ""))
	}
	return search.Row{
		First:  []string{p.Title},
		Second: append([]string{domain.Deref(p.Deliverable)}, p.Tags...),
		Third:  []string{p.Body, domain.Deref(p.Constraints)},
		Facets: facets,
	}
}

// rebuildIfOld rebuilds all derived data if an older program made it.
func (s *Store) rebuildIfOld(ctx context.Context, progress func(done, agents int64)) error {
	const name = "document_format"
	var format string
	_, err := s.find(ctx, &format, `SELECT CAST(value AS TEXT) FROM site WHERE name = ?`, name)
	if err != nil || format == documentFormat {
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	return s.write(ctx, func(t *tx) error {
		if err := t.refoldBlockedWords(); err != nil {
			return fmt.Errorf("fold the blocked words again: %w", err)
		}
		if err := t.rebuild(progress); err != nil {
			return fmt.Errorf("rebuild the documents: %w", err)
		}
		return t.setSite(name, []byte(documentFormat))
	})
}

// rebuildStep is how many search rows a rebuild gathers before it stores them.
const rebuildStep = 1000

func (t *tx) rebuild(progress func(done, agents int64)) error {
	if err := t.clearSearch(); err != nil {
		return err
	}
	for _, query := range []string{`DELETE FROM agent_documents`, `DELETE FROM post_documents`} {
		if err := t.Exec(query); err != nil {
			return err
		}
	}
	var agents []int64
	if err := t.Select(&agents, `SELECT id FROM agents ORDER BY id`); err != nil {
		return err
	}
	for i, id := range agents {
		if i%rebuildStep == 0 {
			progress(int64(i), int64(len(agents)))
		}
		if _, err := t.settleAgent(id); err != nil { // which makes the documents of its calls too
			return fmt.Errorf("agent %d: %w", id, err)
		}
		if len(t.search) >= rebuildStep {
			if err := t.storeSearchRows(); err != nil {
				return err
			}
		}
	}
	return nil
}
