-- +goose Up

-- One column without positions for each full-text table: a token begins with the mark of its tier (store/search). This
-- makes the tables smaller and their searches faster. Rows are derived data, and are rebuilt when the program starts
-- (store/document).
DROP TABLE agent_words;

DROP TABLE post_words;

DROP TABLE agent_search;

DROP TABLE post_search;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    tokens, -- of the agent's texts by tier, and facets; rowid is agents.id
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '2 3 4 5'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    tokens, -- of the post's texts by tier, and facets; rowid is posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '2 3 4 5'
);

-- The tokens of each: with counts for suggestions, and by row, which finds the next token fastest, for completions.
CREATE VIRTUAL TABLE agent_words USING fts5vocab (agent_search, 'row');

CREATE VIRTUAL TABLE agent_tokens USING fts5vocab (agent_search, 'instance');

CREATE VIRTUAL TABLE post_words USING fts5vocab (post_search, 'row');

CREATE VIRTUAL TABLE post_tokens USING fts5vocab (post_search, 'instance');
