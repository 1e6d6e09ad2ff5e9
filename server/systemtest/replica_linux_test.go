package systemtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/testdata/proof"
)

// standby is a primary with Litestream beside it, and a replica on another disk that the script of the manual feeds
// and promotes.
type standby struct {
	testing.TB
	folder  string // of the primary, the replica's disk and Litestream's storage
	script  string
	address string // of the primary, and of the promoted replica
	primary *process
	copying *exec.Cmd // Litestream beside the primary
	follow  *exec.Cmd // the script that restores the copies
	replica atomic.Pointer[process]

	mu       sync.Mutex
	agents   []standbyAgent // that the primary has acknowledged
	stopping atomic.Bool
	tried    atomic.Int64 // reads of the replica that got a response
	lag      atomic.Int64 // the highest that it reported, in seconds
}

type standbyAgent struct {
	handle, key string
	at          time.Time // when the response had arrived
}

func newStandby(t *testing.T) *standby {
	t.Helper()
	if _, err := exec.LookPath("litestream"); err != nil {
		t.Skip("needs litestream: install it and set PATH, as .ci/run litestream does")
	}
	proof.OneByOne(t)
	s := &standby{TB: t, folder: t.TempDir(), address: closedPort(t)}
	_, script, _ := strings.Cut(readText(t, root+"static/docs/scaling.md"), "\n```\n#!/bin/sh")
	script, _, _ = strings.Cut("#!/bin/sh"+script, "\n```")
	for before, after := range map[string]string{
		"db=/var/lib/callbook/callbook.db": "db=" + s.copyPath(), "from=file:///mnt/backups/callbook": "from=file://" + s.folder + "/storage", "pause=5": "pause=1",
	} {
		if !strings.Contains(script, before) {
			t.Fatalf("the script of the manual has no line %s:\n%s", before, script)
		}
		script = strings.Replace(script, before, after, 1)
	}
	s.script = filepath.Join(s.folder, "callbook-standby")
	config := fmt.Sprintf("dbs:\n  - path: %s\n    replica:\n      url: file://%s/storage\n", s.primaryPath(), s.folder)
	for name, text := range map[string]string{
		"callbook-standby": script, "litestream.yml": config,
		// They stand in for the service manager, which stops and starts both services here in the test.
		"systemctl": "#!/bin/sh\necho \"$@\" >>" + s.folder + "/systemctl.log\n[ \"$1\" != disable ] || kill -9 $(cat " + s.folder + "/pids) 2>/dev/null || true\n",
		"runuser":   "#!/bin/sh\nshift 3\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(s.primaryPath()), 0o700), os.Mkdir(filepath.Dir(s.copyPath()), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stopping.Store(true)
		if text, _ := os.ReadFile(filepath.Join(s.folder, "commands.log")); t.Failed() {
			t.Logf("Litestream and the script:\n%s", text[max(0, len(text)-8000):])
		}
		for _, c := range []*exec.Cmd{s.copying, s.follow} {
			s.killCommand(c)
		}
	})
	return s
}

func (s *standby) primaryPath() string { return filepath.Join(s.folder, "primary", "callbook.db") }
func (s *standby) copyPath() string    { return filepath.Join(s.folder, "standby", "callbook.db") }

// command starts a command in a process group of its own.
func (s *standby) command(name string, args ...string) *exec.Cmd {
	s.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "PATH="+s.folder+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.OpenFile(filepath.Join(s.folder, "commands.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	return c
}

// killCommand kills a command and all that it has started.
func (s *standby) killCommand(c *exec.Cmd) {
	if c != nil && c.ProcessState == nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	}
}

func (s *standby) startPrimary() { s.primary = spawn(s.TB, s.primaryPath(), "--addr="+s.address) }

func (s *standby) startCopying() {
	if err := s.command("litestream", "reset", "-config", filepath.Join(s.folder, "litestream.yml"), s.primaryPath()).Wait(); err != nil {
		s.Fatalf("litestream reset: %v", err)
	}
	s.copying = s.command("litestream", "replicate", "-config", filepath.Join(s.folder, "litestream.yml"))
}

func (s *standby) startFollow() {
	s.follow = s.command(s.script, "follow")
	lay(s, filepath.Join(s.folder, "pids"), []byte("-"+strconv.Itoa(s.follow.Process.Pid)))
}

// startReplica starts the replica, again and again until the first copy is there, as the service manager does.
func (s *standby) startReplica() {
	s.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		p := newProcess(s.TB, "serve", "--read-only", "--primary=http://"+s.address, "--addr=127.0.0.1:0", "--limits=off", "--base-url="+site, "--db="+s.copyPath())
		if p.serving() {
			s.replica.Store(p)
			return
		}
		if status := p.stop(); status != 1 || !strings.Contains(p.err.String(), "there is no copy of the database yet") {
			s.Fatalf("the replica ends with status %d: %s", status, p.err)
		}
	}
	s.Fatal("the replica finds no copy")
}

