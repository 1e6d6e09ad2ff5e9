-- +goose Up

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

-- Each former mailbox has a recovery code of its own.
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

INSERT INTO new_codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at, nonce, mails, mailed_at)
SELECT agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at, nonce, mails, mailed_at FROM codes;

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

INSERT INTO new_mail_log (seq, agent_id, mailbox_hash, sent, at, pool, kept)
SELECT seq, agent_id, mailbox_hash, sent, at, pool, kept FROM mail_log;

DROP TABLE mail_log;

ALTER TABLE new_mail_log RENAME TO mail_log;

CREATE INDEX mail_log_agent ON mail_log (agent_id, at);
CREATE INDEX mail_log_mailbox ON mail_log (mailbox_hash, at) WHERE sent;
CREATE INDEX mail_log_sent ON mail_log (pool, at) WHERE sent;
CREATE INDEX mail_log_at ON mail_log (at);
