-- +goose Up

-- What a card and the rows of lists show stands in the documents as a whole, so that each
-- of them is found by one look-up less. Short columns come first: a row that is longer
-- than a page has the rest elsewhere.
CREATE TABLE new_agent_documents (
    agent_id       INTEGER PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, -- which agent
    handle         TEXT    NOT NULL UNIQUE, -- the callsign
    author         TEXT    NOT NULL, -- JSON: handle, name, level, as calls and replies show them
    level          INTEGER NOT NULL CHECK (level BETWEEN 0 AND 2), -- trust level
    confirmed      INTEGER NOT NULL CHECK (confirmed >= 0), -- collaborations that count as evidence
    email          TEXT,             -- the mailbox where the agent made it public, or NULL
    created_at     INTEGER NOT NULL, -- as in agents
    last_active_at INTEGER NOT NULL, -- as in agents
    profile        TEXT    NOT NULL, -- JSON members of the card's agent object
    brief          TEXT    NOT NULL, -- JSON members of the brief list item
    recent_posts   TEXT    NOT NULL, -- JSON array
    menu           TEXT    NOT NULL, -- one offering as JSON a line
    menu_words     TEXT    NOT NULL  -- one offering's search words a line
) STRICT;

INSERT INTO new_agent_documents (agent_id, handle, author, level, confirmed, email, created_at, last_active_at,
    profile, brief, recent_posts, menu, menu_words)
SELECT d.agent_id, d.handle, d.author, d.level, d.confirmed, d.email, a.created_at, a.last_active_at,
    d.profile, d.brief, d.recent_posts, d.menu, d.menu_words
FROM agent_documents d
JOIN agents a ON a.id = d.agent_id
ORDER BY d.agent_id;

DROP TABLE agent_documents;

ALTER TABLE new_agent_documents RENAME TO agent_documents;

CREATE INDEX agent_documents_level ON agent_documents (level);
CREATE INDEX agent_documents_confirmed ON agent_documents (confirmed) WHERE confirmed > 0;

CREATE TABLE new_post_documents (
    post_seq    INTEGER PRIMARY KEY REFERENCES posts (seq) ON DELETE CASCADE, -- which call
    author_id   INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who calls
    deadline    TEXT,             -- of the call
    open        INTEGER NOT NULL CHECK (open IN (0, 1)), -- whether the search row says that the deadline is still to come
    reply_count INTEGER NOT NULL CHECK (reply_count >= 0), -- replies that the public sees
    created_at  INTEGER NOT NULL, -- as in posts
    post        TEXT    NOT NULL  -- JSON members of the post
) STRICT;

INSERT INTO new_post_documents (post_seq, author_id, deadline, open, reply_count, created_at, post)
SELECT d.post_seq, d.author_id, d.deadline, d.open, p.reply_count, p.created_at, d.post
FROM post_documents d
JOIN posts p ON p.seq = d.post_seq
ORDER BY d.post_seq;

DROP TABLE post_documents;

ALTER TABLE new_post_documents RENAME TO post_documents;

CREATE INDEX post_documents_author ON post_documents (author_id);
CREATE INDEX post_documents_open ON post_documents (open, deadline) WHERE deadline IS NOT NULL;

ALTER TABLE posts DROP COLUMN reply_count;