// write registers agents one after the other until the test stops it.
func (s *standby) write() {
	client := &http.Client{Timeout: 5 * time.Second}
	for n := 0; !s.stopping.Load(); n++ {
		handle := fmt.Sprintf("agent-%d", n)
		a, err := client.Post("http://"+s.address+"/api/agents", "application/json", strings.NewReader(registrationFor(handle, "a@example.org")))
		if err != nil {
			pause()
			continue
		}
		var registered struct {
			APIKey string `json:"api_key"`
		}
		err = json.NewDecoder(a.Body).Decode(&registered)
		_ = a.Body.Close()
		if err == nil && a.StatusCode == 201 {
			s.mu.Lock()
			s.agents = append(s.agents, standbyAgent{handle, registered.APIKey, time.Now()})
			s.mu.Unlock()
		}
	}
}

func pause() { <-time.After(20 * time.Millisecond) }

func (s *standby) acknowledged() []standbyAgent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[:len(s.agents):len(s.agents)]
}

// read reads cards from the replica until the test stops it. An agent that was registered before the lag must be
// there, and so must every agent of an earlier response.
func (s *standby) read() {
	client := &http.Client{Timeout: 5 * time.Second}
	seen := map[string]bool{}
	for n := 0; !s.stopping.Load(); n++ {
		agents, p := s.acknowledged(), s.replica.Load()
		if p == nil || len(agents) == 0 {
			pause()
			continue
		}
		agent := agents[max(0, len(agents)-1-(n*7919)%max(1, len(agents)))]
		if n%2 == 0 { // the newest, at the edge
			agent = agents[max(0, len(agents)-1-n%50)]
		}
		asked := time.Now()
		a, err := client.Get(p.base + "/api/agents/" + agent.handle)
		if err != nil {
			pause() // it was just killed
			continue
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if err != nil {
			continue
		}
		s.tried.Add(1)
		lag, err := strconv.Atoi(a.Header.Get("Callbook-Lag"))
		if err != nil {
			s.Errorf("a response without a lag: %v", a.Header)
			return
		}
		s.lag.Store(max(s.lag.Load(), int64(lag)))
		must := seen[agent.handle] || agent.at.Before(asked.Add(-time.Duration(lag)*time.Second))
		switch {
		case a.StatusCode == 200 && strings.Contains(string(body), `"handle":"`+agent.handle+`"`):
			seen[agent.handle] = true
		case a.StatusCode == 404 && !must:
		default:
			s.Errorf("%s, registered %v ago, with a lag of %d s, seen before: %t: %d %s", agent.handle, asked.Sub(agent.at), lag, seen[agent.handle], a.StatusCode, body)
			return
		}
	}
}

// catchesUp returns once the replica has what is acknowledged now, and how long that took.
func (s *standby) catchesUp(fault string) {
	s.Helper()
	began, before := time.Now(), len(s.acknowledged())
	var newest string
	until(s.TB, "the primary acknowledges more after "+fault, func() bool {
		agents := s.acknowledged()
		if len(agents) > before {
			newest = agents[len(agents)-1].handle
		}
		return len(agents) > before
	})
	var state string
	until(s.TB, "the replica catches up after "+fault, func() bool {
		p := s.replica.Load()
		a, err := http.Get(p.base + "/api/agents/" + newest)
		if err != nil {
			return false
		}
		_ = a.Body.Close()
		_, state = p.call("GET", "/readyz", "")
		return a.StatusCode == 200
	})
	s.Logf("after %s: caught up in %v, %s", fault, time.Since(began).Round(100*time.Millisecond), state)
}

// TestReplica_SurvivesKills kills the primary, Litestream, the script and the replica under writes, and takes the disk of the
// replica away. No response of the replica may be wrong. Then primary and Litestream are killed for good, and the
// replica is promoted: it must have everything that Litestream had stored.
func TestReplica_SurvivesKills(t *testing.T) {
	s := newStandby(t)
	s.startPrimary()
	s.startCopying()
	s.startFollow()
	s.startReplica()
	var clients sync.WaitGroup
	clients.Go(s.write)
	clients.Go(s.read)
	clients.Go(s.read)
	s.catchesUp("the start")
	s.primary.kill()
	s.startPrimary()
	s.catchesUp("a kill of the primary")
	s.killCommand(s.copying)
	s.startCopying()
	s.catchesUp("a kill of Litestream")
	s.killCommand(s.follow)
	s.startFollow()
	s.catchesUp("a kill of the script")
	s.replica.Load().kill()
	s.startReplica()
	s.catchesUp("a kill of the replica")
	s.killCommand(s.follow)
	s.replica.Load().kill()
	disk := filepath.Dir(s.copyPath())
	if err := errors.Join(os.RemoveAll(disk), os.Mkdir(disk, 0o700)); err != nil {
		t.Fatal(err)
	}
	s.startFollow()
	s.startReplica()
	s.catchesUp("the loss of the replica's disk")
	s.promote(&clients)
	t.Logf("%d agents acknowledged, %d reads of the replica, lag at most %d s", len(s.acknowledged()), s.tried.Load(), s.lag.Load())
}

// promote kills the primary in the middle of writes, and promotes the replica.
func (s *standby) promote(clients *sync.WaitGroup) {
	s.Helper()
	s.primary.kill()
	s.killCommand(s.copying)
	ended := time.Now()
	s.stopping.Store(true)
	clients.Wait()
	status, body := s.replica.Load().call("POST", "/api/agents", registrationFor("too-early", "a@example.org"))
	if status != 503 || !strings.Contains(body, "http://"+s.address) {
		s.Errorf("a write before the promotion: %d %s", status, body)
	}
	s.replica.Load().kill() // as systemctl disable --now
	promoted := s.command(s.script, "promote")
	if err := promoted.Wait(); err != nil {
		s.Fatalf("promote: %v: %s", err, readText(s, filepath.Join(s.folder, "commands.log")))
	}
	_ = s.follow.Wait()
	if log := readText(s, filepath.Join(s.folder, "systemctl.log")); log != "disable --now callbook-follow callbook-replica\nenable --now callbook\n" {
		s.Errorf("the service manager got %q", log)
	}
	p := spawn(s.TB, s.copyPath(), "--addr="+s.address)
	p.agent("after-the-promotion", "a@example.org")
	took := time.Since(ended)
	held := s.stored()
	have := 0
	for _, agent := range s.acknowledged() {
		status, body := p.call("GET", "/api/me", "", "Authorization: Bearer "+agent.key)
		if status == 200 {
			have++
		} else if held[agent.handle] {
			s.Errorf("%s is lost: %d %s", agent.handle, status, body)
		}
	}
	s.Logf("promoted in %v: %d of %d acknowledged agents, %d stored by Litestream", took.Round(100*time.Millisecond), have, len(s.acknowledged()), len(held))
	if took > time.Minute || have < len(held)-1 || len(held) == 0 {
		s.Errorf("promoted in %v, with %d agents of %d", took, have, len(held))
	}
	if status, out, _ := finished("check", "--addr", "127.0.0.1:0", "--db", s.copyPath()); status != 0 && !strings.Contains(out, "ok    database") {
		s.Errorf("check: %d %s", status, out)
	}
}

// stored returns the agents that Litestream has stored.
func (s *standby) stored() map[string]bool {
	s.Helper()
	path := filepath.Join(s.folder, "stored.db")
	if out, err := exec.Command("litestream", "restore", "-o", path, "file://"+s.folder+"/storage").CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	db := sqlx.MustOpen("sqlite", "file:"+path)
	defer db.Close()
	var handles []string
	if err := db.Select(&handles, `SELECT handle FROM handles`); err != nil {
		s.Fatal(err)
	}
	held := map[string]bool{}
	for _, handle := range handles {
		held[handle] = true
	}
	return held
}
