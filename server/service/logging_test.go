package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

// TestLog_WritesOneTextLinePerEvent also checks that no value can forge a line.
func TestLog_WritesOneTextLinePerEvent(t *testing.T) {
	for name, tt := range map[string]struct {
		event func(l zerolog.Logger)
		want  string
	}{
		"a call": {func(l zerolog.Logger) {
			l.Info().Str("method", "GET").Str("path", "/api/agents").Int("status", 200).Dur("took_ms", 1500*time.Microsecond).Send()
		}, "TIME INF method=GET path=/api/agents status=200 took_ms=1.5"},
		"a message":        {func(l zerolog.Logger) { l.Warn().Str("db", "a b.db").Msg("callbook is serving") }, `TIME WRN callbook is serving db="a b.db"`},
		"an error":         {func(l zerolog.Logger) { l.Error().Err(errors.New("disk: full")).Msg("not stored") }, `TIME ERR not stored error="disk: full"`},
		"several lines":    {func(l zerolog.Logger) { l.Info().Str("text", "one\ntwo=\x1b[2J").Msg("a\nb") }, `TIME INF "a\nb" text="one\ntwo=\x1b[2J"`},
		"other scripts":    {func(l zerolog.Logger) { l.Info().Str("name", "潮").Str("none", "").Msg("潮") }, `TIME INF 潮 name="潮" none=`},
		"lists and others": {func(l zerolog.Logger) { l.Info().Strs("all", []string{"a", "b"}).Bool("yes", true).Msg("x") }, `TIME INF x all=["a","b"] yes=true`},
		"bidi":             {func(l zerolog.Logger) { l.Info().Str("name", "a\u202eb").Msg("a\u202eb") }, `TIME INF "a\u202eb" name="a\u202eb"`},
		"a library's line": {func(zerolog.Logger) { stdlog.Print("plain\nwords") }, `TIME WRN "plain\nwords"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(*testing.T) {
				log, closeLog := NewLog(&out, TextLog, "info")
				tt.event(log)
				synctest.Wait()
				closeLog()
			})
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

// TestLog_HasPrioritiesInTheJournal: each line begins with the priority of its event.
func TestLog_HasPrioritiesInTheJournal(t *testing.T) {
	for format, want := range map[string]string{
		"text": "<7>TIME DBG a\n<6>TIME INF b\n<4>TIME WRN c\n<3>TIME ERR \"d\\n<0>\" text=\"\\\"level\\\":\\\"info\\\"\"\n<6>TIME INF e\nTIME ??? f\n",
		"json": `<7>{"level":"debug","message":"a"}` + "\n" + `<6>{"level":"info","message":"b"}` + "\n" + `<4>{"level":"warn","message":"c"}` + "\n" +
			`<3>{"level":"error","text":"\"level\":\"info\"","message":"d\n<0>"}` + "\n" + `<6>{"level":"info","message":"e"}` + "\n" + `{"message":"f"}` + "\n",
	} {
		var out bytes.Buffer
		log := zerolog.New(prioritized{&out, LogFormat(format).formatter})
		log.Debug().Msg("a")
		log.Info().Msg("b")
		log.Warn().Msg("c")
		log.Error().Str("text", `"level":"info"`).Msg("d\n<0>")
		log.Log().Str("level", "info").Msg("e")
		log.Log().Msg("f")
		got := strings.ReplaceAll(out.String(), "<nil> ", "TIME ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

// TestLog_KeepsTheOrder checks that each event is written once and whole.
func TestLog_KeepsTheOrder(t *testing.T) {
	var out bytes.Buffer
	log, closeLog := NewLog(&out, JSONLog, "info")
	const callers, events = 20, logQueue / 20
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
	next := map[int]int{}
	for line := range strings.Lines(out.String()) {
		var caller, event int
		if _, err := fmt.Sscanf(line, `{"level":"info","caller":%d,"event":%d,`, &caller, &event); err != nil || event != next[caller] {
			t.Fatalf("%v: %s", err, line)
		}
		next[caller]++
	}
	if len(next) != callers || next[7] != events {
		t.Errorf("%v", next)
	}
}

// TestLog_StoppedReaderBlocksNobody checks that events are dropped and counted then, and
// that closing the log waits for a second only.
func TestLog_StoppedReaderBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		log, closeLog := NewLog(writer, JSONLog, "info")
		const events = 3 * logQueue
		for range events {
			log.Info().Str("text", "marker").Send()
		}
		start := time.Now()
		closeLog()
		if took := time.Since(start); took != logTimeout {
			t.Errorf("closing takes %s", took)
		}
		var text bytes.Buffer
		go func() { _, _ = io.Copy(&text, reader) }()
		synctest.Wait()
		_ = writer.Close()
		synctest.Wait()
		dropped := 0
		for _, match := range regexp.MustCompile(`"level":"warn","events":([0-9]+),`).FindAllStringSubmatch(text.String(), -1) {
			n, _ := strconv.Atoi(match[1])
			dropped += n
		}
		if written := strings.Count(text.String(), "marker"); written+dropped != events || written < logQueue {
			t.Errorf("%d events are written and %d dropped, of %d", written, dropped, events)
		}
	})
}
