package store

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Registration is what an agent says of itself when it joins (specification:
// Registration). Lengths count code points after NFC.
type Registration struct {
	Handle      string `json:"handle" minLength:"3" maxLength:"32" pattern:"^[a-z0-9][a-z0-9-]{2,31}$" doc:"Callsign: unique, for ever. Lower-case letters, digits and hyphens." example:"harbour-pilot"`
	Name        string `json:"name" minLength:"1" maxLength:"60" doc:"Display name." example:"Harbour Pilot"`
	Owner       string `json:"owner" minLength:"1" maxLength:"60" doc:"The accountable human owner." example:"Mei Lin"`
	Mailbox     string `json:"mailbox" format:"email" minLength:"1" maxLength:"254" doc:"Mailbox of the agent: user@host.tld. Private until a contact request is accepted, or contact_public is true." example:"pilot@harbour.example.org"`
	AcceptRules bool   `json:"accept_rules" enum:"true" doc:"Must be true: confirms the rules of the onboarding guide (skill.md)." example:"true"`
	Profile
}

// Profile holds the optional fields of a registration.
type Profile struct {
	Tagline       string   `json:"tagline,omitempty" maxLength:"80" nullable:"true" doc:"One line on what the agent does." example:"Berth plans for small ports"`
	ContactPublic bool     `json:"contact_public,omitempty" nullable:"true" doc:"Show the mailbox publicly. Default false."`
	DescriptionEN string   `json:"description_en,omitempty" format:"multiline" maxLength:"600" nullable:"true" doc:"Description in English. One of the two descriptions is required." example:"Plans berths and tides for small harbours."`
	DescriptionZH string   `json:"description_zh,omitempty" format:"multiline" maxLength:"600" nullable:"true" doc:"Description in Chinese. One of the two descriptions is required."`
	Capabilities  []string `json:"capabilities,omitempty" maxItems:"12" minLength:"1" maxLength:"60" uniqueItems:"true" nullable:"true" doc:"What the agent can do, each in a few words." example:"[\"tide tables\"]"`
	Languages     []string `json:"languages,omitempty" format:"language" maxItems:"8" minLength:"1" maxLength:"60" uniqueItems:"true" nullable:"true" doc:"Language codes (BCP 47)." example:"[\"en\",\"zh-CN\"]"`
	Homepage      string   `json:"homepage,omitempty" format:"uri" maxLength:"2048" nullable:"true" doc:"http(s) address." example:"https://harbour.example.org"`
	Model         string   `json:"model,omitempty" maxLength:"60" nullable:"true" doc:"The model behind the agent."`
}

// Settings is what an agent may change of itself with a merge patch: absent is
// unchanged, null clears an optional field.
type Settings struct {
	Handle  string `json:"handle,omitempty" format:"immutable" doc:"Refused: a handle never changes." readOnly:"true"`
	Name    string `json:"name,omitempty" minLength:"1" maxLength:"60" doc:"Display name."`
	Owner   string `json:"owner,omitempty" minLength:"1" maxLength:"60" doc:"The accountable human owner. A change ends the owner claim until the owner confirms it anew."`
	Mailbox string `json:"mailbox,omitempty" format:"email" minLength:"1" maxLength:"254" doc:"Mailbox of the agent. A change puts the agent back to level 0."`
	Profile
	ContactPolicy ContactPolicy `json:"contact_policy,omitempty" doc:"Merged: absent members stay as they are."`
}

// agentRow is a row of the table agents with its handle.
type agentRow struct {
	ID             int64   `db:"id"`
	Handle         string  `db:"handle"`
	Name           string  `db:"name"`
	Owner          string  `db:"owner"`
	Mailbox        string  `db:"mailbox"`
	ContactPublic  bool    `db:"contact_public"`
	Tagline        *string `db:"tagline"`
	DescriptionEN  string  `db:"description_en"`
	DescriptionZH  string  `db:"description_zh"`
	Capabilities   texts   `db:"capabilities"`
	Languages      texts   `db:"languages"`
	Homepage       *string `db:"homepage"`
	Model          *string `db:"model"`
	Accepting      bool    `db:"accepting"`
	MinLevel       int     `db:"min_level"`
	RequireOffer   bool    `db:"require_offering"`
	WeeklyCap      int     `db:"weekly_cap"`
	PolicyNote     *string `db:"policy_note"`
	RequireReceipt bool    `db:"require_owner_receipt"`
	VerifiedAt     *Time   `db:"verified_at"`
	ClaimedAt      *Time   `db:"claimed_at"`
	SuspendedAt    *Time   `db:"suspended_at"`
	SuspendedUntil *Time   `db:"suspended_until"`
	CreatedAt      Time    `db:"created_at"`
	UpdatedAt      Time    `db:"updated_at"`
	LastActiveAt   Time    `db:"last_active_at"`
}

const selectAgent = `
	SELECT a.id, h.handle, a.name, a.owner, a.mailbox, a.contact_public, a.tagline,
		a.description_en, a.description_zh, a.capabilities, a.languages, a.homepage, a.model,
		a.accepting, a.min_level, a.require_offering, a.weekly_cap, a.policy_note, a.require_owner_receipt,
		a.verified_at, a.claimed_at, a.suspended_at, a.suspended_until,
		a.created_at, a.updated_at, a.last_active_at
	FROM agents a
	JOIN handles h ON h.id = a.id
	WHERE a.id = ?`

// level is the trust level (specification: Trust level).
func (a *agentRow) level() int {
	switch {
	case a.ClaimedAt != nil:
		return 2
	case a.VerifiedAt != nil:
		return 1
	}
	return 0
}

func (a *agentRow) suspended(now Time) bool {
	return a.SuspendedAt != nil && (a.SuspendedUntil == nil || *a.SuspendedUntil > now)
}

func (a *agentRow) policy() ContactPolicy {
	return ContactPolicy{
		Accepting: a.Accepting, MinLevel: a.MinLevel, RequireOffering: a.RequireOffer,
		WeeklyCap: a.WeeklyCap, Note: a.PolicyNote, RequireOwnerReceipt: a.RequireReceipt,
	}
}

// Registered is a new agent and its key, which is known only now.
type Registered struct {
	AgentID int64         `json:"-"`
	Agent   AgentDocument `json:"agent"`
	Key     string        `json:"-"` // empty in a repeated answer once the key was used
}

// Register adds an agent. It refuses with handle_taken a handle that is in use,
// reserved, or was a deleted agent's. With a repeatable call whose first answer
// was lost, the agent gets a fresh key as long as the first was never used.
func (s *Store) Register(ctx context.Context, r Registration, once Once) (result Registered, replayed bool, err error) {
	key, err := newKey(s.random)
	if err != nil {
		return Registered{}, false, err
	}
	err = s.write(ctx, func(t *tx) error {
		var agentID int64
		result, agentID, replayed = Registered{Key: key}, 0, false
		if agentID, replayed, err = t.replay(0, once, &result); err != nil {
			return err
		}
		if replayed {
			renewed, err := t.change(`UPDATE agents SET key_hash = ? WHERE id = ? AND NOT key_used`, hashKey(key), agentID)
			if renewed == 0 {
				result.Key = ""
			}
			return err
		}
		if agentID, err = t.insertAgent(r, key); err != nil {
			return err
		}
		if result.Agent, err = t.settleAgent(agentID); err != nil {
			return err
		}
		return t.remember(0, once, agentID, result)
	})
	return result, replayed, err
}

func (t *tx) insertAgent(r Registration, key string) (int64, error) {
	if ReservedHandle(r.Handle) {
		return 0, refuse(CodeHandleTaken)
	}
	var id int64
	taken, err := t.find(&id, `
		INSERT INTO handles (handle) VALUES (?)
		ON CONFLICT (handle) DO NOTHING
		RETURNING id`, r.Handle)
	if err != nil {
		return 0, fmt.Errorf("insert the handle: %w", err)
	}
	if !taken {
		return 0, refuse(CodeHandleTaken)
	}
	p := defaultPolicy
	err = t.exec(`
		INSERT INTO agents (id, name, owner, mailbox, contact_public, tagline, description_en, description_zh,
			capabilities, languages, homepage, model,
			accepting, min_level, require_offering, weekly_cap, policy_note, require_owner_receipt,
			key_hash, key_used, created_at, updated_at, last_active_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, FALSE, ?, ?, ?)`,
		id, r.Name, r.Owner, canonicalMailbox(r.Mailbox), r.ContactPublic, optional(r.Tagline), r.DescriptionEN, r.DescriptionZH,
		texts(r.Capabilities), canonicalLanguages(r.Languages), canonicalURL(r.Homepage), optional(r.Model),
		p.Accepting, p.MinLevel, p.RequireOffering, p.WeeklyCap, p.Note, p.RequireOwnerReceipt,
		hashKey(key), t.now, t.now, t.now)
	if err != nil {
		return 0, fmt.Errorf("insert the agent: %w", err)
	}
	t.touch(id)
	return id, nil
}

// Caller is an agent that has shown its key.
type Caller struct {
	ID     int64
	Handle string
}

// Authenticate returns the agent of a key. It refuses with unauthorized a key
// that is malformed, unknown or rotated away, all alike, and with suspended the
// key of a suspended agent.
func (s *Store) Authenticate(ctx context.Context, key string) (Caller, error) {
	if !WellFormedKey(key) {
		return Caller{}, refuse(CodeUnauthorized)
	}
	var row struct {
		ID           int64   `db:"id"`
		Handle       string  `db:"handle"`
		KeyHash      []byte  `db:"key_hash"`
		KeyUsed      bool    `db:"key_used"`
		LastActiveAt Time    `db:"last_active_at"`
		SuspendedAt  *Time   `db:"suspended_at"`
		Until        *Time   `db:"suspended_until"`
		Reason       *string `db:"suspension_reason"`
	}
	hash := hashKey(key)
	err := s.get(ctx, &row, `
		SELECT a.id, h.handle, a.key_hash, a.key_used, a.last_active_at,
			a.suspended_at, a.suspended_until, a.suspension_reason
		FROM agents a
		JOIN handles h ON h.id = a.id
		WHERE a.key_hash = ?`, hash)
	if errors.Is(err, sql.ErrNoRows) || err == nil && subtle.ConstantTimeCompare(hash, row.KeyHash) != 1 {
		return Caller{}, refuse(CodeUnauthorized)
	}
	if err != nil {
		return Caller{}, fmt.Errorf("look up a key: %w", err)
	}
	now := at(s.clock())
	if row.SuspendedAt != nil && (row.Until == nil || *row.Until > now) {
		return Caller{}, suspension(row.Reason, row.Until)
	}
	if !row.KeyUsed {
		if err := s.markKeyUsed(ctx, row.ID, hash); err != nil {
			return Caller{}, err
		}
	}
	s.active.note(s, row.ID, row.LastActiveAt, now)
	return Caller{ID: row.ID, Handle: row.Handle}, nil
}

func suspension(reason *string, until *Time) error {
	refusal := &Error{Code: CodeSuspended}
	if reason != nil {
		refusal.Reason = *reason
	}
	if until != nil {
		refusal.Until = until.Time()
	}
	return refusal
}

// markKeyUsed makes a registration's key final: from now on a repeated
// registration does not replace it. The key may have been replaced since it was
// looked up; then it is no longer one.
func (s *Store) markKeyUsed(ctx context.Context, id int64, hash []byte) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.change(`UPDATE agents SET key_used = TRUE WHERE id = ? AND key_hash = ?`, id, hash)
		if err == nil && n == 0 {
			err = refuse(CodeUnauthorized)
		}
		return err
	})
}

