// Bench measures how fast the directory is, against the goals, and repeats with one
// command:
//
//	cd testdata/bench && go run .
//
// It makes a directory of bilingual texts (kept for the next run), serves copies of
// it by child processes on loopback, and drives them over plain sockets. Absolute
// figures move by a factor of two from run to run, so every goal is a ratio of two
// sides that are timed in short turns: the median of the turns' ratios.
//
//   - The floor is net/http and httprouter with a ready body of the very size of the
//     answer that is compared.
//   - PocketBase is another server in Go on SQLite, with the same records and its own
//     defaults.
//   - Writes are compared with one transaction for each request, by the same code.
//
// The program is built as it is released and runs as it is operated: durability
// full, log on, every limit on but out of reach. Answers are checked for their
// content before a row is timed and by samples while it is; status and length
// always. The exit status is 1 when a goal is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	agents   int
	data     string
	quick    bool
	growth   bool
	only     *regexp.Regexp
	profiles string
	json     string
	markdown bool
	charts   string // folder; empty: none
	before   string // an earlier program that reads and writes are compared with; empty: none
	beforeDB string // its database with the same records; empty: that of this program
}

// bench is one run.
type bench struct {
	settings
	pace      pace
	progress  *progress
	self      string   // this program
	folder    string   // of this run
	binary    string   // the released program
	arguments []string // of every start of it
	children  []*process
	sites     map[site]*process
	fresh     map[int]bool // kept directories that are up to date, by number of agents
	writersOf map[site]*writers
	written   map[site]int // how many records were written to a site
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == roleArgument {
		os.Exit(runRole(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit statuses.
const (
	statusMet = iota
	statusMissed
	statusFailed // nothing can be said
)

func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return statusMet
	}
	if err == nil {
		var missed bool
		if missed, err = measureAll(ctx, s, stdout, stderr); missed && err == nil {
			return statusMissed
		}
	}

	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return statusFailed
	}

	return statusMet
}

func parse(args []string, stderr io.Writer) (s settings, err error) {
	cache, _ := os.UserCacheDir()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(
		&s.agents,
		"agents",
		100_000,
		"agents of the directory, with three calls each; with --quick 10000",
	)
	flags.StringVar(
		&s.data,
		"data",
		filepath.Join(cache, "callbook-bench"),
		"folder that keeps directories between runs, and holds the copies of a run",
	)
	flags.BoolVar(
		&s.quick,
		"quick",
		false,
		"two to three minutes in all: shorter turns, fewer queries, a smaller directory",
	)
	flags.BoolVar(
		&s.growth,
		"growth",
		false,
		"compare directories of 10000, 100000 and 1000000 agents too",
	)
	flags.StringVar(
		&s.profiles,
		"profile",
		"",
		"folder for a CPU profile of each row; the program then runs inside this one",
	)
	flags.StringVar(&s.json, "json", "", "file for the result as JSON")
	flags.BoolVar(
		&s.markdown,
		"markdown",
		false,
		"print the table as testdata/bench/README.md has it",
	)
	flags.StringVar(
		&s.charts,
		"charts",
		"",
		"folder for charts of the result as SVG: throughput, latency, and growth with --growth",
	)
	flags.StringVar(
		&s.before,
		"before",
		"",
		"an earlier program that serves the same directory: compare reads and writes with it",
	)
	flags.StringVar(
		&s.beforeDB,
		"before-db",
		"",
		"the same directory in a database that the program of --before can open, as its own bench made it",
	)
	only := flags.String("only", "", "regular expression: rows whose names it matches")

	if err := flags.Parse(args); err != nil {
		return s, err
	}

	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if s.quick && !given["agents"] {
		s.agents = 10_000
	}

	if flags.NArg() > 0 || s.agents < 1000 {
		return s, errors.New("it takes no arguments, and at least 1000 agents")
	}

	if s.before != "" {
		if s.before, err = filepath.Abs(s.before); err != nil {
			return s, err
		}
	}

	s.only, err = regexp.Compile(*only)
	return s, err
}

func paceOf(s settings) pace {
	if s.quick {
		return pace{turns: 5, turn: 60 * time.Millisecond, looks: 20}
	}
	return pace{turns: 9, turn: 250 * time.Millisecond, looks: 200}
}

// measureAll measures every row and prints the result.
func measureAll(
	ctx context.Context,
	s settings,
	stdout io.Writer,
	stderr *os.File,
) (missed bool, err error) {
	b := &bench{
		settings:  s,
		pace:      paceOf(s),
		progress:  newProgress(stderr),
		sites:     map[site]*process{},
		fresh:     map[int]bool{},
		writersOf: map[site]*writers{},
		written:   map[site]int{},
	}

	if b.self, err = os.Executable(); err != nil {
		return false, err
	}
	if err := b.makeFolders(); err != nil {
		return false, err
	}

	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.build(ctx); err != nil {
		return false, err
	}

	result := newResult(ctx, s)
	var failed error
	all := rows(s)
	for i, r := range all {
		if s.only.MatchString(r.name) {
			b.progress.show("%d of %d: %s", i+1, len(all), r.what)
			f, err := r.measure(ctx, b, r.name)
			if err == nil {
				result.add(r, f)
			} else { // the rows before it took long, and those behind it need not fail
				failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
			}

			if ctx.Err() != nil {
				break
			}
		}

		if err := b.leave(r.last...); err != nil {
			return false, err
		}
	}

	b.progress.end()
	return result.missed(), errors.Join(failed, result.print(s, stdout))
}

func (b *bench) makeFolders() (err error) {
	if err := os.MkdirAll(b.data, 0o700); err != nil {
		return err
	}

	if b.profiles != "" {
		if b.profiles, err = filepath.Abs(b.profiles); err != nil {
			return err
		}
		if err := os.MkdirAll(b.profiles, 0o700); err != nil {
			return err
		}
	}

	if err := removeOld(b.data); err != nil {
		return err
	}

	// Beside the kept directories: on a disk, and where copies may share its blocks.
	b.folder, err = os.MkdirTemp(b.data, fmt.Sprintf("run-%d-", os.Getpid()))
	return err
}

// removeOld deletes the copies of runs that were killed.
func removeOld(folder string) error {
	left, err := filepath.Glob(filepath.Join(folder, "run-*"))
	for _, name := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "run-"), "-")
		if n, noNumber := strconv.Atoi(pid); noNumber == nil && gone(n) {
			err = errors.Join(err, os.RemoveAll(name))
		}
	}

	return err
}

func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// close ends every child and deletes what the run alone needed.
func (b *bench) close() error {
	b.progress.end()
	for _, p := range b.children {
		p.stop()
	}
	return os.RemoveAll(b.folder)
}
