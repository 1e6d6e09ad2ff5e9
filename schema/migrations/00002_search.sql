-- +goose Up

-- The search tables without the places of words in a row: a search asks which rows
-- hold all of its words and pairs, never in what order. That is a quarter of the file
-- and a sixth of the time of a write. The rows are derived data, and are made anew when
-- the program starts (store/document.go).
DROP TABLE agent_search;

DROP TABLE post_search;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    words, -- rowid is 4294967296 - agents.id, so that the newest comes first
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    words, -- rowid is 4294967296 - posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none
);

-- Words of search rows that were deleted: those that no other row holds leave
-- search_words, some at a time.
CREATE TABLE search_dropped (
    word TEXT NOT NULL PRIMARY KEY -- as in search_words
) STRICT;