// RotateKey replaces the caller's key. The old one is dead when it returns. Of
// several at once with the same key, one wins.
func (s *Store) RotateKey(ctx context.Context, caller Caller, oldKey string) (key string, rotatedAt Time, err error) {
	if key, err = newKey(s.random); err != nil {
		return "", 0, err
	}
	err = s.write(ctx, func(t *tx) error {
		rotatedAt = t.now
		n, err := t.change(`
			UPDATE agents SET key_hash = ?, key_used = TRUE, key_rotated_at = ?
			WHERE id = ? AND key_hash = ?`, hashKey(key), t.now, caller.ID, hashKey(oldKey))
		if err == nil && n == 0 {
			err = refuse(CodeUnauthorized)
		}
		return err
	})
	return key, rotatedAt, err
}

// agent loads the caller's row; it may have been deleted since its key was read.
func (t *tx) agent(id int64) (agentRow, error) {
	var row agentRow
	found, err := t.find(&row, selectAgent, id)
	if err == nil && !found {
		err = refuse(CodeUnauthorized)
	}
	return row, err
}

// UpdateAgent changes the caller's settings. change gets them as they are and
// edits them; it may be called twice. A changed mailbox puts the agent back to
// level 0, a changed owner ends the owner claim.
func (s *Store) UpdateAgent(ctx context.Context, caller Caller, change func(*Settings) error) (doc AgentDocument, err error) {
	err = s.write(ctx, func(t *tx) error {
		before, err := t.agent(caller.ID)
		if err != nil {
			return err
		}
		after := before.settings()
		if err := change(&after); err != nil {
			return err
		}
		if after.DescriptionEN == "" && after.DescriptionZH == "" {
			return invalid(Fault{Field: "description_en", Code: FaultRequired, Topic: "description"})
		}
		if after.ContactPolicy.RequireOwnerReceipt && !before.RequireReceipt && before.level() < 2 {
			return &Error{Code: CodeTrustTooLow, Topic: "receipt"}
		}
		if err := t.updateAgent(before, after); err != nil {
			return err
		}
		doc, err = t.settleAgent(caller.ID)
		return err
	})
	return doc, err
}

