package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// history is over how long the agents of a directory joined.
const history = 360 * 24 * time.Hour

// kept is a directory with so many agents, made when there is none from before. It
// is never served itself: rows work on copies.
func (b *bench) kept(ctx context.Context, agents int) (path string, err error) {
	path = filepath.Join(b.data, fmt.Sprintf("callbook-%d-v%d.db", agents, generator))
	if b.fresh[agents] {
		return path, nil
	}

	if sqlitedb.Exists(path) {
		err = renew(ctx, b.progress, path)
	} else {
		err = b.makeDirectory(ctx, path, agents)
	}

	b.fresh[agents] = err == nil
	return path, err
}

// renew does with a directory what each server that is started on a copy would else
// do while it is measured: brings it up to date, does what is due, and reads it as a
// whole where that was done more than a day ago.
func renew(ctx context.Context, p *progress, path string) error {
	bar := p.bar("opening "+path, 0)
	defer bar.stop()
	st, err := openStore(ctx, store.Options{Path: path, Normal: true, NetworkDisk: true})
	if err != nil {
		return err
	}
	return errors.Join(settle(ctx, st), st.Close())
}

// The service does what is due a step every minute: dueRuns steps are more than
// enough, and one that takes less than dueNothing has found nothing to do.
const (
	dueRuns    = 1000
	dueNothing = 300 * time.Millisecond
)

// settle does all that is due: calls past their deadline are closed, the search
// index is brought into few pieces. Then the file is read as a whole.
func settle(ctx context.Context, st *store.Store) error {
	for range dueRuns {
		began := time.Now()
		if err := st.RunJobs(ctx); err != nil {
			return err
		}
		if time.Since(began) < dueNothing {
			break
		}
	}

	return st.CheckFile(ctx)
}

// openStore opens a directory without limits by the day.
func openStore(ctx context.Context, o store.Options) (*store.Store, error) {
	o.Quotas, o.Mails = domain.Quotas{}, &domain.MailCaps{}
	return store.Open(ctx, o)
}

func (b *bench) makeDirectory(ctx context.Context, path string, agents int) error {
	part := path + ".part"
	if err := removeDatabase(part); err != nil {
		return err
	}

	start := time.Now()
	f := &filling{
		agents: agents,
		start:  start,
		bar: b.progress.bar(
			fmt.Sprintf("making a directory of %d agents and %d calls", agents, callsEach*agents),
			agents,
		),
	}
	defer f.bar.stop()

	if err := f.run(ctx, part); err != nil {
		return errors.Join(fmt.Errorf("make a directory: %w", err), removeDatabase(part))
	}

	f.bar.stop()
	b.progress.say("made %s in %s", path, time.Since(start).Round(time.Second))
	return os.Rename(part, path)
}

