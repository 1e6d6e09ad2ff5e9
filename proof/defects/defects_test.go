package defects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/proof"
)

// TestSeededDefects builds tests with one defect at a time, beside the checkout, in
// which nothing is changed. A defect is caught when one of its tests fails that passes
// without it; one that does not build or has a test run on for ever is not.
func TestSeededDefects(t *testing.T) {
	b := newBench(t)
	for _, d := range defects {
		b.check(d)
	}
	days := proof.Rounds(0, len(defects)/8, 1)
	if days == 0 || t.Failed() {
		return
	}
	var tried, caught atomic.Int64
	places := make(chan struct{}, 2)
	t.Run("caught", func(t *testing.T) {
		for i := int(time.Now().Unix()/86400) % days; i < len(defects); i += days {
			t.Run(defects[i].what, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				tried.Add(1)
				if b.catches(t, defects[i]) {
					caught.Add(1)
				}
			})
		}
	})
	proof.Figure(t, "defects", int(tried.Load()))
	proof.Figure(t, "caught", int(caught.Load()))
}

// bench is where tests are built and run.
type bench struct {
	testing.TB
	root  string   // the module's folder
	whole sync.Map // folder to its tests without a defect, built once
}

func newBench(t testing.TB) *bench {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return &bench{TB: t, root: root}
}

// check keeps the list from rotting: what a defect changes is there, once, and so are
// its tests.
func (b *bench) check(d defect) {
	text, err := os.ReadFile(filepath.Join(b.root, d.file))
	if n := strings.Count(string(text), d.old); err != nil || n != 1 || d.old == d.new {
		b.Errorf("%s: what it changes stands %d times in %s (%v)", d.what, n, d.file, err)
	}
	for name := range strings.SplitSeq(d.tests, "|") {
		if !b.hasTest(d.folder, name) {
			b.Errorf("%s: there is no %s in %s", d.what, name, d.folder)
		}
	}
}

func (b *bench) hasTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(b.root, folder, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T) {\n")) {
			return true
		}
	}
	return false
}

// catches tells whether a test of the defect fails with it.
func (b *bench) catches(t *testing.T, d defect) bool {
	first, _ := b.whole.LoadOrStore(d.folder, sync.OnceValues(func() (string, error) {
		return b.build(filepath.Join(b.TempDir(), "whole.test"), d.folder)
	}))
	whole, err := first.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	if ends, out := b.run(whole, d); len(ends) == 0 || strings.Trim(ends, "P") != "" {
		t.Fatalf("without the defect:\n%s", out)
	}
	folder := t.TempDir()
	defective, err := b.build(filepath.Join(folder, "defect.test"), d.folder, "-overlay="+b.overlay(d, folder))
	if err != nil {
		t.Fatal(err)
	}
	ends, out := b.run(defective, d)
	if !strings.Contains(ends, "F") {
		t.Errorf("no test of it fails:\n%s", out)
		return false
	}
	return true
}

// overlay writes the changed file, and for the go command that it stands in for that
// of the checkout.
func (b *bench) overlay(d defect, folder string) (name string) {
	path, changed := filepath.Join(b.root, d.file), filepath.Join(folder, filepath.Base(d.file))
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(changed, bytes.Replace(text, []byte(d.old), []byte(d.new), 1), 0o600)
	}
	list, _ := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	name = filepath.Join(folder, "overlay.json")
	if err == nil {
		err = os.WriteFile(name, list, 0o600)
	}
	if err != nil {
		b.Error(err)
	}
	return name
}

func (b *bench) build(program, folder string, flags ...string) (string, error) {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", program}, flags...)
	command := exec.CommandContext(b.Context(), "go", append(args, "./"+folder)...)
	command.Dir = b.root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests in %s: %w\n%s", folder, err, out)
	}
	return program, nil
}

var testEnd = regexp.MustCompile(`(?m)^--- ([PFS])(?:ASS|AIL|KIP): `)

// run runs the tests of a defect as far as they go without the proof, and returns how
// each ended: P, F or S. Nothing is known of them when one does not end.
func (b *bench) run(program string, d defect) (ends, out string) {
	command := exec.CommandContext(b.Context(), program, "-test.run=^("+d.tests+")$", "-test.v", "-test.timeout=2m")
	command.Dir = filepath.Join(b.root, d.folder)
	command.Env = append(os.Environ(), proof.Variable+"=")
	printed, _ := command.CombinedOutput() // it tells more than the status does
	out = string(printed[max(0, len(printed)-8000):])
	if bytes.Contains(printed, []byte("\npanic: test timed out")) {
		return "", out
	}
	for _, end := range testEnd.FindAllSubmatch(printed, -1) {
		ends += string(end[1])
	}
	return ends, out
}
