package store

import (
	"context"
	"strconv"

	"callbook/store/domain"
	"callbook/store/text"
)

// ReplaceOfferings replaces the caller's menu. An entry with the id of an existing one replaces
// that. It returns validation_failed for an id that is not the caller's and for a text with a
// blocked word.
func (s *Store) ReplaceOfferings(
	ctx context.Context,
	caller domain.Caller,
	menu domain.Menu,
) (offerings []domain.Offering, err error) {
	err = s.write(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}

		// To clear the menu must be possible in a full directory.
		if len(menu.Offerings) > 0 {
			if err := t.CheckRoom(); err != nil {
				return err
			}
		}

		if err := t.checkBlocks(menu, checkOfferingIDs(agent, menu.Offerings)...); err != nil {
			return err
		}
		agent.Offerings, err = t.newMenu(menu.Offerings)
		if err != nil {
			return err
		}

		agent.UpdatedAt = t.Now
		offerings = agent.Offerings
		return agent.Store(t)
	})

	return offerings, err
}

// checkOfferingIDs returns the errors of entries with an id that is not that of an entry of the
// agent.
func checkOfferingIDs(agent *agentRow, drafts []domain.OfferingDraft) (errs []domain.FieldError) {
	seen := map[string]bool{"": true}
	for i, draft := range drafts {
		if draft.ID != "" && (agent.Offering(draft.ID) == nil || seen[draft.ID]) {
			errs = append(errs, domain.FieldError{
				Field: "offerings[" + strconv.Itoa(i) + "].id",
				Code:  domain.FaultUnknownID,
				Topic: "offering",
			})
		}
		seen[draft.ID] = true // one that occurs twice is unknown the second time
	}

	return errs
}

// newMenu returns the entries of a menu, new ones with an id.
func (t *tx) newMenu(drafts []domain.OfferingDraft) (menu []domain.Offering, err error) {
	menu = []domain.Offering{}
	for _, d := range drafts {
		if d.ID == "" {
			d.ID, err = t.NewID(domain.IDOffering)
			if err != nil {
				return nil, err
			}
		}
		menu = append(menu, domain.Offering{
			ID:             d.ID,
			Title:          d.Title,
			Deliverable:    d.Deliverable,
			Mode:           d.Mode,
			ForWhom:        domain.Optional(d.ForWhom),
			NotDoing:       domain.Optional(d.NotDoing),
			TurnaroundDays: optionalNumber(d.TurnaroundDays),
			Languages:      text.CanonicalLanguages(d.Languages),
			Tags:           append(domain.Texts{}, d.Tags...),
		})
	}

	return menu, nil
}

// optionalNumber returns nil for 0.
func optionalNumber(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
