package store

import (
	"fmt"
	"reflect"
	"slices"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// agentRow is a row of the table agents with its handle. A use case reads it, changes its fields
// and stores it with Store.
type agentRow struct {
	domain.Agent
	domain.Suspension
	ID             int64        `db:"id"`
	Mailbox        string       `db:"mailbox"`
	MailboxHash    []byte       `db:"mailbox_hash"` // nil unless the mailbox is verified
	ContactPublic  bool         `db:"contact_public"`
	VerifiedBefore bool         `db:"verified_before"`
	ClaimedBy      []byte       `db:"claimed_by"`
	DeletionAt     *domain.Time `db:"deletion_at"`
	AwaitingSince  *domain.Time `db:"awaiting_since"`  // the operator's approval
	FormerMailbox  *string      `db:"former_mailbox"`  // the verified mailbox that another replaced
	MailboxLeftAt  *domain.Time `db:"mailbox_left_at"` // when
	LinksDueAt     *domain.Time `db:"links_due_at"`    // the first check or end of a verification
	LastActiveAt   domain.Time  `db:"last_active_at"`

	stored *agentRow // as it was read
}

// agentColumns are the columns of the table agents that an agentRow has.
var agentColumns = sqlitedb.ColumnsOf[agentRow]("handle")

var (
	selectAgents = `
		SELECT h.handle, ` + agentColumns.Select("a") + `
		FROM handles h
		JOIN agents a ON a.id = h.id`
	updateAgent = `UPDATE agents SET ` + agentColumns.Set() + ` WHERE id = :id`
)

// newAgent is an agentRow with what only its registration stores.
type newAgent struct {
	agentRow
	KeyHash []byte `db:"key_hash"`
	KeyUsed bool   `db:"key_used"`
	Network []byte `db:"network"` // nil if the client's address is unknown
}

var insertAgent = sqlitedb.ColumnsOf[newAgent]("handle").Insert("agents")

// Hidden reports whether nobody but the agent itself and its owner sees the agent: it is suspended,
// about to be deleted, or waits for approval.
func (a *agentRow) Hidden(now domain.Time) bool {
	return a.Suspended(now) || a.DeletionAt != nil || a.AwaitingSince != nil
}

// hidden is the column hidden, from which a job removes a suspension that has ended.
func (a *agentRow) hidden() bool {
	return a.SuspendedAt != nil || a.DeletionAt != nil || a.AwaitingSince != nil
}

// newAgentRow returns the row of a new agent, without its number.
func newAgentRow(r *domain.Registration, now domain.Time) agentRow {
	var a agentRow
	a.Handle = r.Handle
	a.Offerings = domain.List[domain.Offering]{}
	a.Trust.Links = domain.List[domain.Link]{}
	a.CreatedAt, a.UpdatedAt, a.LastActiveAt = now, now, now
	a.Apply(domain.Settings{
		Name:          r.Name,
		Owner:         r.Owner,
		Mailbox:       r.Mailbox,
		Profile:       r.Profile,
		ContactPolicy: domain.PolicySettings(domain.DefaultPolicy),
	})

	return a
}

// Apply sets the settings of the agent, in the form in which they are stored.
func (a *agentRow) Apply(s domain.Settings) {
	a.Name = s.Name
	a.Owner = s.Owner
	a.Mailbox = text.CanonicalMailbox(s.Mailbox)
	a.ContactPublic = s.ContactPublic
	a.DescriptionEN = s.DescriptionEN
	a.DescriptionZH = s.DescriptionZH
	a.Capabilities = append(domain.Texts{}, s.Capabilities...)
	a.Languages = text.CanonicalLanguages(s.Languages)
	a.Homepage = text.CanonicalURL(s.Homepage)

	for _, pair := range a.optionalTexts(&s) {
		*pair.column = domain.Optional(*pair.setting)
	}

	a.ContactPolicy = domain.ContactPolicy(s.ContactPolicy)
	a.ContactPolicy.Note = domain.Optional(domain.Deref(s.ContactPolicy.Note))
}

// Settings returns the settings of the agent. A patch may be decoded over them, so they share
// nothing with the row.
func (a *agentRow) Settings() domain.Settings {
	policy := domain.PolicySettings(a.ContactPolicy)
	policy.Note = domain.Optional(domain.Deref(policy.Note)) // a copy
	s := domain.Settings{
		Name:    a.Name,
		Owner:   a.Owner,
		Mailbox: a.Mailbox,
		Profile: domain.Profile{
			ContactPublic: a.ContactPublic,
			DescriptionEN: a.DescriptionEN,
			DescriptionZH: a.DescriptionZH,
			Capabilities:  slices.Clone(a.Capabilities),
			Languages:     slices.Clone(a.Languages),
			Homepage:      domain.Deref(a.Homepage),
		},
		ContactPolicy: policy,
	}

	for _, pair := range a.optionalTexts(&s) {
		*pair.setting = domain.Deref(*pair.column)
	}

	return s
}

// optionalText is an optional text of the settings, which is empty without one, and its column,
// which is then NULL.
type optionalText struct {
	setting *string
	column  **string
}

// optionalTexts are those that are stored as they are given.
func (a *agentRow) optionalTexts(s *domain.Settings) []optionalText {
	return []optionalText{
		{&s.Tagline, &a.Tagline},
		{&s.Model, &a.Model},
	}
}

// Party returns the agent as a party of a request or collaboration.
func (a *agentRow) Party() domain.Party {
	level := a.Level()
	return domain.Party{Handle: a.Handle, Name: &a.Name, Level: &level}
}

// Author returns the agent as the author of posts and replies.
func (a *agentRow) Author() domain.Author {
	return domain.Author{Handle: a.Handle, Name: a.Name, Level: a.Level()}
}

// Public returns the agent as the public sees it, without what others have confirmed of it.
func (a *agentRow) Public() domain.PublicAgent {
	public := domain.PublicAgent{Agent: a.Agent, ID: a.ID, LastActiveAt: a.LastActiveAt}
	if a.ContactPublic && a.VerifiedAt != nil { // an unverified one may be somebody else's
		public.Email = &a.Mailbox
	}
	public.SetTrust()
	return public
}

// agentByID returns the row of an existing agent.
func (t *tx) agentByID(id int64) (*agentRow, error) {
	a, found, err := t.findAgent(`h.id = ?`, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("there is no agent %d", id)
	}
	return a, nil
}

// agentByHandle returns the row of the agent that has a handle, and reports whether there is one.
func (t *tx) agentByHandle(handle string) (*agentRow, bool, error) {
	return t.findAgent(`h.handle = ?`, handle)
}

// visibleAgent returns the row of the agent that has a handle. It returns not_found if there is
// none, or it is hidden.
func (t *tx) visibleAgent(handle string) (*agentRow, error) {
	agent, found, err := t.agentByHandle(handle)
	if err != nil {
		return nil, err
	}
	if !found || agent.Hidden(t.Now) {
		return nil, domain.NewError(domain.CodeNotFound)
	}
	return agent, nil
}

// agentOfCaller returns the row of the agent of a caller. It returns unauthorized if the agent was
// deleted or its key replaced after the caller was authenticated. Without a key hash it does not
// compare the key.
func (t *tx) agentOfCaller(caller domain.Caller) (*agentRow, error) {
	where := `h.id = ?`
	values := []any{caller.ID}
	if caller.KeyHash != "" {
		where += ` AND a.key_hash = ?`
		values = append(values, []byte(caller.KeyHash))
	}

	a, found, err := t.findAgent(where, values...)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, domain.NewError(domain.CodeUnauthorized)
	}
	return a, nil
}

