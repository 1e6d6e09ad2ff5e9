-- +goose Up

-- A beginning of more than three letters is completed to few of the words that begin so
-- (store/search_row.go). The beginnings of the others stand in the search rows, so that
-- made-up words hide none. It is derived data, and is made anew when the program starts.
DROP TABLE search_words;

CREATE TABLE search_words (
    word TEXT NOT NULL PRIMARY KEY, -- folded as searches fold
    completed_from INTEGER NOT NULL -- 4 to 16: letters of a beginning that is completed to the word
) STRICT;

CREATE INDEX search_words_completed ON search_words (completed_from, word);
