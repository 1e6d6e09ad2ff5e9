package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

// TestCompact_RemovesMovedCopies: agents come, change and leave, and SQLite makes room for
// them.
func TestCompact_RemovesMovedCopies(t *testing.T) {
	s := newStore(t)
	proof.OneByOne(t)
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	type dweller struct {
		domain.Caller
		mailbox, text string
	}
	var here, gone []dweller
	left := func() (n int) {
		s.stop()
		for _, d := range gone {
			n += s.occurrences([]byte(d.mailbox)) + s.occurrences([]byte(d.text))
		}
		s.reopen()
		return n
	}
	// Whether SQLite leaves copies depends on how rows lie on pages.
	for round := 0; left() == 0; round++ {
		if round == 5 {
			t.Fatal("nothing is left before the compaction: the test is blind")
		}
		for n := range 800 {
			i := 800*round + n
			one := r.IntN(max(len(here), 1))
			switch act := r.IntN(10); {
			case act < 4 || len(here) == 0:
				d := dweller{mailbox: fmt.Sprintf("q7zbox%06dq7z@canary.example.org", i), text: fmt.Sprintf("q7z%06dq7z", i)}
				d.Caller, _ = s.register(fmt.Sprintf("canary-%d", i), func(r *domain.Registration) { r.Mailbox = d.mailbox })
				here = append(here, d)
			case act < 8:
				s.update(here[one].Caller, func(a *domain.Settings) {
					a.DescriptionEN = strings.Repeat(here[one].text+" ", 1+r.IntN(45)) + "."
					a.DescriptionZH = strings.Repeat(here[one].text+" ", 1+r.IntN(45)) + "."
				})
			default:
				s.ok(s.DeleteAgent(ctx, here[one].Caller))
				gone = append(gone, here[one])
				here[one] = here[len(here)-1]
				here = here[:len(here)-1]
			}
			if i%200 == 0 {
				s.ok(s.RunJobs(ctx))
			}
		}
	}
	before := s.dump()
	delete(before, "site")
	s.clock.Advance(25*time.Hour + time.Minute)
	s.ok(s.RunJobs(ctx))
	if n := s.walSize(); n != 0 {
		t.Errorf("the log has %d bytes", n)
	}
	if n := left(); n > 0 {
		t.Errorf("%d texts are left of %d agents", n, len(gone))
	}
	after := s.dump()
	delete(after, "site")
	for table, rows := range before {
		if after[table] != rows && !strings.HasPrefix(table, "search_") && !strings.Contains(table, "_search_") {
			t.Errorf("the rows of %s are others", table)
		}
	}
	found, err := s.Agents(ctx, domain.AgentFilter{Query: here[0].Handle}, listing.Page{Limit: 1})
	if s.ok(err); len(found.Items) != 1 || found.Items[0].Handle != here[0].Handle {
		t.Errorf("found afterwards: %v", found.Items)
	}
}

// compacts reports whether what is due now compacts the file.
func (s *testStore) compacts() bool {
	s.Helper()
	noted := func() bool {
		erased, err := s.siteTime(context.Background(), erasedAt)
		s.ok(err)
		return erased != 0
	}
	before := noted()
	s.ok(s.runMaintenance(context.Background()))
	return before && !noted()
}

func TestCompact_IsDueAtNightAfterAnErasure(t *testing.T) {
	s := newStore(t)
	erase := func() {
		s.ok(s.write(context.Background(), func(t *tx) error { t.Changes.Erased = true; return nil }))
	}
	until := func(hour, minute int) {
		now := s.clock.Now()
		next := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
		if !next.After(now) {
			next = next.Add(domain.Day)
		}
		s.clock.Advance(next.Sub(now))
	}
	until(3, 0)
	if s.compacts() {
		t.Error("it compacts though nothing was erased")
	}
	until(14, 0)
	erase()
	for _, step := range []struct {
		hour, minute int
		erase, want  bool
	}{
		{14, 1, false, false},
		{2, 59, false, false},
		{3, 0, false, true},
		{3, 1, true, false}, // the next night is soon enough
		{3, 59, false, false},
		{2, 59, true, false}, // the first erasure counts
		{3, 0, false, true},
		{2, 58, true, false},
		{3, 57, false, false},
		{3, 59, false, true},
	} {
		until(step.hour, step.minute)
		if step.erase {
			erase()
		}
		if got := s.compacts(); got != step.want {
			t.Errorf("at %s it compacts: %v", s.clock.Now(), got)
		}
	}
	erase()
	s.clock.Advance(3*domain.Day + 8*time.Hour) // it did not run at night
	s.reopen()
	if !s.compacts() {
		t.Error("what was erased is left though it is late")
	}
}

func TestCompact_LeavesALargeFileToTheOperator(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	s.ok(s.DeleteAgent(ctx, caller))
	s.clock.Advance(25*time.Hour + time.Minute)
	s.maintenance.maxCompacted = 1
	if s.compacts() {
		t.Error("it compacts a file that is too large")
	}
	before, after, err := s.Compact(ctx)
	if s.ok(err); before == 0 || after == 0 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	if erased, err := s.siteTime(ctx, erasedAt); erased != 0 || err != nil {
		t.Errorf("something is erased since: %v, %v", erased, err)
	}
}

// TestCompact_FailsWithoutHarm: with a stop meanwhile, and where another process writes.
func TestCompact_FailsWithoutHarm(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	s.ok(s.DeleteAgent(ctx, caller))
	s.clock.Advance(25*time.Hour + time.Minute)
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, _, err := s.Compact(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("after a stop: %v", err)
	}
	s.setBusyTimeout(0)
	other := s.connection("rw")
	_, err := other.Exec(`BEGIN IMMEDIATE`)
	s.ok(err)
	wantOutcome(t, "while another process writes", s.runMaintenance(ctx), string(domain.CodeUnavailable))
	_, err = other.Exec(`ROLLBACK`)
	s.ok(err)
	s.ok(s.write(ctx, func(t *tx) error { return t.SetSiteTime(erasedAt, t.Now) })) // as where the program was killed
	if s.compacts() {
		t.Error("it is tried again at once")
	}
	s.register("lighthouse")
	s.clock.Advance(25*time.Hour + time.Minute)
	if !s.compacts() {
		t.Error("it is not tried again")
	}
	if n := s.pragma("temp_store"); n != 2 {
		t.Errorf("temporary tables are kept by %d, not in memory", n)
	}
	if left, err := os.ReadDir(strings.TrimSuffix(s.path, "callbook.db")); err != nil || len(left) > 3 {
		t.Errorf("left beside the file: %v, %v", left, err)
	}
}
