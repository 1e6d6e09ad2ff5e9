package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackup_RestoresLostFile makes a copy while the database is served, loses the file, and restores it.
func TestBackup_RestoresLostFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db, copied := filepath.Join(folder, "callbook.db"), filepath.Join(folder, "copy.db")
	p := startServe(t, db)
	p.register("tide-reader")
	status, printed := runCommandMerged("backup", copied, "--db", db)
	if status != 0 || !strings.Contains(printed, "copy.db holds 1 agents, 0 calls") {
		t.Fatalf("backup: %d, %s", status, printed)
	}
	if status, printed = runCommandMerged("backup", copied, "--db", db); status == 0 || !strings.Contains(printed, "name that is free") {
		t.Errorf("a second backup: %d, %s", status, printed)
	}
	p.register("quiet-hours")
	if status, printed = runCommandMerged("restore", copied, "--db", db); status == 0 || !strings.Contains(printed, "another process serves this database (process ") {
		t.Errorf("restoring what is served: %d, %s", status, printed)
	}
	p.stopCleanly()
	if status, printed = runCommandMerged("restore", copied, "--db", db); status != 0 || !strings.Contains(printed, ".before-restore-") {
		t.Fatalf("restore: %d, %s", status, printed)
	}
	if err := os.Remove(db); err != nil {
		t.Fatal(err)
	}
	if status, printed = runCommandMerged("serve", "--addr", "127.0.0.1:0", "--db", db); status == 0 || !strings.Contains(printed, "restore a backup") {
		t.Errorf("serving what is gone: %d, %s", status, printed)
	}
	if status, printed = runCommandMerged("restore", copied, "--db", db); status != 0 || strings.Contains(printed, ".before-restore-") {
		t.Fatalf("restore of what is gone: %d, %s", status, printed)
	}
	p = startServe(t, db)
	if _, list := p.call("GET", "/api/agents", ""); !strings.Contains(list, `"handle":"tide-reader"`) || !strings.Contains(list, `"total":1,`) {
		t.Errorf("the restored directory: %s", list)
	}
}
