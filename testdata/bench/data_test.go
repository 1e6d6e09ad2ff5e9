package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/testkit"
)

// newDirectory makes a small directory in a temporary folder.
func newDirectory(t *testing.T, agents int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	f := &filling{agents: agents, start: time.Now(), bar: &bar{}}
	testkit.NoError(t, f.run(t.Context(), path))
	return path
}

func TestADirectoryHoldsWhatItShould(t *testing.T) {
	const agents = 120
	path := newDirectory(t, agents)
	if n := change(t, path, `UPDATE site SET name = name WHERE name = 'checked_at'`); n != 1 {
		t.Error("a server that is started on a copy reads it as a whole first")
	}
	st, err := openStore(t.Context(), store.Options{Path: path, Normal: true})
	testkit.NoError(t, err)
	defer st.Close()
	stats, err := st.Stats(t.Context())
	testkit.NoError(t, err)
	levels := [3]int{}
	for n := range agents {
		levels[levelOf(n)]++
	}
	if stats.Agents != agents || stats.Posts != agents*callsEach || stats.AgentsVerified != levels[1]+levels[2] || stats.AgentsOwnerClaimed != levels[2] {
		t.Errorf("%+v, want levels %v", stats, levels)
	}
	open, err := st.Posts(t.Context(), domain.PostFilter{Open: true}, listing.Page{Limit: 1})
	if err != nil || open.Total == 0 || open.Total >= agents*callsEach {
		t.Errorf("%d calls are open: %v", open.Total, err)
	}
}

func TestCopiesOfKilledRunsAreRemoved(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^$")
	testkit.NoError(t, child.Run())
	folder := t.TempDir()
	ended, running := filepath.Join(folder, fmt.Sprintf("run-%d-1", child.Process.Pid)), filepath.Join(folder, fmt.Sprintf("run-%d-2", os.Getpid()))
	for _, name := range []string{ended, running} {
		testkit.NoError(t, os.Mkdir(name, 0o700))
	}
	testkit.NoError(t, removeOld(folder))
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); !slices.Equal(left, []string{running}) {
		t.Errorf("%v is left", left)
	}
}

func TestDifferencesOfSearchRowsAreFound(t *testing.T) {
	served := newDirectory(t, 60)
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	testkit.NoError(t, err)
	defer null.Close()
	b := &bench{progress: newProgress(null)}
	testkit.NoError(t, copyFile(served, fresh))
	testkit.NoError(t, b.makeAnew(t.Context(), fresh))
	compare := func() string {
		t.Helper()
		differences, err := compareSearches(t.Context(), served, fresh)
		testkit.NoError(t, err)
		return strings.Join(differences, "\n")
	}
	if got := compare(); got != "" {
		t.Errorf("nothing was changed: %s", got)
	}
	change(t, served, `DELETE FROM post_search WHERE rowid = (SELECT MIN(id) FROM post_search_docsize)`)
	if got := compare(); !strings.Contains(got, " finds ") {
		t.Errorf("a call was taken out of the search: %s", got)
	}
}

func change(t *testing.T, path, query string) (rows int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	testkit.NoError(t, err)
	defer db.Close()
	done, err := db.ExecContext(t.Context(), query)
	testkit.NoError(t, err)
	rows, err = done.RowsAffected()
	testkit.NoError(t, err)
	return rows
}
