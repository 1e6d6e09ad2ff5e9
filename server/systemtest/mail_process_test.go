package systemtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"callbook/store"
	"callbook/testdata/upgrade"
)

// asProgram is the variable with which the test binary runs as the program itself, in a process that can be killed.
const asProgram = "TEST_IS_THE_PROGRAM"

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

// asNextVersion is the argument with which the program has one more migration, so that it upgrades a
// database of this version.
const asNextVersion = "--as-the-next-version"

// process is a run of the program in a process of its own.
type process struct {
	*program
	command *exec.Cmd
}

func newProcess(t testing.TB, args ...string) *process {
	t.Helper()
	return newProcessBy(t, func(self string) *exec.Cmd { return exec.Command(self, args...) })
}

// newProcessBy starts the program through another program.
func newProcessBy(t testing.TB, by func(self string) *exec.Cmd) *process {
	t.Helper()
	skipUnlessRacing(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := by(self)
	command.Env = append(os.Environ(), asProgram+"=1")
	p := &program{TB: t, out: &output{}, err: &output{}, status: make(chan int, 1)}
	p.cancel = func() { _ = command.Process.Signal(syscall.SIGTERM) }
	command.Stdout, command.Stderr = p.out, p.err
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = command.Wait()
		p.status <- command.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		p.stop()
	})
	return &process{p, command}
}

// site is the public URL of the program: in mails it is the same after each restart.
const site = "http://callbook.example.org"

// spawn starts the program on a database, and returns once it prints its address. Rate limits are off, but not the
// caps on mails.
func spawn(t testing.TB, db string, args ...string) *process {
	t.Helper()
	p := newProcess(t, append([]string{"serve", "--addr=127.0.0.1:0", "--limits=off", "--log-level=debug", "--base-url=" + site, "--db=" + db}, args...)...)
	p.serves()
	return p
}

// serving waits until a process serves or has exited.
func (p *process) serving() bool {
	p.Helper()
	defer p.listens()
	return p.prints("that it serves", func() bool { return strings.Contains(p.err.String(), "callbook is serving") })
}

// serves waits until a process serves.
func (p *process) serves() {
	p.Helper()
	if !p.serving() {
		p.Fatalf("it ends with status %d: %s", p.stop(), p.err)
	}
}

// logs returns once the log contains a text that many times.
func (p *process) logs(text string, times int) {
	p.Helper()
	what := fmt.Sprintf("%q %d times", text, times)
	if !p.prints(what, func() bool { return strings.Count(p.err.String(), text) >= times }) {
		p.Fatalf("it ends with status %d and does not log %s: %s", p.stop(), what, p.err)
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

// ends stops the process normally.
func (p *process) ends() {
	p.Helper()
	if status := p.stop(); status != 0 {
		p.Errorf("status %d: %s", status, p.err)
	}
}

// quiet checks that the output contains none of the secrets.
func (p *process) quiet(secrets ...string) {
	p.Helper()
	for _, secret := range secrets {
		if secret == "" || strings.Contains(p.out.String()+p.err.String(), secret) {
			p.Errorf("%q is printed:\n%s%s", secret, p.out, p.err)
		}
	}
}

// agent is a registered agent with its key.
type agent struct{ handle, mailbox, auth string }

func (p *process) agent(handle, mailbox string) agent {
	p.Helper()
	key := p.object("POST", "/api/agents", registrationFor(handle, mailbox))["api_key"].(string)
	return agent{handle, mailbox, "Authorization: Bearer " + key}
}

// verify requests a code; it returns the status and the body of a rejection.
func (p *process) verify(a agent) (refusal string) {
	p.Helper()
	return p.mails("/api/me/verify", "", a.auth)
}

// mails sends a request that sends a mail.
func (p *process) mails(path, body string, headers ...string) (refusal string) {
	p.Helper()
	if status, text := p.call("POST", path, body, headers...); status != 202 {
		return fmt.Sprint(status, " ", text)
	}
	return ""
}

// letter is a mail as a mail server receives it.
type letter struct{ id, from, to, text string }

var (
	mailedCode = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{2,4})+\b`)
	mailedLink = regexp.MustCompile(`http://\S+/owner/\w+`)
)

func (l letter) code() string { return mailedCode.FindString(l.text) }

// isNotice reports whether a mail only tells what somebody did with an agent. The post office takes such mails and
// shows them to no test.
func (l letter) isNotice() bool {
	return strings.Contains(l.text, "If that was you, do nothing.") || strings.Contains(l.text, "If you asked that person to, do nothing.")
}

func readLetter(data []byte) (l letter, err error) {
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return l, err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	return letter{m.Header.Get("Message-ID"), m.Header.Get("From"), m.Header.Get("To"), string(text)}, err
}

// comes waits until a channel receives a value, or is closed.
func comes[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("what is waited for does not come")
	}
	return v
}

