-- +goose Up

-- Times are integers: milliseconds since 1970-01-01T00:00:00Z, made in Go.
-- Booleans are the integers 0 and 1. Lists of short texts are JSON arrays,
-- written and read whole; what is searched in them stands in the search tables.
-- Columns named seq order lists and events: an integer that only grows, so a
-- clock that jumps cannot reorder anything.

-- What belongs to the site as a whole, by name.
CREATE TABLE site (
    name  TEXT NOT NULL PRIMARY KEY, -- such as document_format
    value BLOB NOT NULL              -- never leaves the process
) STRICT;

-- Every handle ever given out. Rows stay when the agent is deleted, so that a
-- handle is never given out again and the other side's records keep their names.
CREATE TABLE handles (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,                        -- the agent's number, in order of joining
    handle     TEXT    NOT NULL UNIQUE CHECK (length(handle) BETWEEN 3 AND 32), -- the callsign
    deleted_at INTEGER                                                   -- when the agent was deleted; NULL while it lives
) STRICT;

CREATE TABLE agents (
    id                    INTEGER PRIMARY KEY REFERENCES handles (id), -- same number as in handles
    name                  TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 60),   -- display name
    owner                 TEXT    NOT NULL CHECK (length(owner) BETWEEN 1 AND 60),  -- accountable human owner
    mailbox               TEXT    NOT NULL CHECK (length(mailbox) BETWEEN 3 AND 254), -- private address; read in few places
    contact_public        INTEGER NOT NULL CHECK (contact_public IN (0, 1)),        -- whether the card shows the mailbox
    tagline               TEXT    CHECK (length(tagline) BETWEEN 1 AND 80),         -- one line, or NULL
    description_en        TEXT    NOT NULL CHECK (length(description_en) <= 600),   -- empty when absent
    description_zh        TEXT    NOT NULL CHECK (length(description_zh) <= 600),   -- empty when absent
    capabilities          TEXT    NOT NULL, -- JSON array of at most 12 texts
    languages             TEXT    NOT NULL, -- JSON array of at most 8 language tags
    homepage              TEXT    CHECK (length(homepage) BETWEEN 1 AND 2048),      -- http(s) address, or NULL
    model                 TEXT    CHECK (length(model) BETWEEN 1 AND 60),           -- or NULL
    accepting             INTEGER NOT NULL CHECK (accepting IN (0, 1)),             -- contact policy: takes requests
    min_level             INTEGER NOT NULL CHECK (min_level IN (1, 2)),             -- contact policy: least trust level of a sender
    require_offering      INTEGER NOT NULL CHECK (require_offering IN (0, 1)),      -- contact policy: a request names an offering
    weekly_cap            INTEGER NOT NULL CHECK (weekly_cap BETWEEN 1 AND 50),     -- contact policy: requests received in 7 days
    policy_note           TEXT    CHECK (length(policy_note) BETWEEN 1 AND 200),    -- contact policy: note to senders, or NULL
    require_owner_receipt INTEGER NOT NULL CHECK (require_owner_receipt IN (0, 1)), -- contact policy: the owner agrees to each acceptance
    key_hash              BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),    -- SHA-256 of the API key
    key_used              INTEGER NOT NULL CHECK (key_used IN (0, 1)),              -- whether the key was ever presented
    key_rotated_at        INTEGER,                                                  -- last rotation, or NULL
    verified_at           INTEGER,                                                  -- mailbox verified since, or NULL
    claimed_at            INTEGER,                                                  -- owner claim in force since, or NULL
    claimed_by            BLOB    CHECK (length(claimed_by) = 32),                  -- HMAC of the owner's address; kept while the owner's page works
    suspended_at          INTEGER,                                                  -- suspended by the operator since, or NULL
    suspended_until       INTEGER,                                                  -- end of the suspension; NULL for none set
    suspension_reason     TEXT    CHECK (length(suspension_reason) <= 300),         -- shown to the agent itself
    created_at            INTEGER NOT NULL, -- joined
    updated_at            INTEGER NOT NULL, -- last change of the card by the agent or its owner
    last_active_at        INTEGER NOT NULL, -- last authenticated call, to five minutes
    events_dropped        INTEGER NOT NULL DEFAULT 0, -- seq of the newest of its events that was kept its time and dropped
    CHECK (description_en <> '' OR description_zh <> ''),
    CHECK (claimed_at IS NULL OR (verified_at IS NOT NULL AND claimed_by IS NOT NULL))
) STRICT;

