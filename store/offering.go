package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"callbook/store/search"
)

// OfferingDraft is an entry of a new menu.
type OfferingDraft struct {
	ID             string   `json:"id,omitempty" text:"-" maxLength:"60" doc:"An existing offering's id keeps it; leave it out for a new one."`
	Title          string   `json:"title" minLength:"1" maxLength:"40" example:"Tide table"`
	Deliverable    string   `json:"deliverable" minLength:"1" maxLength:"120" doc:"What the other side gets." example:"A CSV of tides for one port and month"`
	Mode           string   `json:"mode" enum:"free,quote,offsite_paid" doc:"Paid work is settled outside the service." example:"free"`
	ForWhom        string   `json:"for_whom,omitempty" maxLength:"80"`
	NotDoing       string   `json:"not_doing,omitempty" maxLength:"120" doc:"What this does not include."`
	TurnaroundDays int      `json:"turnaround_days,omitempty" minimum:"1" maximum:"90"`
	Languages      []string `json:"languages,omitempty" format:"language" maxItems:"4" minLength:"1" maxLength:"60" uniqueItems:"true"`
	Tags           []string `json:"tags,omitempty" maxItems:"5" minLength:"1" maxLength:"60" uniqueItems:"true"`
}

// Menu is a whole service menu.
type Menu struct {
	Offerings []OfferingDraft `json:"offerings" maxItems:"3" doc:"The whole menu, in order; an empty list clears it."`
}

// Offering is an entry of a menu (specification: Offering).
type Offering struct {
	ID             string  `json:"id" db:"id"`
	Title          string  `json:"title" db:"title"`
	Deliverable    string  `json:"deliverable" db:"deliverable"`
	Mode           string  `json:"mode" db:"mode" enum:"free,quote,offsite_paid"`
	ForWhom        *string `json:"for_whom" db:"for_whom"`
	NotDoing       *string `json:"not_doing" db:"not_doing"`
	TurnaroundDays *int    `json:"turnaround_days" db:"turnaround_days"`
	Languages      texts   `json:"languages" db:"languages"`
	Tags           texts   `json:"tags" db:"tags"`
}

// ReplaceOfferings replaces the caller's whole menu. An id keeps its entry; it
// refuses with validation_failed one that is not the caller's own (unknown_id) and
// a text with a blocked word.
func (s *Store) ReplaceOfferings(ctx context.Context, caller Caller, menu Menu) (offerings []Offering, err error) {
	err = s.writeAs(ctx, caller, func(t *tx) error {
		faults, err := t.checkOfferingIDs(caller.ID, menu.Offerings)
		if err != nil {
			return err
		}
		if err := t.checkTexts(menu, faults...); err != nil {
			return err
		}
		if err := t.replaceOfferings(caller.ID, menu.Offerings); err != nil {
			return err
		}
		if _, err := t.settleAgent(caller.ID); err != nil {
			return err
		}
		offerings, err = t.offerings(caller.ID)
		return err
	})
	return offerings, err
}

func (t *tx) replaceOfferings(agentID int64, drafts []OfferingDraft) error {
	if err := t.Exec(`DELETE FROM offerings WHERE agent_id = ?`, agentID); err != nil {
		return err
	}
	for i, draft := range drafts {
		if err := t.insertOffering(agentID, i, draft); err != nil {
			return fmt.Errorf("insert offering %d: %w", i, err)
		}
	}
	t.touch(agentID)
	return t.Exec(`UPDATE agents SET updated_at = ? WHERE id = ?`, t.now, agentID)
}

func (t *tx) offerings(agentID int64) ([]Offering, error) {
	offerings := []Offering{}
	err := t.Select(&offerings, `
		SELECT id, title, deliverable, mode, for_whom, not_doing, turnaround_days, languages, tags
		FROM offerings
		WHERE agent_id = ?
		ORDER BY position`, agentID)
	return offerings, err
}

// offering is an entry of the agent's menu; nil when it has none with this id.
func (t *tx) offering(agentID int64, id string) (*Offering, error) {
	if id == "" {
		return nil, nil
	}
	menu, err := t.offerings(agentID)
	if i := slices.IndexFunc(menu, func(o Offering) bool { return o.ID == id }); i >= 0 {
		return &menu[i], err
	}
	return nil, err
}

func (t *tx) checkOfferingIDs(agentID int64, drafts []OfferingDraft) (faults []Fault, err error) {
	var own []string
	if err := t.Select(&own, `SELECT id FROM offerings WHERE agent_id = ?`, agentID); err != nil {
		return nil, err
	}
	unused := map[string]bool{}
	for _, id := range own {
		unused[id] = true
	}
	for i, draft := range drafts {
		if draft.ID == "" {
			continue
		}
		// An id given twice is unknown the second time.
		if !unused[draft.ID] {
			faults = append(faults, Fault{Field: "offerings[" + strconv.Itoa(i) + "].id", Code: FaultUnknownID, Topic: "offering"})
		}
		delete(unused, draft.ID)
	}
	return faults, nil
}

func (t *tx) insertOffering(agentID int64, position int, d OfferingDraft) (err error) {
	if d.ID == "" {
		if d.ID, err = t.newID(idOffering); err != nil {
			return err
		}
	}
	var days *int
	if d.TurnaroundDays != 0 {
		days = &d.TurnaroundDays
	}
	return t.Exec(`
		INSERT INTO offerings (id, agent_id, position, title, deliverable, mode, for_whom, not_doing, turnaround_days, languages, tags)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.ID, agentID, position, d.Title, d.Deliverable, d.Mode, optional(d.ForWhom), optional(d.NotDoing), days,
		canonicalLanguages(d.Languages), texts(d.Tags))
}

// offeringWords are the offering's search words.
func offeringWords(o *Offering) string {
	return search.Tokens(append([]string{o.Title, o.Deliverable, deref(o.ForWhom)}, o.Tags...)...)
}

// matchMenu keeps, as the entries that matched, those that hold the most of the
// query's words, and at least one.
func (d *AgentDocument) matchMenu(hitsOf func(tokens string) int) {
	most := 1
	var matched []int
	for i, line := range strings.Split(d.MenuWords, "\n") {
		hits := hitsOf(line)
		if hits > most {
			most, matched = hits, nil
		}
		if hits == most {
			matched = append(matched, i)
		}
	}
	if len(matched) == 0 {
		return
	}
	menu := strings.Split(d.Menu, "\n")
	for _, i := range matched {
		d.Matched = append(d.Matched, menu[i])
	}
}
