//go:build unix

package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/testdata/proof"
)

// The service and the system: signals, sockets, limits, the service manager.

// TestRestart_TurnsNoVisitorAway checks that a socket of the service manager queues visitors while the program
// restarts.
func TestRestart_TurnsNoVisitorAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	db, at := newDB(t), listener.Addr().String()
	serve := func() *process {
		p := spawnByShell(t, "export LISTEN_FDS=1 LISTEN_PID=$$", []*os.File{socket}, "serve", "--addr", at, "--db", db, "--limits=off")
		p.waitLog("callbook is serving", 1)
		return p
	}
	p := serve()
	var responses atomic.Int64
	var calling sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		calling.Go(func() {
			client := newUnpooledClient()
			for ctx.Err() == nil {
				status, _, err := exchange(client, "GET", "http://"+at+"/api", "")
				if err != nil || status != 200 {
					t.Errorf("a request fails: %d, %v", status, err)
					return
				}
				responses.Add(1)
			}
		})
	}
	restarts := proof.Rounds(3, 20, 100)
	for range restarts {
		before := responses.Load()
		p.stopCleanly()
		p = serve()
		waitFor(t, "clients get responses", func() bool { return responses.Load() > before+8 })
	}
	stop()
	calling.Wait()
	proof.Figure(t, "restarts", restarts)
	proof.Figure(t, "answered", int(responses.Load()))
}

// TestShutdown_LosesNothing checks that acknowledged writes are stored, responses are complete, and the log is
// checkpointed.
func TestShutdown_LosesNothing(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	for round := range 2 {
		p := spawn(t, db)
		var calling sync.WaitGroup
		var began atomic.Int64
		for i := range 24 {
			calling.Go(func() {
				client := newUnpooledClient()
				for n := 0; ; n++ {
					handle := fmt.Sprintf("agent-%d-%d-%d", round, i, n)
					status, body, err := exchange(client, "POST", p.base+"/api/agents", registrationJSON(handle, handle+"@example.org"))
					switch {
					case status == 0:
						return // rejected before it began
					case status == 201 && err == nil && json.Valid([]byte(body)):
						mu.Lock()
						acknowledged[handle] = true
						mu.Unlock()
						began.Add(1)
					case status != 503 || err != nil:
						t.Errorf("%d, %v: %s", status, err, body)
					}
				}
			})
		}
		waitFor(t, "agents are registered", func() bool { return began.Load() > 40 })
		p.stopCleanly()
		calling.Wait()
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Errorf("the log is left with %d bytes", info.Size())
		}
	}
	p := spawn(t, db)
	for handle := range acknowledged {
		if status, _ := p.call("GET", "/api/agents/"+handle, ""); status != 200 {
			t.Errorf("%s was acknowledged and is lost: %d", handle, status)
		}
	}
}

// serviceManager returns the name of a socket for notifications, and a function that waits for one of them.
func serviceManager(t testing.TB) (name string, received func(want string, in time.Duration) bool) {
	t.Helper()
	folder, err := os.MkdirTemp("", "notify") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(folder, "socket")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close(); os.RemoveAll(folder) })
	return name, func(want string, in time.Duration) bool {
		_ = socket.SetReadDeadline(time.Now().Add(in))
		for message := make([]byte, 256); ; {
			n, err := socket.Read(message)
			if err != nil || string(message[:n]) == want {
				return err == nil
			}
		}
	}
}

// TestWatchdog_NotifiesServiceManager checks the notifications at startup, while the database can be read, and at shutdown.
func TestWatchdog_NotifiesServiceManager(t *testing.T) {
	t.Parallel()
	name, received := serviceManager(t)
	db := newDB(t)
	p := spawnByShell(t, "export NOTIFY_SOCKET="+name+" WATCHDOG_USEC=100000 WATCHDOG_PID=$$", nil, "serve", "--addr=127.0.0.1:0", "--db", db)
	if !received("READY=1", patience) || !received("WATCHDOG=1", patience) || !received("WATCHDOG=1", patience) {
		t.Fatalf("no notification that it is ready and alive: %s", p.err)
	}
	release := lockForWriting(t, db)
	p.wantServing()
	waitFor(t, "/readyz reports failing writes", func() bool {
		status, text := p.call("GET", "/readyz", "")
		return status == 200 && strings.Contains(text, `"status":"degraded"`) && strings.Contains(text, `"code":"writes"`)
	})
	received("nothing", time.Millisecond) // skips earlier notifications
	for range 2 {
		if !received("WATCHDOG=1", patience) {
			t.Error("it is silent while it cannot write")
		}
	}
	release()
	_ = p.command.Process.Signal(os.Interrupt)
	if !received("STOPPING=1", patience) {
		t.Error("no notification that it stops")
	}
	p.stopCleanly()
}