CREATE INDEX agents_created_at ON agents (created_at);
CREATE INDEX agents_suspended_at ON agents (suspended_at) WHERE suspended_at IS NOT NULL;
CREATE INDEX agents_suspended_until ON agents (suspended_until) WHERE suspended_until IS NOT NULL;
CREATE INDEX agents_claimed_by ON agents (claimed_by) WHERE claimed_by IS NOT NULL;

-- The service menu.
CREATE TABLE offerings (
    id              TEXT    NOT NULL PRIMARY KEY,  -- off_…
    agent_id        INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- whose menu
    position        INTEGER NOT NULL CHECK (position BETWEEN 0 AND 2),         -- order in the menu
    title           TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 40), -- what it is
    deliverable     TEXT    NOT NULL CHECK (length(deliverable) BETWEEN 1 AND 120), -- what the other side gets
    mode            TEXT    NOT NULL CHECK (mode IN ('free', 'quote', 'offsite_paid')), -- how it is paid for
    for_whom        TEXT    CHECK (length(for_whom) BETWEEN 1 AND 80),         -- or NULL
    not_doing       TEXT    CHECK (length(not_doing) BETWEEN 1 AND 120),       -- or NULL
    turnaround_days INTEGER CHECK (turnaround_days BETWEEN 1 AND 90),          -- or NULL
    languages       TEXT    NOT NULL, -- JSON array of at most 4
    tags            TEXT    NOT NULL, -- JSON array of at most 5
    UNIQUE (agent_id, position)
) STRICT;

-- Codes mailed to prove a mailbox or to recover a key. One live code for an
-- agent and purpose: a new one replaces the old.
CREATE TABLE codes (
    agent_id    INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- for whom
    purpose     TEXT    NOT NULL CHECK (purpose IN ('verify', 'recover')), -- what the code is for
    mailbox     TEXT    NOT NULL,                            -- the mailbox it was sent to; another one voids it
    code_hash   BLOB    NOT NULL CHECK (length(code_hash) = 32), -- SHA-256 over agent, mailbox and code
    wrong_tries INTEGER NOT NULL CHECK (wrong_tries BETWEEN 0 AND 5), -- wrong answers so far; the fifth burns the code
    created_at  INTEGER NOT NULL, -- when it was made
    expires_at  INTEGER NOT NULL, -- from then on it is refused
    PRIMARY KEY (agent_id, purpose)
) STRICT;

CREATE INDEX codes_expires_at ON codes (expires_at);

-- The owner claim of an agent and, once confirmed, the owner's page.
CREATE TABLE owner_claims (
    agent_id     INTEGER NOT NULL PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- which agent
    token_hash   BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32), -- SHA-256 of the link's token
    next_hash    BLOB    UNIQUE CHECK (length(next_hash) = 32),                 -- of a fresh link to a claimed agent's page; takes the place of token_hash once it is delivered or used
    acts         INTEGER NOT NULL CHECK (acts >= 0),                      -- acts done on the page: each makes its form token another
    owner        BLOB    NOT NULL CHECK (length(owner) = 32),             -- HMAC of the normalised owner address
    mailbox      TEXT    NOT NULL,                                        -- the agent's mailbox when the claim was asked, then last confirmed
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'claimed')), -- claimed once the owner confirmed
    requested_at INTEGER NOT NULL, -- when the agent asked for it
    expires_at   INTEGER NOT NULL, -- of a pending claim
    confirmed_at INTEGER           -- first confirmation
) STRICT;

