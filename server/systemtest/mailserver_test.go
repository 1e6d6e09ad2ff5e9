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

// message is a mail as a mail server receives it.
type message struct{ id, from, to, text string }

var (
	mailedCode = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{2,4})+\b`)
	mailedLink = regexp.MustCompile(`http://\S+/owner/\w+`)
)

func (l message) code() string { return mailedCode.FindString(l.text) }

// isNotice reports whether a mail is a notice of a change. The server accepts notices, and
// does not pass them to tests.
func (l message) isNotice() bool {
	return strings.Contains(l.text, "If that was you, do nothing.") || strings.Contains(l.text, "If you asked that person to, do nothing.")
}

func parseMessage(data []byte) (l message, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return l, err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	return message{m.Header.Get("Message-ID"), m.Header.Get("From"), m.Header.Get("To"), string(text)}, err
}

// smtpStep is a step in the delivery of a mail.
type smtpStep string

const (
	atConnect smtpStep = "the connection"
	atMail    smtpStep = "MAIL"
	atRcpt    smtpStep = "RCPT"
	atData    smtpStep = "the whole text" // received, and counts as delivered; not yet acknowledged
	atQuit    smtpStep = "QUIT"           // or a broken connection
)

// mailServer is a mail server in this process. At each step it calls behavior.
type mailServer struct {
	testing.TB
	server    *smtp.Server
	address   string
	delivered chan message

	mu       sync.Mutex
	behavior func(smtpStep) error
	changed  chan struct{} // closed when behavior changes
	mails    []message
}

func newMailServer(t testing.TB) *mailServer {
	t.Helper()
	skipUnlessRacing(t)
	o := &mailServer{TB: t, delivered: make(chan message, 1000), changed: make(chan struct{})}
	o.acceptAll()
	o.server = smtp.NewServer(o)
	o.server.Domain, o.server.ErrorLog, o.server.AllowInsecureAuth = "localhost", noLog{}, true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.address = listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- o.server.Serve(acceptor{listener, o}) }()
	t.Cleanup(func() {
		o.acceptAll()
		if err := errors.Join(o.server.Close(), <-ended); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return o
}

// setBehavior sets what happens at each step from now on, and ends waitForChange.
func (o *mailServer) setBehavior(act func(at smtpStep) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.behavior, o.changed = act, make(chan struct{})
}

// acceptAll makes the server accept every mail.
func (o *mailServer) acceptAll() { o.setBehavior(func(smtpStep) error { return nil }) }

func (o *mailServer) behave(at smtpStep) error {
	o.mu.Lock()
	act := o.behavior
	o.mu.Unlock()
	return act(at)
}

// waitForChange waits until the behavior changes.
func (o *mailServer) waitForChange() {
	o.mu.Lock()
	changed := o.changed
	o.mu.Unlock()
	<-changed
}

// flags returns the settings of the program for this server, without a limit of mails.
func (o *mailServer) flags() []string {
	o.Helper()
	return []string{
		"--mail=smtp://" + o.address, "--mail-from=Callbook <callbook@example.org>",
		"--config=" + newSettingsFile(o, "[limits]\nmails = 0\n"),
	}
}

// nextMail returns the next mail.
func (o *mailServer) nextMail() message {
	o.Helper()
	return receive(o, o.delivered)
}

// deliveries counts the received mails by recipient, and fails the test if two copies differ.
func (o *mailServer) deliveries() map[string]int {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	counts, first := map[string]int{}, map[string]message{}
	for _, l := range o.mails {
		if counts[l.to]++; counts[l.to] > 1 && (first[l.to].id != l.id || first[l.to].code() != l.code()) {
			o.Errorf("two mails, not one twice: %+v and %+v", first[l.to], l)
		}
		first[l.to] = l
	}
	return counts
}

type noLog struct{}

func (noLog) Printf(string, ...any) {}

func (noLog) Println(...any) {}

// acceptor closes connections at once if the behavior is an error.
type acceptor struct {
	net.Listener
	mails *mailServer
}

func (g acceptor) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.mails.behave(atConnect) == nil {
			return conn, err
		}
		_ = conn.Close()
	}
}

// errDrop closes the connection.
var errDrop = errors.New("drop")

// NewSession implements smtp.Backend.
func (o *mailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &smtpSession{server: o, conn: c}, nil
}

type smtpSession struct {
	server *mailServer
	conn   *smtp.Conn
}

func (d *smtpSession) behave(at smtpStep) error {
	err := d.server.behave(at)
	if err == errDrop {
		_ = d.conn.Conn().Close()
	}
	return err
}

func (d *smtpSession) Mail(string, *smtp.MailOptions) error { return d.behave(atMail) }

func (d *smtpSession) Rcpt(string, *smtp.RcptOptions) error { return d.behave(atRcpt) }

func (d *smtpSession) Logout() error { return d.behave(atQuit) }

func (d *smtpSession) Reset() {}

func (d *smtpSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	l, err := parseMessage(data)
	if err != nil {
		d.server.Errorf("a mail cannot be read: %v\n%s", err, data)
	}
	reply := d.server.behave(atData)
	if rejection := (*smtp.SMTPError)(nil); errors.As(reply, &rejection) {
		return reply
	}
	if !l.isNotice() {
		d.server.mu.Lock()
		d.server.mails = append(d.server.mails, l)
		d.server.mu.Unlock()
		d.server.delivered <- l
	}
	if reply == errDrop {
		_ = d.conn.Conn().Close()
	}
	return reply
}

func (d *smtpSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (d *smtpSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != mailUser || password != mailPassword {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

const mailUser, mailPassword = "postmaster", "hunter2"
