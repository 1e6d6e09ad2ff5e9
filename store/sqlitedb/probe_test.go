package sqlitedb

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestReady_ReportsReadsThatHangBehindAWrite checks that a probe that waits for its write does not hide that reads hang since.
func TestReady_ReportsReadsThatHangBehindAWrite(t *testing.T) {
	ctx := context.Background()
	const within = 20 * time.Millisecond
	d := newDB(t)
	d.probed.Store(0) // that of Open
	release := d.hold()
	_, err := d.ready(ctx, within)
	wantError(t, "while writes hang", err, ErrWrites)
	d.ok(d.readers.Acquire(ctx, readConnections))
	if _, err := d.ready(ctx, within); err == nil || errors.Is(err, ErrWrites) {
		t.Errorf("while reads hang too: %v", err)
	}
	d.readers.Release(readConnections)
	release()
	_, err = d.ready(ctx, slowRead)
	wantError(t, "afterwards", err, nil)
}