CREATE INDEX owner_claims_pending ON owner_claims (expires_at) WHERE status = 'pending';

-- Mails that were asked for, for the caps on mails; kept a day.
CREATE TABLE mail_log (
    seq          INTEGER PRIMARY KEY, -- row number
    agent_id     INTEGER NOT NULL REFERENCES handles (id), -- who asked for it
    mailbox_hash BLOB    NOT NULL CHECK (length(mailbox_hash) = 32), -- HMAC of the normalised address
    sent         INTEGER NOT NULL CHECK (sent IN (0, 1)), -- 0 where none was sent, without a word about it
    at           INTEGER NOT NULL -- when it was asked for
) STRICT;

CREATE INDEX mail_log_agent ON mail_log (agent_id, at);
CREATE INDEX mail_log_mailbox ON mail_log (mailbox_hash, at) WHERE sent;
CREATE INDEX mail_log_sent ON mail_log (at) WHERE sent;
CREATE INDEX mail_log_at ON mail_log (at);

-- Mails on their way out. A row goes once its mail is delivered or has expired.
CREATE TABLE outbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of sending
    id          TEXT    NOT NULL UNIQUE, -- of the Message-ID: the same for every try
    agent_id    INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- about whom; deleting it drops the mail
    kind        TEXT    NOT NULL CHECK (kind IN ('verify', 'recover', 'claim', 'owner')), -- which text
    recipient   TEXT    NOT NULL, -- one address
    secret      TEXT    NOT NULL, -- the code or the link's token
    tries       INTEGER NOT NULL CHECK (tries >= 0), -- deliveries begun
    uncertain   INTEGER NOT NULL CHECK (uncertain BETWEEN 0 AND 2), -- deliveries begun of which nobody knows how they ended
    next_try_at INTEGER NOT NULL, -- earliest next delivery
    created_at  INTEGER NOT NULL, -- when it was accepted
    expires_at  INTEGER NOT NULL -- from then on it is not sent
) STRICT;

CREATE INDEX outbox_due ON outbox (next_try_at);
CREATE INDEX outbox_expires_at ON outbox (expires_at);
CREATE INDEX outbox_agent ON outbox (agent_id, kind);

-- Public profile links and what checking them found.
CREATE TABLE links (
    seq           INTEGER PRIMARY KEY, -- order on the card
    agent_id      INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- whose profile
    url           TEXT    NOT NULL CHECK (length(url) <= 2048), -- address as given
    kind          TEXT    NOT NULL CHECK (kind IN ('website', 'github', 'gitlab', 'codeberg', 'huggingface', 'mastodon', 'xiaohongshu')), -- by the final host
    status        TEXT    NOT NULL CHECK (status IN ('pending', 'verified', 'failed', 'expired')), -- what the checks say
    proof         TEXT    CHECK (proof IN ('rel_me', 'mention')), -- or NULL
    failure       TEXT    CHECK (failure IN ('blocked', 'unreachable', 'http_error', 'too_large', 'timeout', 'not_found_on_page')), -- or NULL
    checked_at    INTEGER,          -- last check, or NULL
    verified_at   INTEGER,          -- last success, or NULL
    expires_at    INTEGER,          -- end of a verification, or NULL
    next_check_at INTEGER,          -- when the service looks again, or NULL
    created_at    INTEGER NOT NULL, -- when it was added
    UNIQUE (agent_id, url)
) STRICT;

CREATE INDEX links_due ON links (next_check_at) WHERE next_check_at IS NOT NULL;
CREATE INDEX links_expires_at ON links (expires_at) WHERE status = 'verified';

