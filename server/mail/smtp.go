package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

const (
	sendTimeout = 30 * time.Second // for one mail, from dialling to the server's answer
	quitTimeout = 2 * time.Second  // for the goodbye, when the outcome is known
)

// outside is what a test puts in the place of the network and of the system's
// certificates.
type outside struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	roots *x509.CertPool
}

// mailServer is where an smtp setting points.
type mailServer struct {
	implicit       bool // TLS from the first byte: smtps
	host, port     string
	user, password string
}

var errSetting = errors.New("--mail is not well-formed: give smtp://[user:pass@]host[:port] or smtps://…, " +
	"with the special characters in user and pass percent-encoded (@ is %40, / is %2F, : is %3A)")

// hostName is a DNS name or an IPv4 address; a zone or a wildcard is none.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

// parseServer reads an smtp setting. Its errors do not quote it, unlike url.Parse's.
func parseServer(setting string) (*mailServer, error) {
	u, err := url.Parse(setting)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Host == "" ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || strings.Contains(setting, "#") {
		return nil, errSetting
	}
	s := &mailServer{implicit: u.Scheme == "smtps", host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	s.password, _ = u.User.Password()
	if _, err := netip.ParseAddr(s.host); err != nil && !hostName.MatchString(s.host) {
		return nil, errSetting
	}
	if u.User != nil && (s.user == "" || s.password == "" || !isLine(s.user) || !isLine(s.password)) {
		return nil, errSetting
	}
	if s.port == "" {
		s.port = s.defaultPort()
	}
	if n, err := strconv.Atoi(s.port); err != nil || n < 1 || n > 65535 {
		return nil, errSetting
	}
	return s, nil
}

func (s *mailServer) defaultPort() string {
	switch {
	case s.implicit:
		return "465"
	case s.loopback():
		return "25"
	}
	return "587"
}

// loopback tells whether the setting itself names this machine: what a name resolves
// to must not decide whether a password goes out in the clear.
func (s *mailServer) loopback() bool {
	if strings.EqualFold(strings.TrimSuffix(s.host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(s.host)
	return err == nil && ip.IsLoopback()
}

func (s *mailServer) address() string { return net.JoinHostPort(s.host, s.port) }

// String is the setting without its password.
func (s *mailServer) String() string {
	u := url.URL{Scheme: "smtp", Host: s.address()}
	if s.implicit {
		u.Scheme = "smtps"
	}
	if s.user != "" {
		u.User = url.User(s.user)
	}
	return u.String()
}

// smtpSink sends each mail over a connection of its own: mails are few, and nothing
// has to be known about the last one. The steps are taken one by one, with go-mail's
// protocol but not its client, which would not tell a mail that was accepted from one
// that was not once the connection fails, bounds each step but not their sum, and
// leaves connections open.
type smtpSink struct {
	server *mailServer
	from   sender
	tls    *tls.Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

func openSMTP(setting, from string, sender sender, o outside) (Sink, error) {
	server, err := parseServer(setting)
	if err != nil {
		return nil, err
	}
	if from == "" {
		return nil, errors.New(`--mail by SMTP needs --mail-from: the address that mails come from, such as "Callbook <callbook@example.org>"`)
	}
	if o.dial == nil {
		o.dial = (&net.Dialer{}).DialContext
	}
	config := &tls.Config{
		ServerName: server.host, RootCAs: o.roots, MinVersion: tls.VersionTLS12,
		// A mail server on this machine seldom has a certificate for this name, and
		// plain text would do there.
		InsecureSkipVerify: server.loopback() && !server.implicit,
	}
	return &smtpSink{server, sender, config, o.dial}, nil
}

// step is where a dialogue failed, as errors name it.
type step string

const (
	stepConnect   step = "the connection"
	stepHandshake step = "the TLS handshake"
	stepGreeting  step = "the greeting"
	stepHello     step = "the hello"
	stepStartTLS  step = "STARTTLS"
	stepAuth      step = "the user and password"
	stepSender    step = "the sender"
	stepRecipient step = "the recipient"
	stepData      step = "the text"
	stepEnd       step = "the mail"
)

// Send hands one mail to the server, within 30 seconds.
func (s *smtpSink) Send(ctx context.Context, m Message) error {
	if err := ready(ctx, m); err != nil {
		return err
	}
	data, err := s.from.render(m)
	if err != nil {
		return err
	}
	return s.talk(ctx, func(ctx context.Context, client *smtp.Client, conn net.Conn) error {
		return s.hand(ctx, client, conn, m.To, data)
	})
}

// check goes as far as to where mails may be sent, and says goodbye.
func (s *smtpSink) check(ctx context.Context) error {
	return s.talk(ctx, func(_ context.Context, client *smtp.Client, conn net.Conn) error {
		quit(client, conn)
		return nil
	})
}

// talk connects, within the time for one mail.
func (s *smtpSink) talk(ctx context.Context, about func(context.Context, *smtp.Client, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := s.dial(ctx, "tcp", s.server.address())
	if err != nil {
		return stepConnect.fail(ctx, err)
	}
	defer conn.Close()
	// Closed from below, so that not even TLS can wait to say goodbye.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	client, err := s.connect(ctx, conn)
	if err != nil {
		return err
	}
	return about(ctx, client, conn)
}

// connect brings a connection to where mails may be sent: greeted, encrypted where
// that is asked for, and authenticated.
func (s *smtpSink) connect(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	if s.server.implicit {
		secure := tls.Client(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, stepHandshake.fail(ctx, err)
		}
		conn = secure
	}
	client, err := smtp.NewClient(conn, s.server.host)
	if err != nil {
		return nil, stepGreeting.fail(ctx, err)
	}
	client.SkipSMTPUTF8(true) // all addresses are ASCII
	if err := client.Hello(s.from.domain); err != nil {
		return nil, stepHello.fail(ctx, err)
	}
	if !s.server.implicit {
		if err := s.startTLS(ctx, client); err != nil {
			return nil, err
		}
	}
	if s.server.user == "" {
		return client, nil
	}
	return client, s.authenticate(ctx, client)
}

// startTLS encrypts: always to another machine, to this one if it offers to.
func (s *smtpSink) startTLS(ctx context.Context, client *smtp.Client) error {
	offered, _ := client.Extension("STARTTLS")
	switch {
	case offered:
		if err := client.StartTLS(s.tls); err != nil {
			return stepStartTLS.fail(ctx, err)
		}
	case !s.server.loopback():
		return &failure{text: "the server offers no STARTTLS, and mails do not leave this machine unencrypted: use smtps://, or another port"}
	}
	return nil
}

func (s *smtpSink) authenticate(ctx context.Context, client *smtp.Client) error {
	_, line := client.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(line))
	var auth smtp.Auth
	switch {
	case slices.Contains(offered, "PLAIN"):
		auth = smtp.PlainAuth("", s.server.user, s.server.password, s.server.host, s.server.loopback())
	case slices.Contains(offered, "LOGIN"):
		auth = smtp.LoginAuth(s.server.user, s.server.password, s.server.host, s.server.loopback())
	default:
		return &failure{text: "the server offers neither AUTH PLAIN nor AUTH LOGIN: take user and password out of --mail, or use another port"}
	}
	if err := client.Auth(auth); err != nil {
		return stepAuth.fail(ctx, err)
	}
	return nil
}

// hand gives the mail to the server, and says goodbye where that is safe: after a
// failure within the text it would end the text, and so deliver half a mail.
func (s *smtpSink) hand(ctx context.Context, client *smtp.Client, conn net.Conn, to string, data []byte) error {
	err := s.transfer(ctx, client, to, data)
	if f, ok := errors.AsType[*failure](err); !ok || f.answered {
		quit(client, conn)
	}
	return err
}

// transfer is the dialogue about one mail. Only what fails after the final dot is
// uncertain.
func (s *smtpSink) transfer(ctx context.Context, client *smtp.Client, to string, data []byte) error {
	if err := client.Mail("<" + s.from.Address.Address + ">"); err != nil {
		return stepSender.fail(ctx, err)
	}
	if err := client.Rcpt("<" + to + ">"); err != nil {
		return stepRecipient.fail(ctx, err)
	}
	w, err := client.Data()
	if err != nil {
		return stepData.fail(ctx, err)
	}
	if err := write(ctx, w, data); err != nil {
		return stepData.fail(ctx, err)
	}
	err = w.Close()
	if reply, ok := errors.AsType[*textproto.Error](err); err == nil || ok && reply.Code/100 == 2 {
		return nil
	}
	return stepEnd.fail(ctx, err)
}

// write writes all but the final dot. A context that has ended by then spares the mail
// from being uncertain.
func write(ctx context.Context, w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	return ctx.Err()
}

// quit says goodbye, as the protocol asks for. The outcome is known already, so that
// its failure does not matter.
func quit(client *smtp.Client, conn net.Conn) {
	late := time.AfterFunc(quitTimeout, func() { _ = conn.Close() })
	defer late.Stop()
	_ = client.Quit()
}

// enhanced is the status code of RFC 3463 before a server's words, on any line.
var enhanced = regexp.MustCompile(`(?m)^[245]\.\d{1,3}\.\d{1,3}(?:\s|$)`)

// fail gives the error for a step that did not succeed.
func (s step) fail(ctx context.Context, err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		return s.refused(reply)
	}
	f := failure{cause: ctx.Err()}
	if s == stepEnd {
		f.kind = ErrUncertain
	}
	switch {
	case errors.Is(f.cause, context.Canceled):
		f.text = fmt.Sprintf("sending was broken off at %s", s)
	case f.cause != nil:
		f.text = fmt.Sprintf("the server did not answer to %s in time", s)
	default:
		f.text = fmt.Sprintf("%s failed: %s", s, reason(err))
	}
	return &f
}

// wantsLogin are the answers of a server that wants another setting, not another mail: a
// user and a password, other ones, or TLS before them (RFC 4954, section 6).
var wantsLogin = []int{530, 534, 535, 538}

// refused gives the error for a server's answer. After the final dot an answer that
// says neither yes nor no is as good as none.
func (s step) refused(reply *textproto.Error) error {
	status := fmt.Sprintf("%03d %s", reply.Code, enhanced.FindString(reply.Msg))
	f := &failure{text: fmt.Sprintf("the server refused %s with %s", s, strings.TrimSpace(status)), answered: true}
	switch class := reply.Code / 100; {
	case class == 5 && !slices.Contains(wantsLogin, reply.Code) && slices.Contains([]step{stepSender, stepRecipient, stepData, stepEnd}, s):
		f.kind = ErrRefused
	case class != 4 && class != 5 && s == stepEnd:
		f.kind = ErrUncertain
	}
	return f
}

// reason says in fixed words why something outside failed. The errors themselves hold
// addresses and what the other side wrote.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return "it took too long"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "there is no such host"
	} else if ok {
		return "the name look-up failed"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not valid: " + certificateReason(err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: where it speaks STARTTLS, use smtp://"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed"
	}
	return "the other side did not keep to the protocol"
}

func certificateReason(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another host"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its authority is not trusted here"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "it has expired or is not yet valid"
	}
	return "it does not verify"
}
