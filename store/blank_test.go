package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// leftBehind counts the pages of the closed file in which bytes are left between the table
// of cells and the cells, by what they belong to. The file is to be sound.
func (s *testStore) leftBehind() map[string]int {
	s.Helper()
	db := s.connection(readOnly)
	var pages []struct {
		Name   string `db:"name"`
		Number int    `db:"pageno"`
		Unused int    `db:"unused"`
		Kind   string `db:"pagetype"`
	}
	s.ok(db.Select(&pages, `SELECT name, pageno, unused, pagetype FROM dbstat WHERE pagetype <> 'overflow' ORDER BY pageno`))
	var size int
	s.ok(db.Get(&size, `PRAGMA page_size`))
	var sound string
	if s.ok(db.Get(&sound, `PRAGMA integrity_check`)); sound != "ok" {
		s.Error(sound)
	}
	s.ok(db.Close())
	file, err := os.ReadFile(s.path)
	s.ok(err)
	left := map[string]int{}
	for _, p := range pages {
		page := file[(p.Number-1)*size : p.Number*size]
		header := map[bool]int{true: 100}[p.Number == 1]
		table := header + map[string]int{"internal": 12, "leaf": 8}[p.Kind]
		from, to := table+2*int(binary.BigEndian.Uint16(page[header+3:])), int(binary.BigEndian.Uint16(page[header+5:]))
		if p.Unused < to-from {
			s.Errorf("page %d has %d bytes unused, and %d in its middle", p.Number, p.Unused, to-from)
		}
		if bytes.ContainsFunc(page[from:to], func(r rune) bool { return r != 0 }) {
			left[p.Name]++
		}
	}
	return left
}

// TestNothingIsLeftWhereRowsWereMoved: agents come, change and leave, and SQLite makes
// room for them.
func TestNothingIsLeftWhereRowsWereMoved(t *testing.T) {
	s := newStore(t)
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	type dweller struct {
		Caller
		mailbox string
	}
	var here, gone []dweller
	for i := range 1200 {
		one := r.IntN(max(len(here), 1))
		switch act := r.IntN(10); {
		case act < 4 || len(here) == 0:
			d := dweller{mailbox: fmt.Sprintf("q7zbox%06dq7z@canary.example.org", i)}
			d.Caller, _ = s.register(fmt.Sprintf("canary-%d", i), func(r *Registration) { r.Mailbox = d.mailbox })
			here = append(here, d)
		case act < 8:
			s.update(here[one].Caller, func(a *Settings) { a.DescriptionEN = strings.Repeat("word ", 1+r.IntN(118)) })
		default:
			s.ok(s.DeleteAgent(ctx, here[one].Caller))
			gone = append(gone, here[one])
			here[one] = here[len(here)-1]
			here = here[:len(here)-1]
		}
		if i%300 == 0 {
			s.ok(s.RunDue(ctx))
		}
	}
	s.ok(s.RunDue(ctx))
	check := func(when string) {
		t.Helper()
		s.stop()
		if left := s.leftBehind(); len(left) > 0 {
			t.Errorf("%s, pages with something left: %v", when, left)
		}
		for _, d := range gone {
			if s.occurrences([]byte(d.mailbox)) > 0 {
				t.Errorf("%s, a mailbox of %d is left", when, len(gone))
			}
		}
	}
	check("at the end")

	// What another program has moved is blank some time after the next start.
	others := s.connection(readWrite, "secure_delete(ON)")
	for _, d := range here {
		_, err := others.Exec(`UPDATE agents SET description_zh = ? WHERE id = ?`, strings.Repeat("w", r.IntN(600)), d.ID)
		s.ok(err)
	}
	s.ok(others.Close())
	if len(s.leftBehind()) == 0 {
		t.Error("nothing is left behind: the test is blind")
	}
	s.reopen()
	s.ok(s.RunDue(ctx))
	check("after another start")
}

