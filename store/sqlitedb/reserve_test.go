package sqlitedb

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	testMost    = 1 << 20 // MaxBytes of these tests
	testReserve = 256 << 10
)

// addNote stores a note of some pages about the word a.
func addNote(pages int) func(*Tx) error {
	return func(tx *Tx) error {
		return tx.Exec(`INSERT INTO notes (word, note) VALUES ('a', ?)`, strings.Repeat("x", pages*pageSize))
	}
}

// fill adds words until there is no more room, and returns how many.
func (d *testDB) fill() (words int) {
	d.Helper()
	for ; ; words++ {
		if err := d.Write(context.Background(), addWord(fmt.Sprint("word ", words, strings.Repeat("x", 2*pageSize)))); err != nil {
			wantError(d, "at the limit", err, ErrNoSpace)
			return words
		}
		if words == 1000 {
			d.Fatal("it grows on")
		}
	}
}

// TestFreeing_SucceedsAtTheLimit checks that only writes that free space grow the file beyond MaxBytes, by the reserve at most,
// and that others can use the room that they have freed, but not that of the reserve.
func TestFreeing_SucceedsAtTheLimit(t *testing.T) {
	ctx, free := context.Background(), Freeing(context.Background())
	d := newDB(t, func(o *Options) { o.MaxBytes, o.Reserve = testMost, testReserve })
	d.add("a")
	words := d.fill()
	small := addNote(3)
	wantError(t, "a small write", d.Write(ctx, small), ErrNoSpace)
	// In one batch, so that the rollback of the one does not take the other with it.
	release := d.hold()
	growing := d.queue(free, addNote(20))
	growing.freeing = true
	other := d.queue(ctx, small)
	release()
	<-growing.done
	<-other.done
	wantError(t, "a freeing write that needs some pages first", growing.err, nil)
	wantError(t, "another beside it", other.err, ErrNoSpace)
	wantError(t, "one that needs more than the reserve", d.Write(free, addNote(testReserve/pageSize)), ErrNoSpace)

	d.ok(d.Write(free, func(tx *Tx) error { return tx.Exec(`DELETE FROM words WHERE word LIKE 'word 10%'`) }))
	wantError(t, "a write while the reserve is in use", d.Write(ctx, small), ErrNoSpace)
	d.ok(d.Write(free, func(tx *Tx) error { return tx.Exec(`DELETE FROM words WHERE word LIKE 'word %'`) }))
	wantError(t, "a write in the freed room", d.Write(ctx, small), nil)
	if again := d.fill(); again < words-20 || again > words {
		t.Errorf("%d words fit into the freed room, %d before", again, words)
	}
	wantError(t, "a freeing write later", d.Write(free, addNote(20)), nil)
	d.stop()
	if size := fileSize(d.path); size > testMost+testReserve {
		t.Errorf("the file has %d bytes", size)
	}
	d = openDB(t, d.path, func(o *Options) { o.MaxBytes, o.Reserve = testMost, testReserve })
	wantError(t, "a write after another start", d.Write(ctx, small), ErrNoSpace)
	wantError(t, "a freeing write after another start", d.Write(free, func(tx *Tx) error { return tx.Exec(`DELETE FROM notes`) }), nil)
}

// TestReserve_IsKept from the start until a freeing write needs it, and again afterwards.
func TestReserve_IsKept(t *testing.T) {
	d := newDB(t, func(o *Options) { o.Reserve = testReserve })
	size := func(when string) {
		t.Helper()
		info, err := os.Stat(reserveOf(d.path))
		if err != nil || info.Size() != testReserve || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", when, info, err)
		}
	}
	size("at the start")
	d.limitPages(0)
	wantError(t, "a freeing write without room", d.Write(Freeing(context.Background()), addWord(strings.Repeat("x", 1<<20))), ErrNoSpace)
	size("after a write")
	d.ok(os.Truncate(reserveOf(d.path), 100))
	d.limitPages(0)
	_ = d.Write(Freeing(context.Background()), addWord(strings.Repeat("x", 1<<20)))
	size("after it was too small")
	d.limitPages(1000)
	wantError(t, "a write once the disk has room again", d.Write(context.Background(), addWord("later")), nil)
}
