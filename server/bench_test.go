package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/store"
)

// The benchmarks serve over loopback. Each read is timed in turns with the floor,
// net/http and httprouter with a ready body of a card's size, so that the ratio
// holds when the machine's speed drifts: of_floor is how many times the floor's
// requests a second this reaches.

const (
	benchConnections = 8
	warmUp           = 1000 // requests that are not timed
)

// wire is one kept-alive connection that sends the same bytes again and again:
// as cheap a client as can be, for it shares the processors with the server.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dialWire(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

// send returns the status and reads the body away.
func (w *wire) send(request []byte) (status int, err error) {
	if _, err := w.conn.Write(request); err != nil {
		return 0, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := w.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if first {
			status, _ = strconv.Atoi(string(line[9:12]))
		}
		if len(line) == 2 {
			break
		}
		if after, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(after)))
		}
	}
	_, err = w.reader.Discard(length)
	return status, err
}

func get(path string, headers ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: callbook.example.org\r\n", path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return []byte(b.String() + "\r\n")
}

func post(path, key string, body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: callbook.example.org\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, key, len(body), body)
}

// load sends n requests over the connections and returns how long that took, and
// each request's own time.
func load(b *testing.B, addr string, connections, n int, request func(i int) []byte, status int) (time.Duration, []time.Duration) {
	b.Helper()
	wires := make([]*wire, connections)
	for i := range wires {
		w, err := dialWire(addr)
		if err != nil {
			b.Fatal(err)
		}
		defer w.conn.Close()
		wires[i] = w
	}
	times := make([]time.Duration, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	start := time.Now()
	for _, w := range wires {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				sent := time.Now()
				if got, err := w.send(request(i)); err != nil || got != status {
					b.Errorf("status %d, want %d: %v: %.200s", got, status, err, request(i))
					return
				}
				times[i] = time.Since(sent)
			}
		})
	}
	wait.Wait()
	return time.Since(start), times
}

func bench(b *testing.B) *benchSite {
	b.Helper()
	s, err := benchOnce()
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func listen(b *testing.B, h http.Handler) string {
	server := httptest.NewServer(h)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// floor answers with a ready body of a card's size.
func floor() http.Handler {
	body := bytes.Repeat([]byte("x"), 2900)
	length := []string{strconv.Itoa(len(body))}
	router := httprouter.New()
	router.GET("/api/agents/:handle", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
		w.Header()["Content-Type"] = jsonTypeHeader
		w.Header()["Content-Length"] = length
		_, _ = w.Write(body)
	})
	return router
}

// beside times a read in turns with the floor.
func beside(b *testing.B, h http.Handler, status int, request func(i int) []byte) {
	b.Helper()
	addr, floorAddr := listen(b, h), listen(b, floor())
	floorRequest := get("/api/agents/anyone")
	const turn = 400
	var own, base time.Duration
	var times []time.Duration
	// The system's memory holds the pages afterwards, as it does in service.
	load(b, addr, benchConnections, warmUp, request, status)
	load(b, floorAddr, benchConnections, warmUp, func(int) []byte { return floorRequest }, 200)
	sent := 0
	b.ResetTimer()
	for sent < b.N {
		n := min(turn, b.N-sent)
		first := sent
		took, each := load(b, addr, benchConnections, n, func(i int) []byte { return request(first + i) }, status)
		own += took
		times = append(times, each...)
		b.StopTimer()
		took, _ = load(b, floorAddr, benchConnections, n, func(int) []byte { return floorRequest }, 200)
		base += took
		b.StartTimer()
		sent += n
	}
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/own.Seconds(), "req/s")
	b.ReportMetric(base.Seconds()/own.Seconds(), "of_floor")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
	runtime.GC()
}

