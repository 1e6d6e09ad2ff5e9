package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"callbook/testdata/testkit"
)

// TestTheGeneratorIsTheSame: a kept directory is taken for what would be made now.
func TestTheGeneratorIsTheSame(t *testing.T) {
	sum := sha256.New()
	for n := range 100 {
		testkit.NoError(t, json.NewEncoder(sum).Encode([]any{registration(n), menuOf(n), callOf(n), levelOf(n)}))
	}
	const version, want = 1, "0adf9640499349cb"
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != want || generator != version {
		t.Errorf("version %d of the generator makes %s, want version %d and %s: raise the constant generator, then put both here", generator, got, version, want)
	}
}

// TestAgentsJoinInOrder: over the whole history, whatever their number.
func TestAgentsJoinInOrder(t *testing.T) {
	f := &filling{agents: 1_000_000, start: time.Now()}
	before := f.start.Add(-history - time.Second)
	for n := 0; n <= f.agents; n += 1000 {
		joined := f.joined(n)
		if !joined.After(before) || joined.After(f.start) {
			t.Fatalf("agent %d joined at %v, the one before at %v", n, joined, before)
		}
		before = joined
	}
	if first := f.start.Sub(f.joined(0)); first != history {
		t.Errorf("the first joined %v ago", first)
	}
}

// TestCharts: every side and size has a bar and its figure, and texts stay text.
func TestCharts(t *testing.T) {
	folder := t.TempDir()
	r := result{Rows: []rowResult{
		{What: "a card & more", figures: figures{Rate: 30000, P99: 2 * time.Millisecond, Peers: []peer{{"floor", 45000, time.Millisecond}, {peerBefore, 60000, 0}, {"PocketBase", 4500, 9 * time.Millisecond}}, TimesPocketBase: 6.7}},
		{What: "a card", figures: figures{Sizes: []sized{{10_000, 200 * time.Microsecond, 0}, {100_000, 210 * time.Microsecond, 0}}}},
		{What: "memory", figures: figures{Value: 9}},
	}}
	testkit.NoError(t, r.writeCharts(folder))
	for name, want := range map[string][]string{
		"throughput": {"a card &amp; more", ">Callbook<", ">30000<", ">floor<", ">45000<", ">PocketBase<", ">4500<"},
		"latency":    {"a card &amp; more", ">2 ms<", ">1 ms<", ">9 ms<"},
		"growth":     {">10000 agents<", ">200 µs<", ">100000 agents<", ">210 µs<"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, name+".svg"))
		testkit.NoError(t, err)
		if err := xml.Unmarshal(text, new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %s", name, part)
			}
		}
		if strings.Contains(string(text), "memory") || strings.Contains(string(text), ">60000<") {
			t.Errorf("%s has a row without bars, or the earlier program", name)
		}
	}
}

// TestGoals: no goal is lowered by the way.
func TestGoals(t *testing.T) {
	want := map[string]string{
		"card/cached": "≥ 0.6, ≥ 5 ×", "card/uncached": "≥ 1.5 ×", "card/304": "≥ 0.7",
		"card/https": "≥ 0.6", "agents/https": "≥ 0.6",
		"calls/cached": "≥ 0.7, ≥ 10 ×", "calls/uncached": "≥ 1.5 ×", "agents/cached": "≥ 0.7", "brief/cached": "≥ 0.7",
		"search/agents/middling": "≥ 5 ×", "search/ordinary": "≤ 10", "search/any": "≤ 60", "search/any-of-many": "≤ 250",
		"growth/card": "≤ 1.5", "growth/list": "≤ 1.5", "growth/search": "≤ 1.5", "day": "≥ 2.5 ×",
		"writes/create": "≥ 2 ×, ≥ 1", "writes/register": "≥ 2 ×, ≥ 1", "writes/posts": "≥ 2", "writes/registrations": "≥ 2", "writes/requests": "≥ 2", "writes/lone": "≥ 0.9",
		"burst": "≤ 5", "memory/rest": "≤ 20", "memory/load": "≤ 100",
		"size": "≤ 28", "start/directory": "≤ 60", "start/fresh": "≤ 40", "searches": "≤ 0",
	}
	seen := map[string]bool{}
	for _, r := range rows(settings{agents: 100_000, growth: true}) {
		if seen[r.name] {
			t.Errorf("there are two rows %s", r.name)
		}
		seen[r.name] = true
		var goals []string
		for _, g := range r.goals {
			goals = append(goals, g.String())
		}
		if got := strings.Join(goals, ", "); got != want[r.name] {
			t.Errorf("%s: the goal is %q, want %q", r.name, got, want[r.name])
		}
		delete(want, r.name)
	}
	if len(want) > 0 {
		t.Errorf("there is no row for %v", want)
	}
}