func TestOnlyTheMiddleOfAPageIsBlanked(t *testing.T) {
	page := func(change func(page []byte)) []byte {
		page := bytes.Repeat([]byte{0xAA}, 512)
		copy(page, []byte{tableLeaf, 0, 0, 0, 2, 1, 0x90, 0, 1, 0x90, 1, 0xC0}) // two cells, from 400 on
		change(page)
		return page
	}
	for name, tc := range map[string]struct {
		number   int
		change   func(page []byte)
		from, to int // what is blank then
	}{
		"a leaf":                       {2, func([]byte) {}, 12, 400},
		"a page within":                {2, func(p []byte) { p[0] = indexInner; copy(p[12:], p[8:12]) }, 16, 400},
		"a leaf with a free block":     {2, func(p []byte) { p[1], p[2] = 1, 0xD0 }, 12, 400},
		"the first page":               {1, func(p []byte) { copy(p[100:], p[:12]) }, 112, 400},
		"blank already":                {2, func(p []byte) { clear(p[12:400]) }, 0, 0},
		"an overflow page":             {2, func(p []byte) { p[0] = 0 }, 0, 0},
		"of another kind":              {2, func(p []byte) { p[0] = 3 }, 0, 0},
		"a cell in the middle":         {2, func(p []byte) { p[8] = 0 }, 0, 0},
		"a cell behind the end":        {2, func(p []byte) { p[8] = 2 }, 0, 0},
		"a free block in the middle":   {2, func(p []byte) { p[2] = 20 }, 0, 0},
		"cells from behind the end on": {2, func(p []byte) { p[5] = 9 }, 0, 0},
		"more cells than have room":    {2, func(p []byte) { p[3] = 9 }, 0, 0},
		"no room for a page":           {2, func(p []byte) { p[5], p[6] = 0, 0 }, 0, 0},
	} {
		got, want := page(tc.change), page(tc.change)
		clear(want[tc.from:tc.to])
		if changed := blankPage(tc.number, got); changed != (tc.to > 0) || !bytes.Equal(got, want) {
			t.Errorf("%s: changed %t, want %t", name, changed, tc.to > 0)
		}
	}
}

// TestWhatWasUndoneHidesNothing: a transaction that is larger than the cache writes to the
// log before it is undone, and what follows is written over it.
func TestWhatWasUndoneHidesNothing(t *testing.T) {
	s := newStore(t)
	callers := s.agents("agent", 150)
	s.ok(s.RunDue(t.Context())) // all is looked at
	s.ok(s.outside(t.Context(), func(w *writer) error {
		for _, statement := range []string{
			`PRAGMA cache_size = 10`, `BEGIN IMMEDIATE`,
			`CREATE TABLE undone AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT randomblob(1000) AS noise FROM n`,
			`ROLLBACK`,
		} {
			if _, err := w.conn.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		if w.look(); s.walSize() == 0 {
			t.Error("nothing was written before it was undone: the test is blind")
		}
		return nil
	}))
	for _, c := range callers[:4] {
		s.update(c, func(a *Settings) { a.DescriptionEN = strings.Repeat("w", 600) })
	}
	s.stop()
	if left := s.leftBehind(); len(left) > 0 {
		t.Errorf("pages with something left: %v", left)
	}
}

// TestALogThatAnotherProcessFoldsInIsNoWayOut: Litestream folds the log into the file
// whenever it likes, before anybody has looked at it.
func TestALogThatAnotherProcessFoldsInIsNoWayOut(t *testing.T) {
	s := newStore(t)
	callers := s.agents("agent", 150)
	for range 2 {
		s.ok(s.RunDue(t.Context())) // all is looked at
	}
	other := s.connection(readWrite)
	for i, c := range callers {
		if i%50 == 49 {
			s.ok(s.RunDue(t.Context()))
			_, err := other.Exec(`PRAGMA wal_checkpoint(RESTART)`)
			s.ok(err)
		}
		s.update(c, func(a *Settings) { a.DescriptionEN = strings.Repeat("w", 600) })
		if i%50 == 30 {
			_, err := other.Exec(`PRAGMA wal_checkpoint(RESTART)`)
			s.ok(err)
		}
	}
	s.ok(other.Close())
	for range 3 {
		s.ok(s.RunDue(t.Context()))
		s.register("newcomer-" + fmt.Sprint(rand.Uint32())) // the log begins anew
	}
	s.ok(s.RunDue(t.Context()))
	s.stop()
	if left := s.leftBehind(); len(left) > 0 {
		t.Errorf("pages with something left: %v", left)
	}
}
