package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// How long a child may take: to answer, and to end once it is asked to.
const (
	startPatience = 10 * time.Minute // an older directory may be brought up to date
	stopPatience  = 30 * time.Second
)

// restPeriod is the time in which a child at rest uses less than a tenth of a processor.
const restPeriod = 300 * time.Millisecond

// process is a child that listens on loopback.
type process struct {
	name    string
	cmd     *exec.Cmd
	addr    string
	control string // where its profiles are begun and ended; empty when it makes none
	output  string // the file of its stderr
	began   time.Time
	ended   chan struct{}
	tls     bool // it serves HTTPS alone
}

// launch says how a child is started. The system chooses its port.
type launch struct {
	name    string
	path    string                     // of the program
	args    func(addr string) []string // its command line
	ready   string                     // the path that answers 200 once it serves
	control string
	tls     bool // it serves HTTPS alone
}

// start starts a child and returns once it serves.
func (b *bench) start(ctx context.Context, l launch) (*process, error) {
	p, err := b.exec(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, l.ready); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w%s", l.name, err, lastLine(p.output))
	}

	return p, nil
}

func (b *bench) exec(ctx context.Context, l launch) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}

	output, err := os.CreateTemp(b.folder, l.name+"-*.log")
	if err != nil {
		return nil, err
	}

	defer output.Close()
	p := &process{
		name:    l.name,
		addr:    addr,
		control: l.control,
		output:  output.Name(),
		ended:   make(chan struct{}),
		tls:     l.tls,
	}

	p.cmd = exec.CommandContext(ctx, l.path, l.args(addr)...)
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.Cancel = func() error { return interrupt(p.cmd.Process) }
	p.cmd.WaitDelay = stopPatience
	endWithParent(p.cmd)
	p.began = time.Now()

	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.name, err)
	}

	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	b.children = append(b.children, p)
	return p, nil
}

// environment is this process' own, without settings of callbook.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CALLBOOK_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func interrupt(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.Kill() // a system without the signal
	}
	return nil
}

// freeAddress is an address on loopback that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await looks every millisecond whether the child answers.
func (p *process) await(ctx context.Context, path string) error {
	late := time.After(startPatience)
	for !p.answers(path) {
		select {
		case <-time.After(time.Millisecond):
		case <-p.ended:
			return fmt.Errorf("it ended: %s", p.cmd.ProcessState)

		case <-late:
			return errors.New("it does not answer")

		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}

func (p *process) answers(path string) bool {
	w, err := p.dial()
	if err != nil {
		return false
	}

	defer w.conn.Close()
	_ = w.conn.SetDeadline(time.Now().Add(time.Second))
	a, err := w.send(get(p.addr, path), false)

	return err == nil && a.status == http.StatusOK
}

// rest waits until the child has ended what it does after a start: the service may read its whole
// file, which takes a minute and one of the processors. Where nobody can tell how busy it is, it
// does not wait.
func (p *process) rest(ctx context.Context) error {
	used, known := p.cpu()
	for late := time.After(startPatience); known; {
		select {
		case <-time.After(restPeriod):
		case <-late:
			return fmt.Errorf("%s is always busy", p.name)

		case <-ctx.Done():
			return ctx.Err()
		}

		now, _ := p.cpu()
		if now-used < restPeriod/10 {
			return nil
		}

		used = now
	}

	return nil
}

// stop ends the child and waits until it has ended.
func (p *process) stop() {
	_ = interrupt(p.cmd.Process)
	select {
	case <-p.ended:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}

	defer f.Close()
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		last = lines.Text()
	}

	return ": " + last
}

// profile begins a CPU profile of the child into a file, and returns what ends it.
func (b *bench) profile(p *process, row string) (end func() error, err error) {
	if p.control == "" {
		return func() error { return nil }, nil
	}

	name := strings.ReplaceAll(row, "/", "-") + "." + p.name + ".pprof"
	file := url.QueryEscape(filepath.Join(b.profiles, name))
	if err := tell(p.control, "/begin?file="+file); err != nil {
		return nil, err
	}

	return func() error { return tell(p.control, "/end") }, nil
}

func tell(addr, path string) error {
	answer, err := http.Post("http://"+addr+path, "", nil)
	if err != nil {
		return err
	}

	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", answer.Status)
	}

	return nil
}
