package store

import (
	"context"
	"fmt"

	"callbook/store/text"
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
	ContactPolicy PolicySettings `json:"contact_policy,omitempty" doc:"Merged: absent members stay as they are."`
}

// agentRow is a row of the table agents with its handle.
type agentRow struct {
	Agent
	suspension
	ID            int64  `db:"id"`
	Mailbox       string `db:"mailbox"`
	ContactPublic bool   `db:"contact_public"`
	ClaimedAt     *Time  `db:"claimed_at"`
	LastActiveAt  Time   `db:"last_active_at"`
}

const selectAgents = `
	SELECT a.id, h.handle, a.name, a.owner, a.mailbox, a.contact_public, a.tagline,
		a.description_en, a.description_zh, a.capabilities, a.languages, a.homepage, a.model,
		a.accepting AS "contact_policy.accepting", a.min_level AS "contact_policy.min_level",
		a.require_offering AS "contact_policy.require_offering", a.weekly_cap AS "contact_policy.weekly_cap",
		a.policy_note AS "contact_policy.note", a.require_owner_receipt AS "contact_policy.require_owner_receipt",
		a.verified_at, a.claimed_at, a.suspended_at, a.suspended_until, a.suspension_reason,
		a.created_at, a.updated_at, a.last_active_at
	FROM handles h
	JOIN agents a ON a.id = h.id`

const selectAgent = selectAgents + ` WHERE h.id = ?`

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

// Registered is a new agent and its key, which is known only now.
type Registered struct {
	Agent AgentDocument `json:"agent"`
	Key   string        `json:"-"` // empty in a repeated answer once the key was used
}

// Register adds an agent. It refuses with validation_failed one without a
// description or with a blocked word, with idempotency_conflict a repeated key
// with another body, and with handle_taken a handle that is in use, reserved, or
// was a deleted agent's. With a repeatable call whose first answer was lost, the
// agent gets a fresh key as long as the first was never used.
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
			renewed, err := t.Change(`UPDATE agents SET key_hash = ? WHERE id = ? AND NOT key_used`, hashKey(key), agentID)
			if renewed == 0 {
				result.Key = ""
			}
			return err
		}
		row, err := t.insertAgentRow(r, key)
		if err != nil {
			return err
		}
		if result.Agent, err = t.settleNewAgent(&row); err != nil {
			return err
		}
		return t.remember(0, once, row.ID, r.Handle, result)
	})
	return result, replayed, err
}

// described is the fault of an agent without a description in either language.
func (p *Profile) described() (faults []Fault) {
	if p.DescriptionEN == "" && p.DescriptionZH == "" {
		faults = append(faults, Fault{Field: "description_en", Code: FaultRequired, Topic: "description"})
	}
	return faults
}

func (t *tx) insertAgentRow(r Registration, key string) (agentRow, error) {
	if err := t.checkTexts(r, r.described()...); err != nil {
		return agentRow{}, err
	}
	if text.ReservedHandle(r.Handle) {
		return agentRow{}, refuse(CodeHandleTaken)
	}
	a := newAgentRow(&r, t.now)
	free, err := t.Find(&a.ID, `
		INSERT INTO handles (handle) VALUES (?)
		ON CONFLICT (handle) DO NOTHING
		RETURNING id`, r.Handle)
	if err != nil {
		return a, fmt.Errorf("insert the handle: %w", err)
	}
	if !free {
		return a, refuse(CodeHandleTaken)
	}
	p := a.ContactPolicy
	err = t.Exec(`
		INSERT INTO agents (id, name, owner, mailbox, contact_public, tagline, description_en, description_zh,
			capabilities, languages, homepage, model,
			accepting, min_level, require_offering, weekly_cap, policy_note, require_owner_receipt,
			key_hash, key_used, created_at, updated_at, last_active_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, FALSE, ?, ?, ?)`,
		a.ID, a.Name, a.Owner, a.Mailbox, a.ContactPublic, a.Tagline, a.DescriptionEN, a.DescriptionZH,
		a.Capabilities, a.Languages, a.Homepage, a.Model,
		p.Accepting, p.MinLevel, p.RequireOffering, p.WeeklyCap, p.Note, p.RequireOwnerReceipt,
		hashKey(key), a.CreatedAt, a.UpdatedAt, a.LastActiveAt)
	if err != nil {
		return a, fmt.Errorf("insert the agent: %w", err)
	}
	t.touch(a.ID)
	return a, nil
}

