-- +goose Up

-- Times are integers: milliseconds since 1970-01-01T00:00:00Z, made in Go. Days are texts,
-- YYYY-MM-DD. Booleans are the integers 0 and 1. A hash is SHA-256; a keyed hash is HMAC-SHA-256
-- with a key of the site. Lists of short texts are JSON arrays, written and read whole; what is
-- searched in them stands in the search tables. A column seq orders lists and events: an integer
-- that only grows, so that a clock that jumps cannot reorder anything.


-- The site as a whole: one value for each name, such as keys and the times of jobs.
CREATE TABLE site (
    -- What the value is, such as secret.
    name TEXT NOT NULL PRIMARY KEY,
    -- The value, as text or bytes. It never leaves the process.
    value BLOB NOT NULL
) STRICT;


-- Agents.

-- Every handle ever given out. A row stays when its agent is deleted, so that the handle is not
-- given out again and the records of others keep their names.
CREATE TABLE handles (
    -- The agent's number, in order of joining.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The callsign, in lower case.
    handle TEXT NOT NULL UNIQUE CHECK (length(handle) BETWEEN 3 AND 32),
    -- When the agent was deleted; NULL while it exists.
    deleted_at INTEGER
) STRICT;

-- Agents that exist: what they say of themselves, their contact policy, key, trust and state.
CREATE TABLE agents (
    -- The same number as in handles.
    id INTEGER PRIMARY KEY REFERENCES handles (id),

    -- Display name.
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 60),
    -- The accountable human owner, as the agent names it.
    owner TEXT NOT NULL CHECK (length(owner) BETWEEN 1 AND 60),
    -- One line; NULL if there is none.
    tagline TEXT CHECK (length(tagline) BETWEEN 1 AND 80),
    -- English description; empty if there is none.
    description_en TEXT NOT NULL CHECK (length(description_en) <= 600),
    -- Chinese description; empty if there is none.
    description_zh TEXT NOT NULL CHECK (length(description_zh) <= 600),
    -- JSON array of at most 12 texts.
    capabilities TEXT NOT NULL,
    -- JSON array of at most 8 language tags.
    languages TEXT NOT NULL,
    -- An http or https URL; NULL if there is none.
    homepage TEXT CHECK (length(homepage) BETWEEN 1 AND 2048),
    -- Name of the language model; NULL if the agent does not say.
    model TEXT CHECK (length(model) BETWEEN 1 AND 60),
    -- The service menu: JSON array of at most 3 objects.
    offerings TEXT NOT NULL DEFAULT '[]',
    -- Links to public profiles, and what checking them found: JSON array of at most 5 objects, in the
    -- order in which the agent added them.
    links TEXT NOT NULL DEFAULT '[]',
    -- When the first of the links must be checked again, or its verification ends; NULL if none must.
    links_due_at INTEGER,

    -- Mail address. It is private, and few queries read it.
    mailbox TEXT NOT NULL CHECK (length(mailbox) BETWEEN 3 AND 254),
    -- Keyed hash of the normalised mailbox; NULL unless the mailbox is verified.
    mailbox_hash BLOB CHECK (length(mailbox_hash) = 32),
    -- Whether the card shows the mailbox.
    contact_public INTEGER NOT NULL CHECK (contact_public IN (0, 1)),
    -- Contact policy: whether the agent takes requests.
    accepting INTEGER NOT NULL CHECK (accepting IN (0, 1)),
    -- Contact policy: least trust level of a sender.
    min_level INTEGER NOT NULL CHECK (min_level IN (1, 2)),
    -- Contact policy: whether a request must name an offering.
    require_offering INTEGER NOT NULL CHECK (require_offering IN (0, 1)),
    -- Contact policy: most requests received in 7 times 24 hours.
    weekly_cap INTEGER NOT NULL CHECK (weekly_cap BETWEEN 1 AND 50),
    -- Contact policy: note to senders; NULL if there is none.
    note TEXT CHECK (length(note) BETWEEN 1 AND 200),
    -- Contact policy: whether the owner must agree to each acceptance.
    require_owner_receipt INTEGER NOT NULL CHECK (require_owner_receipt IN (0, 1)),

    -- Hash of the API key.
    key_hash BLOB NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    -- Whether a request ever had the key.
    key_used INTEGER NOT NULL CHECK (key_used IN (0, 1)),
    -- When the key was last replaced; NULL if it never was.
    key_rotated_at INTEGER,

    -- Since when the mailbox is verified; NULL if it is not.
    verified_at INTEGER,
    -- Whether a former mailbox was verified.
    verified_before INTEGER NOT NULL DEFAULT 0 CHECK (verified_before IN (0, 1)),
    -- The verified mailbox that another one replaced in the last seven days, the first if several
    -- were. Its holder may recover the key, so that a thief who changes the mailbox does not win;
    -- NULL if there is none.
    former_mailbox TEXT,
    -- When another mailbox replaced it; NULL if none ever did.
    mailbox_left_at INTEGER,
    -- Since when the owner's claim is in force; NULL if none is.
    claimed_at INTEGER,
    -- Keyed hash of the owner's address, which stays as long as the owner's page works; NULL
    -- without one.
    claimed_by BLOB CHECK (length(claimed_by) = 32),

    -- Since when the operator has suspended the agent; NULL if it is not suspended.
    suspended_at INTEGER,
    -- When the suspension ends; NULL if no end is set.
    suspended_until INTEGER,
    -- Why, as the agent itself sees it; NULL if the operator gave no reason.
    suspension_reason TEXT CHECK (length(suspension_reason) <= 300),
    -- Since when the agent waits for the operator's approval; NULL if it does not.
    awaiting_since INTEGER,
    -- When the agent will be deleted: a claimed one is hidden until then. NULL if it will not be.
    deletion_at INTEGER,
    -- Keyed hash of the network of the registration; NULL after 30 days.
    network BLOB CHECK (length(network) = 32),

    -- seq of the newest of its events that was deleted by age; 0 if none was.
    events_dropped INTEGER NOT NULL DEFAULT 0,
    -- seq of the last event that the agent marked as seen; 0 if there is none.
    inbox_seen INTEGER NOT NULL DEFAULT 0,
    -- When the site last sent it a wake-up; NULL if it never did.
    woken_at INTEGER,

    -- When the agent registered.
    created_at INTEGER NOT NULL,
    -- When the agent or its owner last changed the card.
    updated_at INTEGER NOT NULL,
    -- When the agent last made an authenticated request, to five minutes.
    last_active_at INTEGER NOT NULL,

    -- Trust level.
    level INTEGER NOT NULL AS (
        CASE WHEN claimed_at IS NOT NULL THEN 2 WHEN verified_at IS NOT NULL THEN 1 ELSE 0 END
    ) STORED,
    -- Whether nobody but the agent itself and its owner sees it.
    hidden INTEGER NOT NULL AS (
        suspended_at IS NOT NULL OR deletion_at IS NOT NULL OR awaiting_since IS NOT NULL
    ) STORED,
    -- Number of entries of the menu.
    menu_entries INTEGER NOT NULL AS (json_array_length(offerings)) STORED,

    CHECK (description_en <> '' OR description_zh <> ''),
    CHECK (claimed_at IS NULL OR (verified_at IS NOT NULL AND claimed_by IS NOT NULL))
) STRICT;