func TestGoalsAreJudged(t *testing.T) {
	for _, c := range []struct {
		outcome string
		goal    goal
		figures figures
		met     bool
	}{
		{"a ratio that is just enough", atLeast(ofFloor, 0.8), figures{OfFloor: 0.8}, true},
		{"a ratio that is too low", atLeast(ofFloor, 0.8), figures{OfFloor: 0.79}, false},
		{"a ratio that was not measured", atLeast(timesPocketBase, 6), figures{OfFloor: 9}, false},
		{"a value at its bound", atMost(ofValue, 25), figures{Value: 25}, true},
		{"a value past its bound", atMost(ofValue, 25), figures{Value: 25.1}, false},
	} {
		if got := c.goal.met(c.figures); got != c.met {
			t.Errorf("%s: met: %t", c.outcome, got)
		}
	}
}

func TestWireReadsAnswers(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.FormValue("bytes"))
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.FormValue("chunks") == "" {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		b := bufio.NewWriterSize(w, 100)
		_, _ = b.WriteString(strings.Repeat("x", size))
		_ = b.Flush()
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	defer plain.Close()
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	for _, side := range []struct {
		protocol string
		process
	}{
		{"HTTP/1.1", process{addr: plain.Listener.Addr().String()}},
		{"HTTP/2 over TLS", process{addr: secure.Listener.Addr().String(), tls: true}},
	} {
		w, err := side.dial()
		testkit.NoError(t, err)
		defer w.conn.Close()
		for _, c := range []struct {
			outcome string
			request []byte
			status  int
			length  int
		}{
			{"an empty body", get("x", "/?bytes=0"), 200, 0},
			{"a body with its length", get("x", "/?bytes=5000"), 200, 5000},
			{"one that is longer than what is read at once", get("x", "/?bytes=300000"), 200, 300000},
			{"a body in chunks", get("x", "/?bytes=100000&chunks=1"), 200, 100000},
			{"not modified", get("x", "/?bytes=10", "If-None-Match: y"), 304, 0},
			{"a post", post("x", "/?bytes=7", "Bearer z", []byte("{}")), 200, 7},
		} {
			if side.tls && bytes.HasPrefix(c.request, []byte("POST")) {
				continue // over HTTPS, there are no writes
			}
			for _, keep := range []bool{true, false} {
				r, err := w.send(c.request, keep)
				if err != nil || r.status != c.status || r.length != c.length || keep && len(r.body) != c.length || !keep && len(r.body) > 0 {
					t.Errorf("%s: %s, keep %t: status %d, length %d, body of %d bytes, %v", side.protocol, c.outcome, keep, r.status, r.length, len(r.body), err)
				}
			}
		}
	}
}

func TestAnswersAreLookedAt(t *testing.T) {
	page := `{"notice":{},"agents":[{"handle":"baba-1"},{"handle":"baba-2"}]}`
	for _, c := range []struct {
		outcome string
		ask     *ask
		replies []string
		fault   string
	}{
		{"two answers alike", &ask{status: 200, check: hasRecords(2, []string{"baba"})}, []string{page, page}, ""},
		{"another status", &ask{status: 304}, []string{page}, "status 200"},
		{"another length of what others write to", &ask{status: 200, varies: true}, []string{page, page + " "}, ""},
		{"another length the second time", &ask{status: 200}, []string{page, page + " "}, "bytes instead"},
		{"too few records", &ask{status: 200, check: hasRecords(20, nil)}, []string{page}, "2 records"},
		{"a record without the word", &ask{status: 200, check: hasRecords(-1, []string{"baba-1"})}, []string{page}, "without"},
		{"another card", &ask{status: 200, check: isCard("baba-3")}, []string{page}, "no card"},
		{"a body where there should be none", &ask{status: 200, check: isEmpty}, []string{page}, "a body"},
		{"not compressed", &ask{status: 200, check: isCompressed}, []string{page}, "not compressed"},
	} {
		var err error
		for _, body := range c.replies {
			if err == nil {
				err = c.ask.answered(reply{status: 200, length: len(body), body: []byte(body)}, true)
			}
		}
		if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.outcome, err, c.fault)
		}
	}
}

