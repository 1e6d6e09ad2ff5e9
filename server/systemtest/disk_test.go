//go:build unix

package systemtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store"
)

// Faults of the disk or the file, as the operator sees them.

func TestDurability_NormalIsReported(t *testing.T) {
	db := newDB(t)
	for durability, loud := range map[string]bool{"full": false, "normal": true} {
		p := startServe(t, db, "--durability", durability)
		if live := p.object("GET", "/healthz", ""); live["durability"] != durability {
			t.Errorf("%s: health reports %v", durability, live)
		}
		p.stop()
		const warning = "power cut may lose the last"
		if warned := strings.Contains(p.err.String(), warning) && strings.Contains(p.err.String(), "WRN"); warned != loud {
			t.Errorf("%s: the log: %s", durability, p.err)
		}
		_, printed := runCommandMerged("check", "--addr=127.0.0.1:0", "--db", db, "--durability", durability)
		if warned := strings.Contains(printed, warning); warned != loud {
			t.Errorf("%s: check: %s", durability, printed)
		}
	}
}

// TestServe_LeavesUnusableFilesUnchanged checks the exit status and the one line of each kind.
func TestServe_LeavesUnusableFilesUnchanged(t *testing.T) {
	t.Parallel()
	whole := readFile(t, newSampleDB(t))
	file := func(data []byte) func(testing.TB, string) {
		return func(t testing.TB, db string) {
			writeFile(t, db, data)
		}
	}
	foreign := func(journal string) func(testing.TB, string) {
		return func(t testing.TB, db string) {
			execDatabase(t, db, `PRAGMA journal_mode = `+journal)
			execDatabase(t, db, `CREATE TABLE customers (name TEXT)`)
		}
	}
	lock := func(t testing.TB, db string) { file(nil)(t, db+".lock") }
	zeroed := append(make([]byte, 100), whole[100:]...)
	middle := bytes.Clone(whole)
	for at := 8192; at < len(middle)-4096; at += 8192 {
		copy(middle[at:], bytes.Repeat([]byte{0xa5}, 4096))
	}
	for name, tt := range map[string]struct {
		make    func(t testing.TB, db string)
		args    []string
		status  int
		message string
	}{
		"text":                     {file(bytes.Repeat([]byte("Dear diary. "), 1000)), nil, 65, "was never a database"},
		"a folder":                 {func(t testing.TB, db string) { _ = os.Mkdir(db, 0o700) }, nil, 65, "name another file"},
		"a truncated header":       {file(whole[:50]), nil, 65, "callbook restore COPY --db "},
		"a truncated file":         {file(whole[:5000]), nil, 65, "callbook restore COPY --db "},
		"a zeroed header":          {file(zeroed), nil, 65, "callbook restore COPY --db "},
		"damage":                   {file(middle), nil, 65, "callbook restore COPY --db "},
		"another program's":        {foreign("DELETE"), nil, 65, "no database of callbook"},
		"another program's, WAL":   {foreign("WAL"), nil, 65, "no database of callbook"},
		"an empty file and a lock": {func(t testing.TB, db string) { lock(t, db); file(nil)(t, db) }, nil, 73, "callbook restore COPY --db "},
		"nothing but a lock":       {lock, nil, 73, "callbook restore COPY --db "},
		"no folder":                {func(t testing.TB, db string) { _ = os.Remove(filepath.Dir(db)) }, nil, 73, "mount its disk"},
		"nothing but copies": {func(t testing.TB, db string) {
			file(whole)(t, filepath.Join(filepath.Dir(db), "callbook-20261120T093000Z.db"))
		}, []string{"--backup-dir=."}, 73, "callbook-20261120T093000Z.db --db "},
		"damage, and there is a copy": {func(t testing.TB, db string) {
			file(zeroed)(t, db)
			file(whole)(t, filepath.Join(filepath.Dir(db), "callbook-20261120T093000Z.db"))
		}, []string{"--backup-dir=."}, 65, "callbook-20261120T093000Z.db --db "},
	} {
		t.Run(name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "data", "callbook.db")
			if err := os.Mkdir(filepath.Dir(db), 0o700); err != nil {
				t.Fatal(err)
			}
			tt.make(t, db)
			for i, arg := range tt.args {
				tt.args[i] = strings.ReplaceAll(arg, "=.", "="+filepath.Dir(db))
			}
			var before map[string]string
			if name != "no folder" {
				before = filesBeside(t, db)
			}
			status, out, printed := runCommand(append([]string{"serve", "--addr=127.0.0.1:0", "--db", db}, tt.args...)...)
			if status != tt.status || out != "" {
				t.Errorf("status %d, want %d; printed %q", status, tt.status, out)
			}
			wantOneErrorLine(t, printed, tt.message)
			if name == "no folder" {
				return
			}
			if diff := cmp.Diff(before, filesBeside(t, db)); diff != "" {
				t.Error("the files were changed: ", diff)
			}
			status, out, _ = runCommand(append([]string{"check", "--addr=127.0.0.1:0", "--db", db}, tt.args...)...)
			if status != 1 || !strings.Contains(out, "ERROR database") {
				t.Errorf("check: %d, %s", status, out)
			}
			if diff := cmp.Diff(before, filesBeside(t, db)); diff != "" {
				t.Error("check changes the files: ", diff)
			}
		})
	}
}

