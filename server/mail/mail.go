// Package mail delivers the mails of the site. The Outbox takes queued mails from the store,
// composes them, and stores the result; the store schedules retries. The sinks are an SMTP
// server, a folder, the log, and the memory of callbook dev; they queue and retry nothing.
//
// # The three outcomes
//
// Send has three outcomes, because a mail server does not always report the result:
//
//   - Not delivered: any error except the two below. The same mail is retried.
//   - Delivered (no error), or never deliverable (ErrRejected). The mail is done.
//   - Unknown (ErrUncertain): the whole mail was sent, but the response was lost. No protocol can
//     close this gap. Dropping such a mail may lose a code; retrying it without limit may fill a
//     mailbox. The caller retries once, and treats a second unknown outcome as delivered.
//
// So a deliverable mail is sent at least once and arrives at most twice. Its Message-ID does not
// change, by which many mail servers detect the copy.
//
// A rejection is permanent only if it is about the mail: its sender, its recipient or its content.
// A server that rejects the connection or the password rejects every mail until the operator
// corrects the setting, and then the mail is still needed.
//
// # Error messages
//
// Errors are logged. They contain status codes and the names of steps, never an address, a code,
// a password or the server's text, which often quotes all three.
package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	netmail "net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"
	gomail "github.com/wneessen/go-mail"

	"callbook/store/durable"
	"callbook/store/text"
)

// ErrRejected reports that a mail will never be delivered: the server rejected it with a 5xx
// status.
var ErrRejected = errors.New("the mail was rejected for good")

// ErrUncertain reports that a mail was sent but the response was lost: it may have been delivered.
var ErrUncertain = errors.New("the mail may have been delivered")

// Message is one mail, plain text.
type Message struct {
	// ID is the local part of Message-ID, the same for each retry: 1 to 64 of A-Z a-z 0-9 _ -.
	ID      string `json:"-"`
	To      string `json:"to"`      // one address without a name
	Subject string `json:"subject"` // one line
	Text    string `json:"text"`    // several lines

	// Code and Link are those in the text, for sinks that show mails to developers.
	Code *string `json:"code"`
	Link *string `json:"link"`

	// At is when the site accepted the mail, for the header Date.
	At time.Time `json:"-"`
}

// Sink delivers mails. Send may be called concurrently; its errors are described in the package
// comment.
type Sink interface {
	Send(ctx context.Context, m Message) error
}

// Open returns the sink of a setting: "log:", "dir:PATH", "smtp://[user:pass@]host[:port]",
// "smtps://…", or "off", for which the sink is nil. from is the sender, "Name <address>" or an
// address; only SMTP requires it.
func Open(setting, from string, log zerolog.Logger) (Sink, error) {
	return open(setting, from, log, outside{})
}

// open is Open with replacements for the network, for tests.
func open(setting, from string, log zerolog.Logger, o outside) (Sink, error) {
	sender, err := parseSender(from)
	if err != nil {
		return nil, err
	}

	scheme, rest, _ := strings.Cut(setting, ":")
	switch {
	case setting == "off":
		return nil, nil

	case setting == "log:":
		return &logSink{log}, nil

	case scheme == "dir":
		return openFolder(rest, sender)

	case scheme == "smtp" || scheme == "smtps":
		return openSMTP(setting, from, sender, o)
	}

	return nil, errors.New("--mail is not one of log:, dir:PATH, smtp://[user:pass@]host[:port], " +
		"smtps://[user:pass@]host[:port] and off")
}

// Check returns an error if a sink would not accept a mail. It sends none: it logs in to an SMTP
// server, or creates and removes a file in a folder.
func Check(ctx context.Context, sink Sink) error {
	if s, ok := sink.(interface{ check(context.Context) error }); ok {
		return s.check(ctx)
	}
	return nil
}

// Describe returns a setting as it may be logged: without its password, with its port. It returns
// unknown for a malformed one, which may have a password anywhere.
func Describe(setting string) string {
	if setting == "off" || setting == "log:" || strings.HasPrefix(setting, "dir:") {
		return setting
	}

	server, err := parseServer(setting)
	if err != nil {
		return "unknown"
	}

	return server.String()
}

// sender is the sender of the mails.
type sender struct {
	netmail.Address
	domain string // of the address
}

// parseSender parses --mail-from.
func parseSender(from string) (sender, error) {
	if from == "" {
		from = "callbook@localhost"
	}

	a, err := netmail.ParseAddress(from)
	if err != nil || !isSender(a.Address) || !isLine(a.Name) {
		return sender{}, errors.New("--mail-from must be one address, " +
			`such as callbook@example.org or "Callbook <callbook@example.org>"`)
	}

	domain := a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	return sender{*a, domain}, nil
}

