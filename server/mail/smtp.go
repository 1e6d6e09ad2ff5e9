package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"callbook/store/text"
)

const (
	// sendTimeout limits one mail, from dialling to the server's response.
	sendTimeout = 30 * time.Second
	// quitTimeout limits QUIT, after the outcome is known.
	quitTimeout = 2 * time.Second
)

// outside replaces the network and the system's certificates in tests.
type outside struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	roots *x509.CertPool
}

// mailServer is a parsed SMTP setting.
type mailServer struct {
	implicit       bool // TLS from the first byte: smtps
	host           string
	port           int
	user, password string // empty for a server without authentication
}

// errSetting reports a malformed setting.
var errSetting = errors.New(
	"--mail is not well-formed: give smtp://[user:pass@]host[:port] or smtps://…, " +
		"with the special characters in user and pass percent-encoded (@ is %40, / is %2F, : is %3A)",
)

// parseServer parses an SMTP setting. Its errors do not quote it, unlike those of url.Parse.
func parseServer(setting string) (*mailServer, error) {
	u, err := url.Parse(setting)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errSetting
	}

	// Anything after the host would be a part of a password that is not percent-encoded.
	hasPath := u.Path != "" && u.Path != "/"
	hasQuery := u.RawQuery != "" || u.ForceQuery
	if u.Host == "" || hasPath || hasQuery || strings.Contains(setting, "#") {
		return nil, errSetting
	}

	s := &mailServer{implicit: u.Scheme == "smtps", host: u.Hostname(), user: u.User.Username()}
	s.password, _ = u.User.Password()

	// A decoded escape, a zone, or a wildcard.
	if s.host == "" || strings.ContainsAny(s.host, " %*") {
		return nil, errSetting
	}

	isComplete := s.user != "" && s.password != "" && isLine(s.user) && isLine(s.password)
	if u.User != nil && !isComplete {
		return nil, errSetting
	}

	s.port = s.defaultPort()
	if port := u.Port(); port != "" {
		s.port, err = strconv.Atoi(port)
	}
	if err != nil || s.port < 1 || s.port > 65535 {
		return nil, errSetting
	}

	return s, nil
}

// defaultPort returns the port for submissions (RFC 6409 and RFC 8314), or that of a mail server on
// this machine.
func (s *mailServer) defaultPort() int {
	switch {
	case s.implicit:
		return 465
	case text.IsLoopback(s.host):
		return 25
	}
	return 587
}

func (s *mailServer) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// String returns the setting without its password.
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

