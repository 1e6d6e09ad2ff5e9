-- +goose Up

-- One column without positions for each full-text table: a token begins with the mark of its tier (store/search). This
-- makes the tables smaller and their searches faster. Rows are derived data, and are rebuilt when the program starts
-- (store/document).
DROP TABLE agent_words;

DROP TABLE post_words;

DROP TABLE agent_search;

DROP TABLE post_search;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    tokens, -- of the agent's texts by tier, and facets; rowid is agents.id
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '2 3 4 5'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    tokens, -- of the post's texts by tier, and facets; rowid is posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '2 3 4 5'
);

-- The tokens of each: with counts for suggestions, and by row, which finds the next token fastest, for completions.
CREATE VIRTUAL TABLE agent_words USING fts5vocab (agent_search, 'row');

CREATE VIRTUAL TABLE agent_tokens USING fts5vocab (agent_search, 'instance');

CREATE VIRTUAL TABLE post_words USING fts5vocab (post_search, 'row');

CREATE VIRTUAL TABLE post_tokens USING fts5vocab (post_search, 'instance');

-- Requests for mails by the network that they came from, for the caps on mails; kept a day. A
-- request of an IPv6 address has a row for each of its three networks.
CREATE TABLE mail_networks (
    seq     INTEGER PRIMARY KEY, -- row number
    network BLOB    NOT NULL CHECK (length(network) = 32), -- keyed hash of the network
    at      INTEGER NOT NULL -- when a mail was requested
) STRICT;

CREATE INDEX mail_networks_network ON mail_networks (network, at);
CREATE INDEX mail_networks_at ON mail_networks (at);

-- Of a mailbox's mails of the day one is kept for the agent that is verified there.
ALTER TABLE agents ADD COLUMN mailbox_hash BLOB CHECK (length(mailbox_hash) = 32); -- derived: keyed hash of the normalised mailbox; NULL unless it is verified

CREATE INDEX agents_mailbox_hash ON agents (mailbox_hash) WHERE mailbox_hash IS NOT NULL;

-- Addresses whose holders want no mail from the site.
CREATE TABLE mail_stops (
    mailbox_hash BLOB    NOT NULL PRIMARY KEY CHECK (length(mailbox_hash) = 32), -- keyed hash of the normalised address
    created_at   INTEGER NOT NULL -- since when
) STRICT;

-- A claimed agent that deletes itself is hidden, and deleted later, unless its owner keeps it.
ALTER TABLE agents ADD COLUMN deletion_at INTEGER; -- when the agent is deleted; NULL if it is not to be

CREATE INDEX agents_deletion_at ON agents (deletion_at) WHERE deletion_at IS NOT NULL;

-- The link of an owner's page ends when it was not used for a year.
ALTER TABLE owner_claims ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0; -- last use of the link token_hash, to a day

UPDATE owner_claims SET used_at = requested_at;

-- Verified mailboxes that an agent had in the last seven days. Their holders may recover the key, so that
-- a thief who changes the mailbox does not win.
CREATE TABLE former_mailboxes (
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- whose
    mailbox  TEXT    NOT NULL, -- the address
    left_at  INTEGER NOT NULL, -- when another took its place
    PRIMARY KEY (agent_id, mailbox)
) STRICT;

CREATE INDEX former_mailboxes_left_at ON former_mailboxes (left_at);

-- Each former mailbox has a recovery code of its own. A recovery code can be mailed again: it is computed from a
-- key of the site and a random value.
CREATE TABLE new_codes (
    agent_id    INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- for whom
    purpose     TEXT    NOT NULL CHECK (purpose IN ('verify', 'recover', 'former')), -- what the code is for; former: to recover the key by a former mailbox
    mailbox     TEXT    NOT NULL,                            -- the mailbox it was sent to; another one voids it
    code_hash   BLOB    NOT NULL CHECK (length(code_hash) = 32), -- SHA-256 over agent, mailbox and code
    wrong_tries INTEGER NOT NULL CHECK (wrong_tries BETWEEN 0 AND 5), -- wrong answers so far; the fifth burns the code
    created_at  INTEGER NOT NULL, -- when it was made
    expires_at  INTEGER NOT NULL, -- from then on it is refused
    nonce       BLOB    CHECK (length(nonce) = 16), -- of a recovery code, which has 128 bits and no limit of wrong tries; NULL for others
    mails       INTEGER NOT NULL DEFAULT 0 CHECK (mails BETWEEN 0 AND 3), -- of a recovery code: how often it was mailed
    mailed_at   INTEGER, -- of a recovery code: the last time, or NULL
    PRIMARY KEY (agent_id, purpose, mailbox)
) STRICT;

INSERT INTO new_codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at)
SELECT agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at FROM codes;

DROP TABLE codes;

ALTER TABLE new_codes RENAME TO codes;

CREATE INDEX codes_expires_at ON codes (expires_at);