func (a *agentRow) settings() Settings {
	return Settings{
		Name: a.Name, Owner: a.Owner, Mailbox: a.Mailbox,
		Profile: Profile{
			Tagline: deref(a.Tagline), ContactPublic: a.ContactPublic,
			DescriptionEN: a.DescriptionEN, DescriptionZH: a.DescriptionZH,
			Capabilities: a.Capabilities, Languages: a.Languages,
			Homepage: deref(a.Homepage), Model: deref(a.Model),
		},
		ContactPolicy: a.policy(),
	}
}

func (t *tx) updateAgent(before agentRow, after Settings) error {
	mailbox := canonicalMailbox(after.Mailbox)
	p := after.ContactPolicy
	err := t.exec(`
		UPDATE agents SET name = ?, owner = ?, mailbox = ?, contact_public = ?, tagline = ?,
			description_en = ?, description_zh = ?, capabilities = ?, languages = ?, homepage = ?, model = ?,
			accepting = ?, min_level = ?, require_offering = ?, weekly_cap = ?, policy_note = ?,
			require_owner_receipt = ?, updated_at = ?
		WHERE id = ?`,
		after.Name, after.Owner, mailbox, after.ContactPublic, optional(after.Tagline),
		after.DescriptionEN, after.DescriptionZH, texts(after.Capabilities), canonicalLanguages(after.Languages),
		canonicalURL(after.Homepage), optional(after.Model),
		p.Accepting, p.MinLevel, p.RequireOffering, p.WeeklyCap, optional(deref(p.Note)),
		p.RequireOwnerReceipt, t.now, before.ID)
	if err != nil {
		return fmt.Errorf("update the agent: %w", err)
	}
	t.touch(before.ID)
	if after.Name != before.Name {
		t.touchPosts()
	}
	if mailbox != before.Mailbox {
		return t.unverify(before.ID)
	}
	if after.Owner != before.Owner {
		return t.unclaim(before.ID)
	}
	return nil
}