func TestRatiosAreThoseOfTurns(t *testing.T) {
	// The machine becomes slower from turn to turn, and something disturbs two turns
	// of one side; the ratio stays two.
	if got := over([]float64{100, 8, 6, 40, 20}, []float64{50, 40, 30, 20, 10}); got != 2 {
		t.Errorf("the median of the ratios is %v", got)
	}
	if got := over([]time.Duration{4, 6, 9}, []time.Duration{2, 2, 3}); got != 3 {
		t.Errorf("the median of the ratios is %v", got)
	}
	if got := quantile([]float64{5, 1, 4, 2, 3}, 0.99); got != 5 {
		t.Errorf("the last hundredth begins at %v", got)
	}
}

func TestEachSideComesAfterEachOther(t *testing.T) {
	for sides := 2; sides <= 3; sides++ {
		orders := map[string]bool{}
		for turn := range 6 {
			orders[fmt.Sprint(order(turn, sides))] = true
		}
		if want := sides * (sides - 1); len(orders) != max(want, 2) {
			t.Errorf("%d sides: %v", sides, orders)
		}
	}
}

// TestTheDayIsTheSame for all sides, however its requests are taken: the shares are kept, and no address is twice in it.
func TestTheDayIsTheSame(t *testing.T) {
	b := &bench{settings: settings{agents: 10_000}}
	var sides [2][]string
	for i, peer := range []bool{false, true} {
		day, addresses := b.newDay(&process{}, peer), map[string]bool{}
		number := map[*ask]string{}
		for kind, asks := range day.reads {
			for n, a := range asks {
				addresses[string(a.bytes)], number[a] = true, fmt.Sprint(kind, n)
			}
		}
		if len(addresses) != 10_000 {
			t.Errorf("PocketBase %t: %d addresses", peer, len(addresses))
		}
		for step := 70 + 60*i; len(sides[i]) < 9000; {
			asks, err := day.next(step, func(n int) ([]*ask, error) {
				return slices.Repeat([]*ask{{}}, n), nil
			})
			testkit.NoError(t, err)
			for _, a := range asks {
				sides[i] = append(sides[i], number[a])
			}
		}
	}
	if !slices.Equal(sides[0][:9000], sides[1][:9000]) {
		t.Error("the sides differ")
	}
	shares := map[byte]int{}
	for n, read := range sides[0][:9000] {
		if (read == "") != (n%dayWriteEvery == dayWriteEvery-1) {
			t.Fatalf("request %d: %q", n, read)
		}
		if read != "" {
			shares[read[0]]++
		}
	}
	for kind, want := range dayReads {
		if got := float64(shares["012"[kind]]) / 8910 * 100; got < float64(want.share)-2 || got > float64(want.share)+2 {
			t.Errorf("kind %d: %.1f of a hundred reads, want %d", kind, got, want.share)
		}
	}
}

// TestNoRequestIsRefused: senders are verified, no pair meets twice, and no recipient
// is asked more than ten times, in as many requests as a run sends.
func TestNoRequestIsRefused(t *testing.T) {
	for _, agents := range []int{10_000, 12_288, 100_000} { // the second has twice as many recipients as senders
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			w := &writers{keys: make([]string, min(mostWriters, agents/6)), recipients: make([]recipient, min(mostRecipients, agents/3))}
			sends := map[string]bool{}
			for i := range w.keys {
				n := spaced(i, len(w.keys), agents)
				w.keys[i] = strconv.Itoa(n)
				sends[w.keys[i]] = true
				if levelOf(n) == 0 || n >= agents {
					t.Fatalf("sender %d has level %d", n, levelOf(n))
				}
			}
			for i := range w.recipients {
				n := spaced(i, len(w.recipients), agents) + 1
				w.recipients[i].handle = strconv.Itoa(n)
				if sends[w.recipients[i].handle] || n >= agents {
					t.Fatalf("recipient %d", n)
				}
			}
			pairs, asked := map[string]bool{}, map[string]int{}
			b := &bench{settings: settings{agents: agents, quick: agents < 100_000}}
			sent := regexp.MustCompile(`/api/agents/(\d+)/requests HTTP/1.1[^}]*?Bearer (\d+)`)
			for n := range b.writesOfTurn(writeConnections)*(paceOf(b.settings).turns+1) + 1 {
				m := sent.FindSubmatch(writtenRequest(b, &process{}, w, n).bytes)
				pair := string(m[1]) + " " + string(m[2])
				if asked[string(m[1])]++; asked[string(m[1])] > requestsReceived || pairs[pair] {
					t.Fatalf("request %d: %s, %d of the recipient", n, pair, asked[string(m[1])])
				}
				pairs[pair] = true
			}
		})
	}
}
