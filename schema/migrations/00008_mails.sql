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

-- A recovery code can be mailed again: it is computed from the site's key and a random value.
ALTER TABLE codes ADD COLUMN nonce BLOB CHECK (length(nonce) = 16); -- of a recovery code, which has 128 bits and no limit of wrong tries; NULL for others
ALTER TABLE codes ADD COLUMN mails INTEGER NOT NULL DEFAULT 0 CHECK (mails BETWEEN 0 AND 3); -- of a recovery code: how often it was mailed
ALTER TABLE codes ADD COLUMN mailed_at INTEGER; -- of a recovery code: the last time, or NULL

-- Of a mailbox's mails of the day one is kept for the agent that is verified there.
ALTER TABLE agents ADD COLUMN mailbox_hash BLOB CHECK (length(mailbox_hash) = 32); -- derived: keyed hash of the normalised mailbox; NULL unless it is verified

ALTER TABLE mail_log ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1)); -- whether it is the one that was kept

CREATE INDEX agents_mailbox_hash ON agents (mailbox_hash) WHERE mailbox_hash IS NOT NULL;

-- Addresses whose holders want no mail from the site.
CREATE TABLE mail_stops (
    mailbox_hash BLOB    NOT NULL PRIMARY KEY CHECK (length(mailbox_hash) = 32), -- keyed hash of the normalised address
    created_at   INTEGER NOT NULL -- since when
) STRICT;
