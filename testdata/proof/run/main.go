// Run runs the tests of Callbook's claims, prints their table, and fails where a figure
// falls short:
//
//	go run ./testdata/proof/run        # within 10 minutes, as CI does
//	go run ./testdata/proof/run -long  # about four hours; with -keep FILE, in several runs
//
// It runs in the repository's folder.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"callbook/testdata/proof"
)

type settings struct {
	long     bool
	only     *regexp.Regexp
	keep     string // file; empty for none
	progress io.Writer
}

// form is what tests are told of how much they try.
func (s settings) form() string {
	if s.long {
		return proof.Long
	}
	return proof.Short
}

// How long each fuzz target looks for inputs.
const (
	fuzzShort = 5 * time.Second
	fuzzLong  = 6 * time.Minute
)

func main() {
	isLong := flag.Bool("long", false, "try as much as the published figures need: hours")
	only := flag.String("only", "", "regular `expression`: claims whose names it matches")
	keep := flag.String(
		"keep",
		"",
		"`file` for what tests report: with it, a run that is cut off goes on where it was, at the same commit",
	)
	list := flag.Bool("list", false, "print the names of the claims, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	matches, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, cmp.Or(err, fmt.Errorf("no argument is known, only flags")))
		os.Exit(2)
	}

	if *list {
		for _, c := range claims {
			fmt.Println(c.name)
		}

		return
	}

	if !prove(ctx, settings{*isLong, matches, *keep, os.Stderr}) {
		stop()
		os.Exit(1)
	}
}

// prove tells whether every claim holds.
func prove(ctx context.Context, s settings) bool {
	begun, commit := time.Now(), proof.Commit(ctx)
	var outcomes []outcome
	for _, c := range claims {
		if s.only.MatchString(c.name) {
			outcomes = append(outcomes, outcome{claim: c, figures: figures{}})
		}
	}

	earlier := recall(s.keep, commit, s.long)
	reports := runAll(ctx, s, groups(outcomes, earlier), func(some map[test]*report) {
		earlier.add(some)
		if err := earlier.keep(s.keep); err != nil {
			fmt.Fprintln(s.progress, err)
		}
	})

	earlier.Took += time.Since(begun)
	if err := earlier.keep(s.keep); err != nil {
		fmt.Fprintln(s.progress, err)
	}

	for i := range outcomes {
		o := &outcomes[i]
		for _, t := range o.tests {
			r := cmp.Or(reports[t], earlier.report(t))
			for name, all := range r.figures {
				o.figures[name] = append(o.figures[name], all...)
			}

			if fault := r.fault(); fault != "" {
				o.faults = append(o.faults, t.name+": "+fault)
			}
		}
	}

	if now := proof.Commit(context.WithoutCancel(ctx)); now != commit {
		commit += " to " + now // each group of tests is built when its turn comes
	}

	fmt.Printf(
		"%s, commit %s, %s, %s, %s form of %s\n\n%s",
		time.Now().UTC().Format(time.DateOnly),
		commit,
		runtime.Version(),
		proof.Machine(),
		s.form(),
		earlier.Took.Round(time.Second),
		markdown(outcomes, s.long),
	)

	holds := len(outcomes) > 0
	for _, o := range outcomes {
		for _, what := range o.short(s.long) {
			fmt.Printf("\nFALLS SHORT: %s: %s\n", o.name, what)
			holds = false
		}
	}

	return holds
}

// groups are the tests of claims, those together that one `go test` runs, and first
// those that nothing runs beside. A test that several claims name runs once, and one that
// passed in an earlier run does not.
func groups(outcomes []outcome, earlier past) (all [][]test) {
	seen := map[test]bool{}
	for _, o := range outcomes {
		for _, t := range o.tests {
			if seen[t] || earlier.report(t) != nil {
				continue
			}

			seen[t] = true
			i := slices.IndexFunc(all, func(g []test) bool { return g[0].with(t) })
			if i < 0 {
				all = append(all, []test{t})
				continue
			}

			all[i] = append(all[i], t)
		}
	}

	turn := func(g []test) int {
		if g[0].alone {
			return 0
		}

		return 1
	}

	slices.SortStableFunc(all, func(a, b []test) int { return turn(a) - turn(b) })
	return all
}

// beside is how many groups run at once.
const beside = 2

// runAll runs groups of tests, and tells of each group when it has ended.
func runAll(
	ctx context.Context,
	s settings,
	all [][]test,
	ended func(map[test]*report),
) map[test]*report {
	reports := map[test]*report{}
	var mu sync.Mutex
	var running sync.WaitGroup
	places := make(chan struct{}, beside)

	for i, group := range all {
		places <- struct{}{}
		fmt.Fprintf(
			s.progress,
			"%s %d of %d: %s\n",
			time.Now().Format(time.TimeOnly),
			i+1,
			len(all),
			group[0].folder,
		)
		running.Go(func() {
			defer func() { <-places }()
			some := run(ctx, s, group)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(reports, some)
			ended(some)
		})

		if group[0].alone {
			running.Wait()
		}
	}

	running.Wait()
	return reports
}
