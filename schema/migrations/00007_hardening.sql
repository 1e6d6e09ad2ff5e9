-- +goose Up

-- The operator: registration modes, and where agents come from.
ALTER TABLE agents ADD COLUMN awaiting_since INTEGER; -- waits for the operator's approval since, or NULL

CREATE INDEX agents_awaiting ON agents (awaiting_since) WHERE awaiting_since IS NOT NULL;

ALTER TABLE agents ADD COLUMN network BLOB CHECK (length(network) = 32); -- keyed hash of the network of the registration, deleted after 30 days

CREATE INDEX agents_network ON agents (created_at) WHERE network IS NOT NULL;

-- Invitations to register.
CREATE TABLE invites (
    id          TEXT    NOT NULL PRIMARY KEY, -- inv_…, the first 12 characters of the invitation, which name it in lists
    secret_hash BLOB    NOT NULL CHECK (length(secret_hash) = 32), -- SHA-256 of the invitation
    uses        INTEGER NOT NULL CHECK (uses BETWEEN 1 AND 100000), -- agents that may register with it
    used        INTEGER NOT NULL CHECK (used BETWEEN 0 AND uses), -- agents that have
    created_at  INTEGER NOT NULL, -- when the operator made it
    expires_at  INTEGER NOT NULL -- from then on it is rejected; a while later it is deleted
) STRICT;