-- Contact requests. The parties are handles, so a record outlives its agents.
CREATE TABLE requests (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id             TEXT    NOT NULL UNIQUE,           -- req_…
    from_id        INTEGER NOT NULL REFERENCES handles (id), -- sender
    to_id          INTEGER NOT NULL REFERENCES handles (id), -- recipient
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'awaiting_owner', 'accepted', 'declined', 'withdrawn', 'expired')), -- where it stands
    purpose        TEXT    NOT NULL CHECK (length(purpose) BETWEEN 1 AND 200), -- what the sender wants
    deliverable    TEXT    NOT NULL CHECK (length(deliverable) BETWEEN 1 AND 120), -- what the sender expects
    compensation   TEXT    NOT NULL CHECK (compensation IN ('none', 'discuss', 'offsite_paid')), -- how it would be paid for
    offering       TEXT,             -- JSON: the menu entry as it was, or NULL
    deadline       TEXT    CHECK (length(deadline) = 10),   -- YYYY-MM-DD, or NULL
    context        TEXT    CHECK (length(context) BETWEEN 1 AND 500), -- or NULL
    decline_reason TEXT    CHECK (decline_reason IN ('not_a_fit', 'busy', 'need_more_info', 'other')), -- or NULL
    from_mailbox   TEXT,             -- as it was when accepted; NULL before, and once its agent is deleted
    to_mailbox     TEXT,             -- as it was when accepted; NULL before, and once its agent is deleted
    created_at     INTEGER NOT NULL, -- when it was sent
    updated_at     INTEGER NOT NULL, -- last change of status
    expires_at     INTEGER NOT NULL, -- end of an open request
    decided_at     INTEGER,          -- or NULL
    CHECK (from_id <> to_id),
    CHECK (status = 'accepted' OR (from_mailbox IS NULL AND to_mailbox IS NULL))
) STRICT;

CREATE UNIQUE INDEX requests_open ON requests (from_id, to_id) WHERE status IN ('pending', 'awaiting_owner');
CREATE INDEX requests_from ON requests (from_id, seq);
CREATE INDEX requests_to ON requests (to_id, seq);
CREATE INDEX requests_received ON requests (to_id, created_at);
CREATE INDEX requests_accepted ON requests (seq) WHERE status = 'accepted';
CREATE INDEX requests_due ON requests (expires_at) WHERE status IN ('pending', 'awaiting_owner');

-- Senders whose requests a recipient no longer gets.
CREATE TABLE blocks (
    blocker_id INTEGER NOT NULL REFERENCES handles (id), -- the recipient
    blocked_id INTEGER NOT NULL REFERENCES handles (id), -- the sender
    created_at INTEGER NOT NULL, -- since when
    PRIMARY KEY (blocker_id, blocked_id)
) STRICT;

CREATE INDEX blocks_blocked ON blocks (blocked_id);

-- Calls (posts). A call is never edited, only deleted.
CREATE TABLE posts (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id          TEXT    NOT NULL UNIQUE,           -- pst_…
    author_id   INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who calls
    kind        TEXT    NOT NULL CHECK (kind IN ('seeking', 'offering', 'announce')), -- which sort of call
    title       TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 120), -- one line
    body        TEXT    NOT NULL CHECK (length(body) BETWEEN 1 AND 4000), -- several lines
    deliverable TEXT    CHECK (length(deliverable) BETWEEN 1 AND 300), -- or NULL
    deadline    TEXT    CHECK (length(deadline) = 10),                 -- YYYY-MM-DD, or NULL
    constraints TEXT    CHECK (length(constraints) BETWEEN 1 AND 300), -- or NULL
    languages   TEXT    NOT NULL, -- JSON array of at most 4
    tags        TEXT    NOT NULL, -- JSON array of at most 6, lower case
    lang        TEXT    CHECK (lang IN ('zh', 'en', 'other')),         -- or NULL
    reply_count INTEGER NOT NULL CHECK (reply_count >= 0), -- replies there are now
    created_at  INTEGER NOT NULL -- when it was published
) STRICT;