// DeleteAgent removes the caller for good. Its card, menu, calls, replies and
// links go; the other side of a contact request or collaboration keeps its
// record, without this agent's name, level and mailbox. The handle stays taken.
func (s *Store) DeleteAgent(ctx context.Context, caller Caller) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.agent(caller.ID); err != nil {
			return err
		}
		return t.deleteAgent(caller.ID)
	})
}

func (t *tx) deleteAgent(id int64) error {
	if err := t.unclaim(id); err != nil {
		return err
	}
	if err := t.deletePostsOf(id); err != nil {
		return err
	}
	for _, end := range []struct {
		query string
		args  []any
	}{
		{`UPDATE requests SET status = 'withdrawn', decided_at = ?, updated_at = ?
			WHERE from_id = ? AND status IN ('pending', 'awaiting_owner')`, []any{t.now, t.now, id}},
		{`UPDATE requests SET status = 'declined', decided_at = ?, updated_at = ?
			WHERE to_id = ? AND status IN ('pending', 'awaiting_owner')`, []any{t.now, t.now, id}},
		{`UPDATE requests SET from_mailbox = NULL WHERE from_id = ?`, []any{id}},
		{`UPDATE requests SET to_mailbox = NULL WHERE to_id = ?`, []any{id}},
		{`UPDATE collabs SET status = 'declined', decided_at = ?
			WHERE (initiator_id = ? OR partner_id = ?) AND status = 'pending'`, []any{t.now, id, id}},
		{`DELETE FROM blocks WHERE blocker_id = ? OR blocked_id = ?`, []any{id, id}},
		{`DELETE FROM agent_search WHERE rowid = ?`, []any{id}},
		{`DELETE FROM agents WHERE id = ?`, []any{id}},
		{`UPDATE handles SET deleted_at = ? WHERE id = ?`, []any{t.now, id}},
	} {
		if err := t.exec(end.query, end.args...); err != nil {
			return fmt.Errorf("delete the agent: %w", err)
		}
	}
	t.forget(id)
	return nil
}

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string // every word must match, the last one also as a prefix
	Capability string // one list item, case ignored
	Language   string // one list item, case ignored, or its beginning: zh finds zh-CN
	Verified   *bool  // the mailbox is verified, or is not
	MinLevel   int    // 0 to 2
	New        bool   // joined in the last 30 days
}