// findAgent returns the row of the agent that where selects, and reports whether there is one.
// Without one, the row is empty.
func (t *tx) findAgent(where string, values ...any) (*agentRow, bool, error) {
	a := &agentRow{}
	found, err := t.Find(a, selectAgents+` WHERE `+where, values...)
	a.remember()
	return a, found, err
}

// remember keeps the row as it is stored.
func (a *agentRow) remember() {
	// The lists too, since a use case may change them in place.
	stored := *a
	stored.Capabilities = slices.Clone(a.Capabilities)
	stored.Languages = slices.Clone(a.Languages)
	stored.Offerings = slices.Clone(a.Offerings)
	stored.Trust.Links = slices.Clone(a.Trust.Links)
	stored.stored = nil
	a.stored = &stored
}

// Insert stores a new agent, whose handle has its number. tokens are its agentTokens.
func (a *agentRow) Insert(t *tx, keyHash, network []byte, tokens string) error {
	t.Changes.Public = true
	if !a.hidden() {
		t.Index(agentSearch, a.ID, tokens)
	}
	return t.ExecNamed(insertAgent, newAgent{agentRow: *a, KeyHash: keyHash, Network: network})
}

// Store stores what changed of an agent since it was read. Searches find it by its new words, or
// not at all once it is hidden, its collaborations count as its owner claim says, and it is
// notified of another trust level. Without a change, Store does nothing.
func (a *agentRow) Store(t *tx) error {
	a.MailboxHash = nil
	if a.VerifiedAt != nil {
		a.MailboxHash = t.MailboxHash(a.Mailbox)
	}

	// The stored row has no row before it: compare without.
	before := a.stored
	a.stored = nil
	if reflect.DeepEqual(a, before) {
		a.stored = before
		return nil
	}

	t.Changes.Public = true
	if err := t.ExecNamed(updateAgent, a); err != nil {
		return err
	}
	a.remember() // a use case may change and store it again

	// Only a claimed agent's work counts as evidence.
	if (before.ClaimedAt == nil) != (a.ClaimedAt == nil) {
		if err := t.rebuildEvidence(a.ID); err != nil {
			return err
		}
	}

	// A hidden agent is in no full-text table.
	if a.hidden() || before.hidden() {
		return a.show(t, before)
	}

	// Most changes leave the words as they are, and to replace a search row is slow.
	words := agentSearchRow(&a.Agent)
	if !reflect.DeepEqual(words, agentSearchRow(&before.Agent)) {
		t.Index(agentSearch, a.ID, words.Tokens())
	}
	if a.Level() != before.Level() {
		return a.notifyOfTrust(t)
	}
	return nil
}

