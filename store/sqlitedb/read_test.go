package sqlitedb

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/testdata/testkit"
)

// TestRead_WaitsForAConnection: more read than there are connections, and they wait for
// each other, until their context ends.
func TestRead_WaitsForAConnection(t *testing.T) {
	d := newDB(t)
	d.add("word")
	ctx := context.Background()
	get := func(ctx context.Context) error {
		var word string
		return d.Get(ctx, &word, `SELECT word FROM words`)
	}
	for _, err := range testkit.Together(4*readConnections, func(int) error { return get(ctx) }) {
		wantError(t, "one of many reads", err, nil)
	}
	d.ok(d.readers.Acquire(ctx, readConnections))
	defer d.readers.Release(readConnections)
	ended, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	wantError(t, "without a connection", get(ended), ErrBusy)
	d.options.ReadTimeout = time.Millisecond
	wantError(t, "without a connection and an end", get(ctx), ErrBusy)
}

func TestRead_FailsAfterClose(t *testing.T) {
	d := newDB(t)
	d.stop()
	var n int
	wantError(t, "a read", d.Get(context.Background(), &n, `SELECT 1`), ErrClosed)
}

// TestWithDeadline_LimitsItsQueries: one without an end, and the sum of many that are fast enough each, waiting included.
func TestWithDeadline_LimitsItsQueries(t *testing.T) {
	for rows, options := range map[int]func(*Options){
		10_000:      func(o *Options) { o.ReadTimeout = 100 * time.Millisecond },
		math.MaxInt: func(o *Options) { o.QueryTimeout = 100 * time.Millisecond },
	} {
		d := newDB(t, options)
		ctx, cancel := d.WithDeadline(t.Context())
		defer cancel()
		var err error
		for n := 0; err == nil; {
			err = d.Get(ctx, &n, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT COUNT(*) FROM n`, rows)
		}
		wantError(t, "queries without an end", err, ErrBusy)

		var ones []int
		wantError(t, "a read on the connection that was interrupted", d.Select(t.Context(), &ones, `SELECT 1`), nil)
	}
}

// TestRead_WithoutADeadlineIsNotCancelled: a client that leaves interrupts nothing.
func TestRead_WithoutADeadlineIsNotCancelled(t *testing.T) {
	d := newDB(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := d.read(ctx, `SELECT 1`, func(ctx context.Context, stmt *sqlx.Stmt) error {
		cancel()
		var n int
		return stmt.GetContext(ctx, &n)
	})
	wantError(t, "a read whose client leaves", err, nil)
}

func TestSelectMaps_ReturnsEveryColumn(t *testing.T) {
	d := newDB(t)
	rows, err := d.SelectMaps(context.Background(), `SELECT 1 AS n, ? AS text UNION ALL SELECT 2, NULL`, "x")
	d.ok(err)
	if len(rows) != 2 || rows[0]["n"] != int64(1) || rows[0]["text"] != "x" || rows[1]["text"] != nil {
		t.Errorf("got %v", rows)
	}
	if texts := d.Statements(); !slices.Contains(texts, `SELECT 1 AS n, ? AS text UNION ALL SELECT 2, NULL`) || !slices.IsSorted(texts) {
		t.Errorf("prepared: %q", texts)
	}
}

// TestClose_WaitsForReads: a connection that reads would keep the log from being folded
// into the file.
func TestClose_WaitsForReads(t *testing.T) {
	d := newDB(t)
	d.ok(d.read(context.Background(), `SELECT 1`, func(context.Context, *sqlx.Stmt) error {
		if d.closing.TryLock() { // as Close does
			t.Error("it can be closed while somebody reads")
			d.closing.Unlock()
		}
		return nil
	}))
}