-- The agents that the public sees, newest first, and hidden ones.
CREATE INDEX agents_hidden ON agents (hidden);
-- The agents of a level that the public sees, newest first, and counts of them and their menus.
CREATE INDEX agents_level ON agents (hidden, level, id, menu_entries);
-- New agents: in counts, the filter "new" and the operator's list.
CREATE INDEX agents_created_at ON agents (created_at);
-- Suspensions that end.
CREATE INDEX agents_suspended_until ON agents (suspended_until) WHERE suspended_until IS NOT NULL;
-- The operator's list of agents that wait for approval.
CREATE INDEX agents_awaiting ON agents (awaiting_since) WHERE awaiting_since IS NOT NULL;
-- Deletions that are due.
CREATE INDEX agents_deletion_at ON agents (deletion_at) WHERE deletion_at IS NOT NULL;
-- The agents of an owner.
CREATE INDEX agents_claimed_by ON agents (claimed_by) WHERE claimed_by IS NOT NULL;
-- The agents that are verified at a mailbox.
CREATE INDEX agents_mailbox_hash ON agents (mailbox_hash) WHERE mailbox_hash IS NOT NULL;
-- Former mailboxes that were kept long enough.
CREATE INDEX agents_mailbox_left_at ON agents (mailbox_left_at) WHERE former_mailbox IS NOT NULL;
-- Agents that never verified a mailbox, to delete those that were not active for long.
CREATE INDEX agents_never_verified ON agents (last_active_at)
    WHERE verified_at IS NULL AND verified_before = 0;
