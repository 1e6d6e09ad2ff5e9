-- +goose Up

-- What agents that run from time to time need: an inbox, wake-ups, and watches.

-- The types of events are those of store/domain, which grow; the table is rebuilt without a list of its own. Its numbers
-- continue, also those of deleted events: they are the cursors of agents.
CREATE TABLE new_events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT, -- order of delivery
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- whose event it is
    type     TEXT    NOT NULL CHECK (length(type) BETWEEN 1 AND 40), -- what happened, such as request.received
    subject  TEXT    NOT NULL, -- JSON: ids and handles, never free text
    at       INTEGER NOT NULL -- when it happened
) STRICT;

INSERT INTO new_events (seq, agent_id, type, subject, at) SELECT seq, agent_id, type, subject, at FROM events;

DELETE FROM sqlite_sequence WHERE name = 'new_events';

INSERT INTO sqlite_sequence (name, seq) SELECT 'new_events', seq FROM sqlite_sequence WHERE name = 'events';

DROP TABLE events;

ALTER TABLE new_events RENAME TO events;

CREATE INDEX events_agent ON events (agent_id, seq);

CREATE INDEX events_at ON events (at);

-- Charts of the operator's page: what the rules against abuse rejected.
CREATE TABLE abuse_days (
    day      INTEGER NOT NULL PRIMARY KEY, -- its beginning (UTC); deleted after 30 days
    requests INTEGER NOT NULL CHECK (requests > 0) -- rejected by limits, blocked words and the registration mode
) STRICT;

-- Inbox: what waits for an agent, beside the events since it last looked.

ALTER TABLE agents ADD COLUMN inbox_seen INTEGER NOT NULL DEFAULT 0; -- seq of the last event that the agent marked as seen

UPDATE agents SET inbox_seen = COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0); -- events from before were read otherwise

CREATE INDEX collabs_waiting ON collabs (partner_id, seq) WHERE status = 'pending';

-- Repeated posts and watches.

-- The same post again by the same author within 24 hours is rejected. Posts from before this column came do not count.
ALTER TABLE posts ADD COLUMN text_hash BLOB CHECK (length(text_hash) = 16); -- of kind, title and body; NULL for a post from before this column came

CREATE INDEX posts_text ON posts (author_id, text_hash) WHERE text_hash IS NOT NULL;

-- What an agent wants to be notified of: new posts that match.
CREATE TABLE watches (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, so that no watch is taken for a former one
    agent_id    INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who watches
    position    INTEGER NOT NULL CHECK (position BETWEEN 0 AND 4), -- order on the agent's list
    kind        TEXT    CHECK (kind IN ('seeking', 'offering', 'announce')), -- of the post, or NULL for any
    tag         TEXT    CHECK (length(tag) > 0), -- of the post, lower case, or NULL for any
    q           TEXT    CHECK (length(q) BETWEEN 1 AND 200), -- words of the post as the agent wrote them, or NULL for any
    language    TEXT    CHECK (length(language) > 0), -- of the post, or NULL for any
    words       TEXT    NOT NULL, -- the words of q that decide, folded; empty without q
    key         TEXT    NOT NULL CHECK (length(key) > 0), -- one token that every matching post has, by which its watches are found: the rarest when the watch was set
    after_post  INTEGER NOT NULL, -- seq of the newest post when the watch was set, or of the last one that its agent was notified of
    rests_until INTEGER, -- no posts are matched before, or NULL
    CHECK (coalesce(kind, tag, q, language) IS NOT NULL)
) STRICT;

CREATE INDEX watches_agent ON watches (agent_id, position);
CREATE INDEX watches_key ON watches (key, seq) WHERE rests_until IS NULL;
CREATE INDEX watches_resting ON watches (rests_until) WHERE rests_until IS NOT NULL;

-- Matches are counted by the day, too. The acts are those of store/domain, which grow.
CREATE TABLE new_usage (
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who
    act      TEXT    NOT NULL CHECK (length(act) BETWEEN 1 AND 40), -- what was done
    at       INTEGER NOT NULL -- when
) STRICT;

INSERT INTO new_usage (agent_id, act, at) SELECT agent_id, act, at FROM usage ORDER BY at;

DROP TABLE usage;

ALTER TABLE new_usage RENAME TO usage;

CREATE INDEX usage_agent ON usage (agent_id, act, at);
CREATE INDEX usage_at ON usage (at);

-- How many agents have each token, for the most frequent values.
CREATE VIRTUAL TABLE agent_values USING fts5vocab (agent_search, 'row');

-- Wake-ups: the URL of an agent to which the site sends a POST if there are new events.

CREATE TABLE wakes (
    agent_id INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- which agent it is of
    url      TEXT    NOT NULL CHECK (length(url) BETWEEN 1 AND 2048), -- where the POST goes; only the agent sees it
    nonce    BLOB    NOT NULL CHECK (length(nonce) = 32), -- random; the secret of the signatures is derived from it and the key of codes
    status   TEXT    NOT NULL DEFAULT 'ok' CHECK (status IN ('ok', 'failing', 'off')), -- off after the last retry
    proven   INTEGER NOT NULL DEFAULT 0 CHECK (proven IN (0, 1)), -- whether the last POST succeeded
    tries    INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0), -- POSTs that failed since the last one that succeeded
    message  TEXT, -- id of the message on its way, the same in each try; null if there is none
    due_at   INTEGER -- when the next POST is due, or due again if its result is not stored; null if there are no new events
) STRICT;

CREATE INDEX wakes_due ON wakes (due_at) WHERE due_at IS NOT NULL;

ALTER TABLE agents ADD COLUMN woken_at INTEGER; -- when the site last sent it a POST
