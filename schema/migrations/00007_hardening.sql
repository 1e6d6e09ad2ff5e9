-- +goose Up

-- Recovery and owners. A former mailbox that was left before the last confirmation of a claim may be that of
-- the rightful holder, and the claim a thief's. Of a claim that lapsed before this migration the first confirmation is
-- known.
ALTER TABLE owner_claims ADD COLUMN mailbox_at INTEGER NOT NULL DEFAULT 0; -- last confirmation, which was with that mailbox; 0 before

UPDATE owner_claims SET mailbox_at = COALESCE((SELECT claimed_at FROM agents WHERE id = agent_id), confirmed_at, 0)
WHERE status = 'claimed';

-- Schema 6 ended the links to owners' pages that were requested more than a year before: they count as used when an
-- agent last was.
UPDATE owner_claims SET used_at = (SELECT MAX(last_active_at) FROM agents) WHERE used_at = requested_at;

-- Schema 6 counted all mails of the day before as those of proven agents.
UPDATE mail_log SET pool = 'new'
WHERE agent_id IS NOT NULL AND agent_id NOT IN (SELECT id FROM agents WHERE verified_at < mail_log.at);

-- Notices and codes to former mailboxes, which are marked as kept, count in no pool, and there are so many notices a day
-- about one agent.
ALTER TABLE mail_log ADD COLUMN notice_of INTEGER REFERENCES handles (id); -- about whom a notice or a code to a former mailbox is; NULL for other mails

CREATE INDEX mail_log_notice_of ON mail_log (notice_of, at) WHERE notice_of IS NOT NULL;

-- Evidence, reports and collaborations.

-- The collaborations of two agents by time, so that those of two owners that count are found without reading all.
CREATE INDEX collabs_between ON collabs (initiator_id, partner_id, decided_at) WHERE status = 'confirmed';

-- A report keeps the text that it is about, so that its author cannot delete it before the operator has read it.
ALTER TABLE reports ADD COLUMN of_id INTEGER REFERENCES handles (id); -- whose text or claim it is; NULL where it was gone before this column came

ALTER TABLE reports ADD COLUMN text TEXT CHECK (length(text) BETWEEN 1 AND 6000); -- the beginning of the text as it was; NULL for a claim, and where it was gone before this column came

UPDATE reports SET
    of_id = CASE about
        WHEN 'post' THEN (SELECT author_id FROM posts WHERE id = subject)
        WHEN 'reply' THEN (SELECT author_id FROM replies WHERE id = subject)
        WHEN 'request' THEN (SELECT from_id FROM requests WHERE id = subject)
        ELSE (SELECT id FROM handles WHERE handle = subject) END,
    text = substr(CASE about
        WHEN 'post' THEN (SELECT concat_ws(char(10), title, deliverable, constraints, body) FROM posts WHERE id = subject)
        WHEN 'reply' THEN (SELECT body FROM replies WHERE id = subject)
        WHEN 'request' THEN (SELECT concat_ws(char(10), purpose, deliverable, context) FROM requests WHERE id = subject)
        WHEN 'agent' THEN (SELECT a.name FROM agents a JOIN handles h ON h.id = a.id WHERE h.handle = subject) END, 1, 6000);

CREATE INDEX reports_of ON reports (of_id, reporter_id) WHERE of_id IS NOT NULL;

-- Collaborations and reports of a network are counted, too.
CREATE TABLE new_network_usage (
    network BLOB    NOT NULL CHECK (length(network) = 32), -- keyed hash of an IPv4 address or of an IPv6 /64, /56 or /48
    act     TEXT    NOT NULL CHECK (act IN ('post', 'reply', 'collab', 'report')), -- what
    number  INTEGER NOT NULL, -- counts them up, so that the one that a limit depends on is found at once
    at      INTEGER NOT NULL, -- when
    PRIMARY KEY (network, act, number)
) STRICT;

INSERT INTO new_network_usage (network, act, number, at) SELECT network, act, number, at FROM network_usage;

DROP TABLE network_usage;

ALTER TABLE new_network_usage RENAME TO network_usage;

CREATE INDEX network_usage_at ON network_usage (at);

-- Fewer tables of beginnings: those of two and four letters serve beginnings of one and three letters too (store/search), and
-- writes are faster. Segments are merged less often. Rows are derived data, and are rebuilt when the program starts.
DROP TABLE agent_words;

DROP TABLE agent_tokens;

DROP TABLE agent_search;

DROP TABLE post_words;

DROP TABLE post_tokens;

DROP TABLE post_search;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    tokens, -- of the agent's texts by tier, and facets; rowid is agents.id
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '3 5'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    tokens, -- of the post's texts by tier, and facets; rowid is posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '3 5'
);

INSERT INTO agent_search (agent_search, rank) VALUES ('automerge', 8);

INSERT INTO post_search (post_search, rank) VALUES ('automerge', 8);

-- The tokens of each by row, which finds the next token fastest, for completions and suggestions.
CREATE VIRTUAL TABLE agent_tokens USING fts5vocab (agent_search, 'instance');

CREATE VIRTUAL TABLE post_tokens USING fts5vocab (post_search, 'instance');
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

-- The operator's page: its links, and charts of days.
CREATE TABLE operator_links (
    token_hash BLOB    NOT NULL PRIMARY KEY CHECK (length(token_hash) = 32), -- SHA-256 of the token in the path
    created_at INTEGER NOT NULL, -- when the operator made it
    expires_at INTEGER NOT NULL -- from then on it is rejected; then it is deleted
) STRICT;

CREATE INDEX posts_created_at ON posts (created_at);

CREATE INDEX requests_created_at ON requests (created_at);