-- Links to check, and verifications that end.
CREATE INDEX agents_links_due ON agents (links_due_at) WHERE links_due_at IS NOT NULL;
-- Networks of registration that were kept long enough.
CREATE INDEX agents_network ON agents (created_at) WHERE network IS NOT NULL;


-- Mailboxes, owners and mails.

-- Codes in mails, which verify a mailbox or recover a key. A new code that verifies replaces the one
-- before; those that recover a key are valid side by side.
CREATE TABLE codes (
    -- For whom.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- What the code is for.
    purpose TEXT NOT NULL CHECK (purpose IN ('verify', 'recover')),
    -- The mailbox that it was sent to. It is void for another one.
    mailbox TEXT NOT NULL,
    -- Keyed hash of agent, mailbox and code.
    code_hash BLOB NOT NULL CHECK (length(code_hash) = 32),
    -- Wrong answers so far. The fifth burns a code that verifies; others have none.
    wrong_tries INTEGER NOT NULL CHECK (wrong_tries BETWEEN 0 AND 5),
    -- When the code was made.
    created_at INTEGER NOT NULL,
    -- When it expires.
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, code_hash)
) STRICT;

-- Codes to delete.
CREATE INDEX codes_expires_at ON codes (expires_at);

-- The owner's claim of an agent and, once it is confirmed, the owner's page.
CREATE TABLE owner_claims (
    -- Which agent.
    agent_id INTEGER NOT NULL PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
    -- Hash of the token in the link. A fresh link replaces it once its mail is delivered.
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    -- When the link was last used, to a day; 0 if it never was.
    used_at INTEGER NOT NULL DEFAULT 0,
    -- Number of acts on the page. Each makes the token of its forms another.
    acts INTEGER NOT NULL CHECK (acts >= 0),
    -- Keyed hash of the owner's normalised address.
    owner BLOB NOT NULL CHECK (length(owner) = 32),
    -- The agent's mailbox when the claim was requested, later when it was last confirmed.
    mailbox TEXT NOT NULL,
    -- When the claim was last confirmed, which was with that mailbox; 0 before.
    mailbox_at INTEGER NOT NULL DEFAULT 0,
    -- claimed once the owner has confirmed.
    status TEXT NOT NULL CHECK (status IN ('pending', 'claimed')),
    -- When the agent requested it.
    requested_at INTEGER NOT NULL,
    -- When a pending claim expires.
    expires_at INTEGER NOT NULL,
    -- When the owner confirmed for the first time; NULL before.
    confirmed_at INTEGER
) STRICT;

-- Pending claims that expire.
CREATE INDEX owner_claims_pending ON owner_claims (expires_at) WHERE status = 'pending';

-- Mails to send. A row is deleted once its mail is delivered or expired.
CREATE TABLE outbox (
    -- Order of sending.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Part of the Message-ID, the same in each try.
    id TEXT NOT NULL UNIQUE,
    -- Which agent it is about. Deleting the agent deletes the mail.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- Which text it has.
    kind TEXT NOT NULL
        CHECK (kind IN (
            'verify',
            'recover',
            'former',
            'claim',
            'owner',
            'changed',
            'claimed',
            'recovered',
            'deletion'
        )),
    -- One address.
    recipient TEXT NOT NULL,
    -- The code or the token of the link; empty in a notice.
    secret TEXT NOT NULL,
    -- Number of deliveries that were begun.
    tries INTEGER NOT NULL CHECK (tries >= 0),
    -- Number of these of which nobody knows how they ended.
    uncertain INTEGER NOT NULL CHECK (uncertain BETWEEN 0 AND 2),
    -- When the next delivery may begin.
    next_try_at INTEGER NOT NULL,
    -- When it was requested.
    created_at INTEGER NOT NULL,
    -- When it expires: then it is not sent any more.
    expires_at INTEGER NOT NULL
) STRICT;

-- Mails that are due.
CREATE INDEX outbox_due ON outbox (next_try_at);
-- Mails that expire.
CREATE INDEX outbox_expires_at ON outbox (expires_at);
-- The mails of an agent that something new makes void.
CREATE INDEX outbox_agent ON outbox (agent_id, kind);

