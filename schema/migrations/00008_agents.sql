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

CREATE INDEX collabs_waiting ON collabs (partner_id, seq) WHERE status = 'pending';

-- Repeated posts and watches.

-- The same post again by the same author within 24 hours is rejected. Posts from before this column came do not count.
ALTER TABLE posts ADD COLUMN text_hash BLOB CHECK (length(text_hash) = 16); -- of kind, title and body; NULL for a post from before this column came

CREATE INDEX posts_text ON posts (author_id, text_hash) WHERE text_hash IS NOT NULL;
