package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

func TestEventsAreWrittenForPeople(t *testing.T) {
	for name, tt := range map[string]struct {
		event func(l zerolog.Logger)
		want  string
	}{
		"a call": {func(l zerolog.Logger) {
			l.Info().Str("method", "GET").Str("path", "/api/agents").Int("status", 200).Dur("took_ms", 1500*time.Microsecond).Send()
		}, "TIME INF method=GET path=/api/agents status=200 took_ms=1.5"},
		"a message":        {func(l zerolog.Logger) { l.Warn().Str("db", "a b.db").Msg("callbook serves") }, `TIME WRN callbook serves db="a b.db"`},
		"an error":         {func(l zerolog.Logger) { l.Error().Err(errors.New("disk: full")).Msg("not stored") }, `TIME ERR not stored error="disk: full"`},
		"several lines":    {func(l zerolog.Logger) { l.Info().Str("text", "one\ntwo=\x1b[2J").Msg("a\nb") }, `TIME INF "a\nb" text="one\ntwo=\x1b[2J"`},
		"other scripts":    {func(l zerolog.Logger) { l.Info().Str("name", "潮").Str("none", "").Msg("潮") }, `TIME INF 潮 name="潮" none=""`},
		"lists and others": {func(l zerolog.Logger) { l.Info().Strs("all", []string{"a", "b"}).Bool("yes", true).Msg("x") }, `TIME INF x all=["a","b"] yes=true`},
		"nothing to parse": {func(l zerolog.Logger) { _, _ = l.Write([]byte("plain words")) }, `TIME ??? plain words`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log, closeLog := logFlags{Log: "text", LogLevel: "info"}.logger(&out)
			tt.event(log)
			closeLog()
			at, rest, _ := strings.Cut(out.String(), " ")
			if _, err := time.Parse(time.RFC3339, at); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want+"\n", "TIME "+rest); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNothingOfTheLogIsLost: each event stands there once and whole, in its order.
func TestNothingOfTheLogIsLost(t *testing.T) {
	var out bytes.Buffer
	log, closeLog := logFlags{Log: "json", LogLevel: "info"}.logger(&out)
	const callers, events = 20, 200
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range events {
				log.Info().Int("caller", caller).Int("event", i).Send()
			}
		})
	}
	all.Wait()
	closeLog()
	next := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var caller, event int
		if _, err := fmt.Sscanf(line, `{"level":"info","caller":%d,"event":%d,`, &caller, &event); err != nil || event != next[fmt.Sprint(caller)] {
			t.Fatalf("%v: %s", err, line)
		}
		next[fmt.Sprint(caller)]++
	}
	if len(next) != callers || next["7"] != events {
		t.Errorf("%v", next)
	}
}

// TestAReaderOfTheLogWhoStopsHoldsNobodyUp: events are left out then, and told of.
func TestAReaderOfTheLogWhoStopsHoldsNobodyUp(t *testing.T) {
	reader, writer := io.Pipe()
	log, closeLog := logFlags{Log: "json", LogLevel: "info"}.logger(writer)
	long := strings.Repeat("x", 1000)
	const events = 3 * journalBytes / 1000
	for range events {
		log.Info().Str("text", long).Send() // nobody reads
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- string(text)
	}()
	closeLog()
	_ = writer.Close()
	text := <-read
	left := 0
	for _, told := range regexp.MustCompile(`"level":"warn","events":([0-9]+),`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(told[1])
		left += n
	}
	if written := strings.Count(text, long); written+left != events || left == 0 || written < journalBytes/2000 {
		t.Errorf("%d events are written, %d told to be left out, of %d", written, left, events)
	}
}
