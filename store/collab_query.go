package store

import (
	"context"
	"fmt"

	"callbook/store/domain"
	"callbook/store/listing"
)

// collabRow is a collaboration as a query reads it.
type collabRow struct {
	domain.Collab
	Seq         int64 `db:"seq"`
	InitiatorID int64 `db:"initiator_id"`
	PartnerID   int64 `db:"partner_id"`
}

// Position returns the number of the collaboration in lists.
func (c collabRow) Position() int64 { return c.Seq }

// selectCollab reads collaborations with both sides, whose names and levels are null if they are deleted.
const selectCollab = `
	SELECT c.seq, c.id, c.initiator_id, c.partner_id, c.status,
		ih.handle AS "initiator.handle", i.name AS "initiator.name", i.level AS "initiator.level",
		ph.handle AS "partner.handle", p.name AS "partner.name", p.level AS "partner.level",
		c.summary, c.post_id, c.request_id, c.counts, c.created_at, c.decided_at
	FROM collabs c
	JOIN handles ih ON ih.id = c.initiator_id
	JOIN handles ph ON ph.id = c.partner_id
	LEFT JOIN agents i ON i.id = c.initiator_id
	LEFT JOIN agents p ON p.id = c.partner_id`

// Collabs lists confirmed collaborations, newest first: those of an agent, or all if handle is empty.
// It omits those of hidden agents.
func (s *Store) Collabs(ctx context.Context, handle string, page listing.Page) (listing.List[domain.Collab], error) {
	where := ` c.status = 'confirmed'
		AND (i.id IS NULL OR NOT i.hidden) AND (p.id IS NULL OR NOT p.hidden)`
	var bounds []any
	if handle != "" {
		where += ` AND c.seq IN (
			SELECT seq FROM collabs WHERE initiator_id = (SELECT id FROM handles WHERE handle = ?)
			UNION ALL
			SELECT seq FROM collabs WHERE partner_id = (SELECT id FROM handles WHERE handle = ?))`
		bounds = []any{handle, handle}
	}
	return s.listCollabs(ctx, fmt.Sprintf("collabs of %q", handle), where, bounds, page)
}

// OwnCollabs lists the caller's collaborations, newest first, with a status or, if it is empty, all.
func (s *Store) OwnCollabs(ctx context.Context, caller domain.Caller, status string, page listing.Page) (listing.List[domain.Collab], error) {
	where, bounds := ` c.seq IN (
			SELECT seq FROM collabs WHERE initiator_id = ?
			UNION ALL
			SELECT seq FROM collabs WHERE partner_id = ?)`, []any{caller.ID, caller.ID}
	if status != "" {
		where, bounds = where+` AND c.status = ?`, append(bounds, status)
	}
	return s.listCollabs(ctx, fmt.Sprintf("own collabs %d %s", caller.ID, status), where, bounds, page)
}

func (s *Store) listCollabs(ctx context.Context, name, where string, bounds []any, page listing.Page) (list listing.List[domain.Collab], err error) {
	rows, err := listing.Read[collabRow](ctx, s.db, &listing.Query{
		Name: name,
		Rows: selectCollab + ` WHERE c.seq < ? AND` + where + ` ORDER BY c.seq DESC LIMIT ? OFFSET ?`,
		Count: `SELECT COUNT(*) AS n FROM (SELECT 1 FROM collabs c
			LEFT JOIN agents i ON i.id = c.initiator_id
			LEFT JOIN agents p ON p.id = c.partner_id
			WHERE` + where + ` LIMIT ?)`,
		Bounds: bounds,
	}, page)
	if err != nil {
		return list, err
	}
	return listing.Map(rows, func(r *collabRow) (domain.Collab, error) { return r.Collab, nil })
}
