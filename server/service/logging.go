package service

import (
	"bytes"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"
)

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// zerolog reads these variables whenever it writes an event.
func init() {
	zerolog.TimeFieldFormat = timeFormat
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
}

const (
	// Events that wait for the reader of the log; an event has 20 KB at most.
	logQueue   = 1000
	logPoll    = 10 * time.Millisecond // between two looks into an empty queue
	logTimeout = time.Second           // for writing the last events at shutdown
)

// LogFormat is that of the log: TextLog for people, JSONLog for machines.
type LogFormat string

// The formats.
const (
	TextLog LogFormat = "text"
	JSONLog LogFormat = "json"
)

// NewLog opens the log. Events pass through a bounded queue, so that a slow or stopped
// reader of the log never blocks a request; the oldest events are dropped then, and
// counted in an event of their own. closeLog returns once all events are written, or
// after logTimeout.
func NewLog(w io.Writer, f LogFormat, level string) (log zerolog.Logger, closeLog func()) {
	// Without its Close method, as zerolog would close w: errors are printed there after the log
	// is closed.
	out := f.formatter(struct{ io.Writer }{w})
	if IsJournal(w) {
		out = prioritized{w, f.formatter}
	}

	// diode's other mode, which waits to be woken, can miss an event until the next one.
	queue := diode.NewWriter(out, logQueue, logPoll, func(dropped int) {
		direct := zerolog.New(out)
		direct.Warn().
			Int("events", dropped).
			Timestamp().
			Msg("the log is read too slowly: events were dropped")
	})

	least, _ := zerolog.ParseLevel(level) // one of the enum
	log = zerolog.New(queue).Level(least).With().Timestamp().Logger()
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryLog{log})

	return log, func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = queue.Close()
		}()

		select {
		case <-closed:
		case <-time.After(logTimeout):
		}
	}
}

// formatter returns a writer for events that writes them in the format of the log.
func (f LogFormat) formatter(w io.Writer) io.Writer {
	if f == TextLog {
		return zerolog.ConsoleWriter{
			Out:           w,
			NoColor:       true,
			TimeFormat:    timeFormat,
			TimeLocation:  time.UTC,
			FormatMessage: quoteMessage,
		}
	}

	return w
}

// IsJournal reports whether w is standard error, and the journal of systemd reads it.
func IsJournal(w io.Writer) bool {
	// An error is about a malformed variable, which is none of the journal.
	is, _ := journal.StderrIsJournalStream()
	return is && w == io.Writer(os.Stderr)
}

// ErrorPriority begins a line of the journal with an error.
const ErrorPriority = "<3>"

// priorities are what lines of the journal begin with, by the level of an event (sd-daemon(3)).
var priorities = map[string]string{
	"debug": "<7>",
	"info":  "<6>",
	"warn":  "<4>",
	"error": ErrorPriority,
}

// prioritized writes events to the journal, each with the priority of its level.
type prioritized struct {
	journal   io.Writer
	formatter func(io.Writer) io.Writer
}

func (p prioritized) Write(event []byte) (int, error) {
	_, rest, _ := bytes.Cut(event, []byte(`"level":"`)) // quotation marks in values are escaped
	level, _, _ := bytes.Cut(rest, []byte{'"'})
	line := bytes.NewBufferString(priorities[string(level)])
	if _, err := p.formatter(line).Write(event); err != nil {
		return 0, err
	}

	_, err := p.journal.Write(line.Bytes())
	return len(event), err
}

// quoteMessage formats the message of an event. ConsoleWriter quotes values but not
// messages, and a control character in one could forge a line.
func quoteMessage(message any) string {
	if message == nil {
		return ""
	}

	text := fmt.Sprint(message)
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}

	return text
}

// libraryLog writes the lines that libraries print with package log as events.
type libraryLog struct{ log zerolog.Logger }

// Write logs one line. package log holds a lock meanwhile, and diode itself prints a line
// with it when its queue overflows: logging that, or logging anything under the lock, could
// block for ever.
func (l libraryLog) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, []byte("Diode set collision")) {
		text := string(bytes.TrimSpace(line))
		go l.log.Warn().Msg(text)
	}
	return len(line), nil
}
