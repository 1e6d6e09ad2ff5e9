package systemtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store"
	"callbook/store/domain"
)

func newDB(t testing.TB) string { return filepath.Join(t.TempDir(), "callbook.db") }

// newSampleDB returns a database with some agents and a call, after a normal stop.
func newSampleDB(t testing.TB) (db string) {
	t.Helper()
	db = filepath.Join(t.TempDir(), "callbook.db")
	st, err := store.Open(t.Context(), store.Options{Path: db, Normal: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		handle := fmt.Sprintf("tide-reader-%d", i)
		r, _, registerErr := st.Register(t.Context(), domain.Registration{
			Handle: handle, Name: "A", Owner: "B", Mailbox: handle + "@example.org", AcceptRules: true,
			Profile: domain.Profile{DescriptionEN: strings.Repeat("Reads tides. ", 40)},
		}, domain.IdempotencyKey{})
		_, _, postErr := st.CreatePost(t.Context(), domain.Caller{ID: r.Agent.ID, Handle: handle}, domain.PostDraft{
			Kind: "seeking", Title: "Tides", Body: strings.Repeat("Hourly levels. ", 80),
		}, domain.IdempotencyKey{})
		err = errors.Join(err, registerErr, postErr)
	}
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return db
}

// withDatabase runs SQL on the file of a stopped program.
func withDatabase(t testing.TB, db string, act func(*sql.DB) error) {
	t.Helper()
	file, err := sql.Open("sqlite", "file:"+db)
	if err == nil {
		err = errors.Join(act(file), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// execDatabase changes a database that no process serves.
func execDatabase(t testing.TB, path, query string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err == nil {
		_, err = db.Exec(query, args...)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shiftTimes sets all times of mails and codes back, as if that much time had passed.
func shiftTimes(t testing.TB, db string, d time.Duration) {
	t.Helper()
	withDatabase(t, db, func(file *sql.DB) (err error) {
		for _, change := range []string{
			`UPDATE outbox SET next_try_at = next_try_at - ?1, created_at = created_at - ?1, expires_at = expires_at - ?1`,
			`UPDATE codes SET created_at = created_at - ?1, expires_at = expires_at - ?1`,
			`UPDATE mail_log SET at = at - ?1`,
		} {
			_, failed := file.Exec(change, d.Milliseconds())
			err = errors.Join(err, failed)
		}
		return err
	})
}

// lockForWriting locks a database like another process, so that nothing can be written until it is released.
func lockForWriting(t testing.TB, db string) (release func()) {
	t.Helper()
	other, err := sqlx.Open("sqlite", "file:"+db+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	held, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := held.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// integrityErrors checks a database more closely than the program does.
func integrityErrors(db string) (faults string) {
	d, err := sql.Open("sqlite", "file:"+db)
	if err == nil {
		err = errors.Join(d.QueryRow(`
			SELECT (SELECT COALESCE(GROUP_CONCAT(integrity_check), '') FROM pragma_integrity_check WHERE integrity_check <> 'ok') ||
				(SELECT COALESCE(GROUP_CONCAT("table"), '') FROM pragma_foreign_key_check)`).Scan(&faults), d.Close())
	}
	if err != nil {
		return err.Error()
	}
	return faults
}

// wantIntact checks a database that no process serves.
func wantIntact(t testing.TB, db string) {
	t.Helper()
	if _, err := store.VerifyFile(context.Background(), db, false); err != nil {
		t.Errorf("%s is not whole: %v", db, err)
	}
}

// filesBeside returns the contents of the files beside a database, except the lock.
func filesBeside(t testing.TB, db string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Dir(db), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		data, err := os.ReadFile(path)
		files[filepath.Base(path)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// newDBOfNewerVersion returns a file with the schema of a later version.
func newDBOfNewerVersion(t testing.TB) string {
	t.Helper()
	path := newDB(t)
	st, err := store.Open(t.Context(), store.Options{Path: path})
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	execDatabase(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
	return path
}

// writeFile writes a file, and makes its folder.
func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readText(t testing.TB, name string) string {
	t.Helper()
	return string(readFile(t, name))
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// newSettingsFile returns a file of settings for --config.
func newSettingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.toml")
	writeFile(t, path, []byte(text))
	return path
}

// firstLine returns the first line of a log that contains a text.
func firstLine(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// freeAddress returns an address on which no process listens. Its port is below those that systems choose for connections
// and listeners, so that none of the tests beside it gets the port before it is used.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// startBeside runs a program that serves an address until the test ends, and returns its output.
func startBeside(t testing.TB, addr string, command *exec.Cmd) *output {
	t.Helper()
	out := &output{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = command.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = command.Process.Kill()
		}
		if t.Failed() {
			t.Logf("%s: %s", command, out)
		}
	})
	waitFor(t, command.Path+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ends: %s", command, out)
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return out
}
