package systemtest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A full disk, one that fails, one that is elsewhere: what only Linux lets a test make.

// room is a place for a database that can be filled and emptied.
type room struct {
	db          string
	fill, empty func(t testing.TB, p *process)
}

// smallDisk returns a disk of a few megabytes, filled by another file.
func smallDisk(t testing.TB) room {
	t.Helper()
	folder := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=11M", "tmpfs", folder).CombinedOutput(); err != nil {
		t.Skipf("needs root, to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	ballast := filepath.Join(folder, "ballast")
	return room{filepath.Join(folder, "callbook.db"), func(t testing.TB, _ *process) {
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

// smallFiles returns a place in which no file of the process may grow beyond the size of its log, as with a quota.
func smallFiles(t testing.TB) room {
	t.Helper()
	db := filepath.Join(t.TempDir(), "callbook.db")
	limit := func(t testing.TB, p *process, bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(p.command.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Skipf("needs to set the limits of a process: %v", err)
		}
	}
	return room{db, func(t testing.TB, p *process) {
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
	for name, place := range map[string]func(testing.TB) room{"a small disk": smallDisk, "a quota": smallFiles} {
		t.Run(name, func(t *testing.T) {
			r := place(t)
			p := spawn(t, r.db)
			author := p.agent("tide-reader", "a@example.org")
			old := p.object("POST", "/api/posts", `{"kind":"seeking","title":"Currents","body":"Daily."}`, author.auth)["post"].(map[string]any)["id"].(string)
			call := `{"kind":"seeking","title":"Tides","body":"` + strings.Repeat("Hourly levels. ", 100) + `"}`
			r.fill(t, p)
			for path, body := range map[string]string{"/api/agents": registrationFor("newcomer", "b@example.org"), "/api/posts": call} {
				r, err := http.NewRequest("POST", p.base+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", strings.TrimPrefix(author.auth, "Authorization: "))
				a, err := fresh().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				_, err = text.ReadFrom(a.Body)
				a.Body.Close()
				if err != nil || a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
					t.Errorf("POST %s: %d, Retry-After %q, %v", path, a.StatusCode, a.Header.Get("Retry-After"), err)
				}
				for _, part := range []string{`"code":"storage_full"`, `"message_en":"The service has no room`, `"message_zh":"服务存储空间已满`} {
					if !strings.Contains(text.String(), part) {
						t.Errorf("POST %s: no %s in %s", path, part, &text)
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
			p.object("POST", "/api/agents", registrationFor("newcomer", "b@example.org"))
			p.object("POST", "/api/posts", call, author.auth)
			p.object("GET", "/readyz", "")
			p.ends()
			wantWhole(t, r.db)
		})
	}
}

// TestFullDisk_KeepsWatchdogAlive checks that the service manager does not restart the service, which would only
// interrupt reads.
func TestFullDisk_KeepsWatchdogAlive(t *testing.T) {
	t.Parallel()
	name, hears := serviceManager(t)
	r := smallFiles(t)
	p := shelled(t, "export NOTIFY_SOCKET="+name+" WATCHDOG_USEC=100000 WATCHDOG_PID=$$", nil, "serve", "--addr=127.0.0.1:0", "--db", r.db)
	p.serves()
	r.fill(t, p)
	until(t, "it is full", func() bool { return p.object("GET", "/readyz", "")["status"] == "degraded" })
	hears("nothing", time.Millisecond) // passes over what it told before
	for range 2 {
		if !hears("WATCHDOG=1", patience) {
			t.Error("it is silent")
		}
	}
	if status, text := p.call("GET", "/readyz", ""); status != 200 || !strings.Contains(text, `"code":"storage_full"`) {
		t.Errorf("ready: %d, %s", status, text)
	}
	r.empty(t, p)
	p.ends()
}

// TestReadOnlyDisk_IsReported checks that reads go on from a file system that stopped after an error, as ext4 does.
func TestReadOnlyDisk_IsReported(t *testing.T) {
	t.Parallel()
	for range 5 { // a commit of the service itself may meet the failure: then it stops, as it must
		if readOnlyDisk(t) {
			return
		}
	}
	t.Error("the service stopped each time")
}

// readOnlyDisk tries the service on such a disk. It reports whether the service goes on.
func readOnlyDisk(t *testing.T) (goesOn bool) {
	t.Helper()
	folder := t.TempDir()
	image := filepath.Join(folder, "image")
	lay(t, image, nil)
	disk := filepath.Join(folder, "disk")
	for _, command := range []string{"truncate -s 64M " + image, "mkfs.ext4 -q -F " + image, "mkdir " + disk, "mount -o loop " + image + " " + disk} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Skipf("needs root and ext4, to mount a disk: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", disk).Run() })
	db := filepath.Join(disk, "callbook.db")
	p := spawn(t, db)
	p.call("POST", "/api/agents", registrationFor("early-bird", "early@example.org"))
	if out, err := exec.Command("mount", "-o", "remount,abort", disk).CombinedOutput(); err != nil {
		t.Skipf("needs a file system that stops: %v: %s", err, out)
	}
	status, text := p.call("POST", "/api/agents", registrationFor("newcomer", "a@example.org"))
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

// TestReadOnlyDisk_IsNamedAtTheStart after a clean stop, by the command itself and by check; the service manager retries.
func TestReadOnlyDisk_IsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("needs root, to mount a disk: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", disk).Run() })
	db := filepath.Join(disk, "callbook.db")
	p := spawn(t, db)
	join(p.program, "early-bird")
	p.ends()
	if out, err := exec.Command("mount", "-o", "remount,ro", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, command := range []string{"serve --addr=127.0.0.1:0 --db " + db, "serve --addr=127.0.0.1:0 --db " + db + ".new", "admin agents --db " + db, "compact --db " + db} {
		status, _, err := finished(strings.Fields(command)...)
		if status != 74 || !strings.Contains(err, "mounted read-only") || strings.Contains(err, "permission") {
			t.Errorf("%s: %d %s", command, status, err)
		}
	}
	if status, out, _ := finished("check", "--addr=127.0.0.1:0", "--db", db, "--backup-dir", disk); status != 1 || strings.Count(out, "mounted read-only") != 2 || strings.Contains(out, "the owner") {
		t.Errorf("check: %d %s", status, out)
	}
}

// fillUp registers agents until the disk is full, and returns the acknowledged ones.
func (p *process) fillUp(prefix string) (acknowledged []string) {
	p.Helper()
	for i := 0; ; i++ {
		handle := fmt.Sprintf("%s-%d", prefix, i)
		body := strings.Replace(registrationFor(handle, "a@example.org"), `"D"`, `"`+strings.Repeat("Reads tides. ", 40)+`"`, 1)
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

// holds reads all agents, and checks that the acknowledged ones are among them.
func (p *process) holds(acknowledged []string) {
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
	r := smallDisk(t)
	p := spawn(t, r.db)
	acknowledged := p.fillUp("first")
	if size := sizeOf(r.db); size < 1<<20 || sizeOf(r.db+"-wal") < 1000*pageBytes { // as many pages as a checkpoint waits for
		t.Errorf("the file has %d bytes: the disk was not full at a checkpoint", size)
	}
	p.kill()
	r.fill(t, p) // to the last byte
	p = spawn(t, r.db)
	p.holds(acknowledged)
	switch status, text := p.call("POST", "/api/agents", registrationFor("meanwhile", "a@example.org")); {
	case status == 201: // the whole log fitted into the file, so its room is used again
		acknowledged = append(acknowledged, "meanwhile")
	case status != 503 || !strings.Contains(text, "storage_full"):
		t.Errorf("a write on the full disk: %d %s", status, text)
	}
	p.ends()
	r.empty(t, p)
	if out, err := exec.Command("mount", "-o", "remount,size=32M", filepath.Dir(r.db)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p = spawn(t, r.db)
	p.holds(acknowledged)
	p.object("POST", "/api/agents", registrationFor("late", "a@example.org"))
	r.fill(t, p)
	p.kill()

	p = spawn(t, r.db) // ready or not: writing the log to the file may make some room
	p.holds(append(acknowledged, "late"))
	r.empty(t, p)
	p.object("GET", "/readyz", "")
	p.ends()
	wantWhole(t, r.db)

	// After a stop in good order there is no log, and no room to make one.
	r.fill(t, p)
	newProcess(t, "serve", "--addr=127.0.0.1:0", "--db", r.db).failed(74, "the disk takes no writes", "make room")
	r.empty(t, p)
	p = spawn(t, r.db)
	p.holds(acknowledged)
	p.ends()
}

// TestReadError_StopsStartup covers a file that cannot be opened (the disk fails) and one of which a part cannot be
// read (that part is lost).
func TestReadError_StopsStartup(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for from, want := range map[string]struct {
		status int
		says   string
	}{"1": {74, "start again"}, "4": {65, "callbook restore COPY --db "}} {
		t.Run("from read "+from, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "callbook.db")
			before := spawn(t, db)
			before.register("from-before")
			before.ends()
			faulty(t, db, "-P", db, "-e", "trace=pread64", "-e", "inject=pread64:error=EIO:when="+from+"+").failed(want.status, want.says)
			again := spawn(t, db)
			again.holds([]string{"from-before"})
			again.ends()
			wantWhole(t, db)
		})
	}
}

// TestWriteError_RejectsWritesMeanwhile checks that failed writes are handled like a full disk, because SQLite does
// not distinguish them.
func TestWriteError_RejectsWritesMeanwhile(t *testing.T) {
	t.Parallel()
	needStrace(t)
	db := filepath.Join(t.TempDir(), "callbook.db")
	spawn(t, db).ends()
	p := faulty(t, db, "-P", db, "-P", db+"-wal", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=20..30")
	if !p.serving() {
		t.Fatalf("it does not serve: %s", p.err)
	}
	p.servesUntil(syscall.SIGTERM, db)
	var acknowledged []string
	last, refused := 0, 0
	for i := 0; i < 1000 && (refused == 0 || last != 201); i++ {
		handle := fmt.Sprintf("agent-%d", i)
		switch last = p.register(handle); last {
		case 201:
			acknowledged = append(acknowledged, handle)
		case 503:
			refused++
		default:
			t.Errorf("%s: %d", handle, last)
		}
	}
	if refused == 0 || last != 201 {
		t.Errorf("%d are refused, and the last is %d", refused, last)
	}
	p.ends()
	p = spawn(t, db)
	p.holds(acknowledged)
	p.ends()
	wantWhole(t, db)
}

// TestFailedSync_OfCheckpointStopsService covers checkpoints during requests and at shutdown, whose failed syncs
// SQLite does not report.
func TestFailedSync_OfCheckpointStopsService(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]func(p *process) (acknowledged []string){
		"beside what is answered": func(p *process) (acknowledged []string) {
			for i := range 1000 {
				handle := fmt.Sprintf("agent-%d", i)
				if p.register(handle) != 201 {
					return acknowledged
				}
				acknowledged = append(acknowledged, handle)
			}
			t.Error("the log is not written to the file")
			return acknowledged
		},
		"at the end": func(p *process) []string {
			if status := p.register("only"); status != 201 {
				t.Errorf("status %d", status)
			}
			p.cancel()
			return []string{"only"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "callbook.db")
			spawn(t, db).ends()
			p := faulty(t, db, "-P", db, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
			if !p.serving() {
				t.Fatalf("it does not serve: %s", p.err)
			}
			p.servesUntil(syscall.SIGTERM, db)
			acknowledged := until(p)
			p.failed(74, "the disk fails")
			again := spawn(t, db)
			again.holds(acknowledged)
			again.ends()
			wantWhole(t, db)
		})
	}
}

// TestFailedSync_OfANewFileStopsTheStart checks that a database whose first sync, or that of its folder, fails is not served, and
// that the next start makes or serves it.
func TestFailedSync_OfANewFileStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, created := range map[string]bool{".callbook.db.new": false, "": true} {
		t.Run("sync of "+name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "callbook.db")
			p := faulty(t, db, "-P", filepath.Join(filepath.Dir(db), name), "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
			if p.serving() {
				t.Error("it serves")
				p.servesUntil(syscall.SIGTERM, db)
				p.cancel()
			}
			p.failed(74, "the disk fails")
			if _, err := os.Stat(db); (err == nil) != created {
				t.Errorf("the file: %v", err)
			}
			p = spawn(t, db)
			if status := p.register("first"); status != 201 {
				t.Errorf("status %d after the next start", status)
			}
			p.ends()
			wantWhole(t, db)
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
	if out, err := exec.Command("bindfs", below, folder).CombinedOutput(); err != nil {
		t.Skipf("needs bindfs, and root to mount with it: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	db := filepath.Join(folder, "callbook.db")
	newProcess(t, "serve", "--addr=127.0.0.1:0", "--db", db).failed(64, "FUSE", "--network-disk")
	until(t, "nothing is left behind", func() bool { // FUSE removes what was open a moment later
		left, _ := os.ReadDir(below)
		return len(left) == 0
	})
	if _, printed := finish("check", "--addr=127.0.0.1:0", "--db", db); !strings.Contains(printed, "(FUSE)") {
		t.Errorf("check: %s", printed)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	p := spawn(t, db, "--network-disk")
	join(p.program, "tide-reader")
	if status, printed := finish("admin", "suspend", "tide-reader", "--reason=spam", "--db", db); status != 0 {
		t.Errorf("admin beside the server: %d, %s", status, printed)
	}
	p.ends()
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	newProcess(t, "serve", "--addr=127.0.0.1:0", "--db", link).failed(64, "--network-disk")

	local := seeded(t)
	if status, printed := finish("backup", filepath.Join(folder, "copy.db"), "--db", local); status != 0 {
		t.Errorf("a copy there: %d, %s", status, printed)
	}
	wantWhole(t, filepath.Join(folder, "copy.db"))
}
