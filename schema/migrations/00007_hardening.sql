-- +goose Up

-- Recovery and owners. A former mailbox that was left before the last confirmation of a claim may be that of
-- the rightful holder, and the claim a thief's. Of a claim that lapsed before this migration the first confirmation is
-- known.
ALTER TABLE owner_claims ADD COLUMN mailbox_at INTEGER NOT NULL DEFAULT 0; -- last confirmation, which was with that mailbox; 0 before

UPDATE owner_claims SET mailbox_at = COALESCE((SELECT claimed_at FROM agents WHERE id = agent_id), confirmed_at, 0)
WHERE status = 'claimed';

-- Schema 6 ended the links to owners' pages that were requested more than a year before: they count as used when an
-- agent last was.
UPDATE owner_claims SET used_at = (SELECT MAX(last_active_at) FROM agents) WHERE used_at = requested_at;

-- Schema 6 counted all mails of the day before as those of proven agents.
UPDATE mail_log SET pool = 'new'
WHERE agent_id IS NOT NULL AND agent_id NOT IN (SELECT id FROM agents WHERE verified_at < mail_log.at);

-- Notices count in no pool, and there are so many a day about one agent.
ALTER TABLE mail_log ADD COLUMN notice_of INTEGER REFERENCES handles (id); -- about whom a notice is; NULL for other mails

CREATE INDEX mail_log_notice_of ON mail_log (notice_of, at) WHERE notice_of IS NOT NULL;
