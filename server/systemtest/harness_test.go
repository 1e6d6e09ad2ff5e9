// Package systemtest tests the program as a whole: its commands, its files, and what happens to both
// when processes are killed, disks fill up or the power fails.
//
// A test runs the program within itself (start, runCommand) or as a process (spawn, newProcess),
// sends requests (request_test.go) and looks at the files (database_test.go).
package systemtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"callbook/server/cli"
	"callbook/store"
	"callbook/testdata/demo"
	"callbook/testdata/proof"
	"callbook/testdata/upgrade"
)

// root is the path of the module's root folder.
const root = "../../"

// site is the public URL of the program: in mails it is the same after each restart.
const site = "http://callbook.example.org"

// patience is the timeout for anything that a test waits for.
const patience = time.Minute

// asProgram is the variable with which the test binary runs as the program itself, in a process that can be killed.
const asProgram = "TEST_IS_THE_PROGRAM"

// asNextVersion is the argument with which the program has one more migration, so that it upgrades a
// database of this version.
const asNextVersion = "--as-the-next-version"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	args := os.Args[1:]
	if i := slices.Index(args, asNextVersion); i >= 0 {
		store.Format.Migrations = upgrade.Migrations(upgrade.Step)
		args = slices.Delete(args, i, i+1)
	}
	os.Exit(run(ctx, args, os.Stdout, os.Stderr))
}

// run runs the program like main, but within the test, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, args, demo.Files, stdout, stderr)
}

// racing matches the tests that also run under the race detector: those in which goroutines of the program meet, at
// startup and shutdown, in background jobs beside requests, and in the log. For the others it would only make the
// program ten times slower.
var racing = regexp.MustCompile(`^Test(Restart|Shutdown|Watchdog|Readiness|Connections|HTTPS|Certificate|Authority|Log|Compact)_|` +
	`^Test(Serve_StartsAndStops|Dev_PrintsKeys|Admin_CommandsWorkBesideServer|Backup_RestoresLostFile|` +
	`Damage_StopsService|Mail_DeliversBySMTP)$`)

// skipUnlessRacing skips a test under the race detector, except those that racing matches and all tests of the proof.
func skipUnlessRacing(t testing.TB) {
	t.Helper()
	if !racing.MatchString(t.Name()) {
		proof.OneByOne(t)
	}
}

// output collects what a program writes; tests read it meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// program is a run of the program, within the test or, with process, in a process of its own.
type program struct {
	testing.TB
	out, err *output       // standard output and standard error
	cancel   func()        // asks it to stop
	exited   chan struct{} // closed when status is set
	status   int           // exit status; -1 after a signal that it does not handle
	base     string        // URL of the site, such as http://127.0.0.1:41234
}

func newProgram(t testing.TB) *program {
	skipUnlessRacing(t)
	return &program{TB: t, out: &output{}, err: &output{}, exited: make(chan struct{})}
}

// exit records that the program has exited.
func (p *program) exit(status int) {
	p.status = status
	close(p.exited)
}

// start runs a serving command within the test, and returns once it prints its address.
func start(t testing.TB, args ...string) *program {
	t.Helper()
	p := newProgram(t)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.exit(run(ctx, args, p.out, p.err)) }()
	t.Cleanup(func() { p.stop() })

	if !p.waitOutput("its address", p.readAddress) {
		t.Fatalf("callbook %q ended with status %d: %s", args, p.status, p.err)
	}
	return p
}

// startServe runs callbook serve on a database within the test.
func startServe(t testing.TB, db string, args ...string) *program {
	t.Helper()
	return start(t, append([]string{"serve", "--addr=127.0.0.1:0", "--db=" + db}, args...)...)
}

// process is a run of the program in a process of its own, which can be killed.
type process struct {
	*program
	command *exec.Cmd
}

func newProcess(t testing.TB, args ...string) *process {
	t.Helper()
	return newProcessVia(t, func(self string) *exec.Cmd { return exec.Command(self, args...) })
}

// newProcessVia starts the program through the command that by returns for the path of the program.
func newProcessVia(t testing.TB, by func(self string) *exec.Cmd) *process {
	t.Helper()
	p := newProgram(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	command := by(self)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stdout, command.Stderr = p.out, p.err
	p.cancel = func() { _ = command.Process.Signal(syscall.SIGTERM) }
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	go func() {
		_ = command.Wait()
		p.exit(command.ProcessState.ExitCode())
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		p.stop()
	})
	return &process{p, command}
}

// newServeProcess starts callbook serve on a database, which may fail: see waitServing and wantExit.
func newServeProcess(t testing.TB, db string, args ...string) *process {
	t.Helper()
	return newProcess(t, append([]string{"serve", "--addr=127.0.0.1:0", "--db=" + db}, args...)...)
}

// spawn starts callbook serve on a database, and returns once it serves. Rate limits are off, but not
// the limits of mails.
func spawn(t testing.TB, db string, args ...string) *process {
	t.Helper()
	common := []string{"--limits=off", "--log-level=debug", "--base-url=" + site}
	p := newServeProcess(t, db, append(common, args...)...)
	p.wantServing()
	return p
}

