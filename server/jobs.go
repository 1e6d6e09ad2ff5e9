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
	failed  string                          // what the log says when it fails
	act     func(ctx context.Context) error // a bounded part of what is due
	all     func(ctx context.Context) error // all of it, for whoever moves the clock; act when nil
	run     func(ctx context.Context)       // instead of act: until ctx ends
	every   time.Duration                   // duePeriod when 0
	atStart bool                            // at once too
	outward bool                            // it calls other hosts
}

// jobs are all that is done beside the calls.
func (s *Server) jobs() []job {
	jobs := []job{{failed: "what was due could not be done", act: s.store.RunDue}}
	if s.mailer != nil {
		jobs = append(jobs, job{run: s.mailer.run, all: s.mailer.deliver})
	}
	return append(jobs,
		job{failed: "links could not be looked at again", act: s.links.recheckSome, all: s.links.recheckAll, outward: true},
		job{failed: "the database could not be backed up", act: s.backUp, atStart: true},
		job{failed: "the room on the disk could not be looked at", act: s.tellRoom, atStart: true},
		job{failed: "the database could not be checked as a whole", act: s.store.CheckWhole, all: noMatter, every: time.Hour, atStart: true},
	)
}

// noMatter is for a job that has nothing to do with the clock.
func noMatter(context.Context) error { return nil }

// work does the jobs in the background until ctx ends.
func (s *Server) work(ctx context.Context) *sync.WaitGroup {
	working := &sync.WaitGroup{}
	for _, j := range s.jobs() {
		if j.run == nil {
			j.run = func(ctx context.Context) { s.repeat(ctx, j) }
		}
		working.Go(func() { j.run(ctx) })
	}
	return working
}

func (s *Server) repeat(ctx context.Context, j job) {
	due := time.NewTicker(cmp.Or(j.every, duePeriod))
	defer due.Stop()
	for now := j.atStart; ctx.Err() == nil; now = true {
		if now {
			s.do(ctx, j)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
		}
	}
}

func (s *Server) do(ctx context.Context, j job) {
	if err := guarded(ctx, j.act); err != nil && ctx.Err() == nil {
		s.options.Log.Error().Err(err).Msg(j.failed)
	}
}

// guarded turns a panic of a background task into an error: the next run comes.
func guarded(ctx context.Context, act func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return act(ctx)
}

// RunDue does at once all that is due by the clock, mails and links included.
func (s *Server) RunDue(ctx context.Context) error {
	return s.runDue(ctx, func(job) bool { return true })
}

// runDueInside does all that is due but looks at pages.
func (s *Server) runDueInside(ctx context.Context) error {
	return s.runDue(ctx, func(j job) bool { return !j.outward })
}

func (s *Server) runDue(ctx context.Context, chosen func(job) bool) error {
	var errs []error
	for _, j := range s.jobs() {
		act := j.all
		if act == nil {
			act = j.act
		}
		if chosen(j) {
			errs = append(errs, act(ctx))
		}
	}
	return errors.Join(errs...)
}

// backupPause is how long after a copy that failed the next try comes: each reads
// the whole database.
const backupPause = time.Hour

// backUp makes a copy of the database when one is due, and remembers when the newest
// was made: whoever asks for that must not wait for another disk.
func (s *Server) backUp(ctx context.Context) error {
	now := s.store.Now()
	if s.options.Backups.Folder == "" || now.UnixMilli() < s.noBackup.Load() {
		return nil
	}
	name, contents, err := s.options.Backups.Run(ctx, now)
	if err != nil {
		s.noBackup.Store(now.Add(backupPause).UnixMilli())
	}
	if name != "" {
		s.options.Log.Info().Str("file", name).Int("agents", contents.Agents).Int64("bytes", contents.Bytes).Msg("a backup is made")
	}
	if newest, newestErr := s.options.Backups.Newest(now); newestErr == nil && !newest.IsZero() {
		s.copied.Store(new(store.Time(newest.UnixMilli())))
	}
	return err
}

// tellRoom logs once that there is little room on the database's disk, and once
// that there is more again. A disk that does not tell is no matter.
func (s *Server) tellRoom(context.Context) error {
	d, err := s.disk()
	if err != nil || d.Free < d.Least() == s.low.Load() {
		return nil
	}
	low := !s.low.Load()
	s.low.Store(low)
	if low {
		s.options.Log.Warn().Int64("free_bytes", d.Free).Int64("least_bytes", d.Least()).
			Msg("there is little room on the disk of the database: make some; once it is full, writes are refused")
	} else {
		s.options.Log.Info().Int64("free_bytes", d.Free).Msg("there is room on the disk of the database again")
	}
	return nil
}
