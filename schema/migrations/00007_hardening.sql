-- +goose Up

-- Evidence, reports and collaborations.

-- The collaborations of two agents by time, so that those of two owners that count are found without reading all.
CREATE INDEX collabs_between ON collabs (initiator_id, partner_id, decided_at) WHERE status = 'confirmed';