// spawnByShell starts the program through a shell, after some lines of shell.
func spawnByShell(t testing.TB, lines string, files []*os.File, args ...string) *process {
	t.Helper()
	return newProcessVia(t, func(self string) *exec.Cmd {
		c := exec.Command("sh", append([]string{"-euc", lines + "\nexec \"$0\" \"$@\"", self}, args...)...)
		c.ExtraFiles = files
		return c
	})
}

// readAddress reports whether the program has printed its address, which is its base from now on.
func (p *program) readAddress() bool {
	m := printedAddress.FindStringSubmatch(p.err.String() + p.out.String())
	if m != nil {
		p.base = "http://" + m[1]
	}
	return m != nil
}

var printedAddress = regexp.MustCompile(
	`(?:address=|"address":"|agents: http://)([0-9.]+:[0-9]+|\[[0-9a-f:]+\]:[0-9]+)`,
)

// hasExited reports whether the program has exited.
func (p *program) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// waitOutput waits until the output fulfils a condition, and reports whether it does so before the
// program exits.
func (p *program) waitOutput(what string, is func() bool) bool {
	p.Helper()
	for late := time.After(patience); !is(); {
		select {
		case <-p.exited:
			return is() // its last output
		case <-late:
			p.Fatalf("it does not print %s: %s%s", what, p.out, p.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// waitServing waits until the program serves, and returns false if it exits instead.
func (p *program) waitServing() bool {
	p.Helper()
	defer p.readAddress()
	return p.waitOutput("that it serves", func() bool {
		return strings.Contains(p.err.String(), "callbook is serving")
	})
}

// wantServing waits until the program serves.
func (p *program) wantServing() {
	p.Helper()
	if !p.waitServing() {
		p.Fatalf("it ends with status %d: %s", p.status, p.err)
	}
}

// waitLog returns once the log contains a text that many times.
func (p *program) waitLog(text string, times int) {
	p.Helper()
	what := fmt.Sprintf("%q %d times", text, times)
	if !p.waitOutput(what, func() bool { return strings.Count(p.err.String(), text) >= times }) {
		p.Fatalf("it ends with status %d and does not log %s: %s", p.status, what, p.err)
	}
}

// wait waits until the program exits by itself, and returns its exit status.
func (p *program) wait() int {
	p.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.Fatalf("it does not exit: %s", p.err)
	}
	return p.status
}

// stop stops the program, and returns its exit status.
func (p *program) stop() int {
	p.Helper()
	p.cancel()
	return p.wait()
}

// stopCleanly stops the program, which must report success.
func (p *program) stopCleanly() {
	p.Helper()
	if status := p.stop(); status != 0 {
		p.Errorf("status %d: %s", status, p.err)
	}
}

// kill kills the process, and returns once it has exited.
func (p *process) kill() {
	p.Helper()
	_ = p.command.Process.Kill()
	if status := p.stop(); status != -1 {
		p.Errorf("it ended by itself, with status %d: %s", status, p.err)
	}
}

// wantExit waits until the program exits by itself, and checks its status and its one line of error.
func (p *program) wantExit(status int, texts ...string) {
	p.Helper()
	if got := p.wait(); got != status {
		p.Errorf("status %d, want %d: %s", got, status, p.err)
	}
	wantOneErrorLine(p, p.err.String(), texts...)
}

// wantOneErrorLine checks the last output of a failed command.
func wantOneErrorLine(t testing.TB, printed string, texts ...string) {
	t.Helper()
	before, line, found := strings.Cut("\n"+printed, "\ncallbook: ")
	if !found || strings.Count(line, "\n") != 1 || strings.Contains(before+line, "goroutine ") {
		t.Errorf("the output does not end with one line of error: %s", printed)
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("no %q in the error: %s", text, line)
		}
	}
}

// wantSecretsUnprinted checks that the output contains none of the secrets.
func (p *program) wantSecretsUnprinted(secrets ...string) {
	p.Helper()
	for _, secret := range secrets {
		if secret == "" || strings.Contains(p.out.String()+p.err.String(), secret) {
			p.Errorf("%q is printed:\n%s%s", secret, p.out, p.err)
		}
	}
}

// runCommand runs a command that exits by itself.
func runCommand(args ...string) (status int, out, err string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience/4) // ends one that serves
	defer cancel()
	var stdout, stderr bytes.Buffer
	status = run(ctx, args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// runCommandMerged runs a command that exits by itself, and returns all that it prints.
func runCommandMerged(args ...string) (status int, printed string) {
	status, out, err := runCommand(args...)
	return status, out + err
}

// needCommand runs a command of the system that a test needs, such as mount, and skips the test if it fails.
func needCommand(t testing.TB, what, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Skipf("needs %s: %v: %s", what, err, out)
	}
}

// waitFor waits for something that happens in another process.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	waitAtMost(t, patience, what, is)
}

// waitAtMost is waitFor with its own timeout.
func waitAtMost(t testing.TB, most time.Duration, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(most); !is(); {
		if time.Now().After(late) {
			t.Fatalf("timeout: waiting until %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// receive waits until a channel receives a value, or is closed.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("timeout: waiting for a value")
	}
	return v
}
