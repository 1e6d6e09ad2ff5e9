package store

import (
	"callbook/store/domain"
	"context"
	"errors"
	"fmt"
	"time"
)

// activityStep is how far the time of the last call may lag behind.
const activityStep = 5 * time.Minute

// noteActivity moves the time of an agent's last call, in the background and at most
// every activityStep.
func (s *Store) noteActivity(id int64, last, now domain.Time) {
	if now < last.Add(activityStep) {
		return
	}
	if _, pending := s.active.LoadOrStore(id, nil); pending {
		return
	}
	s.tryWrite(func(t *tx) error {
		t.touchActive(id)
		if err := t.Exec(`UPDATE agents SET last_active_at = ? WHERE id = ?`, now, id); err != nil {
			return err
		}
		return t.Exec(`UPDATE agent_documents SET last_active_at = ? WHERE agent_id = ?`, now, id)
	}, func(error) { s.active.Delete(id) }) // a time that could not be stored is written with the next call
}

// RunDue does what is due by the clock: it closes calls past their deadline, ends
// what has run out of time, drops what is kept for a time only, merges the search
// tables, compacts the file at night, and takes erased data out of the write-ahead log. It
// runs every minute, so erased data leaves the files within ten minutes, and copies that
// SQLite left when it moved rows within a day and an hour (compact.go); words that are in
// no row any longer leave the full-text index within two days, with the merging of each
// (mergeWholeEvery).
func (s *Store) RunDue(ctx context.Context) error {
	var errs []error
	// Transactions of their own: what fails keeps no other from being done, and
	// calls in between wait for one of them only.
	for _, due := range []struct {
		what string
		act  func(*tx) (done int, err error)
	}{
		{"close calls", (*tx).closePosts},
		{"end suspensions", (*tx).showAgents},
		{"expire requests", func(t *tx) (int, error) { return t.expireRequests("") }},
		{"expire links", (*tx).expireLinks},
		{"expire mails", func(t *tx) (int, error) { return 0, t.expireMails() }},
		{"drop events", func(t *tx) (int, error) { return 0, t.dropEvents() }},
		{"drop what is old", func(t *tx) (int, error) { return 0, t.dropOld() }},
	} {
		if err := s.inSteps(ctx, due.act); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", due.what, err))
		}
	}
	if err := s.optimizeSearch(ctx); err != nil {
		errs = append(errs, fmt.Errorf("optimize the full-text tables: %w", err))
	}
	if err := s.compactIfDue(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.truncateErased(ctx))...)
}

// dueStep is how many records one transaction ends, so that calls in between do
// not wait for long.
const dueStep = 250

// inSteps repeats an act until it finds less than a step's records to end.
func (s *Store) inSteps(ctx context.Context, act func(*tx) (done int, err error)) error {
	for {
		var done int
		err := s.writeScheduled(ctx, func(t *tx) (err error) {
			done, err = act(t)
			return err
		})
		if err != nil || done < dueStep {
			return err
		}
	}
}

// dropOld drops what is kept for a time only.
func (t *tx) dropOld() error {
	for _, old := range []struct {
		query string
		since domain.Time
	}{
		{`DELETE FROM idempotency WHERE created_at <= ?`, t.now.Add(-onceWindow)},
		{`DELETE FROM usage WHERE at <= ?`, t.now.Add(-domain.UsageRetention)},
		// What a clock that ran ahead wrote would use up limits until then.
		{`DELETE FROM usage WHERE at > ?`, t.now.Add(domain.Day)},
		{`DELETE FROM mail_log WHERE at <= ?`, t.now.Add(-domain.Day)},
		{`DELETE FROM mail_log WHERE at > ?`, t.now.Add(domain.Day)},
		// A burnt code says so until there is a new one.
		{`DELETE FROM codes WHERE expires_at <= ? AND wrong_tries < 5`, t.now.Add(-domain.Day)},
		{`DELETE FROM owner_claims WHERE status = 'pending' AND expires_at <= ?`, t.now.Add(-claimKept)},
		{`UPDATE reports SET reporter = NULL WHERE about = 'post' AND reporter IS NOT NULL AND created_at <= ?`, t.now.Add(-domain.ReportWindow)},
		{`UPDATE reports SET reporter = NULL WHERE about = 'claim' AND reporter IS NOT NULL AND created_at <= ?`, t.now.Add(-unwantedAge)},
	} {
		if err := t.Exec(old.query, old.since); err != nil {
			return err
		}
	}
	return nil
}

// showAgents touches the agents whose suspension has ended by itself.
func (t *tx) showAgents() (int, error) {
	var due []int64
	err := t.Select(&due, `
		SELECT id FROM agents
		WHERE suspended_until <= ? AND NOT EXISTS (SELECT 1 FROM agent_documents WHERE agent_id = id)
		LIMIT ?`, t.now, dueStep)
	t.touch(due...)
	return len(due), err
}

// truncateErased empties the write-ahead log once personal data was erased: it holds the pages as
// they were until then.
func (s *Store) truncateErased(ctx context.Context) error {
	if !s.erased.CompareAndSwap(true, false) {
		return nil
	}
	done, err := s.db.TruncateLog(ctx)
	if !done {
		s.erased.Store(true) // a reader was in the way: the next run tries again
	}
	return publicError(err)
}

// ErrNotDev tells that a file was not made by callbook dev.
var ErrNotDev = errors.New("this directory was not made by callbook dev, which could empty it; give another --db")

// MarkDev marks a fresh directory as one of callbook dev, and refuses another
// that is not marked.
func (s *Store) MarkDev(ctx context.Context, fresh bool) error {
	return s.write(ctx, func(t *tx) error {
		if fresh {
			return t.Exec(`INSERT INTO site (name, value) VALUES ('dev', ?)`, []byte(t.now.String()))
		}
		var since []byte
		marked, err := t.Find(&since, `SELECT value FROM site WHERE name = 'dev'`)
		if err == nil && !marked {
			err = ErrNotDev
		}
		return err
	})
}

// Clear empties the directory, handles included: for tests of agents.
func (s *Store) Clear(ctx context.Context) error {
	return s.write(ctx, func(t *tx) error {
		for _, table := range []string{
			"outbox", "mail_log", "reports", "audit", "blocked_words", "blocks", "requests", "collabs",
			"agents", "handles", "sqlite_sequence",
		} {
			if err := t.Exec(`DELETE FROM ` + table); err != nil {
				return fmt.Errorf("clear %s: %w", table, err)
			}
		}
		if err := t.clearSearch(); err != nil {
			return err
		}
		t.changes = everything
		return nil
	})
}