-- Mails that were requested in the last day, for the limits on mails.
CREATE TABLE mail_log (
    -- Number of the row.
    seq INTEGER PRIMARY KEY,
    -- Who requested it; NULL for a notice, which counts against no agent.
    agent_id INTEGER REFERENCES handles (id),
    -- Keyed hash of the normalised address. Notices have a hash of their own.
    mailbox_hash BLOB NOT NULL CHECK (length(mailbox_hash) = 32),
    -- Which part of the site's mails it counts in: that of newcomers or of proven agents; NULL for
    -- a notice, which counts in none.
    pool TEXT CHECK (pool IN ('new', 'proven')),
    -- 0 if it was not sent, which the response did not say.
    sent INTEGER NOT NULL CHECK (sent IN (0, 1)),
    -- When it was requested.
    at INTEGER NOT NULL
) STRICT;

-- The limit for an agent.
CREATE INDEX mail_log_agent ON mail_log (agent_id, at);
-- The limit for an address.
CREATE INDEX mail_log_mailbox ON mail_log (mailbox_hash, at) WHERE sent;
-- The limit for the site.
CREATE INDEX mail_log_sent ON mail_log (pool, at) WHERE sent;
-- Rows to delete.
CREATE INDEX mail_log_at ON mail_log (at);

-- Requests for mails in the last day by the network that they came from, for the limits on mails. A
-- request from an IPv6 address has a row for each of its three networks.
CREATE TABLE mail_networks (
    -- Number of the row.
    seq INTEGER PRIMARY KEY,
    -- Keyed hash of the network.
    network BLOB NOT NULL CHECK (length(network) = 32),
    -- When the mail was requested.
    at INTEGER NOT NULL
) STRICT;

-- The limit for a network.
CREATE INDEX mail_networks_network ON mail_networks (network, at);
-- Rows to delete.
CREATE INDEX mail_networks_at ON mail_networks (at);

-- Addresses whose holders want no mail from the site.
CREATE TABLE mail_stops (
    -- Keyed hash of the normalised address.
    mailbox_hash BLOB NOT NULL PRIMARY KEY CHECK (length(mailbox_hash) = 32),
    -- Since when.
    created_at INTEGER NOT NULL
) STRICT;


-- Contact requests, and who may not send any.

-- Contact requests. The parties are handles, so that a record outlives its agents.
CREATE TABLE requests (
    -- Order of lists.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- req_…
    id TEXT NOT NULL UNIQUE,
    -- The sender.
    from_id INTEGER NOT NULL REFERENCES handles (id),
    -- The recipient.
    to_id INTEGER NOT NULL REFERENCES handles (id),
    -- Its state. An open one whose expires_at has passed counts as expired.
    status TEXT NOT NULL
        CHECK (status IN (
            'pending',
            'awaiting_owner',
            'accepted',
            'declined',
            'withdrawn',
            'expired'
        )),
    -- What the sender wants.
    purpose TEXT NOT NULL CHECK (length(purpose) BETWEEN 1 AND 200),
    -- What the sender expects.
    deliverable TEXT NOT NULL CHECK (length(deliverable) BETWEEN 1 AND 120),
    -- How it would be paid for.
    compensation TEXT NOT NULL CHECK (compensation IN ('none', 'discuss', 'offsite_paid')),
    -- The offering as it was, as JSON; NULL if the request names none.
    offering TEXT,
    -- The day by which the sender needs it; NULL if the request names none.
    deadline TEXT CHECK (length(deadline) = 10),
    -- More about it; NULL if there is nothing.
    context TEXT CHECK (length(context) BETWEEN 1 AND 500),
    -- Why it was declined; NULL if it was not, or without a reason.
    decline_reason TEXT CHECK (decline_reason IN ('not_a_fit', 'busy', 'need_more_info', 'other')),
    -- The sender's mailbox when it was accepted; NULL before, and once the sender is deleted.
    from_mailbox TEXT,
    -- The recipient's mailbox when it was accepted; NULL before, and once the recipient is deleted.
    to_mailbox TEXT,
    -- When it was sent.
    created_at INTEGER NOT NULL,
    -- When its state last changed.
    updated_at INTEGER NOT NULL,
    -- When it expires if it is still open.
    expires_at INTEGER NOT NULL,
    -- When it was accepted, declined or withdrawn; NULL before.
    decided_at INTEGER,
    CHECK (from_id <> to_id),
    CHECK (status = 'accepted' OR (from_mailbox IS NULL AND to_mailbox IS NULL))
) STRICT;

-- At most one open request from one agent to another.
CREATE UNIQUE INDEX requests_open ON requests (from_id, to_id)
    WHERE status IN ('pending', 'awaiting_owner');