// newAgentRow is a new agent's, but for its number.
func newAgentRow(r *Registration, now Time) agentRow {
	return agentRow{
		Mailbox: canonicalMailbox(r.Mailbox), ContactPublic: r.ContactPublic, LastActiveAt: now,
		Agent: Agent{
			Handle: r.Handle, Name: r.Name, Owner: r.Owner,
			Tagline: optional(r.Tagline), DescriptionEN: r.DescriptionEN, DescriptionZH: r.DescriptionZH,
			Capabilities: texts(r.Capabilities), Languages: canonicalLanguages(r.Languages),
			Homepage: canonicalURL(r.Homepage), Model: optional(r.Model),
			ContactPolicy: defaultPolicy, CreatedAt: now, UpdatedAt: now,
		},
	}
}

// agent loads the row of an agent that is there.
func (t *tx) agent(id int64) (row agentRow, err error) {
	err = t.Get(&row, selectAgent, id)
	return row, err
}

// mayAct refuses a caller that was admitted before, and may not act any more: it may
// be gone or suspended since, or its key replaced.
func (t *tx) mayAct(caller Caller) error {
	var row struct {
		suspension
		KeyHash []byte `db:"key_hash"`
	}
	found, err := t.Find(&row, `
		SELECT key_hash, suspended_at, suspended_until, suspension_reason FROM agents WHERE id = ?`, caller.ID)
	switch {
	case err == nil && (!found || caller.keyHash != "" && caller.keyHash != string(row.KeyHash)):
		err = refuse(CodeUnauthorized)
	case err == nil && row.suspended(t.now):
		err = row.rejection()
	}
	return err
}

// agentByHandle loads the row of the agent that has the handle now.
func (t *tx) agentByHandle(handle string) (agent agentRow, found bool, err error) {
	found, err = t.Find(&agent, selectAgents+` WHERE h.handle = ?`, handle)
	return agent, found, err
}

// UpdateAgent changes the caller's settings. change gets them as they are and
// edits them; it is called again with none, to tell what it gives, and both may
// happen twice. A changed mailbox puts the agent back to level 0, a changed owner
// ends the owner claim. It refuses with validation_failed an agent without a
// description and a text with a blocked word, and with trust_too_low an owner's
// receipt that is asked for below level 2.
func (s *Store) UpdateAgent(ctx context.Context, caller Caller, change func(*Settings) error) (doc AgentDocument, err error) {
	err = s.writeAs(ctx, caller, func(t *tx) error {
		before, err := t.agent(caller.ID)
		if err != nil {
			return err
		}
		after := before.settings()
		if err := change(&after); err != nil {
			return err
		}
		// What is not given stays, whatever words were blocked since.
		var given Settings
		if err := change(&given); err != nil {
			return err
		}
		if err := t.checkTexts(given, after.described()...); err != nil {
			return err
		}
		claimed := before.level() == 2 && after.Owner == before.Owner && canonicalMailbox(after.Mailbox) == before.Mailbox
		if after.ContactPolicy.RequireOwnerReceipt && !before.ContactPolicy.RequireOwnerReceipt && !claimed {
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
		ContactPolicy: PolicySettings(a.ContactPolicy),
	}
}

func (t *tx) updateAgent(before agentRow, after Settings) error {
	mailbox := canonicalMailbox(after.Mailbox)
	p := after.ContactPolicy
	err := t.Exec(`
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
// record, without this agent's name, level and mailbox, until it is deleted too. The
// handle stays taken.
func (s *Store) DeleteAgent(ctx context.Context, caller Caller) error {
	return s.writeAs(ctx, caller, func(t *tx) error {
		return t.deleteAgent(caller.ID)
	})
}

func (t *tx) deleteAgent(id int64) error {
	for _, end := range []func(int64) error{t.unindexAgent, t.unclaim, t.deletePostsOf, t.endRequestsOf, t.endCollabsOf} {
		if err := end(id); err != nil {
			return err
		}
	}
	if err := t.Exec(`DELETE FROM agents WHERE id = ?`, id); err != nil {
		return fmt.Errorf("delete the agent: %w", err)
	}
	if err := t.Exec(`UPDATE handles SET deleted_at = ? WHERE id = ?`, t.now, id); err != nil {
		return err
	}
	if err := t.forgetBetweenGone(id); err != nil {
		return err
	}
	t.forget(id)
	return nil
}

// forgetBetweenGone deletes what an agent that is gone had with others that are gone
// too: nobody is left who keeps it.
func (t *tx) forgetBetweenGone(id int64) error {
	for _, query := range []string{
		`DELETE FROM requests WHERE from_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = to_id)`,
		`DELETE FROM requests WHERE to_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = from_id)`,
		`DELETE FROM collabs WHERE initiator_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = partner_id)`,
		`DELETE FROM collabs WHERE partner_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = initiator_id)`,
	} {
		if err := t.Exec(query, id); err != nil {
			return fmt.Errorf("delete what was between agents that are gone: %w", err)
		}
	}
	return nil
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
