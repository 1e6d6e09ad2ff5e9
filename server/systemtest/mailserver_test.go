package systemtest

import (
	"bytes"
	"errors"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

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
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return l, err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	return letter{m.Header.Get("Message-ID"), m.Header.Get("From"), m.Header.Get("To"), string(text)}, err
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

func (mute) Println(...any) {}

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

func (d *dialogue) Logout() error { return d.ask(stepQuit) }

func (d *dialogue) Reset() {}

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
