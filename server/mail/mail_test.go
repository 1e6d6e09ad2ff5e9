package mail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/quotedprintable"
	netmail "net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"callbook/testdata/testkit"
)

// What must never stand in an error, or in a log but the log: sink's.
const (
	secretTo       = "victim-canary@recipient.example.net"
	secretCode     = "K7QM-4XZ2"
	secretPassword = "p@ss/canary:é"
	secretUser     = "user-canary@example.org"
	serverWords    = "server-words-canary"
)

const (
	from      = "Callbook 名录 <robot-canary@callbook.example.org>"
	plainFrom = "robot-canary@callbook.example.org"
)

func newMessage() Message {
	code, link := secretCode, "https://directory.example.org/owner/link-canary"
	return Message{
		ID: "out_01", To: secretTo, Subject: "Your code", Code: &code, Link: &link,
		Text: "Your code is " + code + ".\n" + link + "\n", At: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC),
	}
}

func holdsNoSecret(t testing.TB, text string) {
	t.Helper()
	for _, secret := range []string{
		secretTo, "victim-canary", secretCode, secretPassword, "canary:", secretUser, "user-canary", serverWords, plainFrom, "link-canary",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%q holds %q", text, secret)
		}
	}
}

// outcome names what an error of Send means.
func outcome(err error) string {
	switch {
	case err == nil:
		return "delivered"
	case errors.Is(err, ErrRejected) && errors.Is(err, ErrUncertain):
		return "rejected and uncertain"
	case errors.Is(err, ErrRejected):
		return "rejected"
	case errors.Is(err, ErrUncertain):
		return "uncertain"
	}
	return "not delivered"
}

// send sends a mail and gives the outcome; no error may hold a secret.
func send(t testing.TB, s Sink, m Message) string {
	t.Helper()
	err := s.Send(t.Context(), m)
	if err != nil {
		holdsNoSecret(t, err.Error())
	}
	return outcome(err)
}

// deliver sends a mail that must be delivered.
func deliver(t testing.TB, s Sink, m Message) {
	t.Helper()
	if got := send(t, s, m); got != "delivered" {
		t.Fatalf("the mail was %s", got)
	}
}

// read is a mail as its reader sees it.
type read struct {
	headers       []string // their names, sorted
	from, to      string
	subject, text string
	id, date      string
}

