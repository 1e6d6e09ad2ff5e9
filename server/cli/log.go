package cli

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

// logFlags are the settings of the log.
type logFlags struct {
	Log      string `enum:"text,json" default:"text" help:"Format of the log: text for people, json for machines."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least severe level to log."`

	LogSlow    duration `default:"0s" help:"Requests that take longer are logged as warnings with their route, whatever the level, such as 1s. 0: none." placeholder:"DURATION"`
	LogClients bool     `help:"Log with each request a keyed hash of the client's network and the handle of the agent. The key is new at each start."`
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// zerolog reads these variables whenever it writes an event.
func init() {
	zerolog.TimeFieldFormat = timeFormat
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
}

const (
	logQueue   = 1000                  // events that wait for the reader of the log; an event has 20 KB at most
	logPoll    = 10 * time.Millisecond // between two looks into an empty queue
	logTimeout = time.Second           // for writing the last events at shutdown
)

// logger opens the log. Events pass through a bounded queue, so that a slow or stopped
// reader of the log never blocks a request; the oldest events are dropped then, and
// counted in an event of their own. closeLog returns once all events are written, or
// after logTimeout.
func (f logFlags) logger(w io.Writer) (log zerolog.Logger, closeLog func()) {
	// Without its Close method, as zerolog would close w: errors are printed there after the log is closed.
	out := f.formatter(struct{ io.Writer }{w})
	if isJournal(w) {
		out = prioritized{w, f.formatter}
	}
	// diode's other mode, which waits to be woken, can miss an event until the next one.
	queue := diode.NewWriter(out, logQueue, logPoll, func(dropped int) {
		direct := zerolog.New(out)
		direct.Warn().Int("events", dropped).Timestamp().Msg("the log is read too slowly: events were dropped")
	})
	level, _ := zerolog.ParseLevel(f.LogLevel) // one of the enum
	log = zerolog.New(queue).Level(level).With().Timestamp().Logger()
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
func (f logFlags) formatter(w io.Writer) io.Writer {
	if f.Log == "text" {
		return zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: timeFormat, TimeLocation: time.UTC, FormatMessage: quoteMessage}
	}
	return w
}

// isJournal reports whether w is standard error, and the journal of systemd reads it.
func isJournal(w io.Writer) bool {
	is, _ := journal.StderrIsJournalStream() // an error is about a malformed variable, which is none of the journal
	return is && w == io.Writer(os.Stderr)
}

// errorPriority begins a line of the journal with an error.
const errorPriority = "<3>"

// priorities are what lines of the journal begin with, by the level of an event (sd-daemon(3)).
var priorities = map[string]string{"debug": "<7>", "info": "<6>", "warn": "<4>", "error": errorPriority}

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
