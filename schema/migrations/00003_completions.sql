-- +goose Up

-- A beginning of more than three letters is completed to at most 60 of the words that
-- begin so (store/search_row.go). The beginnings of the others stand in the search rows,
-- so that made-up words hide none. It is derived data, and is made anew when the program
-- starts.
DROP TABLE search_words;

CREATE TABLE search_words (
    completed_from INTEGER NOT NULL, -- 4 to 16: letters of a beginning that is completed to the word
    word TEXT NOT NULL, -- folded as searches fold
    PRIMARY KEY (completed_from, word)
) STRICT;
