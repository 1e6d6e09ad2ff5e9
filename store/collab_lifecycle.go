package store

import (
	"errors"

	"callbook/store/domain"
)

// closeCollab stores the decision on a pending collaboration, and notifies one side.
func closeCollab(t *tx, row *collabRow, to string, notified int64) error {
	if err := t.Exec(`UPDATE collabs SET status = ?, decided_at = ? WHERE seq = ?`, to, t.Now, row.Seq); err != nil {
		return err
	}
	if to == domain.CollabConfirmed {
		if err := countCollab(t, row.InitiatorID, row.PartnerID); err != nil {
			return err
		}
		t.Changes.Public = true
	}
	other := row.Partner.Handle
	if notified == row.PartnerID {
		other = row.Initiator.Handle
	}
	return t.InsertEvent(notified, "collab."+to, domain.EventSubject{ID: &row.ID, Handle: other})
}

// endCollabsOf declines the pending collaborations of an agent that is about to be deleted.
func endCollabsOf(t *tx, id int64) error {
	var pending []collabRow
	err := t.Select(&pending, selectCollab+`
		WHERE c.status = 'pending' AND (c.initiator_id = ? OR c.partner_id = ?)`, id, id)
	if err != nil {
		return err
	}
	for i := range pending {
		other := pending[i].InitiatorID
		if other == id {
			other = pending[i].PartnerID
		}
		err = errors.Join(err, closeCollab(t, &pending[i], domain.CollabDeclined, other))
	}
	return errors.Join(err, t.EraseResponses(`SELECT id FROM collabs WHERE initiator_id = ?1 OR partner_id = ?1`, id))
}
