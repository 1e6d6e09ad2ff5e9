package store

import (
	"context"
	"errors"
	"fmt"

	"callbook/store/domain"
)

// jobs are the jobs of RunJobs, in their order. A job handles up to jobBatch records, and returns
// how many there were.
var jobs = []struct {
	name string // in errors
	run  func(*tx) (records int, err error)
}{
	{"index posts", (*tx).indexStalePosts},
	{"delete agents", (*tx).deleteDue},
	{"end suspensions", (*tx).endSuspensions},
	{"expire requests", func(t *tx) (int, error) { return t.expireRequests("") }},
	{"expire links", (*tx).expireLinks},
	{"expire mails", allAtOnce((*tx).deleteExpiredMails)},
	{"forget former mailboxes", allAtOnce((*tx).forgetFormerMailboxes)},
	{"delete old events", allAtOnce((*tx).deleteOldEvents)},
	{"delete old records", allAtOnce((*tx).deleteOldRecords)},
}

// allAtOnce returns a job that handles all records in one transaction.
func allAtOnce(job func(*tx) error) func(*tx) (int, error) {
	return func(t *tx) (int, error) { return 0, job(t) }
}

// RunJobs runs the jobs that are due: it indexes posts whose deadline has passed, expires
// requests, links and mails, deletes agents that their owners did not keep, ends suspensions,
// deletes records past their retention, and maintains the database file; see maintenance. It
// should run every minute. Then deleted personal data leaves the files within ten minutes, copies
// that SQLite left when it moved rows within 25 hours, and words that no row contains leave the
// full-text tables within two days.
func (s *Store) RunJobs(ctx context.Context) error {
	var errs []error
	for _, job := range jobs {
		// Each job has its own transactions, so that one that fails does not prevent the others.
		if err := s.runJob(ctx, job.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job.name, err))
		}
	}

	return errors.Join(append(errs, s.runMaintenance(ctx))...)
}

// jobBatch is how many records one transaction of a job handles, so that requests do not wait for
// long.
const jobBatch = 250

// runJob runs a job in transactions until it finds less than a batch of records.
func (s *Store) runJob(ctx context.Context, job func(*tx) (records int, err error)) error {
	// Between two transactions, the requests that wait get their turn.
	for {
		var records int
		err := s.writeBackground(ctx, func(t *tx) (err error) {
			records, err = job(t)
			return err
		})
		if err != nil || records < jobBatch {
			return err
		}
	}
}

// deleteOldRecords deletes records past their retention, or what must not be stored in them any
// longer.
func (t *tx) deleteOldRecords() error {
	for _, old := range []struct {
		query string
		since domain.Time
	}{
		{`DELETE FROM idempotency WHERE created_at <= ?`, t.Now.Add(-domain.IdempotencyRetention)},
		{`DELETE FROM usage WHERE at <= ?`, t.Now.Add(-domain.UsageRetention)},
		// Records of a clock that ran ahead would count against limits for too long.
		{`DELETE FROM usage WHERE at > ?`, t.Now.Add(domain.Day)},
		{`DELETE FROM network_usage WHERE at <= ?`, t.Now.Add(-domain.UsageRetention)},
		{`DELETE FROM network_usage WHERE at > ?`, t.Now.Add(domain.Day)},
		// So would a wake be put off: it is due at once.
		{`UPDATE wakes SET due_at = 1 WHERE due_at > ?`,
			t.Now.Add(domain.WakeRetries[len(domain.WakeRetries)-1])},
		{`DELETE FROM mail_log WHERE at <= ?`, t.Now.Add(-domain.Day)},
		{`DELETE FROM mail_log WHERE at > ?`, t.Now.Add(domain.Day)},
		{`DELETE FROM mail_networks WHERE at <= ?`, t.Now.Add(-domain.Day)},
		{`DELETE FROM mail_networks WHERE at > ?`, t.Now.Add(domain.Day)},
		// A code with too many wrong attempts stays until it is replaced.
		{`DELETE FROM codes WHERE expires_at <= ? AND wrong_tries < 5`, t.Now.Add(-domain.Day)},
		{`DELETE FROM owner_claims WHERE status = 'pending' AND expires_at <= ?`,
			t.Now.Add(-claimRetention)},
		{`DELETE FROM abuse_days WHERE day <= ?`, t.Now.Add(-domain.AbuseRetention)},
		{`DELETE FROM operator_links WHERE expires_at <= ?`, t.Now},
		{`DELETE FROM invites WHERE expires_at <= ?`, t.Now.Add(-domain.InviteRetention)},
		{`UPDATE agents SET network = NULL WHERE network IS NOT NULL AND created_at <= ?`,
			t.Now.Add(-domain.NetworkRetention)},
		{`DELETE FROM reports WHERE closed_at <= ?`, t.Now.Add(-domain.ReportRetention)},
		{`UPDATE reports SET reporter = NULL
			WHERE about IN ('post', 'reply', 'agent') AND reporter IS NOT NULL AND created_at <= ?`,
			t.Now.Add(-domain.ReportWindow)},
		{`UPDATE reports SET reporter = NULL
			WHERE about = 'claim' AND reporter IS NOT NULL AND created_at <= ?`,
			t.Now.Add(-unwantedAge)},
	} {
		if err := t.Exec(old.query, old.since); err != nil {
			return err
		}
	}

	return nil
}

