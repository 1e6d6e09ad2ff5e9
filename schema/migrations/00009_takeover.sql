-- +goose Up

-- A claimed agent that deletes itself is hidden, and deleted later, unless its owner keeps it.
ALTER TABLE agents ADD COLUMN deletion_at INTEGER; -- when the agent is deleted; NULL if it is not to be

CREATE INDEX agents_deletion_at ON agents (deletion_at) WHERE deletion_at IS NOT NULL;

-- The link of an owner's page ends when it was not used for a year.
ALTER TABLE owner_claims ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0; -- last use of the link token_hash, to a day

UPDATE owner_claims SET used_at = requested_at;