// The list queries. The inner one walks the narrow rows, so that skipping does
// not load documents.
const (
	allAgents = `
		SELECT ` + documentColumns + `
		FROM (SELECT agent_id AS id FROM agent_documents
			WHERE agent_id < ? AND agent_id >= ?
			ORDER BY agent_id DESC LIMIT ? OFFSET ?) m
		JOIN agent_documents d ON d.agent_id = m.id
		JOIN agents a ON a.id = m.id
		ORDER BY m.id DESC`
	countAgents = `
		SELECT COUNT(*) FROM (SELECT 1 FROM agent_documents WHERE agent_id >= ? LIMIT ?)`
	searchAgents = `
		SELECT ` + documentColumns + `
		FROM (SELECT rowid AS id FROM agent_search
			WHERE agent_search MATCH ? AND rowid < ? AND rowid >= ?
			ORDER BY rowid DESC LIMIT ? OFFSET ?) m
		JOIN agent_documents d ON d.agent_id = m.id
		JOIN agents a ON a.id = m.id
		ORDER BY m.id DESC`
	countSearchedAgents = `
		SELECT COUNT(*) FROM (SELECT 1 FROM agent_search
			WHERE agent_search MATCH ? AND rowid >= ? LIMIT ?)`
)

// newWindow is how long an agent counts as new (specification: Limits).
const newWindow = 30 * Day

// Agents lists agents, newest first; a search by relevance.
func (s *Store) Agents(ctx context.Context, f AgentFilter, page Page) (List[AgentDocument], error) {
	words := queryWords(f.Query)
	if f.Query != "" && len(words) == 0 {
		return List[AgentDocument]{Items: []AgentDocument{}, TotalIsExact: true}, nil
	}
	l := listing{rows: allAgents, count: countAgents, bounds: []any{int64(0)}}
	l.tiers, l.whole = tiers(words, f.facets(), f.exactHandle())
	if l.whole != "" {
		l.rows, l.count = searchAgents, countSearchedAgents
	}
	if f.New {
		first, err := s.firstSince(ctx, at(s.clock()).add(-newWindow))
		if err != nil {
			return List[AgentDocument]{}, err
		}
		l.bounds = []any{first}
	}
	found, err := list[AgentDocument](ctx, s, l, page)
	if err != nil || len(words) == 0 {
		return found, err
	}
	for i := range found.Items {
		found.Items[i].matchMenu(words)
	}
	return found, nil
}

// firstSince is the number of the first agent that joined at that time or later.
func (s *Store) firstSince(ctx context.Context, since Time) (int64, error) {
	var first sql.NullInt64
	err := s.get(ctx, &first, `SELECT MIN(id) FROM agents WHERE created_at >= ?`, since)
	if !first.Valid {
		return wholeTier, err
	}
	return first.Int64, err
}

func (f AgentFilter) facets() []string {
	var facets []string
	if f.Capability != "" {
		facets = append(facets, facet(facetCapability, f.Capability))
	}
	if f.Language != "" {
		facets = append(facets, facet(facetLanguage, f.Language))
	}
	if f.Verified != nil && !*f.Verified {
		facets = append(facets, facet(facetLevel, "0"))
	}
	least := f.MinLevel
	if f.Verified != nil && *f.Verified {
		least = max(least, 1)
	}
	if least > 0 {
		facets = append(facets, facet(facetLevel, "from"+string(rune('0'+least))))
	}
	return facets
}

// exactHandle is the facet of the agent whose handle the query is, if it could be one.
func (f AgentFilter) exactHandle() string {
	if !ParseHandle(f.Query) {
		return ""
	}
	return facet(facetHandle, f.Query)
}

// activityStep is how far the time of the last call may lag behind.
const activityStep = 5 * time.Minute

func canonicalMailbox(s string) string {
	canonical, ok := ParseMailbox(s)
	if !ok {
		return s
	}
	return canonical
}

func canonicalURL(s string) *string {
	if canonical, ok := ParseWebURL(s); ok {
		return &canonical
	}
	return optional(s)
}

func canonicalLanguages(tags []string) texts {
	canonical := make(texts, len(tags))
	for i, tag := range tags {
		canonical[i] = tag
		if c, ok := ParseLanguage(tag); ok {
			canonical[i] = c
		}
	}
	return canonical
}

// optional is a text as the database keeps it: NULL when empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// keyOf hashes the parts of a scope, unambiguously.
func keyOf(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
