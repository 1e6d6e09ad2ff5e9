package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"callbook/server/mail"
	"callbook/server/outbound"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// job is a task that runs periodically.
type job struct {
	// failure is the log message of a failed run.
	failure string

	// run does the due work, in short transactions.
	run func(ctx context.Context) error

	// every is the period; 0 means jobPeriod.
	every time.Duration

	// atStart runs it at startup too.
	atStart bool

	// slow excludes it from RunLocalJobs.
	slow bool
}

// jobs returns the periodic tasks. What a rule of the directory makes due belongs to RunJobs of
// the store, which runs every minute; a task of its own is for another period, or for anything
// beside the database.
func (s *Server) jobs() []job {
	return []job{
		{failure: "cannot run the jobs of the store", run: s.store.RunJobs},
		{
			failure: "cannot match posts with watches",
			run:     s.store.MatchPosts,
			every:   time.Second,
			atStart: true,
		},
		{failure: "cannot drop unverified agents", run: s.dropUnverified, atStart: true},
		{failure: "cannot recheck links", run: s.links.CheckDue, slow: true},
		{failure: "cannot back up the database", run: s.backUp, atStart: true},
		{
			failure: "cannot read the database",
			run:     s.reportWrites,
			every:   10 * time.Second,
			atStart: true,
			slow:    true,
		},
		{failure: "cannot read the free space of the disk", run: s.reportDiskSpace, atStart: true},
		{
			failure: "cannot read how many mails the site has sent",
			run:     s.reportSpentMails,
			atStart: true,
		},
		{failure: "cannot store how many requests were rejected", run: s.storeAbuse},
		{
			failure: "cannot check the whole database",
			run:     s.store.CheckFile,
			every:   time.Hour,
			atStart: true,
			slow:    true,
		},
		{
			failure: "cannot close idle connections",
			run:     s.closeIdleConnections,
			every:   time.Second,
			slow:    true,
		},
		// Runs until the end; the period is that of a start after a panic.
		{
			failure: "cannot wake agents",
			run:     s.wakes.Run,
			every:   time.Second,
			atStart: true,
			slow:    true,
		},
	}
}

func (s *Server) closeIdleConnections(context.Context) error {
	s.connections.CloseIdle(time.Now()) //clock: of the connections
	return nil
}

// startJobs sends alerts and mails, and runs the jobs, in the background until ctx ends.
func (s *Server) startJobs(ctx context.Context) *sync.WaitGroup {
	working := &sync.WaitGroup{}
	working.Go(func() { s.options.Alerts.Run(ctx) })
	if s.outbox != nil {
		working.Go(func() { s.deliverMails(ctx) })
	}

	for _, j := range s.jobs() {
		working.Go(func() { s.runPeriodically(ctx, j) })
	}

	return working
}

func (s *Server) runPeriodically(ctx context.Context, j job) {
	due := time.NewTicker(cmp.Or(j.every, jobPeriod))
	defer due.Stop()

	if j.atStart {
		s.runJob(ctx, j)
	}
	for {
		select {
		case <-due.C:
			s.runJob(ctx, j)
		case <-ctx.Done():
			return
		}
	}
}

// runJob runs a job once and logs its error.
func (s *Server) runJob(ctx context.Context, j job) {
	if ctx.Err() != nil { // the period may end together with the context
		return
	}

	err := recovered(ctx, j.run)
	// The end of the context interrupts a run, which is no failure of it.
	if err != nil && ctx.Err() == nil {
		s.options.Log.Error().Err(err).Msg(j.failure)
	}
}

// deliverMails delivers mails when they are due, until ctx ends.
func (s *Server) deliverMails(ctx context.Context) {
	for ctx.Err() == nil {
		err := recovered(ctx, s.outbox.Deliver)
		if err != nil && ctx.Err() == nil {
			s.options.Log.Error().Err(err).Msg("cannot read or write the outbox")
		}
		s.outbox.Wait(ctx, err != nil)
	}
}

// recovered runs a background task and returns a panic as an error, so that the next run
// follows.
func recovered(ctx context.Context, act func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return act(ctx)
}

// RunJobs runs everything that is due at once, mails and requests to other servers included.
func (s *Server) RunJobs(ctx context.Context) error {
	return errors.Join(s.RunLocalJobs(ctx), s.SendRequests(ctx))
}

// RunLocalJobs runs everything that is due except SendRequests and the check of the whole file.
func (s *Server) RunLocalJobs(ctx context.Context) error {
	var errs []error
	for _, j := range s.jobs() {
		if !j.slow {
			errs = append(errs, j.run(ctx))
		}
	}
	return errors.Join(append(errs, s.DeliverMail(ctx))...)
}

