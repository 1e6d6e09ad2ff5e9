package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// site is one of the processes that rows are measured on. Each is started when the
// first row asks for it.
type site string

// The sites. Those with a directory have a copy of their own.
const (
	cached     site = "cached"     // the program as it is released
	uncached   site = "uncached"   // the same without its cache of answers
	floor      site = "floor"      // a ready body through net/http and httprouter
	shared     site = "shared"     // store and server in this program, as they are
	alone      site = "alone"      // the same with one transaction for each request
	pocketBase site = "pocketbase" // with the same records

	cachedTLS      site = "cached https"    // like cached, with --domain
	floorTLS       site = "floor https"     // like floor, with the same certificate
	pocketBaseFull site = "pocketbase full" // like pocketBase, with synchronous=FULL

	cachedBefore   site = "cached before"   // like cached, by the program of --before
	uncachedBefore site = "uncached before" // like uncached, by the program of --before
)

// ofSize is an uncached site with another number of agents.
func ofSize(agents int) site { return site("of " + strconv.Itoa(agents)) }

// on returns a site's process.
func (b *bench) on(ctx context.Context, s site) (*process, error) {
	p := b.sites[s]
	if p == nil {
		b.progress.show("starting %s", s)
		var err error
		if p, err = b.startSite(ctx, s); err != nil {
			return nil, err
		}

		b.sites[s] = p
	}

	return p, b.warm(s)
}

// warm reads a site's files, so that no row waits for the disk because the system has
// dropped them for those of the rows before.
func (b *bench) warm(s site) error {
	return filepath.WalkDir(b.folder, func(path string, entry fs.DirEntry, err error) error {
		own := strings.HasPrefix(path, b.database(string(s))) ||
			strings.HasPrefix(path, filepath.Join(b.folder, string(s))+string(filepath.Separator))
		if err != nil || !own || !entry.Type().IsRegular() {
			return err
		}

		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // a log that was folded in meanwhile
			return nil
		}
		if err != nil {
			return err
		}

		defer file.Close()
		_, err = io.Copy(io.Discard, file)
		return err
	})
}

func (b *bench) startSite(ctx context.Context, s site) (*process, error) {
	switch s {
	case floor:
		return b.start(ctx, b.role(string(s), "/ready/1"))

	case cachedTLS, floorTLS:
		return b.startTLS(ctx, s)

	case pocketBase, pocketBaseFull:
		return b.startPocketBase(ctx, s)

	case shared, alone:
		return b.startWriting(ctx, s)

	case cachedBefore, uncachedBefore:
		return b.startBefore(ctx, s)

	case cached:
		path, err := b.copy(ctx, string(s), b.agents)
		if err != nil {
			return nil, err
		}
		if b.writersOf[s], err = admit(ctx, path, b.agents); err != nil {
			return nil, err
		}

		return b.startProgram(ctx, s, path)
	}

	agents := b.agents
	if size, ok := strings.CutPrefix(string(s), "of "); ok {
		agents, _ = strconv.Atoi(size)
	}

	path, err := b.copy(ctx, string(s), agents)
	if err != nil {
		return nil, err
	}

	return b.startProgram(ctx, s, path, "--cache-size", "0")
}

// leave ends sites that no later row needs, and deletes their directories.
func (b *bench) leave(sites ...site) error {
	var errs []error
	for _, s := range sites {
		if p := b.sites[s]; p != nil {
			p.stop()
			delete(b.sites, s)
		}

		errs = append(
			errs,
			removeDatabase(b.database(string(s))),
			os.RemoveAll(filepath.Join(b.folder, string(s))),
		)
	}

	return errors.Join(errs...)
}

func (b *bench) database(name string) string { return filepath.Join(b.folder, name+".db") }

// copy makes a copy of a kept directory for one site, which keeps it when it is
// started again.
func (b *bench) copy(ctx context.Context, name string, agents int) (path string, err error) {
	path = b.database(name)
	if sqlitedb.Exists(path) {
		return path, nil
	}

	kept, err := b.kept(ctx, agents)
	if err != nil {
		return "", err
	}

	b.progress.show("copying the directory for %s", name)
	return path, copyFile(kept, path)
}

