package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"callbook/store"
)

// What the server does beside the calls.

// job is something that is due by the clock, again and again.
type job struct {
	failure string                          // what the log says when it fails
	run     func(ctx context.Context) error // a bounded part of what is due
	every   time.Duration                   // duePeriod when 0
	atStart bool                            // at once too
}

// jobs are all that is done by the clock.
func (s *Server) jobs() []job {
	return []job{
		{failure: "what was due could not be done", run: s.store.RunDue},
		{failure: "links could not be looked at again", run: s.links.recheckSome},
		{failure: "the database could not be backed up", run: s.backUp, atStart: true},
		{failure: "the room on the disk could not be looked at", run: s.reportDiskSpace, atStart: true},
		{failure: "the database could not be checked as a whole", run: s.store.CheckWhole, every: time.Hour, atStart: true},
	}
}

// startJobs delivers mails and does the jobs in the background until ctx ends.
func (s *Server) startJobs(ctx context.Context) *sync.WaitGroup {
	working := &sync.WaitGroup{}
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
	for now := j.atStart; ctx.Err() == nil; now = true {
		if now {
			if err := recovered(ctx, j.run); err != nil && ctx.Err() == nil {
				s.options.Log.Error().Err(err).Msg(j.failure)
			}
		}
		select {
		case <-due.C:
		case <-ctx.Done():
		}
	}
}

// deliverMails delivers mails as they come due, until ctx ends.
func (s *Server) deliverMails(ctx context.Context) {
	for ctx.Err() == nil {
		err := recovered(ctx, s.outbox.Deliver)
		if err != nil && ctx.Err() == nil {
			s.options.Log.Error().Err(err).Msg("the outbox cannot be read or written")
		}
		s.outbox.Wait(ctx, err != nil)
	}
}

// recovered turns a panic of a background task into an error: the next run comes.
func recovered(ctx context.Context, act func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return act(ctx)
}

// RunDue does at once all that is due by the clock, mails and links included.
func (s *Server) RunDue(ctx context.Context) error {
	return errors.Join(s.RunDueLocally(ctx), s.links.recheckAll(ctx))
}

// RunDueLocally does all that is due but looks at pages.
func (s *Server) RunDueLocally(ctx context.Context) error {
	return errors.Join(s.store.RunDue(ctx), s.DeliverMail(ctx), s.backUp(ctx), s.reportDiskSpace(ctx))
}

// RecheckLinks checks every link that is due.
func (s *Server) RecheckLinks(ctx context.Context) error { return s.links.recheckAll(ctx) }

// DeliverMail sends every mail that is due, if the site sends any.
func (s *Server) DeliverMail(ctx context.Context) error {
	if s.outbox == nil {
		return nil
	}
	return s.outbox.Deliver(ctx)
}

// ResetLimits begins to count requests anew.
func (s *Server) ResetLimits() { s.engine.Limiter.Reset() }

// backupRetry is how long after a copy that failed the next try comes: each reads
// the whole database.
const backupRetry = time.Hour

// backUp makes a copy of the database when one is due, and remembers when the newest
// was made: whoever asks for that must not wait for another disk.
func (s *Server) backUp(ctx context.Context) error {
	now := s.store.Now()
	if s.options.Backups.Folder == "" || now.UnixMilli() < s.nextBackupTry.Load() {
		return nil
	}
	name, contents, err := s.options.Backups.Run(ctx, now)
	if err != nil {
		s.nextBackupTry.Store(now.Add(backupRetry).UnixMilli())
	}
	if name != "" {
		s.options.Log.Info().Str("file", name).Int("agents", contents.Agents).Int64("bytes", contents.Bytes).Msg("a backup is made")
	}
	if newest, newestErr := s.options.Backups.Newest(now); newestErr == nil && !newest.IsZero() {
		s.newestBackup.Store(new(store.Time(newest.UnixMilli())))
	}
	return err
}

// reportDiskSpace logs once that there is little room on the database's disk, and once
// that there is more again. A disk that does not tell is no matter.
func (s *Server) reportDiskSpace(context.Context) error {
	d, err := s.disk()
	if err != nil || d.Free < d.Least() == s.diskLow.Load() {
		return nil
	}
	low := !s.diskLow.Load()
	s.diskLow.Store(low)
	if low {
		s.options.Log.Warn().Int64("free_bytes", d.Free).Int64("least_bytes", d.Least()).
			Msg("there is little room on the disk of the database: make some; once it is full, writes are refused")
	} else {
		s.options.Log.Info().Int64("free_bytes", d.Free).Msg("there is room on the disk of the database again")
	}
	return nil
}
