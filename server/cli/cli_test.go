package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"callbook/store"
)

// TestRun_ReportsInterruption checks the message and status of interrupted commands: an interrupted backup has
// failed.
func TestRun_ReportsInterruption(t *testing.T) {
	db := filepath.Join(t.TempDir(), "callbook.db")
	s, err := store.Open(t.Context(), store.Options{Path: db})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		args   []string
		status int
	}{
		{[]string{"backup", filepath.Join(t.TempDir(), "copy.db"), "--db", db}, statusFailed},
		{[]string{"serve", "--addr", "127.0.0.1:0", "--db", db}, 0},
	} {
		var out, errs strings.Builder
		if status := Run(stopped, tt.args, nil, &out, &errs); status != tt.status || !strings.Contains(errs.String(), "stopped") {
			t.Errorf("%q: status %d, %s", tt.args, status, errs.String())
		}
	}
}