// uncached is the server without its cache of answers.
func (s *benchSite) uncached(b *testing.B) *Server {
	b.Helper()
	other, err := New(s.store, Options{BaseURL: "http://callbook.example.org", Limits: benchLimits, CacheBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	return other
}

func BenchmarkCard(b *testing.B) {
	s := bench(b)
	card := func(i int) []byte { return get("/api/agents/" + benchRegistration(i*7919%s.agents).Handle) }
	requests := make([][]byte, warmUp)
	for i := range requests {
		requests[i] = card(i)
	}
	b.Run("stored", func(b *testing.B) {
		beside(b, s.uncached(b), 200, func(i int) []byte { return requests[i%len(requests)] })
	})
	b.Run("cached", func(b *testing.B) {
		beside(b, s.server, 200, func(i int) []byte { return requests[i%100] })
	})
	b.Run("not_modified", func(b *testing.B) {
		recorder := httptest.NewRecorder()
		path := "/api/agents/" + benchRegistration(0).Handle
		s.server.ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		request := get(path, "If-None-Match: "+recorder.Header().Get("ETag"))
		beside(b, s.server, 304, func(int) []byte { return request })
	})
}

func BenchmarkList(b *testing.B) {
	s := bench(b)
	for _, path := range []string{"/api/agents", "/api/agents?view=brief", "/api/posts?kind=seeking", "/api/agents?language=zh&min_level=0"} {
		request := get(path)
		name := strings.NewReplacer("/api/", "", "?", ",", "&", ",").Replace(path)
		b.Run(name+"/stored", func(b *testing.B) {
			// Two pages in turn, in a cache of one: neither is ever found there.
			other := get(path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "limit=20")
			beside(b, s.uncached(b), 200, func(i int) []byte { return [][]byte{request, other}[i%2] })
		})
		b.Run(name+"/cached", func(b *testing.B) {
			beside(b, s.server, 200, func(int) []byte { return request })
		})
	}
}

// BenchmarkPage is for the pages for people: made anew, and cached.
func BenchmarkPage(b *testing.B) {
	s := bench(b)
	for name, path := range map[string]string{
		"home": "/", "agents": "/agents", "agent": "/agents/" + benchRegistration(0).Handle, "calls": "/calls",
	} {
		request, other := get(path+"?lang=en"), get(path+"?lang=zh")
		b.Run(name+"/made", func(b *testing.B) {
			beside(b, s.uncached(b), 200, func(i int) []byte { return [][]byte{request, other}[i%2] })
		})
		b.Run(name+"/cached", func(b *testing.B) {
			beside(b, s.server, 200, func(int) []byte { return request })
		})
	}
}

// benchQueries are words by how common they are in the benchmarks' directory.
var benchQueries = []struct{ name, q string }{
	{"common", englishWord(0)},
	{"middling", englishWord(400)},
	{"rare", englishWord(19000)},
	{"two_words", englishWord(3) + " " + englishWord(900)},
	{"two_characters", chineseWord(300)},
	{"one_character", string([]rune(chineseWord(2))[0])},
	{"phrase", chineseWord(1) + chineseWord(2)},
	{"prefix", "b"},
	{"prefix_of_two", "ba"},
	{"prefix_of_three", "bac"},
	{"none", "zzzzzz"},
	{"near_empty_pair", englishWord(1) + " " + englishWord(19500)},
}

func BenchmarkSearch(b *testing.B) {
	s := bench(b)
	for _, of := range []string{"agents", "posts"} {
		for _, query := range benchQueries {
			request := get("/api/" + of + "?q=" + url.QueryEscape(query.q))
			other := get("/api/" + of + "?limit=20&q=" + url.QueryEscape(query.q))
			b.Run(of+"/"+query.name, func(b *testing.B) {
				beside(b, s.uncached(b), 200, func(i int) []byte { return [][]byte{request, other}[i%2] })
			})
		}
	}
}

// BenchmarkWrite compares writes that share a commit with one transaction for
// each request, by one and by 64 writers, synchronous=FULL.
func BenchmarkWrite(b *testing.B) {
	for _, what := range []string{"registration", "post"} {
		for _, writers := range []int{1, 64} {
			for _, batch := range []int{0, 1} {
				name := fmt.Sprintf("%s/%d_writers/%s", what, writers, map[int]string{0: "shared_commits", 1: "one_each"}[batch])
				b.Run(name, func(b *testing.B) { benchWrite(b, what, writers, batch) })
			}
		}
	}
}

func benchWrite(b *testing.B, what string, writers, batch int) {
	st, err := store.Open(context.Background(), store.Options{
		Path: filepath.Join(b.TempDir(), "callbook.db"), Quotas: &store.Quotas{}, Batch: batch,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	s, err := New(st, Options{BaseURL: "http://callbook.example.org", Limits: benchLimits})
	if err != nil {
		b.Fatal(err)
	}
	r, _, err := st.Register(context.Background(), benchRegistration(0), store.Once{})
	if err != nil {
		b.Fatal(err)
	}
	requests := make([][]byte, b.N)
	for i := range requests {
		if what == "post" {
			requests[i] = post("/api/posts", r.Key, marshal(benchPost(i)))
		} else {
			requests[i] = post("/api/agents", "", marshal(benchRegistration(i+1)))
		}
	}
	addr := listen(b, s)
	b.ResetTimer()
	took, times := load(b, addr, writers, b.N, func(i int) []byte { return requests[i] }, 201)
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/took.Seconds(), "req/s")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
