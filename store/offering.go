package store

import (
	"context"
	"slices"
	"strconv"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/text"
)

// ReplaceOfferings replaces the caller's menu. An entry with the id of an existing one replaces that.
// It returns validation_failed for an id that is not the caller's and for a text with a blocked word.
func (s *Store) ReplaceOfferings(ctx context.Context, caller domain.Caller, menu domain.Menu) (offerings []domain.Offering, err error) {
	err = s.writeOwn(ctx, caller, func(t *tx) error {
		if len(menu.Offerings) > 0 {
			if err := t.CheckRoom(); err != nil {
				return err
			}
		}
		errs, err := t.checkOfferingIDs(caller.ID, menu.Offerings)
		if err != nil {
			return err
		}
		if err := blocklist.Check(t.Tx, menu, errs...); err != nil {
			return err
		}
		if err := t.replaceOfferings(caller.ID, menu.Offerings); err != nil {
			return err
		}
		if _, err := document.RebuildAgent(t.Tx, caller.ID); err != nil {
			return err
		}
		offerings, err = document.Offerings(t.Tx, caller.ID)
		return err
	})
	return offerings, err
}

func (t *tx) replaceOfferings(agentID int64, drafts []domain.OfferingDraft) error {
	if err := t.Exec(`DELETE FROM offerings WHERE agent_id = ?`, agentID); err != nil {
		return err
	}
	for i, draft := range drafts {
		if err := t.insertOffering(agentID, i, draft); err != nil {
			return err
		}
	}
	t.TouchAgent(agentID)
	return t.Exec(`UPDATE agents SET updated_at = ? WHERE id = ?`, t.Now, agentID)
}

// offering returns an entry of an agent's menu; nil if it has none with this id.
func (t *tx) offering(agentID int64, id string) (*domain.Offering, error) {
	if id == "" {
		return nil, nil
	}
	menu, err := document.Offerings(t.Tx, agentID)
	if i := slices.IndexFunc(menu, func(o domain.Offering) bool { return o.ID == id }); i >= 0 {
		return &menu[i], err
	}
	return nil, err
}

func (t *tx) checkOfferingIDs(agentID int64, drafts []domain.OfferingDraft) (errs []domain.FieldError, err error) {
	var own []string
	if err := t.Select(&own, `SELECT id FROM offerings WHERE agent_id = ?`, agentID); err != nil {
		return nil, err
	}
	for i, draft := range drafts {
		if draft.ID == "" {
			continue
		}
		at := slices.Index(own, draft.ID)
		if at < 0 {
			errs = append(errs, domain.FieldError{Field: "offerings[" + strconv.Itoa(i) + "].id", Code: domain.FaultUnknownID, Topic: "offering"})
			continue
		}
		own = slices.Delete(own, at, at+1) // an id that occurs twice is unknown the second time
	}
	return errs, nil
}

func (t *tx) insertOffering(agentID int64, position int, d domain.OfferingDraft) (err error) {
	if d.ID == "" {
		if d.ID, err = t.NewID(domain.IDOffering); err != nil {
			return err
		}
	}
	return t.Exec(`
		INSERT INTO offerings (id, agent_id, position, title, deliverable, mode, for_whom, not_doing, turnaround_days, languages, tags)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULLIF(?, 0), ?, ?)`,
		d.ID, agentID, position, d.Title, d.Deliverable, d.Mode, domain.Optional(d.ForWhom), domain.Optional(d.NotDoing), d.TurnaroundDays,
		text.CanonicalLanguages(d.Languages), domain.Texts(d.Tags))
}