// isSender reports whether an address is a mailbox.
func isSender(address string) bool {
	// With a further label, the host may also be a name of one, such as localhost.
	address += ".example"
	canonical, ok := text.ParseMailbox(address)
	return ok && strings.EqualFold(canonical, address)
}

// isLine reports whether a text is one line in every format.
func isLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// failure is an error of Send whose text may be logged.
type failure struct {
	text        string
	kind, cause error // ErrRejected, ErrUncertain or nil; the error of the context or nil
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	return slices.DeleteFunc([]error{f.kind, f.cause}, func(err error) bool { return err == nil })
}

// compose builds a mail, with the same bytes each time.
func (s *sender) compose(m Message) *gomail.Msg {
	// Without its user agent: go-mail would name itself and this machine in every mail.
	msg := gomail.NewMsg(
		gomail.WithNoDefaultUserAgent(),
		gomail.WithCharset("utf-8"),
		gomail.WithEncoding(gomail.EncodingQP),
	)
	msg.SetMessageIDWithValue(m.ID + "@" + s.domain)
	msg.SetDateWithValue(m.At)
	msg.FromMailAddress(&s.Address)
	msg.ToMailAddress(&netmail.Address{Address: m.To})
	msg.Subject(m.Subject)

	// So that no vacation notice responds (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, strings.TrimSuffix(m.Text, "\n")+"\n")

	return msg
}

// logSink writes mails to the log, so that the program works without a mail server. No other sink logs
// codes.
type logSink struct{ log zerolog.Logger }

// Reaches reports whether the mails of a sink reach their recipients by themselves, unlike those in
// the log.
func Reaches(s Sink) bool {
	_, logged := s.(*logSink)
	return s != nil && !logged
}

// Send logs a mail.
func (s *logSink) Send(ctx context.Context, m Message) error {
	if err := ready(ctx); err != nil {
		return err
	}

	// Whatever the level of the log: without the code, an agent could not go on.
	s.log.Log().
		Str("level", "info").
		Str("to", m.To).
		Str("subject", m.Subject).
		Str("text", m.Text).
		Msg("mail")
	return nil
}

// ready returns an error if ctx has ended.
func ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &failure{text: "the mail was not sent: " + err.Error(), cause: err}
	}
	return nil
}

// folder writes each mail to a file. The names sort by time; a retried mail replaces its file.
type folder struct {
	path string
	from sender
}

// openFolder opens a folder, which must exist: a mistyped path must not collect mails.
func openFolder(path string, from sender) (Sink, error) {
	if path == "" {
		return nil, errors.New(
			"--mail dir: names no folder: give dir:PATH, such as dir:/var/lib/callbook/mail",
		)
	}

	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, fmt.Errorf(
			"--mail dir:%s: there is no such folder: make it, writable for the user that runs callbook, "+
				"or name another",
			path,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the folder of --mail: %w", err)
	}

	return &folder{path, from}, nil
}

// check creates a file and removes it.
func (f *folder) check(context.Context) error {
	file, err := os.CreateTemp(f.path, ".check-*")
	if err != nil {
		return &failure{text: "no file can be made in the folder: " + reason(err)}
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// fileTime is in UTC and of fixed length, so that names sort by time.
const fileTime = "20060102T150405.000000000Z"

// Send writes a mail to its file.
func (f *folder) Send(ctx context.Context, m Message) error {
	if err := ready(ctx); err != nil {
		return err
	}

	var data bytes.Buffer
	_, err := f.from.compose(m).WriteTo(&data)
	if err == nil {
		name := m.At.UTC().Format(fileTime) + "-" + m.ID + ".eml"
		err = durable.WriteFile(filepath.Join(f.path, name), data.Bytes())
	}
	if err != nil {
		return &failure{text: "the mail's file could not be written: " + reason(err)}
	}

	return nil
}

// Memory stores mails for developers.
type Memory struct {
	limit    int
	mu       sync.Mutex
	messages []Message // oldest first
}

// NewMemory returns a sink that stores the newest mails, at most limit of them.
func NewMemory(limit int) *Memory { return &Memory{limit: limit} }

// Send stores a mail, and removes the oldest one beyond the limit.
func (s *Memory) Send(ctx context.Context, m Message) error {
	if err := ready(ctx); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)

	if past := len(s.messages) - s.limit; past > 0 {
		s.messages = slices.Delete(s.messages, 0, past)
	}

	return nil
}

// Messages returns the stored mails, newest first.
func (s *Memory) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := slices.Clone(s.messages)
	slices.Reverse(newest)
	return newest
}

// Clear removes all mails.
func (s *Memory) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = nil
}