// role is this program in another role.
func (b *bench) role(name, ready string, args ...string) launch {
	return launch{
		name:  name,
		path:  b.self,
		ready: ready,
		args: func(addr string) []string {
			return append([]string{roleArgument, name, addr}, args...)
		},
	}
}

// startBefore serves a copy by the program of --before.
func (b *bench) startBefore(ctx context.Context, s site) (*process, error) {
	path, kept := b.database(string(s)), b.beforeDB
	if kept == "" {
		var err error
		if kept, err = b.kept(ctx, b.agents); err != nil {
			return nil, err
		}
	}

	if !sqlitedb.Exists(path) {
		b.progress.show("copying the directory for %s", s)
		if err := copyFile(kept, path); err != nil {
			return nil, err
		}
	}

	args, err := b.argumentsOf(ctx, b.before)
	if err != nil {
		return nil, err
	}

	if s == uncachedBefore {
		args = append(args, "--cache-size", "0")
	} else {
		b.writersOf[s] = b.writersOf[cached] // whose row began before
		if err := admitBefore(ctx, path, b.writersOf[s].keys, b.agents); err != nil {
			return nil, err
		}
	}

	return b.start(ctx, launchOf(b.before, string(s), path, args...))
}

// startProgram serves a directory as the released program does.
func (b *bench) startProgram(
	ctx context.Context,
	s site,
	path string,
	more ...string,
) (*process, error) {
	l := b.program(string(s), path, more...)
	l.tls = s == cachedTLS
	if b.profiles != "" {
		var err error
		if l.control, err = freeAddress(); err != nil {
			return nil, err
		}

		args := l.args
		l.path = b.self
		l.args = func(addr string) []string {
			return append([]string{roleArgument, "program", l.control}, args(addr)...)
		}
	}

	return b.start(ctx, l)
}

// program is the released program on a directory: every limit on, but out of reach.
func (b *bench) program(name, path string, more ...string) launch {
	return launchOf(b.binary, name, path, slices.Concat(b.arguments, more)...)
}

func launchOf(program, name, path string, more ...string) launch {
	return launch{
		name:  name,
		path:  program,
		ready: "/healthz",
		args: func(addr string) []string {
			return append(
				[]string{"serve", "--db", path, "--addr", addr, "--log", "json", "--mail", "off"},
				more...)
		},
	}
}

// build makes the program as it is released.
func (b *bench) build(ctx context.Context) error {
	b.progress.show("building the program")
	b.binary = filepath.Join(b.folder, "callbook")
	cmd := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-trimpath",
		"-ldflags",
		"-s -w",
		"-o",
		b.binary,
		".",
	)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")

	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program (run the bench in testdata/bench): %w\n%s", err, text)
	}

	var err error
	b.arguments, err = b.argumentsOf(ctx, b.binary)
	return err
}

// argumentsOf returns what sets every limit of a program out of reach, and permits every disk. An
// earlier program has a flag for each limit.
func (b *bench) argumentsOf(ctx context.Context, program string) (args []string, err error) {
	help, err := exec.CommandContext(ctx, program, "serve", "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("read the program's help: %w", err)
	}

	names := limitFlag.FindAllString(string(help), -1)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		args = append(args, name, outOfReach)
	}
	if len(names) == 0 {
		file := filepath.Join(b.folder, "limits.toml")
		text := "[limits]\n"
		for _, limit := range domain.Limits {
			text += limit.Key() + " = " + outOfReach + "\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--config", file)
	}

	if strings.Contains(string(help), "--network-disk") {
		args = append(args, "--network-disk")
	}
	return args, nil
}

// outOfReach is the limit that no row meets.
const outOfReach = "1000000000"

var limitFlag = regexp.MustCompile(`--limit-[a-z-]+`)