// TestService_ListensOnSocket checks that a reverse proxy of another user can connect, and that a socket that a killed
// process has left is replaced.
func TestService_ListensOnSocket(t *testing.T) {
	folder := t.TempDir()
	socket := filepath.Join(folder, "s")
	for range 2 {
		p := newProcess(t, "serve", "--addr=unix:"+socket, "--base-url="+site, "--db="+filepath.Join(folder, "callbook.db"))
		p.waitLog("callbook is serving", 1)
		response, err := newSocketClient(socket).Get("http://localhost/api/agents")
		info, statErr := os.Stat(socket)
		if err != nil || statErr != nil || response.StatusCode != 200 || info.Mode().Perm() != 0o666 {
			t.Errorf("%v, %v, %+v, %+v", err, statErr, response, info)
		}
		_ = p.command.Process.Kill()
		p.wait()
	}
}

// TestService_OutlivesItsTerminal checks that SIGHUP, by which daemons often reload their settings, has no effect.
func TestService_OutlivesItsTerminal(t *testing.T) {
	p := spawn(t, newDB(t))
	if err := p.command.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if status, body := p.call("GET", "/api/agents", ""); status != 200 {
		t.Errorf("%d, %s", status, body)
	}
	p.stopCleanly()
}

func TestConnections_MoreThanDescriptors(t *testing.T) {
	t.Parallel()
	p := spawnByShell(t, "ulimit -n 64", nil, "serve", "--addr=127.0.0.1:0", "--limits=off", "--db", newDB(t))
	p.wantServing()
	p.register("tide-reader")
	var held []net.Conn
	for range 200 { // the kernel accepts connections for the program
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(p.base, "http://"), patience)
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	p.waitLog("too many open files", 1)
	for _, conn := range held {
		_ = conn.Close()
	}
	if status, text := p.call("GET", "/api/agents/tide-reader", ""); status != 200 {
		t.Errorf("afterwards: %d %s", status, text)
	}
	p.object("POST", "/api/agents", registrationJSON("wave-reader", "wave@example.org"))
	p.stopCleanly()
}

func TestReadiness_DescribesDatabase(t *testing.T) {
	folder := t.TempDir()
	p := startServe(t, filepath.Join(folder, "callbook.db"), "--backup-dir", filepath.Join(folder, "copies"), "--durability=normal")
	ready := p.object("GET", "/readyz", "")
	for _, figure := range []string{"schema", "database_bytes", "log_bytes", "free_bytes"} {
		if n, _ := ready[figure].(float64); n <= 0 {
			t.Errorf("%s is %v", figure, ready[figure])
		}
	}
	if ready["status"] != "ok" {
		t.Errorf("it is not: %v", ready)
	}
	waitFor(t, "the first copy is made", func() bool { return p.object("GET", "/readyz", "")["backup_at"] != nil })
	if live := p.object("GET", "/healthz", ""); live["status"] != "ok" || live["durability"] != "normal" {
		t.Errorf("health: %v", live)
	}
}

