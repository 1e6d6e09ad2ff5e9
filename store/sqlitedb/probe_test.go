package sqlitedb

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestReady_TellsReadsFromWrites: a write that waits does not hide that reads do not work since.
func TestReady_TellsReadsFromWrites(t *testing.T) {
	d := newDB(t)
	d.probed.Store(0) // that of Open
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := d.Ready(ctx)
		return err
	}
	release := d.hold()
	wantError(t, "while writes wait", ready(), ErrWrites)

	d.ok(d.readers.Acquire(t.Context(), readConnections))
	if err := ready(); !errors.Is(err, ErrBusy) || errors.Is(err, ErrWrites) {
		t.Errorf("while reads wait too: %v", err)
	}
	d.readers.Release(readConnections)

	release()
	_, err := d.Ready(t.Context())
	wantError(t, "afterwards", err, nil)
}
