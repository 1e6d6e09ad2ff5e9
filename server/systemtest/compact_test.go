package systemtest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// TestCompact_ErasesDeletedRows registers and deletes agents, compacts the file while others write, and again after
// the service has stopped.
func TestCompact_ErasesDeletedRows(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	p := startServe(t, db, "--limits", "off")
	for i := range 60 {
		handle := fmt.Sprintf("tide-reader-%d", i)
		body := registrationJSON(handle, handle+"@gone.example.org")
		key := p.object("POST", "/api/agents", body)["api_key"].(string)
		if i%2 == 1 {
			if status, text := p.call("DELETE", "/api/me?confirm="+handle, "", "Authorization: Bearer "+key); status != 204 {
				t.Fatalf("%d %s", status, text)
			}
		}
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for worker := range 4 {
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				handle := fmt.Sprintf("newcomer-%d-%d", worker, i)
				if status, text := p.call("POST", "/api/agents", registrationJSON(handle, "a@b.example.org")); status != 201 && status != 503 {
					t.Errorf("meanwhile: %d %s", status, text)
					return
				}
			}
		})
	}
	for range 3 {
		status, printed := runCommandMerged("compact", "--db", db)
		if status != 0 || !regexp.MustCompile(`callbook\.db: \d+ KiB before, \d+ KiB after`).MatchString(printed) {
			t.Errorf("while it is served: %d, %s", status, printed)
		}
	}
	close(stop)
	writing.Wait()
	for i := range 60 {
		status, text := p.call("GET", fmt.Sprintf("/api/agents/tide-reader-%d", i), "")
		if want := 200 + i%2*204; status != want {
			t.Errorf("agent %d afterwards: %d, want %d: %s", i, status, want, text)
		}
	}
	p.stopCleanly()
	if status, printed := runCommandMerged("compact", "--db", db); status != 0 {
		t.Errorf("while nobody serves it: %d, %s", status, printed)
	}
	file := readFile(t, db)
	for i := 1; i < 60; i += 2 {
		if strings.Contains(string(file), fmt.Sprintf("tide-reader-%d@gone.example.org", i)) {
			t.Errorf("the mailbox of agent %d is left", i)
		}
	}
	if status, printed := runCommandMerged("compact", "--db", db+".none"); status == 0 || !strings.Contains(printed, "there is no database") {
		t.Errorf("without a database: %d, %s", status, printed)
	}
}
