package systemtest

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperatorPage_HasItsOwnListener checks that only the address of --operator-addr serves the page: a TCP address,
// or a socket, also if a killed process has left the file.
func TestOperatorPage_HasItsOwnListener(t *testing.T) {
	folder := t.TempDir()
	socket, db, tcp := filepath.Join(folder, "s"), filepath.Join(folder, "callbook.db"), freeAddress(t)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	for _, addr := range []string{tcp, "unix:" + socket} {
		p := startServe(t, db, "--operator-addr", addr)
		status, printed := runCommandMerged("admin", "page", "--db", db, "--operator-addr", addr)
		link := strings.TrimSpace(printed)
		_, path, found := strings.Cut(link, "/operator/")
		if status != 0 || !found {
			t.Fatalf("%d, %s", status, printed)
		}
		client := newUnpooledClient()
		if addr != tcp {
			client = newSocketClient(socket)
		}
		response, err := client.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != 200 || !strings.Contains(string(body), "MiB are free") || !strings.Contains(string(body), "the service makes none: set --backup-dir") {
			t.Errorf("%s: %d, %s", addr, response.StatusCode, body)
		}
		if status, body := p.call("GET", "/operator/"+path, ""); status != 404 {
			t.Errorf("the public listener: %d, %s", status, body)
		}
		if status, other := runCommandMerged("admin", "page", "--db", db, "--operator-addr", addr, "--revoke-others"); status != 0 || other == printed {
			t.Errorf("--revoke-others: %d, %s", status, other)
		}
		if response, err = client.Get(link); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 404 {
			t.Errorf("the revoked link: %d", response.StatusCode)
		}
		if status, printed := runCommandMerged("check", "--addr", "127.0.0.1:0", "--db", db, "--operator-addr", addr); status != 0 {
			t.Errorf("check: %d, %s", status, printed)
		}
		p.stop()
	}
}