// deleteOldEvents deletes events past their retention.
func (t *tx) deleteOldEvents() error {
	before := t.Now.Add(-domain.EventRetention)

	// An agent that continues after one of these events learns that some are missing.
	err := t.Exec(`
		UPDATE agents
		SET events_dropped = (
			SELECT MAX(seq) FROM events e WHERE e.agent_id = agents.id AND e.at <= ?1
		)
		WHERE id IN (SELECT agent_id FROM events WHERE at <= ?1)`, before)
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM events WHERE at <= ?`, before)
}

// dropBatch is how many agents one transaction drops: each may have many posts and replies.
const dropBatch = 20

// DropUnverified deletes agents that never verified a mailbox and made no authenticated request
// for domain.UnverifiedRetention, and frees their handles. Only the time during which the site
// sends mail counts. It should run at startup and every minute. It spares suspended agents, whose
// handles the operator may want to stay taken.
func (s *Store) DropUnverified(ctx context.Context, sendsMail bool) error {
	since, err := s.siteTime(ctx, mailsSince)
	if err != nil {
		return err
	}

	// No mailbox can be verified while no mail is sent: after that the time starts again.
	switch {
	case sendsMail && since == 0:
		return s.writeBackground(ctx, func(t *tx) error { return t.SetSiteTime(mailsSince, t.Now) })

	case !sendsMail && since != 0:
		return s.writeBackground(ctx, func(t *tx) error { return t.SetSiteTime(mailsSince, 0) })

	case !sendsMail || domain.TimeOf(s.Now()) < since.Add(domain.UnverifiedRetention):
		return nil
	}

	return s.runJob(ctx, (*tx).dropUnverified)
}

func (t *tx) dropUnverified() (int, error) {
	dropped, err := t.eachAgent((*tx).dropAgent, `
		SELECT a.id
		FROM agents a
		WHERE a.verified_at IS NULL AND a.verified_before = 0 AND a.last_active_at <= ?
			AND (a.suspended_at IS NULL OR a.suspended_until <= ?)
		ORDER BY a.last_active_at, a.id
		LIMIT ?`, t.Now.Add(-domain.UnverifiedRetention), t.Now, dropBatch)

	return dropped * jobBatch / dropBatch, err // a full batch, if there may be more
}

// dropAgent deletes an agent and lets others register its handle.
func (t *tx) dropAgent(agent *agentRow) error {
	// Records that outlive the agent, and events of the deletion, name it by a handle that no agent
	// can have: they must not seem to be about the next one.
	former := domain.FormerHandle(agent.ID)
	err := t.Exec(`UPDATE handles SET handle = ? WHERE id = ?`, former, agent.ID)
	if err != nil {
		return err
	}

	err = t.Exec(`
		UPDATE reports SET subject = ?
		WHERE about IN (?, ?) AND subject = ?`,
		former, domain.AboutAgent, domain.AboutClaim, agent.Handle)
	if err != nil {
		return err
	}

	return t.deleteAgent(agent)
}

// endSuspensions shows the agents again whose suspension has ended.
func (t *tx) endSuspensions() (int, error) {
	return t.eachAgent(
		(*tx).endSuspension,
		`SELECT id FROM agents WHERE suspended_until <= ? LIMIT ?`,
		t.Now,
		jobBatch,
	)
}

func (t *tx) endSuspension(agent *agentRow) error {
	agent.Suspension = domain.Suspension{}
	return agent.Store(t)
}