// notifyOfTrust inserts the event of another trust level, or of a link whose status has changed.
func (a *agentRow) notifyOfTrust(t *tx) error {
	return t.InsertEvent(a.ID, domain.EventTrustChanged, domain.EventSubject{Handle: a.Handle})
}

// show puts a hidden agent and its posts into the full-text tables again, or removes them.
func (a *agentRow) show(t *tx, before *agentRow) error {
	switch {
	case a.hidden() == before.hidden():
		return nil

	case a.hidden():
		return t.unindexAgent(a.ID)
	}

	// From its words of now: they may have changed while it was hidden.
	t.Index(agentSearch, a.ID, agentTokens(&a.Agent))
	return t.indexPosts(`p.author_id = ?`, a.ID)
}

// unindexAgent removes an agent and its posts from the full-text tables.
func (t *tx) unindexAgent(id int64) error {
	t.Unindex(agentSearch, id)

	var posts []int64
	if err := t.Select(&posts, `SELECT seq FROM posts WHERE author_id = ?`, id); err != nil {
		return err
	}
	for _, seq := range posts {
		t.Unindex(postSearch, seq)
	}
	return nil
}

// Offering returns an entry of the agent's menu; nil if it has none with this id.
func (a *agentRow) Offering(id string) *domain.Offering {
	at := slices.IndexFunc(a.Offerings, func(o domain.Offering) bool { return o.ID == id })
	if at < 0 {
		return nil
	}
	return &a.Offerings[at]
}

// StoreLinks stores the links of the agent, and when one must be checked next, or its verification
// ends. A check that is due now is due again a day later, unless its result sets another time.
func (a *agentRow) StoreLinks(t *tx) error {
	a.LinksDueAt = nil
	for _, l := range a.Trust.Links {
		for _, at := range l.DueAt(t.Now) {
			if a.LinksDueAt == nil || at < *a.LinksDueAt {
				a.LinksDueAt = &at
			}
		}
	}

	return a.Store(t)
}

// Link returns a link of the agent; nil if it has none with this address.
func (a *agentRow) Link(address string) *domain.Link {
	at := slices.IndexFunc(a.Trust.Links, func(l domain.Link) bool { return l.URL == address })
	if at < 0 {
		return nil
	}
	return &a.Trust.Links[at]
}
