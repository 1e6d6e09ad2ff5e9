package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"callbook/testdata/proof"
)

// test is where figures come from: a test that reports them, or a fuzz target, whose
// inputs are counted.
type test struct {
	folder string
	name   string
	fuzz   bool
	race   bool // runs under the race detector
	alone  bool // measures time, so that nothing else runs beside it
}

// with tells whether one `go test` can run both.
func (t test) with(other test) bool {
	t.name = other.name
	return t == other && !t.fuzz
}

// report is what became of a test.
type report struct {
	figures figures
	parts   []string // that passed
	ended   bool
	failure string // that it told of: its own, or that a part of it is skipped
}

// fault is why the test shows nothing; empty when it passed.
func (r *report) fault() string {
	if r.failure == "" && !r.ended {
		return "it did not run to its end"
	}
	return r.failure
}

// Figures that tests do not report themselves: the inputs of a fuzz target, and how
// many parts of a test pass that have no parts themselves.
const (
	inputs = "inputs"
	cases  = "cases"
)

// cases counts the parts that have none; the test itself is one when it has none.
func (r *report) cases() (n int) {
	for _, part := range r.parts {
		if !slices.ContainsFunc(
			r.parts,
			func(other string) bool { return strings.HasPrefix(other, part+"/") },
		) {
			n++
		}
	}

	return max(1, n)
}

// run runs tests that one `go test` can run together.
func run(ctx context.Context, s settings, tests []test) map[test]*report {
	args := []string{"test", "-json", "-count=1", "-timeout=4h"}
	if tests[0].race {
		args = append(args, "-race")
	}

	if tests[0].fuzz {
		each := fuzzShort
		if s.long {
			each = fuzzLong
		}

		args = append(
			args,
			"-run=^$",
			"-fuzz=^"+tests[0].name+"$",
			"-fuzztime="+each.String(),
			"-fuzzminimizetime=5s",
		)
	} else {
		var names []string
		for _, t := range tests {
			names = append(names, t.name)
		}

		args = append(args, "-run=^("+strings.Join(names, "|")+")$", "-parallel=3")
	}

	command := exec.CommandContext(ctx, "go", append(args, tests[0].folder)...)
	command.Env = append(os.Environ(), proof.Variable+"="+s.form())
	if tests[0].race {
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}

	asGroup(command)
	command.WaitDelay = time.Minute
	reports := map[test]*report{}

	for _, t := range tests {
		reports[t] = &report{figures: figures{}}
	}

	out, err := command.StdoutPipe()
	command.Stderr = command.Stdout
	if err = cmp.Or(err, command.Start()); err != nil {
		fmt.Fprintln(s.progress, err)
		return reports
	}

	r := reader{settings: s, reports: reports, outputs: map[string][]string{}}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}

		if err != nil {
			break
		}
	}

	if err := command.Wait(); err != nil {
		fmt.Fprintf(s.progress, "%s: %v\n", tests[0].folder, err)
		r.print("")
	}

	return reports
}

// event is a line of `go test -json`.
type event struct {
	Action, Test, Output, Key, Value string
	Elapsed                          float64 // seconds
}

// reader reads what `go test -json` prints.
type reader struct {
	settings
	reports map[test]*report
	outputs map[string][]string // the last lines of each test
}

const keptLines = 100

// executions is how many inputs a fuzz target has met so far.
var executions = regexp.MustCompile(`execs: (\d+)`)

func (r *reader) line(text []byte) {
	var e event
	if json.Unmarshal(text, &e) != nil {
		e = event{Action: "output", Output: string(text)}
	}

	top, _, inner := strings.Cut(e.Test, "/")
	of := r.report(top)
	switch e.Action {
	case "output", "build-output":
		r.keep(top, e.Output)
		if found := executions.FindStringSubmatch(e.Output); found != nil {
			for t, of := range r.reports { // the only one
				if n, err := strconv.Atoi(found[1]); err == nil && t.fuzz {
					of.figures[inputs] = []int{n}
				}
			}
		}

	case "attr":
		if n, err := strconv.Atoi(e.Value); err == nil && of != nil {
			name := proof.FigureName(e.Key)
			of.figures[name] = append(of.figures[name], n)
		}

	case "skip":
		if of != nil {
			of.failure = e.Test + " is skipped"
			r.print(top)
		}

	case "pass":
		switch {
		case of == nil:
		case inner:
			of.parts = append(of.parts, e.Test)

		default:
			of.ended = true
			of.figures[cases] = []int{of.cases()}
			fmt.Fprintf(
				r.progress,
				"%s %s passes after %.0f s\n",
				time.Now().Format(time.TimeOnly),
				top,
				e.Elapsed,
			)
		}

	case "fail":
		if of == nil || inner {
			return
		}

		if of.ended = r.overtime(top); !of.ended {
			of.failure = "it fails"
			r.print(top)
		}
	}
}

func (r *reader) report(name string) *report {
	for t, of := range r.reports {
		if t.name == name {
			return of
		}
	}
	return nil
}

func (r *reader) keep(name, output string) {
	lines := append(r.outputs[name], output)
	r.outputs[name] = lines[max(0, len(lines)-keptLines):]
}

func (r *reader) print(name string) {
	fmt.Fprint(r.progress, strings.Join(r.outputs[name], ""))
	delete(r.outputs, name)
}

// overtime tells of a fuzz target whose time was over: the go command may take that
// for a failure; a true one names its input.
func (r *reader) overtime(name string) bool {
	has := func(is func(line string) bool) bool { return slices.ContainsFunc(r.outputs[name], is) }
	return has(
		func(line string) bool { return strings.TrimSpace(line) == "context deadline exceeded" },
	) &&
		!has(func(line string) bool {
			return strings.Contains(line, "Failing input") || strings.Contains(line, "panic")
		})
}
