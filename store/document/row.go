package document

import (
	"callbook/store/domain"
	"callbook/store/text"
	"callbook/store/txn"
)

// AgentRow is a row of the table agents with its handle.
type AgentRow struct {
	domain.Agent
	domain.Suspension
	ID            int64        `db:"id"`
	Mailbox       string       `db:"mailbox"`
	MailboxHash   []byte       `db:"mailbox_hash"` // NULL unless the mailbox is verified
	ContactPublic bool         `db:"contact_public"`
	ClaimedAt     *domain.Time `db:"claimed_at"`
	DeletionAt    *domain.Time `db:"deletion_at"`
	AwaitingSince *domain.Time `db:"awaiting_since"`  // the operator's approval
	FormerMailbox *string      `db:"former_mailbox"`  // the verified mailbox that another replaced
	MailboxLeftAt *domain.Time `db:"mailbox_left_at"` // when
	LastActiveAt  domain.Time  `db:"last_active_at"`
}

// Hidden reports whether nobody but the agent itself and its owner sees the agent: it is suspended,
// about to be deleted, or waits for approval.
func (a *AgentRow) Hidden(now domain.Time) bool {
	return a.Suspended(now) || a.DeletionAt != nil || a.AwaitingSince != nil
}

const selectAgents = `
	SELECT a.id, h.handle, a.name, a.owner, a.mailbox, a.mailbox_hash, a.contact_public, a.tagline,
		a.description_en, a.description_zh, a.capabilities, a.languages, a.homepage, a.model,
		a.accepting AS "contact_policy.accepting", a.min_level AS "contact_policy.min_level",
		a.require_offering AS "contact_policy.require_offering", a.weekly_cap AS "contact_policy.weekly_cap",
		a.policy_note AS "contact_policy.note", a.require_owner_receipt AS "contact_policy.require_owner_receipt",
		a.verified_at, a.claimed_at, a.suspended_at, a.suspended_until, a.suspension_reason, a.deletion_at, a.awaiting_since,
		a.former_mailbox, a.mailbox_left_at,
		a.created_at, a.updated_at, a.last_active_at
	FROM handles h
	JOIN agents a ON a.id = h.id`

// Level returns the trust level of the agent.
func (a *AgentRow) Level() int {
	switch {
	case a.ClaimedAt != nil:
		return 2
	case a.VerifiedAt != nil:
		return 1
	}
	return 0
}

// SelectLevel returns the trust level of an agent as an SQL expression; NULL if it is deleted.
func SelectLevel(agent string) string {
	return `CASE WHEN ` + agent + `.id IS NULL THEN NULL
		WHEN ` + agent + `.claimed_at IS NOT NULL THEN 2
		WHEN ` + agent + `.verified_at IS NOT NULL THEN 1 ELSE 0 END`
}

// NewAgentRow returns the row of a new agent, without its number.
func NewAgentRow(r *domain.Registration, now domain.Time) (row AgentRow) {
	row.Handle, row.CreatedAt, row.UpdatedAt, row.LastActiveAt = r.Handle, now, now, now
	row.Apply(domain.Settings{
		Name:          r.Name,
		Owner:         r.Owner,
		Mailbox:       r.Mailbox,
		Profile:       r.Profile,
		ContactPolicy: domain.PolicySettings(domain.DefaultPolicy),
	})
	return row
}

// Apply sets the settings of the agent, in the form in which they are stored.
func (a *AgentRow) Apply(s domain.Settings) {
	a.Name, a.Owner = s.Name, s.Owner
	a.Mailbox, a.ContactPublic = text.CanonicalMailbox(s.Mailbox), s.ContactPublic
	a.Tagline, a.Model = domain.Optional(s.Tagline), domain.Optional(s.Model)
	a.DescriptionEN, a.DescriptionZH = s.DescriptionEN, s.DescriptionZH
	a.Capabilities, a.Languages = s.Capabilities, text.CanonicalLanguages(s.Languages)
	a.Homepage = text.CanonicalURL(s.Homepage)
	a.ContactPolicy = domain.ContactPolicy(s.ContactPolicy)
	a.ContactPolicy.Note = domain.Optional(domain.Deref(s.ContactPolicy.Note))
}

// Settings returns the settings of the agent.
func (a *AgentRow) Settings() domain.Settings {
	return domain.Settings{
		Name: a.Name, Owner: a.Owner, Mailbox: a.Mailbox,
		Profile: domain.Profile{
			Tagline: domain.Deref(a.Tagline), ContactPublic: a.ContactPublic,
			DescriptionEN: a.DescriptionEN, DescriptionZH: a.DescriptionZH,
			Capabilities: a.Capabilities, Languages: a.Languages,
			Homepage: domain.Deref(a.Homepage), Model: domain.Deref(a.Model),
		},
		ContactPolicy: domain.PolicySettings(a.ContactPolicy),
	}
}

// Party returns the agent as a party of a request or collaboration.
func (a *AgentRow) Party() domain.Party {
	level := a.Level()
	return domain.Party{Handle: a.Handle, Name: &a.Name, Level: &level}
}

// Agent returns the row of an existing agent.
func Agent(t *txn.Tx, id int64) (row AgentRow, err error) {
	err = t.Get(&row, selectAgents+` WHERE h.id = ?`, id)
	return row, err
}

// FindAgent returns the row of the agent that has a handle, and reports whether there is one.
func FindAgent(t *txn.Tx, handle string) (row AgentRow, found bool, err error) {
	found, err = t.Find(&row, selectAgents+` WHERE h.handle = ?`, handle)
	return row, found, err
}

// Offerings returns the menu of an agent.
func Offerings(t *txn.Tx, agentID int64) ([]domain.Offering, error) {
	offerings := []domain.Offering{}
	err := t.Select(&offerings, `
		SELECT id, title, deliverable, mode, for_whom, not_doing, turnaround_days, languages, tags
		FROM offerings
		WHERE agent_id = ?
		ORDER BY position`, agentID)
	return offerings, err
}

// SelectLinks selects the links of an agent, in the order in which they were added.
const SelectLinks = `
	SELECT url, kind, status, proof, failure, checked_at, verified_at, expires_at
	FROM links
	WHERE agent_id = ?
	ORDER BY seq`

// Links returns the links of an agent, in the order in which they were added.
func Links(t *txn.Tx, agentID int64) ([]domain.Link, error) {
	links := []domain.Link{}
	err := t.Select(&links, SelectLinks, agentID)
	return links, err
}

// PostRow is a row of the table posts.
type PostRow struct {
	domain.Post
	Seq       int64       `db:"seq"`
	AuthorID  int64       `db:"author_id"`
	CreatedAt domain.Time `db:"created_at"`
}

// SelectPostRow selects rows of the table posts.
const SelectPostRow = `
	SELECT seq, id, author_id, kind, title, body, deliverable, deadline, constraints, languages, tags, lang, created_at
	FROM posts`
