-- +goose Up

-- Which collaborations count as evidence is stored: the first of a pair of owners in 90 days. It
-- is derived data, rebuilt when the program starts (store/document/evidence.go).
ALTER TABLE collabs ADD COLUMN
    counts INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)); -- as evidence on both cards

CREATE INDEX collabs_counting_initiator ON collabs (initiator_id) WHERE counts;
CREATE INDEX collabs_counting_partner ON collabs (partner_id) WHERE counts;

ALTER TABLE agent_documents ADD COLUMN
    confirmed_partners INTEGER NOT NULL DEFAULT 0 CHECK (confirmed_partners >= 0); -- owners on the other side of collaborations that count

-- Replies and agents can be reported, too.
CREATE TABLE new_reports (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of lists
    id          TEXT    NOT NULL UNIQUE,           -- rpt_…
    about       TEXT    NOT NULL CHECK (about IN ('post', 'reply', 'agent', 'request', 'claim')), -- what is reported
    subject     TEXT    NOT NULL,                  -- an id, or of an agent and a claim the agent's handle
    reporter    BLOB    CHECK (length(reporter) = 32), -- keyed hash of the reporter's address, deleted after a day; of a claim, the person's, after 30
    reporter_id INTEGER REFERENCES handles (id),   -- the recipient who reported a request, or NULL
    reason      TEXT    CHECK (length(reason) BETWEEN 1 AND 300), -- or NULL
    created_at  INTEGER NOT NULL, -- when it came
    closed_at   INTEGER                            -- when the operator closed it, or NULL
) STRICT;

INSERT INTO new_reports (seq, id, about, subject, reporter, reporter_id, reason, created_at, closed_at)
SELECT seq, id, about, subject, reporter, reporter_id, reason, created_at, closed_at FROM reports;

DELETE FROM sqlite_sequence WHERE name = 'new_reports';

INSERT INTO sqlite_sequence (name, seq) SELECT 'new_reports', seq FROM sqlite_sequence WHERE name = 'reports';

DROP TABLE reports;

ALTER TABLE new_reports RENAME TO reports;

CREATE INDEX reports_once ON reports (about, subject, reporter, created_at) WHERE reporter IS NOT NULL;
CREATE INDEX reports_open ON reports (seq) WHERE closed_at IS NULL;
CREATE INDEX reports_reporter ON reports (reporter_id) WHERE reporter_id IS NOT NULL;
CREATE INDEX reports_subject ON reports (about, subject, reporter_id); -- for those that a weekly cap leaves out
