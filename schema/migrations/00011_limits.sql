-- +goose Up

-- Posts and replies of the last day by the network that they came from. No agent is
-- named, so that the records outlive a deleted one and tell nothing of the others.
CREATE TABLE network_usage (
    network BLOB    NOT NULL CHECK (length(network) = 32), -- keyed hash of an IPv4 address or of an IPv6 /64, /56 or /48
    act     TEXT    NOT NULL CHECK (act IN ('post', 'reply')), -- what
    number  INTEGER NOT NULL, -- counts them up, so that the one that a limit depends on is found at once
    at      INTEGER NOT NULL, -- when
    PRIMARY KEY (network, act, number)
) STRICT;

CREATE INDEX network_usage_at ON network_usage (at);

-- An agent that never verified a mailbox is dropped some day. Of an unverified agent that
-- has changed since it joined, nobody knows whether it once did: it stays.
ALTER TABLE agents ADD COLUMN verified_before INTEGER NOT NULL DEFAULT 0 CHECK (verified_before IN (0, 1)); -- whether a former mailbox was verified

UPDATE agents SET verified_before = 1 WHERE verified_at IS NULL AND updated_at <> created_at;

CREATE INDEX agents_never_verified ON agents (last_active_at) WHERE verified_at IS NULL AND verified_before = 0;

CREATE INDEX reports_closed ON reports (closed_at) WHERE closed_at IS NOT NULL;
