-- +goose Up

-- The link of an owner's page ends when it was not used for a year.
ALTER TABLE owner_claims ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0; -- last use of the link token_hash, to a day

UPDATE owner_claims SET used_at = requested_at;