// smtpSink sends each mail over a connection of its own: mails are few.
type smtpSink struct {
	server  *mailServer
	from    sender
	options []gomail.Option
	tls     *tls.Config // for smtps; nil for smtp
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// openSMTP returns a sink for an SMTP server. It does not connect.
func openSMTP(setting, from string, sender sender, o outside) (Sink, error) {
	server, err := parseServer(setting)
	if err != nil {
		return nil, err
	}
	if from == "" {
		return nil, errors.New("--mail by SMTP needs --mail-from: the address that mails come from, " +
			`such as "Callbook <callbook@example.org>"`)
	}

	if o.dial == nil {
		o.dial = (&net.Dialer{}).DialContext
	}

	// The setting alone decides whether the server is this machine: DNS must not decide whether a
	// password is sent unencrypted.
	loopback := text.IsLoopback(server.host)
	policy := gomail.TLSMandatory
	mechanisms := []gomail.SMTPAuthType{gomail.SMTPAuthPlain, gomail.SMTPAuthLogin}
	if loopback {
		policy = gomail.TLSOpportunistic
		mechanisms = []gomail.SMTPAuthType{gomail.SMTPAuthPlainNoEnc, gomail.SMTPAuthLoginNoEnc}
	}

	config := &tls.Config{
		ServerName: server.host,
		RootCAs:    o.roots,
		MinVersion: tls.VersionTLS12,

		// A mail server on this machine seldom has a certificate for this name, and
		// plain text would do there.
		InsecureSkipVerify: loopback && !server.implicit,
	}

	options := []gomail.Option{
		gomail.WithPort(server.port),
		gomail.WithHELO(sender.domain),
		gomail.WithTLSConfig(config),
		gomail.WithTLSPolicy(policy),
		gomail.WithoutSMTPUTF8(),
		gomail.WithoutNoop(),
		gomail.WithoutRset(),
		gomail.WithTimeout(2 * sendTimeout), // of each step: the context of the whole ends before
	}
	if server.user != "" {
		options = append(
			options,
			gomail.WithUsername(server.user),
			gomail.WithPassword(server.password),
			gomail.WithOpportunisticSMTPAuth(mechanisms...),
		)
	}

	s := &smtpSink{
		server:  server,
		from:    sender,
		options: options,
		dial:    o.dial,
	}
	if server.implicit {
		s.tls = config
		s.options = append(s.options, gomail.WithSSL())
	}

	return s, nil
}

// Send sends one mail to the server, within sendTimeout.
func (s *smtpSink) Send(ctx context.Context, m Message) error {
	if err := ready(ctx); err != nil {
		return err
	}

	msg := s.from.compose(m)
	send := func(ctx context.Context, client *gomail.Client, connection *smtp.Client) error {
		if err := client.SendWithSMTPClient(connection, msg); err != nil {
			return sendFailure(ctx, err)
		}
		return nil
	}
	return s.connect(ctx, send)
}

// check connects up to the point where mails may be sent.
func (s *smtpSink) check(ctx context.Context) error {
	return s.connect(ctx, func(context.Context, *gomail.Client, *smtp.Client) error { return nil })
}

// connect calls use with a connection that is ready for a mail.
func (s *smtpSink) connect(
	ctx context.Context,
	use func(context.Context, *gomail.Client, *smtp.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	// Also closes the connection, which go-mail leaves open after an error.
	defer cancel()

	dial := func(_ context.Context, network, _ string) (net.Conn, error) {
		// Not the address of go-mail, which lacks the brackets of an IPv6 address.
		conn, err := s.dial(ctx, network, s.server.address())
		if err != nil {
			return nil, err
		}

		// The connection below TLS, whose Close may wait.
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		if s.tls == nil {
			return conn, nil
		}

		secure := tls.Client(conn, s.tls)
		return secure, secure.HandshakeContext(ctx)
	}

	// Clipped, since concurrent mails append to the same options.
	options := append(slices.Clip(s.options), gomail.WithDialContextFunc(dial))
	client, err := gomail.NewClient(s.server.host, options...)
	if err != nil {
		return err
	}

	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return connectFailure(ctx, s.server.host, err)
	}

	err = use(ctx, client, connection)

	// The outcome is known: the end of the session does not change it. After a failure within the
	// text nothing more can be written, so that QUIT cannot end half a mail.
	late := time.AfterFunc(quitTimeout, cancel)
	defer late.Stop()
	_ = connection.Quit()

	return err
}

// wantsLogin are the codes that require another setting, not another mail: a user and a password,
// other ones, or TLS before them (RFC 4954, section 6).
var wantsLogin = []int{530, 534, 535, 538}

// connectFailure returns the error for a connection that fails before a mail is sent. It says nothing
// about the mail, which is retried.
func connectFailure(ctx context.Context, host string, err error) error {
	message := err.Error()
	step := "the connection"
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		// The name of the setting is no secret, and may be mistyped.
		step = fmt.Sprintf("the connection to %q", host)
	}
	if strings.HasPrefix(message, "SMTP AUTH failed") {
		step = "the user and password"
	}

	reply, replied := errors.AsType[*textproto.Error](err)
	switch {
	case replied:
		return &failure{text: fmt.Sprintf("the server rejected %s with %d", step, reply.Code)}

	case strings.HasSuffix(message, "does not support STARTTLS"):
		return &failure{text: "the server offers no STARTTLS, " +
			"and mails do not leave this machine unencrypted: use smtps://, or another port"}

	case strings.HasSuffix(message, "does not support SMTP AUTH"),
		errors.Is(err, gomail.ErrNoSupportedAuthDiscovered):
		return &failure{text: "the server offers neither AUTH PLAIN nor AUTH LOGIN: " +
			"take user and password out of --mail, or use another port"}
	}

	return unanswered(ctx, step, reason(err), nil)
}

// steps names the step at which sending fails.
var steps = map[gomail.SendErrReason]string{
	gomail.ErrSMTPMailFrom:  "the sender",
	gomail.ErrSMTPRcptTo:    "the recipient",
	gomail.ErrSMTPData:      "the text",
	gomail.ErrWriteContent:  "the text",
	gomail.ErrSMTPDataClose: "the mail",
}

// sendFailure returns the error for a mail that was not accepted, or perhaps was.
func sendFailure(ctx context.Context, err error) error {
	failed, _ := errors.AsType[*gomail.SendError](err)
	if failed == nil {
		return unanswered(ctx, "the mail", "no valid response came", ErrUncertain)
	}

	step := cmp.Or(steps[failed.Reason], "the mail")
	if code := failed.ErrorCode(); code != 0 {
		text := fmt.Sprintf(
			"the server rejected %s with %d %s",
			step,
			code,
			failed.EnhancedStatusCode(),
		)
		rejection := &failure{text: strings.TrimSpace(text)}
		if code >= 500 && !slices.Contains(wantsLogin, code) {
			rejection.kind = ErrRejected
		}

		return rejection
	}

	// With the dot at its end, the whole mail was sent.
	var kind error
	if failed.Reason == gomail.ErrSMTPDataClose {
		kind = ErrUncertain
	}
	return unanswered(ctx, step, "no valid response came", kind)
}

// unanswered returns the error for a step without a response of the server.
func unanswered(ctx context.Context, step, reason string, kind error) error {
	f := &failure{kind: kind, cause: ctx.Err()}
	switch {
	case errors.Is(f.cause, context.Canceled):
		f.text = "sending was broken off at " + step

	case f.cause != nil:
		f.text = "the server did not answer to " + step + " in time"

	default:
		f.text = step + " failed: " + reason
	}

	return f
}

// reason describes a network error. The texts of other errors may contain addresses and text of the
// server.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return "it took too long"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name of the host was not found, or the name server did not answer"
	}
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not valid: " + invalid.Err.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: where it speaks STARTTLS, use smtp://"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed"
	}

	return "the other side did not keep to the protocol"
}