// step is a step in the delivery of a mail.
type step string

const (
	stepConnect step = "the connection"
	stepMail    step = "MAIL"
	stepRcpt    step = "RCPT"
	stepData    step = "the whole text" // has come and counts as delivered; not yet answered
	stepQuit    step = "QUIT"           // or a broken connection
)

// postOffice is a mail server in this process. At each step it calls act.
type postOffice struct {
	testing.TB
	server   *smtp.Server
	address  string
	delivers chan letter

	mu      sync.Mutex
	act     func(step) error
	changed chan struct{} // closed once it does something else
	letters []letter
}

func newPostOffice(t testing.TB) *postOffice {
	t.Helper()
	skipUnlessRacing(t)
	o := &postOffice{TB: t, delivers: make(chan letter, 1000), changed: make(chan struct{})}
	o.works()
	o.server = smtp.NewServer(o)
	o.server.Domain, o.server.ErrorLog, o.server.AllowInsecureAuth = "localhost", mute{}, true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.address = listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- o.server.Serve(gate{listener, o}) }()
	t.Cleanup(func() {
		o.works()
		if err := errors.Join(o.server.Close(), <-ended); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return o
}

// does sets what happens at each step from now on, and ends what hangs.
func (o *postOffice) does(act func(at step) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.act, o.changed = act, make(chan struct{})
}

// works makes the server accept every mail.
func (o *postOffice) works() { o.does(func(step) error { return nil }) }

func (o *postOffice) asks(at step) error {
	o.mu.Lock()
	act := o.act
	o.mu.Unlock()
	return act(at)
}

// hangs waits until it is to do something else.
func (o *postOffice) hangs() {
	o.mu.Lock()
	changed := o.changed
	o.mu.Unlock()
	<-changed
}

// setting returns the settings of the program for this server, without a limit of mails.
func (o *postOffice) setting() []string {
	o.Helper()
	return []string{
		"--mail=smtp://" + o.address, "--mail-from=Callbook <callbook@example.org>",
		"--config=" + settingsFile(o, "[limits]\nmails = 0\n"),
	}
}

// next returns the next mail.
func (o *postOffice) next() letter {
	o.Helper()
	return comes(o, o.delivers)
}

// tally counts the mails that came, by recipient; one whose copies differ fails
// the test.
func (o *postOffice) tally() map[string]int {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	counts, first := map[string]int{}, map[string]letter{}
	for _, l := range o.letters {
		if counts[l.to]++; counts[l.to] > 1 && (first[l.to].id != l.id || first[l.to].code() != l.code()) {
			o.Errorf("two mails, not one twice: %+v and %+v", first[l.to], l)
		}
		first[l.to] = l
	}
	return counts
}

type mute struct{}

func (mute) Printf(string, ...any) {}
func (mute) Println(...any)        {}

// gate lets connections in as the post office says.
type gate struct {
	net.Listener
	office *postOffice
}

func (g gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.office.asks(stepConnect) == nil {
			return conn, err
		}
		_ = conn.Close()
	}
}

// errDrop closes the connection.
var errDrop = errors.New("drop")

// NewSession implements smtp.Backend.
func (o *postOffice) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &dialogue{office: o, conn: c}, nil
}

type dialogue struct {
	office *postOffice
	conn   *smtp.Conn
}

func (d *dialogue) ask(at step) error {
	err := d.office.asks(at)
	if err == errDrop {
		_ = d.conn.Conn().Close()
	}
	return err
}

func (d *dialogue) Mail(string, *smtp.MailOptions) error { return d.ask(stepMail) }
func (d *dialogue) Rcpt(string, *smtp.RcptOptions) error { return d.ask(stepRcpt) }
func (d *dialogue) Logout() error                        { return d.ask(stepQuit) }
func (d *dialogue) Reset()                               {}

func (d *dialogue) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	l, err := readLetter(data)
	if err != nil {
		d.office.Errorf("a mail cannot be read: %v\n%s", err, data)
	}
	answer := d.office.asks(stepData)
	if refusal := (*smtp.SMTPError)(nil); errors.As(answer, &refusal) {
		return answer
	}
	if !l.isNotice() {
		d.office.mu.Lock()
		d.office.letters = append(d.office.letters, l)
		d.office.mu.Unlock()
		d.office.delivers <- l
	}
	if answer == errDrop {
		_ = d.conn.Conn().Close()
	}
	return answer
}