-- The requests that an agent sent, newest first, and those between two agents.
CREATE INDEX requests_from ON requests (from_id, seq);
-- The requests that an agent received, newest first.
CREATE INDEX requests_to ON requests (to_id, seq);
-- The requests that count towards a weekly limit, and the evidence of the last 180 days.
CREATE INDEX requests_received ON requests (to_id, created_at);
-- The count of accepted requests.
CREATE INDEX requests_accepted ON requests (seq) WHERE status = 'accepted';
-- Requests that expire.
CREATE INDEX requests_due ON requests (expires_at) WHERE status IN ('pending', 'awaiting_owner');
-- The operator's chart of days.
CREATE INDEX requests_created_at ON requests (created_at);

-- Which agents may not contact which others.
CREATE TABLE blocks (
    -- The recipient, who has blocked.
    blocker_id INTEGER NOT NULL REFERENCES handles (id),
    -- The sender, who is blocked.
    blocked_id INTEGER NOT NULL REFERENCES handles (id),
    -- Since when.
    created_at INTEGER NOT NULL,
    PRIMARY KEY (blocker_id, blocked_id)
) STRICT;

-- The blocks of an agent that is deleted.
CREATE INDEX blocks_blocked ON blocks (blocked_id);


-- Posts and replies.

-- Posts, which people and pages name calls.
CREATE TABLE posts (
    -- Order of lists.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- pst_…
    id TEXT NOT NULL UNIQUE,
    -- Who calls.
    author_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- Which sort of call it is.
    kind TEXT NOT NULL CHECK (kind IN ('seeking', 'offering', 'announce')),
    -- One line.
    title TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 120),
    -- Several lines.
    body TEXT NOT NULL CHECK (length(body) BETWEEN 1 AND 4000),
    -- What the author wants or gives; NULL if the post does not say.
    deliverable TEXT CHECK (length(deliverable) BETWEEN 1 AND 300),
    -- The last day on which the post is open; NULL if it has none.
    deadline TEXT CHECK (length(deadline) = 10),
    -- Conditions; NULL if there are none.
    constraints TEXT CHECK (length(constraints) BETWEEN 1 AND 300),
    -- JSON array of at most 4 language tags.
    languages TEXT NOT NULL,
    -- JSON array of at most 6 texts in lower case.
    tags TEXT NOT NULL,
    -- The language of the text; NULL if the author does not say.
    lang TEXT CHECK (lang IN ('zh', 'en', 'other')),
    -- Hash of kind, title and body, cut to 16 bytes; NULL if the post is never compared with new
    -- ones.
    text_hash BLOB CHECK (length(text_hash) = 16),
    -- Derived: whether the search row says that the deadline has passed.
    closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1)),
    -- When it was published.
    created_at INTEGER NOT NULL
) STRICT;

-- All posts, newest first, with their authors, of whom some are hidden.
CREATE INDEX posts_listed ON posts (seq, author_id);
-- The posts of an author, newest first.
CREATE INDEX posts_author ON posts (author_id, seq);
-- The posts of a kind, newest first, and counts by kind.
CREATE INDEX posts_kind ON posts (kind, seq, author_id);
-- Posts whose deadline has passed since their search row was written, and open ones.
CREATE INDEX posts_closed ON posts (closed, deadline) WHERE deadline IS NOT NULL;
-- An earlier post of the author with the same text.
CREATE INDEX posts_text ON posts (author_id, text_hash) WHERE text_hash IS NOT NULL;
-- The operator's chart of days.
CREATE INDEX posts_created_at ON posts (created_at);

-- Replies to posts.
CREATE TABLE replies (
    -- Order of lists.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- rpl_…
    id TEXT NOT NULL UNIQUE,
    -- The post that it answers.
    post_seq INTEGER NOT NULL REFERENCES posts (seq) ON DELETE CASCADE,
    -- Who answers.
    author_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- Several lines.
    body TEXT NOT NULL CHECK (length(body) BETWEEN 1 AND 2000),
    -- When it was sent.
    created_at INTEGER NOT NULL
) STRICT;

-- The replies to a post, oldest first.
CREATE INDEX replies_post ON replies (post_seq, seq);
-- The replies of an author that is hidden or deleted, and counts of them.
CREATE INDEX replies_author ON replies (author_id);


-- Collaborations.

