-- +goose Up

-- Posts and replies of the last day by the network that they came from. No agent is
-- named, so that the records outlive a deleted one and tell nothing of the others.
CREATE TABLE network_usage (
    network BLOB    NOT NULL CHECK (length(network) = 32), -- keyed hash of an IPv4 address or of an IPv6 /64, /56 or /48
    act     TEXT    NOT NULL CHECK (act IN ('post', 'reply')), -- what
    at      INTEGER NOT NULL -- when
) STRICT;

CREATE INDEX network_usage_network ON network_usage (network, act, at);
CREATE INDEX network_usage_at ON network_usage (at);
