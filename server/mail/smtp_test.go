package mail

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"callbook/testdata/testkit"
)

// received is one mail as a server got it.
type received struct {
	helo, from, user string
	to               []string
	tls              bool
	data             []byte
}

// mailbox is a mail server in this process.
type mailbox struct {
	testing.TB
	*gosmtp.Server
	addr  string
	roots *x509.CertPool // that vouch for it as mail.example.com and 127.0.0.1

	mechanisms []string // of AUTH; user and password are the secret ones

	// Clients wait for each response, so nothing uses these at once.
	mails []received
	seen  []string // the commands that came through, but EHLO
}

// newMailbox starts a server; set changes it before it listens.
func newMailbox(t testing.TB, set func(b *mailbox)) *mailbox {
	t.Helper()
	b := &mailbox{TB: t}
	b.Server = gosmtp.NewServer(gosmtp.BackendFunc(func(c *gosmtp.Conn) (gosmtp.Session, error) {
		_, secure := c.TLSConnectionState()
		return &session{mailbox: b, now: received{helo: c.Hostname(), tls: secure}}, nil
	}))
	b.Domain, b.ErrorLog = "localhost", log.New(io.Discard, "", 0)
	set(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	b.addr = listener.Addr().String()
	if b.Addr == "implicit" {
		listener = tls.NewListener(listener, b.TLSConfig)
	}
	done := make(chan error)
	go func() { done <- b.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), <-done); err != nil && !errors.Is(err, gosmtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return b
}

// certify gives the server a certificate of its own, for STARTTLS.
func (b *mailbox) certify() {
	h := httptest.NewTLSServer(nil)
	defer h.Close()
	b.TLSConfig = &tls.Config{Certificates: h.TLS.Certificates}
	b.roots = x509.NewCertPool()
	b.roots.AddCert(h.Certificate())
}

// plain, startTLS and implicit are the ways a server may be reached.
func plain(b *mailbox)    { b.AllowInsecureAuth = true }
func startTLS(b *mailbox) { b.certify() }
func implicit(b *mailbox) { b.certify(); b.Addr = "implicit" }

// open makes a sink for the server: setting's host and port lead to it whatever they
// are, if they are the ones expected.
func (b *mailbox) open(setting, address string) Sink {
	b.Helper()
	return openSink(b, setting, from, outside{roots: b.roots, dial: func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != address {
			b.Errorf("dialled %s, not %s", to, address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, b.addr)
	}})
}

type session struct {
	*mailbox
	now received
}

func (s *session) AuthMechanisms() []string { return s.mechanisms }

func (s *session) Auth(mechanism string) (sasl.Server, error) {
	check := func(user, password string) error {
		s.seen = append(s.seen, "AUTH "+mechanism)
		if user != secretUser || password != secretPassword {
			return &gosmtp.SMTPError{Code: 535, EnhancedCode: gosmtp.EnhancedCode{5, 7, 8}, Message: serverWords + user + password}
		}
		s.now.user = user
		return nil
	}
	if mechanism == "LOGIN" {
		return &loginServer{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
}

// loginServer is AUTH LOGIN, which go-sasl has for clients only.
type loginServer struct {
	check     func(user, password string) error
	responses []string
}

func (l *loginServer) Next(response []byte) ([]byte, bool, error) {
	if response != nil {
		l.responses = append(l.responses, string(response))
	}
	switch len(l.responses) {
	case 0:
		return []byte("Username:"), false, nil
	case 1:
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.responses[0], l.responses[1])
}

func (s *session) Mail(from string, o *gosmtp.MailOptions) error {
	if o.UTF8 {
		s.Error("SMTPUTF8 was asked for")
	}
	s.now.from, s.seen = from, append(s.seen, "MAIL")
	return nil
}

func (s *session) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	s.now.to, s.seen = append(s.now.to, to), append(s.seen, "RCPT")
	return nil
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err == nil {
		s.now.data, s.seen = data, append(s.seen, "DATA")
		s.mails = append(s.mails, s.now)
	}
	return err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// userinfo is the secret user and password as a setting holds them.
func userinfo() string { return url.UserPassword(secretUser, secretPassword).String() + "@" }

func TestSMTP_DeliversMails(t *testing.T) {
	for _, c := range []struct {
		outcome          string
		server           func(*mailbox)
		mechanisms       string
		setting, address string
		tls              bool
		auth             string
	}{
		{"in the clear on this machine", plain, "", "smtp://127.0.0.1", "127.0.0.1:25", false, ""},
		{"in the clear to localhost", plain, "PLAIN", "smtp://LocalHost.", "LocalHost.:25", false, ""},
		{"with a password on this machine", plain, "PLAIN LOGIN", "smtp://" + userinfo() + "localhost:2525", "localhost:2525", false, "AUTH PLAIN"},
		{"with a password for LOGIN on this machine", plain, "LOGIN", "smtp://" + userinfo() + "127.0.0.2", "127.0.0.2:25", false, "AUTH LOGIN"},
		{"encrypted on this machine, whatever the certificate", startTLS, "", "smtp://[::1]", "[::1]:25", true, ""},
		{"by STARTTLS", startTLS, "PLAIN", "smtp://mail.example.com", "mail.example.com:587", true, ""},
		{"by STARTTLS to an absolute name", startTLS, "", "smtp://mail.example.com.", "mail.example.com.:587", true, ""},
		{"by STARTTLS with a password", startTLS, "LOGIN PLAIN", "smtp://" + userinfo() + "mail.example.com:25", "mail.example.com:25", true, "AUTH PLAIN"},
		{"by STARTTLS with a password for LOGIN", startTLS, "LOGIN", "smtp://" + userinfo() + "mail.example.com", "mail.example.com:587", true, "AUTH LOGIN"},
		{"by TLS", implicit, "", "smtps://mail.example.com", "mail.example.com:465", true, ""},
		{"by TLS with a password", implicit, "PLAIN", "smtps://" + userinfo() + "mail.example.com", "mail.example.com:465", true, "AUTH PLAIN"},
		{"by TLS to an address", implicit, "", "smtps://127.0.0.1:2465", "127.0.0.1:2465", true, ""},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			b := newMailbox(t, func(b *mailbox) { c.server(b); b.mechanisms = strings.Fields(c.mechanisms); b.EnableSMTPUTF8 = true })
			m := newMessage()
			m.Subject, m.Text = "Callbook 验证码", "您的验证码是 K7QM-4XZ2。\n十五分钟内有效。\n"
			deliver(t, b.open(c.setting, c.address), m)
			if len(b.mails) != 1 {
				t.Fatalf("%d mails arrived", len(b.mails))
			}
			agree(t, b.mails[0].data, m)
			want := received{helo: "callbook.example.org", from: plainFrom, to: []string{secretTo}, tls: c.tls, data: b.mails[0].data}
			commands := []string{"MAIL", "RCPT", "DATA"}
			if c.auth != "" {
				want.user, commands = secretUser, append([]string{c.auth}, commands...)
			}
			if diff := cmp.Diff(want, b.mails[0], cmp.AllowUnexported(received{})); diff != "" {
				t.Errorf("another mail (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(commands, b.seen); diff != "" {
				t.Errorf("other commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSMTP_SendsNothingUnencryptedOrUnverified(t *testing.T) {
	stranger := func(b *mailbox) { b.certify(); b.roots = x509.NewCertPool() }
	for _, c := range []struct {
		outcome, setting string
		server           func(*mailbox)
		want             string
	}{
		{"no STARTTLS", "smtp://mail.example.com", plain, "offers no STARTTLS"},
		{"no STARTTLS, with a password", "smtp://" + userinfo() + "mail.example.com", plain, "offers no STARTTLS"},
		{"no STARTTLS at an address of another machine", "smtp://" + userinfo() + "192.0.2.1", plain, "offers no STARTTLS"},
		{"a certificate of an unknown authority", "smtp://" + userinfo() + "mail.example.com", stranger, "the connection failed: the server's certificate is not valid: x509: certificate signed by unknown authority"},
		{"a certificate for another host", "smtp://" + userinfo() + "mail.example.net", startTLS, "not mail.example.net"},
		{"an unknown authority by TLS", "smtps://" + userinfo() + "mail.example.com", func(b *mailbox) { stranger(b); b.Addr = "implicit" }, "unknown authority"},
		{"an unknown authority by TLS on this machine", "smtps://127.0.0.1", func(b *mailbox) { stranger(b); b.Addr = "implicit" }, "unknown authority"},
		{"no TLS where it is meant to be", "smtps://" + userinfo() + "mail.example.com", plain, "the connection failed: the port does not speak TLS"},
		{"no AUTH", "smtp://" + userinfo() + "mail.example.com", func(b *mailbox) { startTLS(b); b.mechanisms = nil }, "neither AUTH PLAIN nor AUTH LOGIN"},
		{"no AUTH that is known", "smtp://" + userinfo() + "localhost", func(b *mailbox) { plain(b); b.mechanisms = []string{"XPLAIN"} }, "neither AUTH"},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			b := newMailbox(t, func(b *mailbox) { b.mechanisms = []string{"PLAIN", "LOGIN"}; c.server(b) })
			server, err := parseServer(c.setting)
			testkit.NoError(t, err)
			err = b.open(c.setting, server.address()).Send(t.Context(), newMessage())
			if outcome(err) != "not delivered" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the mail was %s: %v", outcome(err), err)
			}
			holdsNoSecret(t, err.Error())
			if len(b.seen) != 0 {
				t.Errorf("the server saw %q", b.seen)
			}
		})
	}
}

func TestSMTP_NoServer(t *testing.T) {
	for _, c := range []struct {
		outcome string
		err     error
		want    string
	}{
		{"refused", &net.OpError{Op: "dial " + secretTo, Err: syscall.ECONNREFUSED}, "the connection failed: connection refused"},
		{"unknown", &net.DNSError{Name: secretTo, Err: serverWords, IsNotFound: true}, `the connection to "localhost" failed: the name of the host was not found, or the name server did not answer`},
		{"slow", &net.DNSError{Name: secretTo, Err: serverWords, IsTimeout: true}, `the connection to "localhost" failed: it took too long`},
		{"expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
			"the connection failed: the server's certificate is not valid: x509: certificate has expired or is not yet valid: "},
		{"strange", errors.New(serverWords), "the connection failed: the other side did not keep to the protocol"},
	} {
		s := openSink(t, "smtp://localhost", from, outside{dial: func(context.Context, string, string) (net.Conn, error) { return nil, c.err }})
		if err := s.Send(t.Context(), newMessage()); outcome(err) != "not delivered" || err.Error() != c.want {
			t.Errorf("%s: the mail was %s: %v", c.outcome, outcome(err), err)
		}
	}
}

// script is a server that answers each command with fixed lines. hang answers nothing,
// drop closes the connection, deaf stops reading too.
type script map[string]string

const hang, drop, deaf = "hang", "drop", "deaf"

// greeted is a script of a server that takes every mail.
func greeted() script {
	return script{
		"greeting": "220 hello", "EHLO": "250-hello\r\n250-ENHANCEDSTATUSCODES\r\n250 AUTH PLAIN", "HELO": "250 hello", "AUTH": "235 2.7.0 ok", "*": "501 cancelled",
		"MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go", "text": "", ".": "250 ok", "QUIT": "221 bye",
	}
}

// dialogue is one connection to a script.
type dialogue struct {
	script
	net.Conn
	r        *bufio.Reader
	received []string // commands, and the text with its final dot if it came
	end      chan struct{}
}

// serve plays the script until the other side goes.
func (d *dialogue) serve() {
	defer close(d.end)
	defer d.Close()
	for verb := "greeting"; d.respond(verb); {
		line, err := d.r.ReadString('\n')
		if err != nil {
			return
		}
		d.received = append(d.received, line)
		verb, _, _ = strings.Cut(strings.TrimSpace(line), " ")
		if verb == "STARTTLS" && strings.HasPrefix(d.script[verb], "220") {
			_, _ = d.respond(verb), d.respond("handshake")
			return
		}
		if verb == "DATA" && strings.HasPrefix(d.script[verb], "354") {
			if verb = "."; !d.respond("DATA") || !d.respond("text") || !d.readText() {
				return
			}
		}
	}
}

func (d *dialogue) readText() bool {
	for text := ""; ; {
		line, err := d.r.ReadString('\n')
		if text += line; line == ".\r\n" || err != nil {
			d.received = append(d.received, text)
			return err == nil
		}
	}
}

// respond gives the answer to a command. It tells whether the dialogue goes on.
func (d *dialogue) respond(verb string) bool {
	switch lines := d.script[verb]; lines {
	case "":
		return verb == "text"
	case drop:
		synctest.Wait() // the client has set its deadline, which fails on a pipe that is closed
		return false
	case hang, deaf:
		if lines == deaf {
			time.Sleep(2 * sendTimeout) // in the bubble's time, and so that what came meanwhile is heard
		}
		rest, _ := io.ReadAll(d.r)
		d.received = append(d.received, string(rest))
		return false
	default:
		_, err := io.WriteString(d, lines+"\r\n")
		return err == nil
	}
}

// runScript sends a mail to a script within the time of a bubble, and gives how long it
// took, what the server heard, and the error.
func runScript(t *testing.T, setting string, s script, m Message, cancelled time.Duration) (took time.Duration, heard []string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var d *dialogue
		sink := openSink(t, setting, from, outside{dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			d = &dialogue{script: s, Conn: server, r: bufio.NewReader(server), end: make(chan struct{})}
			go d.serve()
			return client, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if cancelled > 0 {
			time.AfterFunc(cancelled, cancel)
		}
		start := time.Now() //clock: the bubble's
		err = sink.Send(ctx, m)
		took = time.Since(start) //clock: the bubble's
		<-d.end
		heard = d.received
	})
	if err != nil {
		holdsNoSecret(t, err.Error())
	}
	return took, heard, err
}

// Each step of a dialogue, each way it can fail, and what that means for the mail.
func TestSMTP_FailureAtEachStep(t *testing.T) {
	words := " " + serverWords + " <" + secretTo + "> " + secretPassword
	for _, c := range []struct {
		step, name                 string
		fours, fives, drops, hangs string
	}{
		{"greeting", "the connection", "not delivered", "not delivered", "not delivered", "not delivered"},
		{"EHLO", "the connection", "not delivered", "not delivered", "not delivered", "not delivered"},
		{"AUTH", "the user and password", "not delivered", "not delivered", "not delivered", "not delivered"},
		{"MAIL", "the sender", "not delivered", "rejected", "not delivered", "not delivered"},
		{"RCPT", "the recipient", "not delivered", "rejected", "not delivered", "not delivered"},
		{"DATA", "the text", "not delivered", "rejected", "not delivered", "not delivered"},
		{".", "the mail", "not delivered", "rejected", "uncertain", "uncertain"},
	} {
		status, gibberish, dropped := " 4.2.1", "no valid response came", "no valid response came"
		if c.step == "greeting" || c.step == "EHLO" || c.step == "AUTH" { // go-mail tells more of these
			status, gibberish, dropped = "", "the other side did not keep to the protocol", "the connection was closed"
		}
		for _, way := range []struct{ name, says, want, text string }{
			{"4xx", "450-4.2.1" + words + "\r\n450 4.2.1" + words, c.fours, "the server rejected " + c.name + " with 450" + status},
			{"a login is wanted", "530 5.7.0" + words, c.fours, "the server rejected " + c.name + " with 530" + strings.Replace(status, "4.2.1", "5.7.0", 1)},
			{"4xx without words", "452 ", c.fours, "the server rejected " + c.name + " with 452"},
			{"5xx", "550 5.1.1" + words, c.fives, "the server rejected " + c.name + " with 550" + strings.Replace(status, "4.2.1", "5.1.1", 1)},
			{"half an answer", "250-5.1.1" + words, c.drops, ""},
			{"gibberish", "5" + words, c.drops, c.name + " failed: " + gibberish},
			{"drop", drop, c.drops, c.name + " failed: " + dropped},
			{"hang", hang, c.hangs, "the server did not answer to " + c.name + " in time"},
		} {
			t.Run(c.step+" "+way.name, func(t *testing.T) {
				s := greeted()
				s[c.step] = way.says
				if c.step == "EHLO" {
					s["HELO"] = way.says // tried next
				}
				took, _, err := runScript(t, "smtp://"+userinfo()+"localhost", s, newMessage(), 0)
				if outcome(err) != way.want || way.text != "" && err.Error() != way.text {
					t.Errorf("the mail was %s: %v", outcome(err), err)
				}
				if wantTook := map[bool]time.Duration{true: sendTimeout}[way.name == "hang"]; way.text != "" && took != wantTook {
					t.Errorf("it took %v", took)
				}
			})
		}
		for way, cancelled := range map[string]time.Duration{"at once": time.Nanosecond, "after 5 s": 5 * time.Second} {
			t.Run(c.step+" cancelled "+way, func(t *testing.T) {
				s := greeted()
				s[c.step] = hang
				took, _, err := runScript(t, "smtp://"+userinfo()+"localhost", s, newMessage(), cancelled)
				if outcome(err) != c.hangs || !errors.Is(err, context.Canceled) || took != cancelled {
					t.Errorf("after %v the mail was %s: %v", took, outcome(err), err)
				}
			})
		}
	}
}

// A failure within the text must not end it: the server would take half a mail.
func TestSMTP_InterruptedText(t *testing.T) {
	long := newMessage()
	long.Text = strings.Repeat("A long text.\n", 4000)
	for _, c := range []struct {
		outcome, way, want string
		took               time.Duration
		whole              bool
	}{
		{"nobody reads", deaf, "not delivered", sendTimeout, false},
		{"the connection goes", drop, "not delivered", 0, false},
		{"nobody answers", hang, "uncertain", sendTimeout, true},
	} {
		s := greeted()
		s["text"] = c.way
		took, heard, err := runScript(t, "smtp://localhost", s, long, 0)
		if outcome(err) != c.want || took != c.took {
			t.Errorf("%s: after %v the mail was %s: %v", c.outcome, took, outcome(err), err)
		}
		all := strings.Join(heard, "")
		if strings.Contains(all, "\r\n.\r\n") != c.whole || strings.Contains(all, "QUIT") {
			t.Errorf("%s: the server heard %q at the end", c.outcome, all[max(0, len(all)-100):])
		}
	}
}

func TestSMTP_IgnoresFailedQuit(t *testing.T) {
	for _, c := range []struct {
		outcome, says string
		took          time.Duration
	}{
		{"said", "221 bye", 0},
		{"rejected", "554 " + serverWords, 0},
		{"dropped", drop, 0},
		{"left open", hang, quitTimeout},
	} {
		for end, want := range map[string]string{"250 ok": "delivered", "450 no": "not delivered", "550 no": "rejected", "354 go": "uncertain"} {
			s := greeted()
			s["."], s["QUIT"] = end, c.says
			took, heard, err := runScript(t, "smtp://localhost", s, newMessage(), 0)
			if outcome(err) != want || took != c.took || len(heard) < 6 || heard[5] != "QUIT\r\n" {
				t.Errorf("QUIT %s, %s: after %v the mail was %s: %v; the server heard %q", c.outcome, end, took, outcome(err), err, heard)
			}
		}
	}
}

func TestSMTP_TimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSink(t, "smtp://localhost", from, outside{dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		start := time.Now() //clock: the bubble's
		err := s.Send(t.Context(), newMessage())
		if took := time.Since(start); took != sendTimeout || outcome(err) != "not delivered" { //clock: the bubble's
			t.Errorf("dialling: after %v the mail was %s: %v", took, outcome(err), err)
		}
	})
	upgraded := greeted()
	upgraded["EHLO"], upgraded["STARTTLS"], upgraded["handshake"] = "250-hello\r\n250 STARTTLS", "220 go\r\n250 injected", hang
	for setting, s := range map[string]script{"smtps://mail.example.com": {"greeting": hang}, "smtp://mail.example.com": upgraded} {
		took, heard, err := runScript(t, setting, s, newMessage(), 0)
		if took != sendTimeout || outcome(err) != "not delivered" || !strings.Contains(err.Error(), "did not answer to the connection in time") ||
			strings.Contains(strings.Join(heard, ""), "MAIL") {
			t.Errorf("the handshake of %s: after %v the mail was %s: %v; the server heard %q", setting, took, outcome(err), err, heard)
		}
	}
}

// hostile are lines that try to be more than text.
var hostile = []string{
	"a\r\nBcc: b@example.org", "a\rBcc: b@example.org", "a\r\n\r\n<script>", "a\r\n.\r\nMAIL FROM:<c@example.org>", "a\n.\nQUIT", ".", "..", ".a", "\r\n.\r\n.\r\n", "\n..\n",
	"a\x00Bcc: b@example.org", "a\x1bb", "a\u2028Bcc: b@example.org", "=?utf-8?q?a=0d=0aBcc:_b@example.org?=", "From ", "Subject: b", "--boundary--", "", " a", "a ", "\t", "=", "=0D=0A", "=\r\n",
	"验证码 😀👩‍💻❤️", strings.Repeat("a", 5000), strings.Repeat("验", 5000), strings.Repeat(" ", 1200), strings.Repeat(".\r\n", 400), strings.Repeat("From a\n", 200), strings.Repeat("=", 1200),
}

func TestSMTP_HostileTextStaysText(t *testing.T) {
	b := newMailbox(t, func(b *mailbox) { plain(b); b.MaxLineLength = 1000 })
	s := b.open("smtp://127.0.0.1", "127.0.0.1:25")
	for i, line := range hostile {
		t.Run(fmt.Sprintf("%d as text %.20q", i, line), func(t *testing.T) {
			for _, text := range []string{line, "first\n" + line, line + "\nlast", "first\r\n" + line + "\r\nlast\r\n"} {
				m := newMessage()
				m.Text, b.mails = text, nil
				deliver(t, s, m)
				if len(b.mails) != 1 || !slices.Equal(b.mails[0].to, []string{secretTo}) {
					t.Fatalf("other mails arrived than one for its recipient: %+v", b.mails)
				}
				agree(t, b.mails[0].data, m)
			}
		})
	}
	for _, command := range b.seen {
		if !strings.Contains("MAIL RCPT DATA", command) {
			t.Errorf("the server saw %s", command)
		}
	}
}