func (d *dialogue) AuthMechanisms() []string { return []string{sasl.Plain} }

func (d *dialogue) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != mailUser || password != mailPassword {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

const mailUser, mailPassword = "postmaster", "hunter2"

// inFile runs SQL on the file of a stopped program.
func inFile(t testing.TB, db string, act func(*sql.DB) error) {
	t.Helper()
	file, err := sql.Open("sqlite", "file:"+db)
	if err == nil {
		err = errors.Join(act(file), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// outbox counts the waiting mails, and those with an unknown outcome.
func outbox(t testing.TB, db string) (waiting, unsure int) {
	t.Helper()
	inFile(t, db, func(file *sql.DB) error {
		return file.QueryRow(`SELECT COUNT(*), COALESCE(SUM(uncertain), 0) FROM outbox`).Scan(&waiting, &unsure)
	})
	return waiting, unsure
}

// pass sets all times of mails and codes back, as if that much time had passed.
func pass(t testing.TB, db string, d time.Duration) {
	t.Helper()
	inFile(t, db, func(file *sql.DB) (err error) {
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

// untilNextTry is the delay after the first attempt.
const untilNextTry = time.Minute

func newDB(t testing.TB) string { return filepath.Join(t.TempDir(), "callbook.db") }

// TestMail_DeliversBySMTP logs in at the mail server, with the password in a file.
func TestMail_DeliversBySMTP(t *testing.T) {
	t.Parallel()
	o, db := newPostOffice(t), newDB(t)
	file := db + ".mail"
	lay(t, file, []byte("smtp://"+mailUser+":"+mailPassword+"@"+o.address+"\n"))
	setting := []string{"--mail-file=" + file, "--mail-from=Callbook <callbook@example.org>"}
	p := spawn(t, db, setting...)
	a := p.agent("harbour-pilot", "canary-mailbox@example.org")
	if refusal := p.verify(a); refusal != "" {
		t.Fatal(refusal)
	}
	code := o.next()
	if code.to != "<canary-mailbox@example.org>" || code.from != `"Callbook" <callbook@example.org>` || code.code() == "" {
		t.Errorf("%+v", code)
	}
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+strings.ToLower(code.code())+`"}`, a.auth)
	p.logs("a mail was delivered", 1)
	p.ends()
	pass(t, db, untilNextTry)
	again := spawn(t, db, setting...)
	if refusal := again.mails("/api/me/owner-claim", `{"owner_email":"canary-owner@example.org"}`, a.auth); refusal != "" {
		t.Fatal(refusal)
	}
	claim := o.next()
	link := mailedLink.FindString(claim.text)
	if claim.to != "<canary-owner@example.org>" || !strings.HasPrefix(link, site+"/owner/") || claim.id == code.id {
		t.Errorf("%+v", claim)
	}
	again.logs("a mail was delivered", 1)
	again.ends()
	pass(t, db, untilNextTry)
	last := spawn(t, db, setting...)
	if refusal := last.mails("/api/recover", `{"handle":"harbour-pilot"}`); refusal != "" {
		t.Fatal(refusal)
	}
	lost := o.next()
	key := last.object("POST", "/api/recover/confirm", `{"handle":"harbour-pilot","code":"`+lost.code()+`"}`)["api_key"].(string)
	last.object("GET", "/api/me", "", "Authorization: Bearer "+key)
	last.logs("a mail was delivered", 2) // and the notice of the recovery
	last.ends()
	for _, run := range []*process{p, again, last} {
		run.quiet("canary", mailPassword, code.code(), lost.code(), link, link[strings.LastIndexByte(link, '/')+1:], key)
	}
	if n, _ := outbox(t, db); n != 0 {
		t.Errorf("%d mails wait still", n)
	}
}

// Limits of time: a call is answered without the mail server, and the program
// stops within its own time.
const (
	atOnce   = time.Second
	stopTime = 10 * time.Second
)

// TestMail_FailingServerDelaysNothing also checks that mails are sent later, except those that the server rejected
// for good.
func TestMail_FailingServerDelaysNothing(t *testing.T) {
	fails := func(code int) error { return &smtp.SMTPError{Code: code, Message: "canary words of a server"} }
	for name, tt := range map[string]struct {
		at     step
		err    error  // nil: the server hangs
		log    string // after an attempt; empty where it hangs
		kept   int    // of 3 mails, those that still wait
		unsure int    // those with an unknown outcome
		copies int    // those that arrived
	}{
		"no greeting":          {stepConnect, nil, "", 3, 0, 0},
		"hangs after the text": {stepData, nil, "", 3, 1, 0},
		"452 to the text":      {stepData, fails(452), "was not delivered and will be retried", 3, 0, 0},
		"550 to the recipient": {stepRcpt, fails(550), "was rejected permanently", 0, 0, 0},
		"drops after the text": {stepData, errDrop, "may have been delivered", 3, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, db := newPostOffice(t), newDB(t)
			met := make(chan struct{}, 100)
			o.does(func(at step) error {
				if at != tt.at {
					return nil
				}
				met <- struct{}{}
				if tt.err == nil {
					o.hangs()
				}
				return tt.err
			})
			p := spawn(t, db, o.setting()...)
			quickest := patience
			for i := range 3 {
				a := p.agent(fmt.Sprintf("agent-%d", i), fmt.Sprintf("canary-%d@example.org", i))
				begun := time.Now()
				if refusal := p.verify(a); refusal != "" {
					t.Errorf("the request is rejected: %s", refusal)
				}
				quickest = min(quickest, time.Since(begun))
				if i == 0 {
					comes(t, met) // the others request their mails while it hangs
				}
			}
			if quickest > atOnce {
				t.Errorf("a request takes %s", quickest)
			}
			if tt.log != "" {
				p.logs(tt.log, 3)
			}
			begun := time.Now()
			p.ends()
			if took := time.Since(begun); took > stopTime {
				t.Errorf("stopping takes %s", took)
			}
			p.quiet("canary")
			if n, unsure := outbox(t, db); n != tt.kept || unsure != tt.unsure || len(o.tally()) != tt.copies {
				t.Errorf("%d mails wait, %d are uncertain, %v arrived; want %d, %d, %d", n, unsure, o.tally(), tt.kept, tt.unsure, tt.copies)
			}
			o.works()
			drain(t, o, db)
			for to, n := range o.tally() {
				if n > 2 || n > 1 && tt.unsure == 0 {
					t.Errorf("%s: it arrived %d times", to, n)
				}
			}
			if n := len(o.tally()); n != tt.kept {
				t.Errorf("%d mailboxes have their mail, not %d", n, tt.kept)
			}
		})
	}
}

// drain runs the program until all waiting mails are delivered.
func drain(t testing.TB, o *postOffice, db string) {
	t.Helper()
	pass(t, db, untilNextTry)
	n, _ := outbox(t, db)
	p := spawn(t, db, o.setting()...)
	if n > 0 {
		p.logs("a mail was delivered", n)
	}
	p.ends()
	if n, _ := outbox(t, db); n != 0 {
		t.Errorf("%d mails wait still: %s", n, p.err)
	}
}

// TestMail_KillDuringDelivery checks that an accepted mail is delivered once or twice if the program is killed once,
// at any step.
func TestMail_KillDuringDelivery(t *testing.T) {
	t.Parallel()
	for where, want := range map[step]int{stepRcpt: 1, stepData: 2, stepQuit: 1} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			o, db := newPostOffice(t), newDB(t)
			met, killed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			o.does(func(at step) error {
				if at == where {
					once.Do(func() { close(met) })
					<-killed
				}
				return nil
			})
			p := spawn(t, db, o.setting()...)
			a := p.agent("harbour-pilot", "a@example.org")
			if refusal := p.verify(a); refusal != "" {
				t.Fatal(refusal)
			}
			comes(t, met)
			p.kill()
			close(killed)
			if where == stepData { // its server takes what it has, whoever is gone
				o.next()
			}
			drain(t, o, db)
			if where == stepQuit { // whether the end was noted before the kill
				want = min(max(o.tally()["<a@example.org>"], 1), 2)
			}
			if diff := cmp.Diff(map[string]int{"<a@example.org>": want}, o.tally()); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
			p = spawn(t, db, o.setting()...)
			p.object("POST", "/api/me/verify/confirm", `{"code":"`+o.letters[0].code()+`"}`, a.auth)
		})
	}
}

func TestMail_LogsByDefault(t *testing.T) {
	p := spawn(t, newDB(t))
	a := p.agent("harbour-pilot", "pilot@example.org")
	p.verify(a)
	p.logs("Code: ", 1)
	_, printed, _ := strings.Cut(p.err.String(), "Code: ")
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+letter{text: printed}.code()+`"}`, a.auth)
}