// TestConnections_ClosedByClients checks that the write of a client that disconnects is stored as a whole or not at
// all, that no other client is affected, and that no failure is logged.
func TestConnections_ClosedByClients(t *testing.T) {
	path := newDB(t)
	p := startServe(t, path, "--limits=off", "--log=json")
	const leavers, stayers = 200, 40
	var calling sync.WaitGroup
	for i := range leavers {
		calling.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			body := registrationJSON(fmt.Sprintf("leaver-%d", i), "leaver@example.org")
			sent := fmt.Sprintf("POST /api/agents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			_, _ = io.WriteString(conn, sent[:len(sent)-i%3*20]) // whole, or truncated
			_ = conn.Close()
		})
	}
	for i := range stayers {
		calling.Go(func() {
			p.object("POST", "/api/agents", registrationJSON(fmt.Sprintf("stayer-%d", i), "stayer@example.org"))
		})
	}
	calling.Wait()
	p.stop()
	for _, failure := range []string{`"status":500`, `"error":`, `"level":"error"`} {
		if line := firstLine(p.err.String(), failure); line != "" {
			t.Errorf("a failure is logged: %s", line)
		}
	}
	db := sqlx.MustOpen("sqlite", "file:"+path)
	defer db.Close()
	var counts struct{ Stayers, Halves int }
	err := db.Get(&counts, `SELECT (SELECT COUNT(*) FROM agents JOIN handles USING (id) WHERE handle LIKE 'stayer-%') AS stayers,
		(SELECT COUNT(*) FROM handles LEFT JOIN agents USING (id) LEFT JOIN agent_search s ON s.rowid = handles.id
			WHERE agents.id IS NULL OR s.rowid IS NULL) AS halves`)
	if err != nil || counts.Stayers != stayers || counts.Halves > 0 {
		t.Errorf("%+v, want %d whole ones; %v", counts, stayers, err)
	}
}

// TestPrivacy_StoresNoClientAddress covers reports too, which store a keyed hash.
func TestPrivacy_StoresNoClientAddress(t *testing.T) {
	db := newDB(t)
	p := startServe(t, db, "--trusted-proxy=127.0.0.1")
	const address, address6 = "203.0.113.77", "2001:db8:77::5"
	from := "X-Forwarded-For: " + address
	agent := p.object("POST", "/api/agents", registrationJSON("tide-reader", "tide@example.org"), from)
	auth := "Authorization: Bearer " + agent["api_key"].(string)
	post := p.create("/api/posts", `{"kind":"announce","title":"T","body":"B"}`, auth, from)
	for _, forwarded := range []string{from, "X-Forwarded-For: " + address6} {
		p.object("POST", "/api/posts/"+post+"/report", `{"reason":"R"}`, forwarded)
	}
	p.call("GET", "/api/agents/tide-reader", "", from)
	p.stop()
	file := readFile(t, db)
	for _, form := range []string{address, address6, string(net.ParseIP(address).To4()), string(net.ParseIP(address6))} {
		if strings.Contains(string(file), form) || strings.Contains(p.err.String(), form) {
			t.Errorf("%q is stored", form)
		}
	}
}

// TestLog_HasPrioritiesUnderTheJournal checks the priorities, which depend on whether the log is the file that a variable
// of systemd names.
func TestLog_HasPrioritiesUnderTheJournal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stream string // sets the variable; $1 is the inode of the log
		begin  string
	}{
		"the journal":  {"export JOURNAL_STREAM=$1", "<6>20"},
		"another file": {"export JOURNAL_STREAM=${1}9", "20"},
		"no journal":   {"unset JOURNAL_STREAM", "20"},
	} {
		folder := t.TempDir()
		log := filepath.Join(folder, "log")
		writeFile(t, log, nil)
		info, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		at := info.Sys().(*syscall.Stat_t)
		p := spawnByShell(t, fmt.Sprintf("set -- %d:%d \"$@\"\n%s\nshift\nexec 2>>'%s'", at.Dev, at.Ino, tt.stream, log), nil,
			"serve", "--addr", "127.0.0.1:0", "--db", filepath.Join(folder, "missing", "callbook.db"))
		if p.wait() == 0 {
			t.Errorf("%s: it serves without a folder", name)
		}
		text, err := os.ReadFile(log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		last := lines[len(lines)-1]
		if err != nil || len(lines) < 2 || !strings.HasPrefix(lines[0], tt.begin) || strings.HasPrefix(last, "<3>callbook: ") != (tt.begin[0] == '<') || !strings.Contains(last, "callbook: ") {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}
