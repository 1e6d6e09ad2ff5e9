package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"callbook/store"
	"callbook/testdata/testkit"
)

// write writes a file, and returns its path.
func write(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	testkit.NoError(t, errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)))
	return path
}

// newDatabase returns the path of an empty database.
func newDatabase(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	st, err := store.Open(t.Context(), store.Options{Path: path})
	testkit.NoError(t, err)
	testkit.NoError(t, st.Close())
	return path
}

// TestRun_ReportsInterruption checks the message and status of interrupted commands: an interrupted backup has
// failed.
func TestRun_ReportsInterruption(t *testing.T) {
	db := newDatabase(t)
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
