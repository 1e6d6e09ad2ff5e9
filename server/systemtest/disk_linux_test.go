package systemtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Full, failing and network disks, which a test can make on Linux only.

// limitedDisk is a place for a database that can be filled and emptied.
type limitedDisk struct {
	db          string
	fill, empty func(t testing.TB, p *process)
}

// unmountAfter unmounts a folder after the test.
func unmountAfter(t testing.TB, folder string) {
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// newSmallDisk returns a disk of a few megabytes, filled by another file.
func newSmallDisk(t testing.TB) limitedDisk {
	t.Helper()
	folder := t.TempDir()
	needCommand(t, "root, to mount a small disk", "mount", "-t", "tmpfs", "-o", "size=11M", "tmpfs", folder)
	unmountAfter(t, folder)
	ballast := filepath.Join(folder, "ballast")
	return limitedDisk{filepath.Join(folder, "callbook.db"), func(t testing.TB, _ *process) {
		t.Helper()
		data := bytes.Repeat([]byte("ballast "), 4<<20)
		if err := os.WriteFile(ballast, data, 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
	}, func(t testing.TB, _ *process) {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}}
}

// newQuota returns a place in which no file of the process may grow beyond the size of its log, as with a quota.
func newQuota(t testing.TB) limitedDisk {
	t.Helper()
	db := newDB(t)
	limit := func(t testing.TB, p *process, bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(p.command.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Skipf("needs to set the limits of a process: %v", err)
		}
	}
	return limitedDisk{db, func(t testing.TB, p *process) {
		info, err := os.Stat(db + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		limit(t, p, uint64(info.Size()))
	}, func(t testing.TB, p *process) { limit(t, p, unix.RLIM_INFINITY) }}
}

// TestFullDisk_RejectsWritesUntilSpaceIsFree checks that reads go on, nothing is stored in part, and the same process writes
// once there is space.
func TestFullDisk_RejectsWritesUntilSpaceIsFree(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) limitedDisk{"a small disk": newSmallDisk, "a quota": newQuota} {
		t.Run(name, func(t *testing.T) {
			r := place(t)
			p := spawn(t, r.db)
			author := p.registerAgent("tide-reader", "a@example.org")
			old := p.create("/api/posts", `{"kind":"seeking","title":"Currents","body":"Daily."}`, author.auth)
			call := `{"kind":"seeking","title":"Tides","body":"` + strings.Repeat("Hourly levels. ", 100) + `"}`
			r.fill(t, p)
			for path, body := range map[string]string{"/api/agents": registrationJSON("newcomer", "b@example.org"), "/api/posts": call} {
				a, err := newUnpooledClient().Do(newRequest(t, "POST", p.base+path, body, author.auth))
				if err != nil {
					t.Fatal(err)
				}
				text := readBody(t, a)
				if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
					t.Errorf("POST %s: %d, Retry-After %q", path, a.StatusCode, a.Header.Get("Retry-After"))
				}
				for _, part := range []string{`"code":"storage_full"`, `"message_en":"The service has no room`, `"message_zh":"服务存储空间已满`} {
					if !strings.Contains(text, part) {
						t.Errorf("POST %s: no %s in %s", path, part, text)
					}
				}
			}
			for path, want := range map[string]int{
				"/api/agents/tide-reader": 200, "/api/agents?q=tide": 200, "/api/posts": 200, "/agents": 200, "/healthz": 200, "/readyz": 200,
				"/api/agents/newcomer": 404, "/api/posts/" + old: 200,
			} {
				if status, text := p.call("GET", path, ""); status != want {
					t.Errorf("GET %s: %d, want %d: %s", path, status, want, text)
				}
			}
			if list := p.object("GET", "/api/posts", ""); list["total"] != 1.0 {
				t.Errorf("%v calls are stored", list["total"])
			}
			r.empty(t, p)
			p.object("POST", "/api/agents", registrationJSON("newcomer", "b@example.org"))
			p.object("POST", "/api/posts", call, author.auth)
			p.object("GET", "/readyz", "")
			p.stopCleanly()
			wantIntact(t, r.db)
		})
	}
}

// TestFullDisk_KeepsWatchdogAlive checks that the service manager does not restart the service, which would only
// interrupt reads.
func TestFullDisk_KeepsWatchdogAlive(t *testing.T) {
	t.Parallel()
	name, received := serviceManager(t)
	r := newQuota(t)
	p := spawnByShell(t, "export NOTIFY_SOCKET="+name+" WATCHDOG_USEC=100000 WATCHDOG_PID=$$", nil, "serve", "--addr=127.0.0.1:0", "--db", r.db)
	p.wantServing()
	r.fill(t, p)
	waitFor(t, "it is full", func() bool { return p.object("GET", "/readyz", "")["status"] == "degraded" })
	received("nothing", time.Millisecond) // skips earlier notifications
	for range 2 {
		if !received("WATCHDOG=1", patience) {
			t.Error("it is silent")
		}
	}
	if status, text := p.call("GET", "/readyz", ""); status != 200 || !strings.Contains(text, `"code":"storage_full"`) {
		t.Errorf("ready: %d, %s", status, text)
	}
	r.empty(t, p)
	p.stopCleanly()
}

// TestReadOnlyDisk_IsReported checks that reads go on from a file system that stopped after an error, as ext4 does.
func TestReadOnlyDisk_IsReported(t *testing.T) {
	t.Parallel()
	for range 5 { // a commit of a background job may fail first: then the service stops, as it must
		if survivesReadOnlyDisk(t) {
			return
		}
	}
	t.Error("the service stopped each time")
}

// survivesReadOnlyDisk runs the service on such a disk. It reports whether the service goes on.
func survivesReadOnlyDisk(t *testing.T) (goesOn bool) {
	t.Helper()
	folder := t.TempDir()
	image := filepath.Join(folder, "image")
	writeFile(t, image, nil)
	disk := filepath.Join(folder, "disk")
	for _, command := range []string{"truncate -s 64M " + image, "mkfs.ext4 -q -F " + image, "mkdir " + disk, "mount -o loop " + image + " " + disk} {
		needCommand(t, "root and ext4, to mount a disk", "sh", "-c", command)
	}
	unmountAfter(t, disk)
	db := filepath.Join(disk, "callbook.db")
	p := spawn(t, db)
	p.call("POST", "/api/agents", registrationJSON("early-bird", "early@example.org"))
	needCommand(t, "a file system that stops", "mount", "-o", "remount,abort", disk)
	status, text := p.call("POST", "/api/agents", registrationJSON("newcomer", "a@example.org"))
	if strings.Contains(text, "shutting down") {
		return false
	}
	if status != 503 || !strings.Contains(text, `"code":"storage_full"`) {
		t.Errorf("a write: %d %s", status, text)
	}
	if status, text := p.call("GET", "/readyz", ""); status != 200 || !strings.Contains(text, `"code":"storage_full"`) {
		t.Errorf("ready: %d %s", status, text)
	}
	return true
}

// TestReadOnlyDisk_IsNamedAtTheStart checks the error of each command after a clean stop, whose status lets the service
// manager retry.
func TestReadOnlyDisk_IsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	needCommand(t, "root, to mount a disk", "mount", "-t", "tmpfs", "tmpfs", disk)
	unmountAfter(t, disk)
	db := filepath.Join(disk, "callbook.db")
	p := spawn(t, db)
	p.register("early-bird")
	p.stopCleanly()
	if out, err := exec.Command("mount", "-o", "remount,ro", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, command := range []string{"serve --addr=127.0.0.1:0 --db " + db, "serve --addr=127.0.0.1:0 --db " + db + ".new", "admin agents --db " + db, "compact --db " + db} {
		status, _, err := runCommand(strings.Fields(command)...)
		if status != 74 || !strings.Contains(err, "mounted read-only") || strings.Contains(err, "permission") {
			t.Errorf("%s: %d %s", command, status, err)
		}
	}
	if status, out, _ := runCommand("check", "--addr=127.0.0.1:0", "--db", db, "--backup-dir", disk); status != 1 || strings.Count(out, "mounted read-only") != 2 || strings.Contains(out, "the owner") {
		t.Errorf("check: %d %s", status, out)
	}
}

// registerUntilFull registers agents until the disk is full, and returns the acknowledged ones.
func (p *program) registerUntilFull(prefix string) (acknowledged []string) {
	p.Helper()
	for i := 0; ; i++ {
		handle := fmt.Sprintf("%s-%d", prefix, i)
		body := strings.Replace(registrationJSON(handle, "a@example.org"), `"D"`, `"`+strings.Repeat("Reads tides. ", 40)+`"`, 1)
		switch status, text := p.call("POST", "/api/agents", body); {
		case status == 201:
			acknowledged = append(acknowledged, handle)
		case status == 503 && strings.Contains(text, "storage_full"):
			return acknowledged
		default:
			p.Fatalf("%s: %d %s", handle, status, text)
		}
	}
}

// wantAgents reads all agents, and checks that the acknowledged ones are among them.
func (p *program) wantAgents(acknowledged []string) {
	p.Helper()
	there := map[any]bool{}
	for next := any("/api/agents?limit=100&view=brief"); next != nil; {
		list := p.object("GET", next.(string), "")
		for _, a := range list["agents"].([]any) {
			there[a.(map[string]any)["handle"]] = true
		}
		next = list["next"]
	}
	for _, handle := range acknowledged {
		if !there[handle] {
			p.Errorf("%s was acknowledged and is lost", handle)
		}
	}
}

// TestFullDisk_KeepsAcknowledgedWrites fills the disk while the log is checkpointed, kills the program, starts it
// again, and stops it.
func TestFullDisk_KeepsAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	r := newSmallDisk(t)
	p := spawn(t, r.db)
	acknowledged := p.registerUntilFull("first")
	if size := fileSize(r.db); size < 1<<20 || fileSize(r.db+"-wal") < 1000*pageBytes { // as many pages as a checkpoint waits for
		t.Errorf("the file has %d bytes: the disk was not full at a checkpoint", size)
	}
	p.kill()
	r.fill(t, p) // to the last byte
	p = spawn(t, r.db)
	p.wantAgents(acknowledged)
	switch status, text := p.call("POST", "/api/agents", registrationJSON("meanwhile", "a@example.org")); {
	case status == 201: // the whole log fitted into the file, so its room is used again
		acknowledged = append(acknowledged, "meanwhile")
	case status != 503 || !strings.Contains(text, "storage_full"):
		t.Errorf("a write on the full disk: %d %s", status, text)
	}
	p.stopCleanly()
	r.empty(t, p)
	if out, err := exec.Command("mount", "-o", "remount,size=32M", filepath.Dir(r.db)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p = spawn(t, r.db)
	p.wantAgents(acknowledged)
	p.object("POST", "/api/agents", registrationJSON("late", "a@example.org"))
	r.fill(t, p)
	p.kill()

	p = spawn(t, r.db) // ready or not: writing the log to the file may make some room
	p.wantAgents(append(acknowledged, "late"))
	r.empty(t, p)
	p.object("GET", "/readyz", "")
	p.stopCleanly()
	wantIntact(t, r.db)

	// After a stop in good order there is no log, and no room to make one.
	r.fill(t, p)
	newServeProcess(t, r.db).wantExit(74, "the disk takes no writes", "make room")
	r.empty(t, p)
	p = spawn(t, r.db)
	p.wantAgents(acknowledged)
	p.stopCleanly()
}

// TestReadError_StopsStartup covers a file that cannot be opened (the disk fails) and one of which a part cannot be
// read (that part is lost).
func TestReadError_StopsStartup(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for from, want := range map[string]struct {
		status  int
		message string
	}{"1": {74, "start again"}, "4": {65, "callbook restore COPY --db "}} {
		t.Run("from read "+from, func(t *testing.T) {
			db := newDB(t)
			before := spawn(t, db)
			before.tryRegister("from-before")
			before.stopCleanly()
			spawnWithFaults(t, db, "-P", db, "-e", "trace=pread64", "-e", "inject=pread64:error=EIO:when="+from+"+").wantExit(want.status, want.message)
			again := spawn(t, db)
			again.wantAgents([]string{"from-before"})
			again.stopCleanly()
			wantIntact(t, db)
		})
	}
}

// TestWriteError_RejectsWritesMeanwhile checks that failed writes are handled like a full disk, because SQLite does
// not distinguish them.
func TestWriteError_RejectsWritesMeanwhile(t *testing.T) {
	t.Parallel()
	needStrace(t)
	db := newDB(t)
	spawn(t, db).stopCleanly()
	p := spawnWithFaults(t, db, "-P", db, "-P", db+"-wal", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=20..30")
	if !p.waitServing() {
		t.Fatalf("it does not serve: %s", p.err)
	}
	p.signalServer(syscall.SIGTERM, db)
	var acknowledged []string
	last, rejected := 0, 0
	for i := 0; i < 1000 && (rejected == 0 || last != 201); i++ {
		handle := fmt.Sprintf("agent-%d", i)
		switch last = p.tryRegister(handle); last {
		case 201:
			acknowledged = append(acknowledged, handle)
		case 503:
			rejected++
		default:
			t.Errorf("%s: %d", handle, last)
		}
	}
	if rejected == 0 || last != 201 {
		t.Errorf("%d are rejected, and the last status is %d", rejected, last)
	}
	p.stopCleanly()
	p = spawn(t, db)
	p.wantAgents(acknowledged)
	p.stopCleanly()
	wantIntact(t, db)
}

// TestFailedSync_OfCheckpointStopsService covers checkpoints during requests and at shutdown, whose failed syncs
// SQLite does not report.
func TestFailedSync_OfCheckpointStopsService(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]func(p *process) (acknowledged []string){
		"during requests": func(p *process) (acknowledged []string) {
			for i := range 1000 {
				handle := fmt.Sprintf("agent-%d", i)
				if p.tryRegister(handle) != 201 {
					return acknowledged
				}
				acknowledged = append(acknowledged, handle)
			}
			t.Error("the log is not written to the file")
			return acknowledged
		},
		"at shutdown": func(p *process) []string {
			if status := p.tryRegister("only"); status != 201 {
				t.Errorf("status %d", status)
			}
			p.cancel()
			return []string{"only"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			spawn(t, db).stopCleanly()
			p := spawnWithFaults(t, db, "-P", db, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
			if !p.waitServing() {
				t.Fatalf("it does not serve: %s", p.err)
			}
			p.signalServer(syscall.SIGTERM, db)
			acknowledged := until(p)
			p.wantExit(74, "the disk fails")
			again := spawn(t, db)
			again.wantAgents(acknowledged)
			again.stopCleanly()
			wantIntact(t, db)
		})
	}
}

// TestFailedSync_OfANewFileStopsTheStart checks that a database whose first sync, or that of its folder, fails is not served, and
// that the next start makes or serves it.
func TestFailedSync_OfANewFileStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, created := range map[string]bool{".callbook.db.new": false, "": true} {
		t.Run("sync of "+name, func(t *testing.T) {
			db := newDB(t)
			p := spawnWithFaults(t, db, "-P", filepath.Join(filepath.Dir(db), name), "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
			if p.waitServing() {
				t.Error("it serves")
				p.signalServer(syscall.SIGTERM, db)
				p.cancel()
			}
			p.wantExit(74, "the disk fails")
			if _, err := os.Stat(db); (err == nil) != created {
				t.Errorf("the file: %v", err)
			}
			p = spawn(t, db)
			if status := p.tryRegister("first"); status != 201 {
				t.Errorf("status %d after the next start", status)
			}
			p.stopCleanly()
			wantIntact(t, db)
		})
	}
}

// TestNetworkDisk_NeedsFlag also checks that copies may be on a network disk.
func TestNetworkDisk_NeedsFlag(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs FUSE:", err)
	}
	below, folder := t.TempDir(), t.TempDir()
	needCommand(t, "bindfs, and root to mount with it", "bindfs", below, folder)
	unmountAfter(t, folder)
	db := filepath.Join(folder, "callbook.db")
	newServeProcess(t, db).wantExit(64, "FUSE", "--network-disk")
	waitFor(t, "nothing is left behind", func() bool { // FUSE removes what was open a moment later
		left, _ := os.ReadDir(below)
		return len(left) == 0
	})
	if _, printed := runCommandMerged("check", "--addr=127.0.0.1:0", "--db", db); !strings.Contains(printed, "(FUSE)") {
		t.Errorf("check: %s", printed)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	p := spawn(t, db, "--network-disk")
	p.register("tide-reader")
	if status, printed := runCommandMerged("admin", "suspend", "tide-reader", "--reason=spam", "--db", db); status != 0 {
		t.Errorf("admin beside the server: %d, %s", status, printed)
	}
	p.stopCleanly()
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	newServeProcess(t, link).wantExit(64, "--network-disk")

	local := newSampleDB(t)
	if status, printed := runCommandMerged("backup", filepath.Join(folder, "copy.db"), "--db", local); status != 0 {
		t.Errorf("a copy there: %d, %s", status, printed)
	}
	wantIntact(t, filepath.Join(folder, "copy.db"))
}
