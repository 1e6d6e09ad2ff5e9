package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"callbook/store/sqlitedb"
)

// setTerminal makes every output a terminal, or none.
func setTerminal(t *testing.T, is bool) {
	before := isTerminal
	isTerminal = func(io.Writer) bool { return is }
	t.Cleanup(func() { isTerminal = before })
}

// TestProgress_IsALine shows an operation of two steps, which report once a second.
func TestProgress_IsALine(t *testing.T) {
	for name, tt := range map[string]struct {
		terminal       bool
		copying, check int64 // duration of the steps in seconds
		want           string
	}{
		"on a terminal": {true, 3, 2, "\r\x1b[Kcopying\r\x1b[Kcopying: 33 %, about 2s left\r\x1b[Kcopying: 66 %, about 1s left\r\x1b[Kcopying\r\x1b[Kchecking\r\x1b[Kchecking: 50 %, about 1s left\r\x1b[Kchecking\r\x1b[K"},
		"in a file":     {false, 25, 20, "copying: 40 %, about 15s left\ncopying: 80 %, about 5s left\nchecking: 25 %, about 15s left\nchecking: 75 %, about 5s left\n"},
		"a short one":   {false, 5, 4, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			setTerminal(t, tt.terminal)
			var out strings.Builder
			ctx, end := showProgress(t.Context(), &out, func(text string) { fmt.Fprintln(&out, text) })
			for _, step := range []struct {
				name  string
				total int64
			}{{"copying", tt.copying}, {"checking", tt.check}} {
				for done := range step.total {
					sqlitedb.ReportProgress(ctx, step.name, done, step.total)
					time.Sleep(time.Second)
				}
				sqlitedb.ReportProgress(ctx, step.name, step.total, step.total)
			}
			end()
			if out.String() != tt.want {
				t.Errorf("%s: %q, want %q", name, out.String(), tt.want)
			}
		})
	}
}

// TestProgress_LeavesTheResultAlone: the output of a command has its result only, also on a terminal.
func TestProgress_LeavesTheResultAlone(t *testing.T) {
	db := newDatabase(t)
	for _, terminal := range []bool{false, true} {
		setTerminal(t, terminal)
		copied := filepath.Join(t.TempDir(), "copy.db")
		for _, args := range [][]string{{"backup", copied}, {"restore", copied}, {"compact"}} {
			status, out, errors := helped(t, append(args, "--db", db)...)
			if status != 0 || strings.Contains(out, clearLine) || strings.Count(out, "\n") > 2 || !terminal && errors != "" {
				t.Errorf("terminal %v, %s: %d %q %q", terminal, args[0], status, out, errors)
			}
		}
	}
}

// stopper ends a command once it has written a text.
type stopper struct {
	strings.Builder
	text string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	n, err := s.Builder.Write(p)
	if strings.Contains(s.String(), s.text) {
		s.stop()
	}
	return n, err
}

// TestServe_PrintsItsAddressOnATerminal: a URL to open, besides the log. Elsewhere, standard output stays empty.
func TestServe_PrintsItsAddressOnATerminal(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		setTerminal(t, terminal)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var out strings.Builder
		log := &stopper{text: "callbook is serving", stop: stop}
		status := Run(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--base-url", "https://directory.example.org", "--db", filepath.Join(t.TempDir(), "callbook.db")}, nil, &out, log)
		want := map[bool]string{true: "The directory: https://directory.example.org (Ctrl-C stops it)\n"}[terminal]
		if status != 0 || out.String() != want {
			t.Errorf("terminal %v: %d %q\n%s", terminal, status, out.String(), log.String())
		}
	}
}