func parse(t testing.TB, data []byte) read {
	t.Helper()
	for line := range bytes.SplitSeq(data, []byte("\r\n")) {
		if len(line) > 998 || bytes.ContainsAny(line, "\r\n\x00") || slices.ContainsFunc(line, func(b byte) bool { return b >= 0x80 }) {
			t.Errorf("not a line of a mail: %q", line)
		}
	}
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	testkit.NoError(t, err)
	for name, values := range m.Header {
		if len(values) != 1 {
			t.Errorf("%d headers %s", len(values), name)
		}
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Content-Transfer-Encoding": "quoted-printable", "Auto-Submitted": "auto-generated", "Mime-Version": "1.0",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	testkit.NoError(t, err)
	if bytes.Contains(data, []byte("\r\nSubject:\r\n")) {
		t.Error("the subject begins with an empty line")
	}
	// Each encoded word must make sense alone, and is of a limited length.
	for word := range strings.FieldsSeq(m.Header.Get("Subject")) {
		if s, err := new(mime.WordDecoder).Decode(word); err == nil && (!utf8.ValidString(s) || len(word) > 75) {
			t.Errorf("%s is half a character, or too long", word)
		}
	}
	word := func(name string) string {
		s, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return s
	}
	return read{
		headers: slices.Sorted(maps.Keys(m.Header)), from: word("From"), to: m.Header.Get("To"), subject: word("Subject"),
		text: strings.ReplaceAll(string(text), "\r\n", "\n"), id: m.Header.Get("Message-Id"), date: m.Header.Get("Date"),
	}
}

// agree fails the test unless the reader of data sees the message.
func agree(t testing.TB, data []byte, m Message) {
	t.Helper()
	text := strings.ReplaceAll(strings.ReplaceAll(m.Text, "\r\n", "\n"), "\r", "\n")
	want := read{
		headers: []string{
			"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To",
		},
		from: from, to: "<" + m.To + ">", subject: m.Subject, text: strings.TrimSuffix(text, "\n") + "\n",
		id: "<" + m.ID + "@callbook.example.org>", date: m.At.Format(time.RFC1123Z),
	}
	if diff := cmp.Diff(want, parse(t, data), cmp.AllowUnexported(read{})); diff != "" {
		t.Errorf("another mail than was sent (-want +got):\n%s", diff)
	}
}

func openSink(t testing.TB, setting, from string, o outside) Sink {
	t.Helper()
	s, err := open(setting, from, zerolog.New(failOnWrite{t}), o)
	testkit.NoError(t, err)
	return s
}

// failOnWrite is the log of sinks that must not log.
type failOnWrite struct{ testing.TB }

func (w failOnWrite) Write(b []byte) (int, error) {
	w.Errorf("logged: %s", b)
	return len(b), nil
}

func TestDescribe_OmitsPassword(t *testing.T) {
	for setting, want := range map[string]string{
		"off": "off", "log:": "log:", "dir:/var/mail": "dir:/var/mail",
		"smtp://mail.example.org":                     "smtp://mail.example.org:587",
		"smtp://mail.example.org/":                    "smtp://mail.example.org:587",
		"smtps://mail.example.org":                    "smtps://mail.example.org:465",
		"smtp://localhost":                            "smtp://localhost:25",
		"smtp://127.9.8.7":                            "smtp://127.9.8.7:25",
		"smtp://[::1]":                                "smtp://[::1]:25",
		"smtp://[::ffff:127.0.0.1]":                   "smtp://[::ffff:127.0.0.1]:25",
		"smtp://128.0.0.1":                            "smtp://128.0.0.1:587",
		"smtp://localhost.example.org":                "smtp://localhost.example.org:587",
		"smtp://localhost:2525":                       "smtp://localhost:2525",
		"smtp://user:canary%3A@mail.example.org:2525": "smtp://user@mail.example.org:2525",
		"smtps://a%40b:canary:@mail.example.org":      "smtps://a%40b@mail.example.org:465",
		"smtp://u:canary:%zz@host":                    "unknown",
		"smtp://u:canary:/canary:@host":               "unknown",
		"ftp://u:canary:@host":                        "unknown",
		"canary:":                                     "unknown",
		"":                                            "unknown",
	} {
		if got := Describe(setting); got != want {
			t.Errorf("%s is described as %s, not %s", setting, got, want)
		}
		holdsNoSecret(t, Describe(setting))
	}
}

func TestOpen_RejectsWrongSettings(t *testing.T) {
	const forms = "--mail is not one of log:, dir:PATH, smtp://"
	const smtpForm = "percent-encoded"
	missing := filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(t.TempDir(), "file")
	testkit.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct{ outcome, setting, from, want string }{
		{"nothing", "", "", forms},
		{"a word", "canary:x", "", forms},
		{"another protocol", "imap://u:canary:@host", "", forms},
		{"a folder without a name", "dir:", "", "names no folder"},
		{"a folder that is missing", "dir:" + missing, "", "make it"},
		{"a folder that is a file", "dir:" + file, "", "make it"},
		{"no sender", "smtp://u:p@mail.example.org", "", "--mail-from"},
		{"no host", "smtp://", from, smtpForm},
		{"no host but a port", "smtp://:25", from, smtpForm},
		{"no slashes", "smtp:mail.example.org", from, smtpForm},
		{"a slash in the password", "smtp://u:canary:/x@host", from, smtpForm},
		{"a password that begins like a port, with a slash", "smtp://user-canary:25/x@host", from, smtpForm},
		{"a broken escape", "smtp://u:canary:%zz@host", from, smtpForm},
		{"a line break in the password", "smtp://u:canary:%0d%0a@host", from, smtpForm},
		{"a user without a password", "smtp://user-canary@host", from, smtpForm},
		{"a password without a user", "smtp://:canary:@host", from, smtpForm},
		{"a path", "smtp://host/canary:", from, smtpForm},
		{"a query", "smtp://host?canary:", from, smtpForm},
		{"port 0", "smtp://host:0", from, smtpForm},
		{"a space in the host", "smtp://ho%20st", from, smtpForm},
		{"a percent sign in the host", "smtp://ho%25st", from, smtpForm},
		{"a sender with a line break", "log:", "Canary\r\nBcc: <victim-canary@example.org>", "--mail-from must be"},
		{"a sender that hides one", "log:", "=?utf-8?q?a=0d=0aBcc=3A_x?= <a@example.org>", "--mail-from must be"},
		{"two senders", "log:", "a@example.org, b@example.org", "--mail-from must be"},
		{"a sender without a domain", "off", "callbook", "--mail-from must be"},
		{"a quoted sender", "log:", `"a b"@example.org`, "--mail-from must be"},
		{"a sender at a literal", "log:", "a@[127.0.0.1]", "--mail-from must be"},
		{"a sender in another script", "log:", "a@例え.example.org", "--mail-from must be"},
	} {
		s, err := Open(c.setting, c.from, zerolog.Nop())
		if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("%s: opened %v: %v", c.outcome, s, err)
		}
		holdsNoSecret(t, err.Error())
	}
}