func removeDatabase(path string) error {
	var errs []error
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(path + end); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// filling is the making of a directory. Its clock runs through the history while
// the agents join.
type filling struct {
	store  *store.Store
	agents int
	start  time.Time
	now    atomic.Int64 // of its clock, in nanoseconds
	bar    *bar
}

// joined is when the n-th agent did.
func (f *filling) joined(n int) time.Time {
	ahead := float64(f.agents-n) / float64(f.agents)
	return f.start.Add(-time.Duration(ahead * float64(history)))
}

func (f *filling) run(ctx context.Context, path string) (err error) {
	f.now.Store(f.start.UnixNano())
	f.store, err = openStore(ctx, store.Options{
		Path:        path,
		Normal:      true,
		NetworkDisk: true,
		Batch:       fillAtOnce,
		Clock:       func() time.Time { return time.Unix(0, f.now.Load()) },
	})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := f.join(ctx); err != nil {
		return err
	}
	if err := f.claim(ctx); err != nil {
		return fmt.Errorf("claim agents: %w", err)
	}

	return settle(ctx, f.store)
}

// fillStep is how many agents join at one moment of the clock, and fillAtOnce how many
// at once: what they do shares transactions.
const (
	fillStep   = 1000
	fillAtOnce = 200
)

// join has all agents join, with all that they publish.
func (f *filling) join(ctx context.Context) error {
	for from := 0; from < f.agents; from += fillStep {
		f.now.Store(f.joined(from).UnixNano())
		err := each(
			ctx,
			fillAtOnce,
			min(fillStep, f.agents-from),
			func(ctx context.Context, i int) error {
				err := f.joinOne(ctx, from+i)
				if err != nil {
					return fmt.Errorf("add %s: %w", handleOf(from+i), err)
				}

				f.bar.done.Add(1)
				return nil
			},
		)
		if err != nil {
			return err
		}
	}

	f.now.Store(f.start.UnixNano())
	return nil
}

func (f *filling) joinOne(ctx context.Context, n int) error {
	r := registration(n)
	registered, _, err := f.store.Register(ctx, r, domain.IdempotencyKey{})
	if err != nil {
		return err
	}

	caller := domain.Caller{ID: registered.Agent.ID, Handle: r.Handle}
	if menu := menuOf(n); len(menu.Offerings) > 0 {
		if _, err := f.store.ReplaceOfferings(ctx, caller, menu); err != nil {
			return err
		}
	}

	if levelOf(n) > 0 {
		if err := f.store.ActOnAgent(ctx, domain.OperatorVerify, r.Handle); err != nil {
			return err
		}
	}

	for i := range callsEach {
		draft := f.call(callsEach*n+i, f.joined(n))
		if _, _, err := f.store.CreatePost(ctx, caller, draft, domain.IdempotencyKey{}); err != nil {
			return err
		}
	}

	return nil
}

// call is the n-th call; one in ten has a deadline, which for most of these has
// passed by now.
func (f *filling) call(n int, posted time.Time) domain.PostDraft {
	c := callOf(n)
	switch n % 20 {
	case 3:
		c.Deadline = posted.AddDate(0, 0, 30).Format(time.DateOnly)

	case 13:
		c.Deadline = "2099-12-31"
	}

	return c
}

// each calls f with the numbers below n, several at once, until one fails.
func each(ctx context.Context, atOnce, n int, f func(context.Context, int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var wait sync.WaitGroup

	for range min(atOnce, n) {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}

				if err := f(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}

	wait.Wait()
	return context.Cause(ctx)
}

// claim brings the agents that should have one to their owner's claim, by mails as
// the site sends them.
func (f *filling) claim(ctx context.Context) error {
	claimed := (f.agents + claimedEvery - 1 - claimedFirst) / claimedEvery
	err := each(ctx, 256, claimed, func(ctx context.Context, i int) error {
		handle := handleOf(claimedFirst + i*claimedEvery)
		card, err := f.store.Card(ctx, handle)
		if err != nil {
			return err
		}

		_, err = f.store.ClaimOwner(
			ctx,
			domain.Caller{ID: card.ID, Handle: handle},
			"owner-of-"+handle+"@example.com",
		)
		return err
	})
	if err != nil {
		return err
	}

	return each(ctx, 64, claimed, func(ctx context.Context, _ int) error {
		mail, due, err := f.store.StartMail(ctx)
		if err != nil || !due {
			return err
		}

		page, err := f.store.OwnerPage(ctx, mail.Secret)
		if err != nil {
			return err
		}

		_, err = f.store.ActAsOwner(
			ctx,
			domain.OwnerSubmission{Token: mail.Secret, Form: page.Form, Act: domain.OwnerConfirm},
		)
		return errors.Join(err, f.store.FinishMail(ctx, mail, domain.MailDelivered))
	})
}

// copyFile copies a database that nobody has open; the system shares the blocks
// where the disk can.
func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}

	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}

	return target.Sync() // else the disk is still busy with it while rows are measured
}