// TestServe_LeavesForeignFilesUnchanged runs as a user who may read but not write the file.
func TestServe_LeavesForeignFilesUnchanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	t.Parallel()
	whole := readFile(t, newSampleDB(t))
	ownersOnly, err := os.MkdirTemp("", "another-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(ownersOnly) })
	if err := os.Chmod(ownersOnly, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		folder, file os.FileMode
		checked      string
	}{
		"a folder that is read-only": {0o555, 0o666, "lock the database"},
		"a file that is read-only":   {0o777, 0o444, "cannot write to it"},
		"an unreadable file":         {0o777, 0o000, "unable to open"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, err := os.MkdirTemp("", "another-user") // which others may enter
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(folder)
			db := filepath.Join(folder, "callbook.db")
			if err := errors.Join(os.WriteFile(db, whole, 0o600), os.Chmod(db, tt.file), os.Chmod(folder, tt.folder)); err != nil {
				t.Fatal(err)
			}
			before := filesBeside(t, db)
			byAnother := func(args ...string) *process {
				return newProcessVia(t, func(string) *exec.Cmd {
					c := exec.Command("/proc/self/exe", append(args, "--addr=127.0.0.1:0", "--db", db)...)
					c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
					c.Dir = "/"
					return c
				})
			}
			byAnother("serve").wantExit(77, "permission")
			check := byAnother("check", "--backup-dir", ownersOnly)
			check.wantExit(1, "problem")
			for _, want := range []string{"ERROR database", tt.checked, "ERROR backups"} {
				if !strings.Contains(check.out.String(), want) {
					t.Errorf("check does not say %q: %s", want, check.out)
				}
			}
			if diff := cmp.Diff(before, filesBeside(t, db)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDamage_StopsService checks that no response is incomplete, and that the log names the command that restores a
// copy.
func TestDamage_StopsService(t *testing.T) {
	t.Parallel()
	db := newSampleDB(t)
	folder := t.TempDir()
	copied := filepath.Join(folder, time.Now().UTC().Format("callbook-20060102T150405Z.db")) // none is due
	if _, err := store.MakeBackup(t.Context(), db, copied); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, db, "--backup-dir", folder)
	if list := p.object("GET", "/api/posts?limit=1", ""); list["total"] != 20.0 {
		t.Fatalf("%v calls", list["total"])
	}
	f, err := os.OpenFile(db, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	for at := int64(8192); err == nil && at < info.Size(); at += 4096 {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), at)
	}
	if err != nil {
		t.Fatal(err)
	}
	if status, body := p.tryGet("/api/posts?limit=50"); status != 0 && status < 500 {
		t.Errorf("%d: %s", status, body)
	}
	p.wantExit(65, "damaged", "callbook restore "+copied+" --db "+db)
	if status, printed := runCommandMerged("restore", copied, "--db", db); status != 0 {
		t.Errorf("bringing it back: %d, %s", status, printed)
	}
	p = spawn(t, db)
	if list := p.object("GET", "/api/posts?limit=50", ""); list["total"] != 20.0 {
		t.Errorf("%v calls are brought back", list["total"])
	}
}

// TestMovedFile_StopsService also checks that the next start does not create a database in its place.
func TestMovedFile_StopsService(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	p := spawn(t, db)
	p.object("POST", "/api/agents", registrationJSON("tide-reader", "a@example.org"))
	if err := os.Rename(db, db+".old"); err != nil {
		t.Fatal(err)
	}
	p.wantExit(74, db, "move it back")
	p = newServeProcess(t, db)
	p.wantExit(73, "callbook restore COPY --db "+db)
	if err := os.Rename(db+".old", db); err != nil {
		t.Fatal(err)
	}
	p = spawn(t, db)
	p.object("GET", "/api/agents/tide-reader", "")
	p.stopCleanly()
}

// TestMaxSize_RejectsOnlyWrites checks that agents can delete themselves, and that others can register again then.
func TestMaxSize_RejectsOnlyWrites(t *testing.T) {
	t.Parallel()
	db := newSampleDB(t)
	execDatabase(t, db, `INSERT INTO site (name, value) VALUES ('big', zeroblob(9400000))`)
	p := startServe(t, db, "--max-size=10MB", "--limits=off")
	status, body := 201, ""
	var keys []string
	for i := 0; i < 300 && status == 201; i++ { // until the records take 10 MB
		status, body = p.call("POST", "/api/agents", registrationJSON(fmt.Sprintf("one-more-%d", i), "a@example.org"))
		_, key, _ := strings.Cut(body, `"api_key":"`)
		key, _, _ = strings.Cut(key, `"`)
		keys = append(keys, key)
	}
	if status != 503 || !strings.Contains(body, "storage_full") {
		t.Errorf("%d %s", status, body)
	}
	p.object("GET", "/api/agents/tide-reader-1", "")
	for i, key := range keys[:len(keys)-1] {
		if status, body := p.call("DELETE", fmt.Sprintf("/api/me?confirm=one-more-%d", i), "", "Authorization: Bearer "+key); status != 204 {
			t.Errorf("deletion %d: %d %s", i, status, body)
		}
	}
	if status, body := p.call("POST", "/api/agents", registrationJSON("after-all", "a@example.org")); status != 201 {
		t.Errorf("in the room of %d others: %d %s", len(keys)-1, status, body)
	}
	p.stop()
	for setting, want := range map[string]string{"12MB": "12000000", "1 GiB": "1073741824", "20000000": "20000000", "0": "0"} {
		if _, printed := runCommandMerged("check", "--addr=127.0.0.1:0", "--db", db, "--max-size", setting); !strings.Contains(printed, "CALLBOOK_MAX_SIZE="+want+"\n") {
			t.Errorf("%s: %s", setting, printed)
		}
	}
	for _, setting := range []string{"9MB", "-1", "10 parsecs", "MB", "1e7", "99999999TiB"} {
		if status, printed := runCommandMerged("serve", "--addr=127.0.0.1:0", "--db", db, "--max-size="+setting); status != 64 || !strings.Contains(printed, "--max-size") {
			t.Errorf("%s: %d, %s", setting, status, printed)
		}
	}
}

// TestFiles_ArePrivate checks the permissions of all files under a permissive umask.
func TestFiles_ArePrivate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db, mails, copies := filepath.Join(folder, "callbook.db"), filepath.Join(folder, "mails"), filepath.Join(folder, "copies")
	open := func(args ...string) *process { return spawnByShell(t, "umask 000", nil, args...) }
	if err := os.Mkdir(mails, 0o700); err != nil { // the program does not create it
		t.Fatal(err)
	}
	p := open("serve", "--addr=127.0.0.1:0", "--db", db, "--mail=dir:"+mails, "--backup-dir", copies)
	p.wantServing()
	if rejection := p.requestCode(p.registerAgent("tide-reader", "a@example.org")); rejection != "" {
		t.Fatal(rejection)
	}
	waitFor(t, "a mail lies in the folder", func() bool { files, _ := filepath.Glob(mails + "/*.eml"); return len(files) > 0 })
	ends := func(args ...string) {
		t.Helper()
		p := open(args...)
		if status := p.wait(); status != 0 {
			t.Errorf("%q: status %d, %s", args, status, p.err)
		}
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid)); err == nil && !strings.Contains(string(text), "Umask:\t0077") {
		t.Errorf("the umask of the process: %s", text)
	}
	ends("backup", filepath.Join(folder, "copy.db"), "--db", db)
	p.wantPrivate(folder, "callbook.db", "callbook.db-wal", "callbook.db-shm", "callbook.db.lock", "copy.db", "copies")
	p.stopCleanly()
	ends("restore", filepath.Join(folder, "copy.db"), "--db", db)
	p.wantPrivate(folder, "callbook.db")
	if replaced, _ := filepath.Glob(db + ".before-restore-*"); len(replaced) != 1 {
		t.Errorf("replaced databases: %q", replaced)
	}
}

// wantPrivate checks the permissions of all files in a folder, and that some files are among them.
func (p *process) wantPrivate(folder string, want ...string) {
	p.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		found[filepath.Base(path)] = true
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			p.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range want {
		if !found[name] {
			p.Errorf("there is no %s", name)
		}
	}
}

// TestFiles_OpenedByStoreOnly reads the source: closing a database file releases SQLite's locks on it for the whole
// process, so that only the store opens one, and only while SQLite has not.
func TestFiles_OpenedByStoreOnly(t *testing.T) {
	opens := regexp.MustCompile(`\bos\.(?:Open\w*|Create\w*|ReadFile|WriteFile|ReadDir|Truncate)\(.*(?:(?i:\bdb\b|database)|-wal|-shm)`)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == "store" {
			return err
		}
		for _, found := range opens.FindAllString(readText(t, root+path), -1) {
			t.Errorf("%s: %s", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