func TestOpen_OffHasNoSink(t *testing.T) {
	if s, err := Open("off", "", zerolog.Nop()); s != nil || err != nil {
		t.Errorf("opened %v: %v", s, err)
	}
}

// withUnusedSinks runs a test with a sink of each kind, and fails it if they take a mail.
func withUnusedSinks(t *testing.T, test func(name string, sink Sink)) {
	folder, memory := t.TempDir(), NewMemory(9)
	for name, sink := range map[string]Sink{
		"log": openSink(t, "log:", "", outside{}), "folder": openSink(t, "dir:"+folder, "", outside{}), "memory": memory,
		"smtp": openSink(t, "smtp://localhost", from, outside{}), // does not come to dial
	} {
		test(name, sink)
	}
	if len(memory.Messages()) != 0 || len(names(t, folder)) != 0 {
		t.Errorf("%d mails are in the memory, and %q in the folder", len(memory.Messages()), names(t, folder))
	}
}

func TestSinks_SendNothingAfterContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	withUnusedSinks(t, func(name string, sink Sink) {
		if err := sink.Send(ctx, newMessage()); !errors.Is(err, context.Canceled) || outcome(err) != "not delivered" {
			t.Errorf("%s: %s: %v", name, outcome(err), err)
		}
	})
}

func TestLogSink_WritesMail(t *testing.T) {
	var b bytes.Buffer
	s, err := Open("log:", "", zerolog.New(&b))
	testkit.NoError(t, err)
	deliver(t, s, newMessage())
	const want = `{"level":"info","to":"` + secretTo + `","subject":"Your code","text":"Your code is ` + secretCode +
		`.\nhttps://directory.example.org/owner/link-canary\n","message":"mail"}` + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("another log (-want +got):\n%s", diff)
	}
}

// names are the names of all files in a folder, sorted.
func names(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	testkit.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFolder_WritesFiles(t *testing.T) {
	folder := t.TempDir()
	s := openSink(t, "dir:"+folder, from, outside{})
	first := newMessage()
	last, between := first, first
	last.ID, last.At = "out_00", first.At.Add(time.Second)
	between.ID, between.At = "out_02", first.At.Add(time.Millisecond).In(time.FixedZone("", -3600))
	for _, m := range []Message{last, first, between, first} {
		deliver(t, s, m)
	}
	want := []string{
		"20261120T093000.000000000Z-out_01.eml", "20261120T093000.001000000Z-out_02.eml", "20261120T093001.000000000Z-out_00.eml",
	}
	if diff := cmp.Diff(want, names(t, folder)); diff != "" {
		t.Fatalf("other files (-want +got):\n%s", diff)
	}
	for i, m := range []Message{first, between, last} {
		path := filepath.Join(folder, want[i])
		data, err := os.ReadFile(path)
		testkit.NoError(t, err)
		agree(t, data, m)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", want[i], info.Mode(), err)
		}
	}
}

func TestFolder_ReportsMissingFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "victim-canary")
	testkit.NoError(t, os.Mkdir(folder, 0o700))
	s := openSink(t, "dir:"+folder, "", outside{})
	testkit.NoError(t, os.Remove(folder))
	if got := send(t, s, newMessage()); got != "not delivered" {
		t.Errorf("the mail was %s", got)
	}
}

func TestSender_Defaults(t *testing.T) {
	folder := t.TempDir()
	deliver(t, openSink(t, "dir:"+folder, "", outside{}), newMessage())
	data, err := os.ReadFile(filepath.Join(folder, names(t, folder)[0]))
	testkit.NoError(t, err)
	if m := parse(t, data); m.from != "<callbook@localhost>" || m.id != "<out_01@localhost>" {
		t.Errorf("from %s, ID %s", m.from, m.id)
	}
}

func TestMemory_KeepsNewestMails(t *testing.T) {
	s := NewMemory(2)
	for _, id := range []string{"a", "b", "c"} {
		m := newMessage()
		m.ID = id
		deliver(t, s, m)
	}
	kept := s.Messages()
	if len(kept) != 2 || kept[0].ID != "c" || kept[1].ID != "b" {
		t.Fatalf("kept %v", kept)
	}
	if got := *kept[0].Code; got != secretCode {
		t.Errorf("the code is %s", got)
	}
	kept[0].ID = "changed by the reader"
	if got := s.Messages()[0].ID; got != "c" {
		t.Errorf("the mail is %s", got)
	}
	s.Clear()
	if got := s.Messages(); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}
