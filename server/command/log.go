package command

import (
	"bytes"
	"fmt"
	"io"
	stdlog "log"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

// logFlags are the settings of the log.
type logFlags struct {
	Log      string `enum:"text,json" default:"text" help:"Form of the log: text for people, json for machines."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least level that is logged."`
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// zerolog has the form of times in variables of its own, and whoever logs reads them.
func init() {
	zerolog.TimeFieldFormat = timeFormat
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
}

// logger opens the log. What it was told is written once close has returned.
func (f logFlags) logger(w io.Writer) (log zerolog.Logger, closeLog func()) {
	level, _ := zerolog.ParseLevel(f.LogLevel) // one of the enum
	j := openJournal(w, f.Log == "text")
	log = zerolog.New(j).Level(level).With().Timestamp().Logger()
	stdlog.SetFlags(0)
	stdlog.SetOutput(log) // what a library says stands in the one log, in its form
	return log, j.close
}

const (
	journalDelay   = 5 * time.Millisecond // that an event may wait for others
	journalBytes   = 1 << 20              // of events that wait, at the most
	journalTimeout = time.Second          // at the end, for a reader who has stopped reading
)

// journal writes the log's events in the background, many with one system call
// (zerolog's diode takes one each), so that a reader of it who is slow or has stopped
// reading holds nobody up. What waits is bounded; events past that are left out, and
// their number is told.
type journal struct {
	out     io.Writer
	plain   *plainText // nil: as JSON
	mu      sync.Mutex
	waiting []byte
	left    int // events left out
	some    chan struct{}
	closing chan struct{}
	closed  chan struct{}
}

func openJournal(out io.Writer, text bool) *journal {
	j := &journal{out: out, some: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{})}
	if text {
		j.plain = &plainText{}
	}
	go j.run()
	return j
}

// Write takes an event: a line of JSON.
func (j *journal) Write(event []byte) (int, error) {
	j.mu.Lock()
	first := len(j.waiting) == 0
	if len(j.waiting)+len(event) <= journalBytes {
		j.waiting = append(j.waiting, event...)
	} else {
		j.left++
	}
	j.mu.Unlock()
	if first {
		select {
		case j.some <- struct{}{}:
		default:
		}
	}
	return len(event), nil
}

func (j *journal) run() {
	defer close(j.closed)
	var events, text []byte
	more := time.NewTimer(0)
	for {
		select {
		case <-j.some:
		case <-j.closing:
			j.flush(events, text)
			return
		}
		more.Reset(journalDelay)
		select {
		case <-more.C:
		case <-j.closing:
		}
		events, text = j.flush(events, text)
	}
}

// flush writes what waits. Its arguments are buffers that it may use, and what it
// returns are those for the next time.
func (j *journal) flush(events, text []byte) (nextEvents, nextText []byte) {
	j.mu.Lock()
	events, j.waiting = j.waiting, events[:0]
	left := j.left
	j.left = 0
	j.mu.Unlock()
	if left > 0 {
		events = fmt.Appendf(events, `{"level":"warn","events":%d,"time":%q,"message":"the log is read too slowly: some was left out"}`+"\n", left, zerolog.TimestampFunc().Format(timeFormat))
	}
	if len(events) == 0 {
		return events, text
	}
	lines := events
	if j.plain != nil {
		text = text[:0]
		for event := range bytes.Lines(events) {
			text = j.plain.append(text, event)
		}
		lines = text
	}
	_, _ = j.out.Write(lines) // whoever reads the log may have left
	return events, text
}

// close writes what waits and ends the journal.
func (j *journal) close() {
	close(j.closing)
	select {
	case <-j.closed:
	case <-time.After(journalTimeout):
	}
}

// plainText writes events for people: time, level, message, and the fields as
// name=value.
type plainText struct {
	reader bytes.Reader
	dec    jsontext.Decoder
	fields []byte
}

func (p *plainText) append(b, event []byte) []byte {
	p.reader.Reset(event)
	p.dec.Reset(&p.reader)
	p.fields = p.fields[:0]
	at, level, message := "", "???", ""
	if _, err := p.dec.ReadToken(); err != nil {
		return append(b, event...)
	}
	for p.dec.PeekKind() == '"' {
		name, _ := p.dec.ReadToken()
		field := name.String()
		value, err := p.dec.ReadValue()
		if err != nil {
			return append(b, event...) // none of the log's own
		}
		switch field {
		case zerolog.TimestampFieldName:
			at = plainValue(value)
		case zerolog.LevelFieldName:
			level = zerolog.FormattedLevels[levels[plainValue(value)]]
		case zerolog.MessageFieldName:
			if message = plainValue(value); strings.ContainsFunc(message, unicode.IsControl) {
				message = strconv.Quote(message)
			}
		default:
			p.fields = append(append(append(p.fields, ' '), field...), '=')
			p.fields = appendField(p.fields, value)
		}
	}
	b = append(append(append(b, at...), ' '), level...)
	if message != "" {
		b = append(append(b, ' '), message...)
	}
	return append(append(b, p.fields...), '\n')
}

// levels by their names in events.
var levels = func() map[string]zerolog.Level {
	names := map[string]zerolog.Level{}
	for level := range zerolog.FormattedLevels {
		names[level.String()] = level
	}
	return names
}()

func plainValue(value jsontext.Value) string {
	if value.Kind() != '"' {
		return string(value)
	}
	text, _ := jsontext.AppendUnquote(nil, value) // it is valid
	return string(text)
}

// appendField writes a value so that it cannot be taken for anything but one.
func appendField(b []byte, value jsontext.Value) []byte {
	if value.Kind() == '"' {
		text := plainValue(value)
		if text == "" || strings.ContainsFunc(text, needsQuotes) {
			return strconv.AppendQuote(b, text)
		}
		return append(b, text...)
	}
	return append(b, value...)
}

func needsQuotes(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == '=' || r > '~' }