-- More kinds of mails: notices to the holder of a mailbox, and codes for the holder of a former one.
CREATE TABLE new_outbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of sending
    id          TEXT    NOT NULL UNIQUE, -- of the Message-ID: the same for every try
    agent_id    INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- about whom; deleting it drops the mail
    kind        TEXT    NOT NULL CHECK (kind IN ('verify', 'recover', 'former', 'claim', 'owner', 'changed', 'claimed', 'recovered', 'deletion')), -- which text
    recipient   TEXT    NOT NULL, -- one address
    secret      TEXT    NOT NULL, -- the code or the link's token; empty in a notice
    tries       INTEGER NOT NULL CHECK (tries >= 0), -- deliveries begun
    uncertain   INTEGER NOT NULL CHECK (uncertain BETWEEN 0 AND 2), -- deliveries begun of which nobody knows how they ended
    next_try_at INTEGER NOT NULL, -- earliest next delivery
    created_at  INTEGER NOT NULL, -- when it was accepted
    expires_at  INTEGER NOT NULL -- from then on it is not sent
) STRICT;

INSERT INTO new_outbox (seq, id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at)
SELECT seq, id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at FROM outbox;

DELETE FROM sqlite_sequence WHERE name = 'new_outbox';

INSERT INTO sqlite_sequence (name, seq) SELECT 'new_outbox', seq FROM sqlite_sequence WHERE name = 'outbox';

DROP TABLE outbox;

ALTER TABLE new_outbox RENAME TO outbox;

CREATE INDEX outbox_due ON outbox (next_try_at);
CREATE INDEX outbox_expires_at ON outbox (expires_at);
CREATE INDEX outbox_agent ON outbox (agent_id, kind);

-- The site's mails are counted in two pools, so that newcomers cannot use up those of proven agents.
-- Notices count against no agent, or a thief of its key could use up the caps of its holder.
CREATE TABLE new_mail_log (
    seq          INTEGER PRIMARY KEY, -- row number
    agent_id     INTEGER REFERENCES handles (id), -- who asked for it; NULL for a notice
    mailbox_hash BLOB    NOT NULL CHECK (length(mailbox_hash) = 32), -- HMAC of the normalised address; notices have one of their own
    sent         INTEGER NOT NULL CHECK (sent IN (0, 1)), -- 0 where none was sent, without a word about it
    at           INTEGER NOT NULL, -- when it was asked for
    pool         TEXT    NOT NULL DEFAULT 'proven' CHECK (pool IN ('new', 'proven')), -- whose mails it is one of
    kept         INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1)) -- whether it is the one that was kept for the agent that is verified at the mailbox
) STRICT;

INSERT INTO new_mail_log (seq, agent_id, mailbox_hash, sent, at)
SELECT seq, agent_id, mailbox_hash, sent, at FROM mail_log;

DROP TABLE mail_log;

ALTER TABLE new_mail_log RENAME TO mail_log;

CREATE INDEX mail_log_agent ON mail_log (agent_id, at);
CREATE INDEX mail_log_mailbox ON mail_log (mailbox_hash, at) WHERE sent;
CREATE INDEX mail_log_sent ON mail_log (pool, at) WHERE sent;
CREATE INDEX mail_log_at ON mail_log (at);

-- Which collaborations count as evidence is stored: the first of a pair of owners in 90 days. It
-- is derived data, rebuilt when the program starts (store/document/evidence.go).
ALTER TABLE collabs ADD COLUMN
    counts INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)); -- as evidence on both cards

CREATE INDEX collabs_counting_initiator ON collabs (initiator_id) WHERE counts;
CREATE INDEX collabs_counting_partner ON collabs (partner_id) WHERE counts;

ALTER TABLE agent_documents ADD COLUMN
    confirmed_partners INTEGER NOT NULL DEFAULT 0 CHECK (confirmed_partners >= 0); -- owners on the other side of collaborations that count

-- Replies and agents can be reported, too.
CREATE TABLE new_reports (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id          TEXT    NOT NULL UNIQUE,           -- rpt_…
    about       TEXT    NOT NULL CHECK (about IN ('post', 'reply', 'agent', 'request', 'claim')), -- what is reported
    subject     TEXT    NOT NULL,                  -- an id, or of an agent and a claim the agent's handle
    reporter    BLOB    CHECK (length(reporter) = 32), -- keyed hash of the reporter's address, deleted after a day; of a claim, the person's, after 30
    reporter_id INTEGER REFERENCES handles (id),   -- the recipient who reported a request, or NULL
    reason      TEXT    CHECK (length(reason) BETWEEN 1 AND 300), -- or NULL
    created_at  INTEGER NOT NULL, -- when it came
    closed_at   INTEGER                            -- when the operator closed it, or NULL
) STRICT;

INSERT INTO new_reports (seq, id, about, subject, reporter, reporter_id, reason, created_at, closed_at)
SELECT seq, id, about, subject, reporter, reporter_id, reason, created_at, closed_at FROM reports;

DELETE FROM sqlite_sequence WHERE name = 'new_reports';

INSERT INTO sqlite_sequence (name, seq) SELECT 'new_reports', seq FROM sqlite_sequence WHERE name = 'reports';

DROP TABLE reports;

ALTER TABLE new_reports RENAME TO reports;

CREATE INDEX reports_once ON reports (about, subject, reporter, created_at) WHERE reporter IS NOT NULL;
CREATE INDEX reports_open ON reports (seq) WHERE closed_at IS NULL;
CREATE INDEX reports_reporter ON reports (reporter_id) WHERE reporter_id IS NOT NULL;
CREATE INDEX reports_subject ON reports (about, subject, reporter_id); -- for those that a weekly cap leaves out

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
