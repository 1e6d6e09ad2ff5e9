package schema

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// released holds the SHA-256 of the migrations that were released, by file: databases out there have
// run them. Nothing was released yet. Each release that adds a file adds its line here, in the commit
// that is tagged, with the sum that sha256sum prints:
//
//	"00001_directory.sql": "…",
var released = map[string]string{}

func TestMigrations_ReleasedFilesAreUnchanged(t *testing.T) {
	for _, fault := range changed(Migrations, released) {
		t.Error(fault)
	}

	// The list is empty at first, so that the check itself is checked, too.
	files := fstest.MapFS{"00001_a.sql": {Data: []byte("a\r\n")}, "00002_b.sql": {Data: []byte("b\n")}}
	const sumOfA = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"

	for file, faults := range map[string]int{"00001_a.sql": 0, "00002_b.sql": 1, "00003_c.sql": 1} {
		if got := changed(files, map[string]string{file: sumOfA}); len(got) != faults {
			t.Errorf("%s: %q, want %d faults", file, got, faults)
		}
	}
}

// changed describes the released files that are missing or changed.
func changed(files fs.FS, released map[string]string) (faults []string) {
	for file, want := range released {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s was released and is gone: %v", file, err))
			continue
		}

		// Git may give a checkout on Windows other ends of lines.
		sum := sha256.Sum256([]byte(strings.ReplaceAll(string(text), "\r\n", "\n")))
		if got := fmt.Sprintf("%x", sum); got != want {
			faults = append(faults, fmt.Sprintf("%s was released and is changed: its sum is %s, not %s; "+
				"what it should have done is the work of a new file", file, got, want))
		}
	}
	return faults
}

var (
	ofTransactions = regexp.MustCompile(`(?i)\b(NO TRANSACTION|PRAGMA|VACUUM|ATTACH|BEGIN|COMMIT)\b`)
	column         = regexp.MustCompile(`^ {4}([a-z_]+)( (TEXT|INTEGER|BLOB|REAL|ANY)\b|,$)`)
	comment        = regexp.MustCompile(`^ *-- \S`)
)

func TestMigrations_KeepTheRules(t *testing.T) {
	files, err := fs.Glob(Migrations, "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("migrations: %v, %v", files, err)
	}

	for _, file := range files {
		text, err := fs.ReadFile(Migrations, file)
		if err != nil {
			t.Fatal(err)
		}

		// All of the text is run, so what goose would take for the way back would run, too.
		if !strings.HasPrefix(string(text), "-- +goose Up\n") || strings.Count(string(text), "+goose") > 1 {
			t.Errorf("%s: it begins with the line -- +goose Up, and holds no other of goose's words", file)
		}

		table, before := "", ""
		for n, line := range strings.Split(string(text), "\n") {
			sql, _, _ := strings.Cut(line, "--")
			switch {
			case ofTransactions.MatchString(sql):
				t.Errorf("%s:%d: a migration runs inside one transaction: %s", file, n+1, line)
			case (strings.HasPrefix(sql, "CREATE") || column.MatchString(line)) && !comment.MatchString(before):
				t.Errorf("%s:%d: it has no comment above it: %s", file, n+1, line)
			case strings.HasPrefix(sql, ")") && strings.HasPrefix(table, "CREATE TABLE") && sql != ") STRICT;":
				t.Errorf("%s:%d: the table is not STRICT: %s", file, n+1, table)
			}

			if strings.HasPrefix(sql, "CREATE") {
				table = sql
			}
			before = line
		}
	}
}