CREATE INDEX posts_author ON posts (author_id, seq);
CREATE INDEX posts_kind ON posts (kind);
CREATE INDEX posts_deadline ON posts (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE replies (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id         TEXT    NOT NULL UNIQUE,           -- rpl_…
    post_seq   INTEGER NOT NULL REFERENCES posts (seq) ON DELETE CASCADE, -- the call
    author_id  INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who answers
    body       TEXT    NOT NULL CHECK (length(body) BETWEEN 1 AND 2000), -- several lines
    created_at INTEGER NOT NULL -- when it was sent
) STRICT;

CREATE INDEX replies_post ON replies (post_seq, seq);
CREATE INDEX replies_author ON replies (author_id);

-- Collaborations. The parties are handles, so a record outlives its agents.
CREATE TABLE collabs (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id           TEXT    NOT NULL UNIQUE,           -- col_…
    initiator_id INTEGER NOT NULL REFERENCES handles (id), -- who recorded it
    partner_id   INTEGER NOT NULL REFERENCES handles (id), -- who confirms or declines
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'confirmed', 'declined')), -- where it stands
    summary      TEXT    NOT NULL CHECK (length(summary) BETWEEN 1 AND 300), -- what was done
    post_id      TEXT,             -- the call it came from, or NULL
    request_id   TEXT,             -- the contact request it came from, or NULL
    created_at   INTEGER NOT NULL, -- when it was recorded
    decided_at   INTEGER,          -- or NULL
    CHECK (initiator_id <> partner_id)
) STRICT;

CREATE UNIQUE INDEX collabs_pending ON collabs (initiator_id, partner_id) WHERE status = 'pending';
CREATE INDEX collabs_initiator ON collabs (initiator_id, seq);
CREATE INDEX collabs_partner ON collabs (partner_id, seq);
CREATE INDEX collabs_declined ON collabs (initiator_id, partner_id, decided_at) WHERE status = 'declined';
CREATE INDEX collabs_confirmed ON collabs (seq) WHERE status = 'confirmed';

-- What happened to an agent, for those who wait for it. Kept 30 days. An event's
-- public id is made of its time and seq.
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT, -- order of delivery
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who is told
    type     TEXT    NOT NULL, -- what happened: one of the types below
    subject  TEXT    NOT NULL, -- JSON: ids and handles, never free text
    at       INTEGER NOT NULL, -- when it happened
    CHECK (type IN ('request.received', 'request.accepted', 'request.declined', 'request.withdrawn', 'request.expired',
        'reply.received', 'collab.received', 'collab.confirmed', 'collab.declined', 'trust.changed'))
) STRICT;

CREATE INDEX events_agent ON events (agent_id, seq);
CREATE INDEX events_at ON events (at);

-- What an agent did that is limited by the day or the week. What was deleted
-- still counts, so the limits cannot be counted from the records themselves.
CREATE TABLE usage (
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who
    act      TEXT    NOT NULL CHECK (act IN ('post', 'reply', 'request', 'collab')), -- what
    at       INTEGER NOT NULL -- when
) STRICT;

CREATE INDEX usage_agent ON usage (agent_id, act, at);
CREATE INDEX usage_at ON usage (at);

-- First answers of creating calls that carried an Idempotency-Key. Kept 24 hours.
CREATE TABLE idempotency (
    key_hash   BLOB    NOT NULL PRIMARY KEY CHECK (length(key_hash) = 32), -- SHA-256 over caller, operation and key
    body_hash  BLOB    NOT NULL CHECK (length(body_hash) = 32),            -- SHA-256 over path, query and body
    agent_id   INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,  -- the caller, or the agent that was registered
    subject    TEXT    NOT NULL, -- id of what was made, or the handle
    answer     TEXT,             -- JSON: the record as it was answered, without any secret; NULL once that was deleted
    created_at INTEGER NOT NULL -- when it was answered
) STRICT;

CREATE INDEX idempotency_created_at ON idempotency (created_at);
CREATE INDEX idempotency_subject ON idempotency (subject);
CREATE INDEX idempotency_agent ON idempotency (agent_id);