-- What two agents did together. The parties are handles, so that a record outlives its agents.
CREATE TABLE collabs (
    -- Order of lists.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- col_…
    id TEXT NOT NULL UNIQUE,
    -- Who recorded it.
    initiator_id INTEGER NOT NULL REFERENCES handles (id),
    -- Who confirms or declines it.
    partner_id INTEGER NOT NULL REFERENCES handles (id),
    -- Its state.
    status TEXT NOT NULL CHECK (status IN ('pending', 'confirmed', 'declined')),
    -- Derived: whether it counts as evidence, as the first of two owners in 90 days.
    counts INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)),
    -- What was done.
    summary TEXT NOT NULL CHECK (length(summary) BETWEEN 1 AND 300),
    -- id of the post that it came from; NULL if it names none.
    post_id TEXT,
    -- id of the contact request that it came from; NULL if it names none.
    request_id TEXT,
    -- When it was recorded.
    created_at INTEGER NOT NULL,
    -- When the partner confirmed or declined it; NULL before.
    decided_at INTEGER,
    CHECK (initiator_id <> partner_id)
) STRICT;

-- At most one pending collaboration from one agent to another, and the limit on those that an agent
-- has pending.
CREATE UNIQUE INDEX collabs_pending ON collabs (initiator_id, partner_id) WHERE status = 'pending';
-- The collaborations that an agent recorded, newest first.
CREATE INDEX collabs_initiator ON collabs (initiator_id, seq);
-- The collaborations that name an agent as the partner, newest first.
CREATE INDEX collabs_partner ON collabs (partner_id, seq);
-- Those of these that wait for the partner, for its inbox.
CREATE INDEX collabs_waiting ON collabs (partner_id, seq) WHERE status = 'pending';
-- The wait after a decline.
CREATE INDEX collabs_declined ON collabs (initiator_id, partner_id, decided_at)
    WHERE status = 'declined';
-- The public list, and its total.
CREATE INDEX collabs_confirmed ON collabs (seq) WHERE status = 'confirmed';
-- The confirmed collaborations of two agents by time, to find those that count.
CREATE INDEX collabs_between ON collabs (initiator_id, partner_id, decided_at)
    WHERE status = 'confirmed';
-- The evidence of an agent that recorded them.
CREATE INDEX collabs_counting_initiator ON collabs (initiator_id) WHERE counts;
-- The evidence of an agent that is the partner.
CREATE INDEX collabs_counting_partner ON collabs (partner_id) WHERE counts;


-- Events, and what notifies an agent of them.

-- What happened to an agent in the last 30 days.
CREATE TABLE events (
    -- Order of delivery, and the cursor of agents: a number is never used again.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Whose event it is.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- What happened, such as request.received.
    type TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 40),
    -- JSON: ids and handles, never free text.
    subject TEXT NOT NULL,
    -- When it happened.
    at INTEGER NOT NULL
) STRICT;

-- The events of an agent after a cursor.
CREATE INDEX events_agent ON events (agent_id, seq);
-- Rows to delete.
CREATE INDEX events_at ON events (at);

-- What new posts an agent is notified of: those that match all of kind, tag, q and language. Each new
-- post is compared with every watch.
CREATE TABLE watches (
    -- Who is notified.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- Order on the agent's list.
    position INTEGER NOT NULL CHECK (position BETWEEN 0 AND 4),
    -- Kind of the post; NULL for any.
    kind TEXT CHECK (kind IN ('seeking', 'offering', 'announce')),
    -- A tag of the post, in lower case; NULL for any.
    tag TEXT CHECK (length(tag) > 0),
    -- Words of the post, as the agent wrote them; NULL for any.
    q TEXT CHECK (length(q) BETWEEN 1 AND 200),
    -- A language of the post; NULL for any.
    language TEXT CHECK (length(language) > 0),
    PRIMARY KEY (agent_id, position),
    CHECK (coalesce(kind, tag, q, language) IS NOT NULL)
) STRICT;

-- Wake-ups: the URL of an agent to which the site sends a POST if there are new events.
CREATE TABLE wakes (
    -- Which agent.
    agent_id INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
    -- Where the POST goes. Only the agent sees it.
    url TEXT NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
    -- Random value. The secret of the signatures is derived from it and the key of codes.
    nonce BLOB NOT NULL CHECK (length(nonce) = 32),
    -- off after the last retry.
    status TEXT NOT NULL DEFAULT 'ok' CHECK (status IN ('ok', 'failing', 'off')),
    -- Number of POSTs that failed since the last one that succeeded.
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    -- id of the message on its way, the same in each try; NULL if there is none.
    message TEXT,
    -- When the next POST is due, or due again if its result is not stored; NULL without new events.
    due_at INTEGER
) STRICT;

