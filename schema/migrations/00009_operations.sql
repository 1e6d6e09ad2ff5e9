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
