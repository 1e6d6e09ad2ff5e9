-- +goose Up

-- Which collaborations count as evidence is stored: the first of a pair of owners in 90 days. It
-- is derived data, made anew when the program starts (store/document/evidence.go).
ALTER TABLE collabs ADD COLUMN
    counts INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)); -- as evidence on both cards

CREATE INDEX collabs_counting_initiator ON collabs (initiator_id) WHERE counts;
CREATE INDEX collabs_counting_partner ON collabs (partner_id) WHERE counts;

-- By what is reported, for the reports that a weekly cap leaves out.
CREATE INDEX reports_subject ON reports (about, subject, reporter_id);

ALTER TABLE agent_documents ADD COLUMN
    confirmed_partners INTEGER NOT NULL DEFAULT 0 CHECK (confirmed_partners >= 0); -- owners on the other side of collaborations that count
