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

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// init sets the time of events, whose format zerolog reads from variables at each event.
func init() {
	zerolog.TimeFieldFormat = timeFormat
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
}

const (
	// logQueue is how many events wait for the reader of the log. An event has at most 20 KB.
	logQueue = 1000
	// logPoll is the pause between two looks into an empty queue.
	logPoll = 10 * time.Millisecond
	// logTimeout limits how long a shutdown waits until the last events are written.
	logTimeout = time.Second
)

// LogFormat is the format of the log.
type LogFormat string

// Formats of the log.
const (
	TextLog LogFormat = "text" // for people
	JSONLog LogFormat = "json" // for machines
)

// NewLog opens the log. Events pass through a bounded queue, so that a slow or stopped reader of
// the log never blocks a request: the oldest events are dropped then, and counted in an event of
// their own. closeLog returns once all events are written, or after a second.
func NewLog(w io.Writer, f LogFormat, level string) (log zerolog.Logger, closeLog func()) {
	// The struct hides the Close method of w, which zerolog would call: errors are printed to w
	// after the log is closed.
	out := f.formatter(struct{ io.Writer }{w})
	if IsJournal(w) {
		out = prioritized{w, f.formatter}
	}

	// The queue polls: diode's other mode, which waits to be woken, can miss an event until the
	// next one.
	queue := diode.NewWriter(out, logQueue, logPoll, func(dropped int) {
		// Not through the queue, which is full.
		direct := zerolog.New(out)
		direct.Warn().
			Int("events", dropped).
			Timestamp().
			Msg("the log is read too slowly: events were dropped")
	})

	least, _ := zerolog.ParseLevel(level) // valid, by the enum of the flag
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

// IsJournal reports whether w is standard error and the journal of systemd reads it.
func IsJournal(w io.Writer) bool {
	// An error means that the variable is malformed, so that the journal has not set it.
	is, _ := journal.StderrIsJournalStream()
	return is && w == io.Writer(os.Stderr)
}

// ErrorPriority begins a line of the journal with an error.
const ErrorPriority = "<3>"

// priorities are the prefixes of lines for the journal by the level of an event; see sd-daemon(3).
var priorities = map[string]string{
	"debug": "<7>",
	"info":  "<6>",
	"warn":  "<4>",
	"error": ErrorPriority,
}

// prioritized writes events to the journal, each line with the priority of its level.
type prioritized struct {
	journal   io.Writer
	formatter func(io.Writer) io.Writer
}

func (p prioritized) Write(event []byte) (int, error) {
	// The first match is the level itself: quotation marks in values are escaped.
	_, rest, _ := bytes.Cut(event, []byte(`"level":"`))
	level, _, _ := bytes.Cut(rest, []byte{'"'})

	line := bytes.NewBufferString(priorities[string(level)])
	if _, err := p.formatter(line).Write(event); err != nil {
		return 0, err
	}

	_, err := p.journal.Write(line.Bytes())
	return len(event), err
}

// quoteMessage formats the message of an event for the text format.
func quoteMessage(message any) string {
	if message == nil {
		return ""
	}

	text := fmt.Sprint(message)

	// ConsoleWriter quotes values but not messages, and a control character in one could forge a
	// line.
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}

	return text
}

// libraryLog writes the lines that libraries print with package log as events.
type libraryLog struct{ log zerolog.Logger }

// Write logs one line.
func (l libraryLog) Write(line []byte) (int, error) {
	// diode prints this line when its queue overflows, and package log holds a lock while it
	// writes. To log that line, or any line under the lock, could block for ever.
	if !bytes.HasPrefix(line, []byte("Diode set collision")) {
		text := string(bytes.TrimSpace(line))
		go l.log.Warn().Msg(text)
	}
	return len(line), nil
}
