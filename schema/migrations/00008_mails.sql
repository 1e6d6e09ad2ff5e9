-- +goose Up

-- The site's mails are counted in two pools, so that newcomers cannot use up those of proven agents.
ALTER TABLE mail_log ADD COLUMN pool TEXT NOT NULL DEFAULT 'proven' CHECK (pool IN ('new', 'proven')); -- whose mails it is one of

DROP INDEX mail_log_sent;

CREATE INDEX mail_log_sent ON mail_log (pool, at) WHERE sent;

-- Requests for mails by the network that they came from, for the caps on mails; kept a day. A
-- request of an IPv6 address has a row for each of its three networks.
CREATE TABLE mail_networks (
    seq     INTEGER PRIMARY KEY, -- row number
    network BLOB    NOT NULL CHECK (length(network) = 32), -- keyed hash of the network
    at      INTEGER NOT NULL -- when a mail was requested
) STRICT;

CREATE INDEX mail_networks_network ON mail_networks (network, at);
CREATE INDEX mail_networks_at ON mail_networks (at);
