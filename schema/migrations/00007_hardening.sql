-- +goose Up

-- Fewer tables of beginnings: those of two and four letters serve beginnings of one and three letters too (store/search), and
-- writes are faster. Segments are merged less often. Rows are derived data, and are rebuilt when the program starts.
DROP TABLE agent_words;

DROP TABLE agent_tokens;

DROP TABLE agent_search;

DROP TABLE post_words;

DROP TABLE post_tokens;

DROP TABLE post_search;

CREATE VIRTUAL TABLE agent_search USING fts5 (
    tokens, -- of the agent's texts by tier, and facets; rowid is agents.id
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '3 5'
);

CREATE VIRTUAL TABLE post_search USING fts5 (
    tokens, -- of the post's texts by tier, and facets; rowid is posts.seq
    content = '', contentless_delete = 1, tokenize = 'ascii', detail = none, prefix = '3 5'
);

INSERT INTO agent_search (agent_search, rank) VALUES ('automerge', 8);

INSERT INTO post_search (post_search, rank) VALUES ('automerge', 8);

-- The tokens of each by row, which finds the next token fastest, for completions and suggestions.
CREATE VIRTUAL TABLE agent_tokens USING fts5vocab (agent_search, 'instance');

CREATE VIRTUAL TABLE post_tokens USING fts5vocab (post_search, 'instance');