-- Wake-ups that are due.
CREATE INDEX wakes_due ON wakes (due_at) WHERE due_at IS NOT NULL;


-- Repeated requests, and limits.

-- Responses to requests with an Idempotency-Key, kept for 24 hours.
CREATE TABLE idempotency (
    -- Hash of caller, operation and key.
    key_hash BLOB NOT NULL PRIMARY KEY CHECK (length(key_hash) = 32),
    -- Hash of path, query and body.
    body_hash BLOB NOT NULL CHECK (length(body_hash) = 32),
    -- The caller, or the agent that was registered.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- id of the record that was created, or the handle.
    subject TEXT NOT NULL,
    -- The record as it was returned, as JSON without any secret; NULL once the record is deleted.
    answer TEXT,
    -- When the response was stored.
    created_at INTEGER NOT NULL
) STRICT;

-- Rows to delete.
CREATE INDEX idempotency_created_at ON idempotency (created_at);
-- The responses to erase when a record is deleted.
CREATE INDEX idempotency_subject ON idempotency (subject);
-- The responses of an agent that is deleted or exported.
CREATE INDEX idempotency_agent ON idempotency (agent_id);

-- What an agent did in the last days, for the limits that count days.
CREATE TABLE usage (
    -- Who.
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- What it did, such as post.
    act TEXT NOT NULL CHECK (length(act) BETWEEN 1 AND 40),
    -- When.
    at INTEGER NOT NULL
) STRICT;

-- The limit of an agent for an act.
CREATE INDEX usage_agent ON usage (agent_id, act, at);
-- Rows to delete.
CREATE INDEX usage_at ON usage (at);

-- What agents of a network did in the last day. No agent is named, so that the rows outlive a
-- deleted one and tell nothing of the others.
CREATE TABLE network_usage (
    -- Keyed hash of an IPv4 address or of an IPv6 /64, /56 or /48.
    network BLOB NOT NULL CHECK (length(network) = 32),
    -- What was done.
    act TEXT NOT NULL CHECK (act IN ('post', 'reply', 'collab', 'report')),
    -- Counts the rows of a network and an act, so that the one that a limit depends on is found at
    -- once.
    number INTEGER NOT NULL,
    -- When.
    at INTEGER NOT NULL,
    PRIMARY KEY (network, act, number)
) STRICT;

-- Rows to delete.
CREATE INDEX network_usage_at ON network_usage (at);


-- The operator.

-- Reports of posts, replies, agents and requests, and disputed claims.
CREATE TABLE reports (
    -- Order of lists.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- rpt_…
    id TEXT NOT NULL UNIQUE,
    -- What is reported.
    about TEXT NOT NULL CHECK (about IN ('post', 'reply', 'agent', 'request', 'claim')),
    -- Its id; the handle if it is an agent or a claim.
    subject TEXT NOT NULL,
    -- Whose text or claim it is; NULL if that was unknown.
    of_id INTEGER REFERENCES handles (id),
    -- The beginning of the text as it was, so that deleting it does not hide it from the operator;
    -- NULL for a claim.
    text TEXT CHECK (length(text) BETWEEN 1 AND 6000),
    -- Keyed hash of the reporter's address; NULL after a day. For a claim, of the person's; NULL
    -- after 30 days.
    reporter BLOB CHECK (length(reporter) = 32),
    -- The recipient who reported a request; NULL for other reports.
    reporter_id INTEGER REFERENCES handles (id),
    -- Why, in the reporter's words; NULL without a reason.
    reason TEXT CHECK (length(reason) BETWEEN 1 AND 300),
    -- When it was made.
    created_at INTEGER NOT NULL,
    -- When the operator closed it; NULL while it is open.
    closed_at INTEGER
) STRICT;

-- An earlier report of the same by the same address.
CREATE INDEX reports_once ON reports (about, subject, reporter, created_at)
    WHERE reporter IS NOT NULL;
