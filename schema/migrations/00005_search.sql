-- +goose Up

-- Plain full-text tables in the place of those that held marked words and beginnings. The tokens are made in Go
-- (store/search); 'ascii' separates them at spaces and leaves them as they are. Rows are derived data, and are rebuilt
-- when the program starts (store/document.go).
DROP TABLE agent_search;

DROP TABLE post_search;

DROP TABLE search_words;

DROP TABLE search_dropped;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    first,  -- handle, name, titles of offerings; rowid is agents.id
    second, -- tagline, owner, capabilities, deliverables
    third,  -- descriptions and the rest of the offerings
    facets, -- values that lists filter by
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = column, prefix = '1 2 3'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    first,  -- title; rowid is posts.seq
    second, -- deliverable, tags
    third,  -- body, constraints
    facets, -- values that lists filter by
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = column, prefix = '1 2 3'
);

-- The words of each, for suggestions.
CREATE VIRTUAL TABLE agent_words USING fts5vocab (agent_search, 'row');

CREATE VIRTUAL TABLE post_words USING fts5vocab (post_search, 'row');