// dropUnverified deletes agents that have had long enough to verify a mailbox, if codes reach their
// mailboxes.
func (s *Server) dropUnverified(ctx context.Context) error {
	return s.store.DropUnverified(ctx, mail.Reaches(s.options.Mail))
}

// SendRequests sends the requests to other servers that are due, wake-ups and checks of links, and
// waits for the results.
func (s *Server) SendRequests(ctx context.Context) error {
	return errors.Join(s.wakes.Deliver(ctx), s.links.CheckDue(ctx))
}

// DeliverMail sends every mail that is due, if the site sends mail.
func (s *Server) DeliverMail(ctx context.Context) error {
	if s.outbox == nil {
		return nil
	}
	return s.outbox.Deliver(ctx)
}

// ResetLimits resets the rate limits of all clients.
func (s *Server) ResetLimits() { s.engine.Limiter.Reset() }

// backupRetry is the time between a failed backup and the next attempt: each reads the whole
// database.
const backupRetry = time.Hour

// backUp makes a backup if one is due. It stores the time of the newest one, so that a probe
// does not have to wait for another disk.
func (s *Server) backUp(ctx context.Context) error {
	backups, now := s.options.Backups, s.store.Now()
	if backups.Folder == "" || now.UnixMilli() < s.status.nextBackupTry.Load() {
		return nil
	}

	name, contents, err := backups.Run(ctx, now)
	s.status.backupFailed.Store(err != nil)
	if err != nil {
		s.status.nextBackupTry.Store(now.Add(backupRetry).UnixMilli())
		s.options.Alerts.Raise(outbound.BackupAlert, 1)
	}

	if name != "" {
		s.options.Log.Info().
			Str("file", name).
			Int("agents", contents.Agents).
			Int64("bytes", contents.Bytes).
			Msg("wrote a backup")
	}

	// Also if none was due or this one failed: a start knows nothing of those before.
	if _, newest, newestErr := backups.Newest(now); newestErr == nil && !newest.IsZero() {
		s.status.newestBackup.Store(new(domain.Time(newest.UnixMilli())))
	}

	return err
}

// reportWrites logs once that writes do not work, and once that they do again.
func (s *Server) reportWrites(ctx context.Context) error {
	_, err := s.store.Ready(ctx)
	fail := errors.Is(err, sqlitedb.ErrWrites)
	was := s.status.writesFail.Swap(fail)
	if !fail {
		// An error means that reads fail as well, which the caller logs.
		if was && err == nil {
			s.options.Log.Info().Msg("writes work again")
		}
		return err
	}

	if !was {
		s.options.Log.Warn().Err(err).Msg("writes fail; reads work")
	}
	return nil
}

// reportDiskSpace logs once that space on the disk of the database is low, and once that it is
// sufficient again. It ignores a disk whose free space is unknown.
func (s *Server) reportDiskSpace(context.Context) error {
	d, err := s.disk()
	if err != nil {
		return nil
	}

	low := d.Free < d.Least()
	if s.status.diskLow.Swap(low) == low {
		return nil
	}

	if !low {
		s.options.Log.Info().
			Int64("free_bytes", d.Free).
			Msg("the disk of the database has enough free space again")
		return nil
	}

	s.options.Alerts.Raise(outbound.DiskAlert, 1)
	s.options.Log.Warn().
		Int64("free_bytes", d.Free).
		Int64("least_bytes", d.Least()).
		Msg("the disk of the database is almost full: free some space; " +
			"writes are rejected once it is full")
	return nil
}

// reportSpentMails logs that a pool of the site's mails is spent, once a day for each.
func (s *Server) reportSpentMails(ctx context.Context) error {
	pools, err := s.store.MailPools(ctx)
	if err != nil {
		return err
	}

	isSpent := func(p domain.PoolState) bool { return p.Until != 0 }
	s.status.mailsSpent.Store(slices.ContainsFunc(pools, isSpent))

	now := s.store.Now()
	for _, p := range pools {
		if !isSpent(p) {
			continue
		}

		// A pool is spent and has mails again all day long.
		last, reported := s.status.spentMails.Load(p.Pool)
		if reported && now.Sub(last.(time.Time)) < domain.Day {
			continue
		}

		s.status.spentMails.Store(p.Pool, now)
		s.options.Alerts.Raise(outbound.MailsAlert, 1)
		s.options.Log.Warn().
			Str("pool", string(p.Pool)).
			Int("limit", p.Limit).
			Stringer("until", p.Until).
			Msg("the site has sent all mails of this pool in 24 hours: further ones are not sent; " +
				"see mails in the table [limits] of the settings")
	}

	return nil
}