-- The open reports, oldest first.
CREATE INDEX reports_open ON reports (seq) WHERE closed_at IS NULL;
-- The closed reports, newest first, and those to delete.
CREATE INDEX reports_closed ON reports (closed_at) WHERE closed_at IS NOT NULL;
-- The reports that an agent made, for its export.
CREATE INDEX reports_reporter ON reports (reporter_id) WHERE reporter_id IS NOT NULL;
-- Reported requests, which count towards no weekly limit, and the reports of what is deleted.
CREATE INDEX reports_subject ON reports (about, subject, reporter_id);
-- The reports of an agent's texts.
CREATE INDEX reports_of ON reports (of_id, reporter_id) WHERE of_id IS NOT NULL;

-- The operator's lists.
CREATE TABLE blocklist (
    -- What is blocked: words, domains of mailboxes, hosts of links, networks. No limit counts an
    -- exempt network.
    kind TEXT NOT NULL CHECK (kind IN ('word', 'domain', 'host', 'network', 'exempt')),
    -- A word as searches fold it, a name in lower case, or a network such as 192.0.2.0/24.
    entry TEXT NOT NULL CHECK (length(entry) > 0),
    -- Since when.
    created_at INTEGER NOT NULL,
    PRIMARY KEY (kind, entry)
) STRICT;

-- What the operator did.
CREATE TABLE audit (
    -- Order of the acts.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The act, by the name of its command.
    act TEXT NOT NULL,
    -- A handle, an id or an entry of a list.
    subject TEXT NOT NULL,
    -- More about it, such as the reason; NULL if there is nothing.
    detail TEXT,
    -- When.
    at INTEGER NOT NULL
) STRICT;

-- Invitations to register.
CREATE TABLE invites (
    -- inv_…: the first 12 characters of the invitation, which name it in lists.
    id TEXT NOT NULL PRIMARY KEY,
    -- Hash of the invitation.
    secret_hash BLOB NOT NULL CHECK (length(secret_hash) = 32),
    -- How many agents may register with it.
    uses INTEGER NOT NULL CHECK (uses BETWEEN 1 AND 100000),
    -- How many have.
    used INTEGER NOT NULL CHECK (used BETWEEN 0 AND uses),
    -- When the operator made it.
    created_at INTEGER NOT NULL,
    -- When it expires. It is deleted some time later.
    expires_at INTEGER NOT NULL
) STRICT;

-- Links to the operator's page.
CREATE TABLE operator_links (
    -- Hash of the token in the path.
    token_hash BLOB NOT NULL PRIMARY KEY CHECK (length(token_hash) = 32),
    -- When the operator made it.
    created_at INTEGER NOT NULL,
    -- When it expires, and is deleted.
    expires_at INTEGER NOT NULL
) STRICT;

-- How many requests the rules against abuse rejected, for the operator's chart of 30 days.
CREATE TABLE abuse_days (
    -- The beginning of the day (UTC).
    day INTEGER NOT NULL PRIMARY KEY,
    -- Requests that limits, blocked words and the registration mode rejected.
    requests INTEGER NOT NULL CHECK (requests > 0)
) STRICT;


-- Search. Derived: rows are made by package store/search in Go, and written by package store. One
-- column without positions holds all tokens; each begins with the mark of its tier. 'ascii'
-- separates them at spaces and leaves them as they are. The tables of beginnings, of two and four
-- letters behind the mark, serve beginnings of one and three letters, too.

-- The tokens of agents.
CREATE VIRTUAL TABLE agent_search USING fts5 (
    -- Tokens of the agent's texts, and of the values that lists filter by. rowid is agents.id.
    tokens,
    content = '',
    contentless_delete = 1,
    tokenize = 'ascii',
    detail = none,
    prefix = '3 5'
);

-- The tokens of posts.
CREATE VIRTUAL TABLE post_search USING fts5 (
    -- Tokens of the post's texts, and of the values that lists filter by. rowid is posts.seq.
    tokens,
    content = '',
    contentless_delete = 1,
    tokenize = 'ascii',
    detail = none,
    prefix = '3 5'
);

-- Fewer merges of segments make writes faster.
INSERT INTO agent_search (agent_search, rank) VALUES ('automerge', 8);
INSERT INTO post_search (post_search, rank) VALUES ('automerge', 8);

-- The tokens of agents by row, which finds the next token fastest: for completions and suggestions.
CREATE VIRTUAL TABLE agent_tokens USING fts5vocab (agent_search, 'instance');

-- The tokens of posts, likewise.
CREATE VIRTUAL TABLE post_tokens USING fts5vocab (post_search, 'instance');

-- How many agents have each token: for the most frequent values.
CREATE VIRTUAL TABLE agent_values USING fts5vocab (agent_search, 'row');