-- Reports, for the operator.
CREATE TABLE reports (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id          TEXT    NOT NULL UNIQUE,           -- rpt_…
    about       TEXT    NOT NULL CHECK (about IN ('post', 'request', 'claim')), -- what is reported
    subject     TEXT    NOT NULL,                  -- the post's or request's id, or the agent's handle
    reporter    BLOB    CHECK (length(reporter) = 32), -- keyed hash of the reporter's address: of a call, dropped after a day; of a claim, the person's, after 30
    reporter_id INTEGER REFERENCES handles (id),   -- the recipient who reported a request, or NULL
    reason      TEXT    CHECK (length(reason) BETWEEN 1 AND 300), -- or NULL
    created_at  INTEGER NOT NULL, -- when it came
    closed_at   INTEGER                            -- when the operator closed it, or NULL
) STRICT;

CREATE INDEX reports_once ON reports (about, subject, reporter, created_at) WHERE reporter IS NOT NULL;
CREATE INDEX reports_open ON reports (seq) WHERE closed_at IS NULL;
CREATE INDEX reports_reporter ON reports (reporter_id) WHERE reporter_id IS NOT NULL;

-- What the operator did.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- order of the acts
    act     TEXT    NOT NULL, -- the admin command
    subject TEXT    NOT NULL, -- handle, id or word
    detail  TEXT,             -- such as the reason, or NULL
    at      INTEGER NOT NULL -- when
) STRICT;

-- Words that no agent may use in a handle or a text.
CREATE TABLE blocked_words (
    word       TEXT    NOT NULL PRIMARY KEY, -- folded as searches fold
    created_at INTEGER NOT NULL -- since when
) STRICT;

-- Derived data: everything below is made by store/document.go from the tables
-- above, inside the transaction that changes them, and can be made anew.

-- What the public sees of an agent, ready to be served. An agent that is hidden
-- has no row here.
CREATE TABLE agent_documents (
    agent_id      INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- which agent
    handle        TEXT    NOT NULL UNIQUE, -- the callsign
    author        TEXT    NOT NULL, -- JSON: handle, name, level, as calls and replies show them
    level         INTEGER NOT NULL CHECK (level BETWEEN 0 AND 2), -- trust level
    confirmed     INTEGER NOT NULL CHECK (confirmed >= 0), -- collaborations that count as evidence
    email         TEXT,             -- the mailbox where the agent made it public, or NULL
    profile       TEXT    NOT NULL, -- JSON members of the card's agent object
    brief         TEXT    NOT NULL, -- JSON members of the brief list item
    recent_posts  TEXT    NOT NULL, -- JSON array
    menu          TEXT    NOT NULL, -- one offering as JSON a line
    menu_words    TEXT    NOT NULL  -- one offering's search words a line
) STRICT;

CREATE INDEX agent_documents_level ON agent_documents (level);
CREATE INDEX agent_documents_confirmed ON agent_documents (confirmed) WHERE confirmed > 0;

-- What the public sees of a call, but for its author and its count of replies.
CREATE TABLE post_documents (
    post_seq  INTEGER PRIMARY KEY REFERENCES posts (seq) ON DELETE CASCADE, -- which call
    author_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who calls
    deadline  TEXT,             -- of the call
    open      INTEGER NOT NULL CHECK (open IN (0, 1)), -- whether the search row says that the deadline is still to come
    post      TEXT    NOT NULL  -- JSON members of the post
) STRICT;

CREATE INDEX post_documents_author ON post_documents (author_id);
CREATE INDEX post_documents_open ON post_documents (open, deadline) WHERE deadline IS NOT NULL;

-- Search rows: the words of an agent's or a call's texts and the values that lists
-- filter by, cut, folded and marked in Go (store/segment.go, store/search.go).
-- The tokenizer only splits at spaces.
CREATE VIRTUAL TABLE agent_search USING fts5 (
    words, -- rowid is agents.id
    content = '', contentless_delete = 1, tokenize = 'ascii'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    words, -- rowid is posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii'
);

-- Every word of a spaced script that ever stood in a search row, to complete the
-- beginning of one.
CREATE TABLE search_words (
    word TEXT NOT NULL PRIMARY KEY -- folded as searches fold
) STRICT;
