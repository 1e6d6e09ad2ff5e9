package main

import (
	"context"
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
	"callbook/store/document"
	"callbook/store/listing"
)

// newDirectory makes a small directory in a temporary folder.
func newDirectory(t *testing.T, agents int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	f := &filling{agents: agents, start: time.Now(), bar: &bar{}}
	if err := f.run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADirectoryHoldsWhatItShould(t *testing.T) {
	const agents = 120
	path := newDirectory(t, agents)
	if n := change(t, path, `UPDATE site SET name = name WHERE name = 'checked_at'`); n != 1 {
		t.Error("a server that is started on a copy reads it as a whole first")
	}
	st, err := openStore(t.Context(), store.Options{Path: path, Normal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	stats, err := st.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	levels := [3]int{}
	for n := range agents {
		levels[levelOf(n)]++
	}
	if stats.Agents != agents || stats.Posts != agents*callsEach || stats.AgentsVerified != levels[1]+levels[2] || stats.AgentsOwnerClaimed != levels[2] {
		t.Errorf("%+v, want levels %v", stats, levels)
	}
	open, err := st.Posts(t.Context(), document.PostFilter{Open: true}, listing.Page{Limit: 1})
	if err != nil || open.Total == 0 || open.Total >= agents*callsEach {
		t.Errorf("%d calls are open: %v", open.Total, err)
	}
}

func TestCopiesOfKilledRunsAreRemoved(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^$")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	ended, running := filepath.Join(folder, fmt.Sprintf("run-%d-1", child.Process.Pid)), filepath.Join(folder, fmt.Sprintf("run-%d-2", os.Getpid()))
	for _, name := range []string{ended, running} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOld(folder); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); !slices.Equal(left, []string{running}) {
		t.Errorf("%v is left", left)
	}
}

func TestDifferencesOfDocumentsAreFound(t *testing.T) {
	served := newDirectory(t, 60)
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	b := &bench{progress: newProgress(discard(t))}
	if err := copyFile(served, fresh); err != nil {
		t.Fatal(err)
	}
	if err := forgetFormat(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if err := b.makeAnew(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	compare := func() string {
		t.Helper()
		differences, err := b.compare(t.Context(), served, fresh)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(differences, "\n")
	}
	if got := compare(); got != "" {
		t.Errorf("nothing was changed: %s", got)
	}
	change(t, served, `UPDATE agent_documents SET brief = '"handle":"x"' WHERE agent_id = 3`)
	if got := compare(); !strings.Contains(got, "agent_id 3 is only in main") || !strings.Contains(got, "agent_id 3 is only in fresh") {
		t.Errorf("a card was changed: %s", got)
	}
	change(t, served, `DELETE FROM post_search WHERE rowid = (SELECT MIN(id) FROM post_search_docsize)`)
	if got := compare(); !strings.Contains(got, " finds ") {
		t.Errorf("a call was taken out of the search: %s", got)
	}
}

func change(t *testing.T, path, query string) (rows int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done, err := db.ExecContext(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	rows, err = done.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func discard(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
