-- +goose Up

-- Moderation: the lists of the operator, of which the blocked words were the first.
CREATE TABLE blocklist (
    kind       TEXT    NOT NULL CHECK (kind IN ('word', 'domain', 'host', 'network', 'exempt')), -- of mailboxes the domain, of links the host; exempt is a network that no limit counts
    entry      TEXT    NOT NULL CHECK (length(entry) > 0), -- a word as searches fold it, a name in lower case, a network such as 192.0.2.0/24
    created_at INTEGER NOT NULL, -- since when
    PRIMARY KEY (kind, entry)
) STRICT;

INSERT INTO blocklist (kind, entry, created_at) SELECT 'word', word, created_at FROM blocked_words;

DROP TABLE blocked_words;

-- What an agent wants to be notified of: new posts that match. Each post is compared with every watch.
CREATE TABLE new_watches (
    agent_id INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- who watches
    position INTEGER NOT NULL CHECK (position BETWEEN 0 AND 4), -- order on the agent's list
    kind     TEXT    CHECK (kind IN ('seeking', 'offering', 'announce')), -- of the post, or NULL for any
    tag      TEXT    CHECK (length(tag) > 0), -- of the post, lower case, or NULL for any
    q        TEXT    CHECK (length(q) BETWEEN 1 AND 200), -- words of the post as the agent wrote them, or NULL for any
    language TEXT    CHECK (length(language) > 0), -- of the post, or NULL for any
    PRIMARY KEY (agent_id, position),
    CHECK (coalesce(kind, tag, q, language) IS NOT NULL)
) STRICT;

INSERT INTO new_watches (agent_id, position, kind, tag, q, language)
SELECT agent_id, position, kind, tag, q, language FROM watches;

DROP TABLE watches;

ALTER TABLE new_watches RENAME TO watches;
