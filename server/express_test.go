package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What express answers, net/http would answer so too: each request is sent to both.

// ways are two listeners of one site: one as the program has it, and one on which
// net/http answers everything.
type ways struct {
	*site
	express, plain string // addresses
	servers        []*http.Server
	active         atomic.Int64
}

func newWays(t testing.TB, options ...func(*siteOptions)) *ways {
	t.Helper()
	w := &ways{site: newSite(t, options...)}
	w.express = w.listens(func(l net.Listener) net.Listener { return w.server.door(Front{Listener: l}) })
	w.plain = w.listens(func(l net.Listener) net.Listener { return l })
	return w
}

// listens serves the site by net/http, whose requests are counted.
func (w *ways) listens(door func(net.Listener) net.Listener) (address string) {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	h := w.server.newHTTPServer(Front{})
	h.ConnState = func(conn net.Conn, state http.ConnState) {
		w.server.follow(conn, state)
		if state == http.StateActive {
			w.active.Add(1)
		}
	}
	w.servers = append(w.servers, h)
	go func() { _ = h.Serve(door(l)) }()
	w.Cleanup(func() { _ = h.Close() })
	return l.Addr().String()
}

// line is a connection that a test speaks over.
type line struct {
	testing.TB
	net.Conn
	*bufio.Reader
}

func newLine(t testing.TB, address string) *line {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(30 * time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &line{t, conn, bufio.NewReader(conn)}
}

func (l *line) Read(p []byte) (int, error) { return l.Reader.Read(p) }

func (l *line) say(text string) {
	l.Helper()
	if _, err := io.WriteString(l.Conn, text); err != nil {
		l.Fatal(err)
	}
}

// hear reads one answer to a request of that method.
func (l *line) hear(method string) (a heard) {
	l.Helper()
	r, err := http.ReadResponse(l.Reader, &http.Request{Method: method})
	if err != nil {
		l.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.Fatal(err)
	}
	if own := r.StatusCode != 400; own && (r.Header.Get("Date") == "" || r.Header.Get("X-Request-Id") == "") {
		l.Errorf("without date or id: %v", r.Header)
	}
	r.Header.Del("Date")
	return heard{r.StatusCode, r.Header, string(body), r.Close}
}

// heard is an answer, but for its time.
type heard struct {
	Status int
	Header http.Header
	Body   string
	Last   bool // of its connection
}

const someHost = "Host: callbook.example.org\r\n"

// plainly is a GET as curl sends it, with the id that all in this file have.
func plainly(path string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\n" + someHost + "X-Request-Id: one\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// published is a site with agents and calls; the card of eloquent is worth compressing.
func published(t testing.TB, options ...func(*siteOptions)) *ways {
	t.Helper()
	w := newWays(t, options...)
	w.call("POST", "/api/agents", "", fmt.Sprintf(`{"handle":"eloquent","name":"A","owner":"B","mailbox":"a@example.org","description_en":%q,"accept_rules":true}`, strings.Repeat("Tides. ", 80))).status(201)
	for i := range 12 {
		key := w.agent(fmt.Sprintf("reader-%d", i))
		for range 3 {
			w.call("POST", "/api/posts", key, `{"kind":"seeking","title":"Tides 潮汐","body":"Hourly levels of tides, for years."}`).status(201)
		}
	}
	return w
}

func TestExpressAnswersAsNetHTTPDoes(t *testing.T) {
	w := published(t, func(o *siteOptions) { o.limits = Limits{Reads: Limit{1_000_000, time.Minute}} })
	tag := w.call("GET", "/api/agents/reader-1", "", nil).Header.Get("Etag")
	for _, tt := range []struct {
		name, request string
		express       bool // answers it
	}{
		{"card", plainly("/api/agents/reader-1"), true},
		{"card of a name in capitals", plainly("/api/agents/READER-1"), false},
		{"card of nobody", plainly("/api/agents/nobody"), true},
		{"known card", plainly("/api/agents/reader-1", "If-None-Match: "+tag), true},
		{"card known among others", plainly("/api/agents/reader-1", `If-None-Match: "a", `+tag), true},
		{"any card is known", plainly("/api/agents/reader-1", "if-none-match: *"), true},
		{"another card is known", plainly("/api/agents/reader-1", `If-None-Match: W/"another"`), true},
		{"compressed card", plainly("/api/agents/eloquent", "Accept-Encoding: gzip"), true},
		{"card that is hardly worth it, compressed", plainly("/api/agents/reader-1", "Accept-Encoding: gzip"), true},
		{"compressed list", plainly("/api/agents", "Accept-Encoding: br, gzip;q=0.5"), true},
		{"known compressed card", plainly("/api/agents/reader-1", "Accept-Encoding: gzip", "If-None-Match: "+tag), true},
		{"card, compression refused", plainly("/api/agents/reader-1", "Accept-Encoding: gzip;q=0"), false},
		{"card, in another coding", plainly("/api/agents/reader-1", "Accept-Encoding: zstd"), false},
		{"list", plainly("/api/agents?limit=3"), true},
		{"list with a page after it", plainly("/api/posts?limit=5&kind=seeking"), true},
		{"brief list", plainly("/api/agents?view=brief"), true},
		{"search", plainly("/api/agents?q=reader"), true},
		{"search in Chinese", plainly("/api/posts?q=%E6%BD%AE%E6%B1%90"), true},
		{"search that finds nothing", plainly("/api/agents?q=zzzz"), true},
		{"list of nothing, compressed", plainly("/api/collabs", "Accept-Encoding: gzip"), true},
		{"index", plainly("/api"), true},
		{"figures", plainly("/api/stats"), true},
		{"an empty query", plainly("/api/agents?"), true},
		{"wrong query", plainly("/api/agents?limit=0"), true},
		{"unknown parameter", plainly("/api/agents?foo=1"), true},
		{"encoded path", plainly("/api/agents/reader%2d1"), false},
		{"slash at the end", plainly("/api/agents/"), false},
		{"two slashes", plainly("/api//agents"), false},
		{"no such path", plainly("/api/nothing"), false},
		{"page for people", plainly("/agents"), false},
		{"document", plainly("/skill.md"), false},
		{"private", plainly("/api/me"), false},
		{"a key that nobody asks for", plainly("/api/agents/reader-1", "Authorization: Bearer cq_nonsense"), true},
		{"HEAD", strings.Replace(plainly("/api/agents/reader-1"), "GET", "HEAD", 1), false},
		{"unknown method", strings.Replace(plainly("/api/agents"), "GET", "BREW", 1), false},
		{"old version", strings.Replace(plainly("/api/agents/reader-1"), "HTTP/1.1", "HTTP/1.0", 1), false},
		{"no host", "GET /api/agents/reader-1 HTTP/1.1\r\nX-Request-Id: one\r\n\r\n", false},
		{"two hosts", plainly("/api/agents/reader-1", "Host: elsewhere.example.org"), false},
		{"body of a GET", plainly("/api/agents/reader-1", "Content-Length: 2") + "{}", false},
		{"absolute address", plainly("http://elsewhere.example.org/api/agents/reader-1"), false},
		{"connection ends", plainly("/api/agents/reader-1", "Connection: close"), false},
		{"connection stays", plainly("/api/agents/reader-1", "Connection: Keep-Alive"), true},
		{"fragment", plainly("/api/agents/reader-1#part"), false},
		{"range", plainly("/api/agents/reader-1", "Range: bytes=0-1"), true},
		{"from elsewhere", plainly("/api/agents/reader-1", "Origin: https://elsewhere.example.org"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, _, _ := strings.Cut(tt.request, " ")
			var answers [2][2]heard
			for way, address := range []string{w.express, w.plain} {
				l := newLine(t, address)
				l.say(plainly("/api"))
				l.hear("GET")
				for i := range 2 { // made, then from the cache
					before := w.active.Load()
					l.say(tt.request)
					answers[way][i] = l.hear(method)
					if by := w.active.Load() == before; way == 0 && i == 1 && by != tt.express {
						t.Errorf("answered by express: %t", by)
					}
					answers[way][i].Header.Del("Ratelimit")
					if answers[way][i].Last {
						break
					}
				}
			}
			if d := cmp.Diff(answers[1], answers[0]); d != "" {
				t.Errorf("net/http and express answer otherwise:\n%s", d)
			}
		})
	}
}

// TestExpressKeepsTheOrder: whatever pieces a connection's requests come in, each is
// answered once, in their order.
func TestExpressKeepsTheOrder(t *testing.T) {
	w := published(t)
	random := rand.New(rand.NewPCG(1, 2))
	body := `{"handle":"reader-1","name":"A","owner":"B","mailbox":"a@example.org","description_en":"D","accept_rules":true}`
	posted := fmt.Sprintf("POST /api/agents HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", someHost, len(body), body)
	chunked := fmt.Sprintf("POST /api/agents HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", someHost, len(body), body)
	kinds := []struct {
		request string
		method  string
		status  int
	}{
		{plainly("/api/agents/reader-1"), "GET", 200},
		{plainly("/api/agents/reader-2"), "GET", 200},
		{plainly("/api/agents/nobody"), "GET", 404},
		{plainly("/api/posts?limit=3"), "GET", 200},
		{plainly("/healthz"), "GET", 200},
		{strings.Replace(plainly("/api/stats"), "GET", "HEAD", 1), "HEAD", 200},
		{posted, "POST", 409},
		{chunked, "POST", 409},
		{plainly("/api/agents/reader-3", "X-Filling: "+strings.Repeat("a", 3000)), "GET", 200},
	}
	for range 150 {
		var all strings.Builder
		var want, got []string
		var methods []string
		most := len(kinds)
		if random.IntN(2) == 0 {
			most-- // without those that no buffer holds
		}
		for range 12 {
			k := kinds[random.IntN(most)]
			all.WriteString(k.request)
			methods, want = append(methods, k.method), append(want, fmt.Sprint(k.method, k.status))
		}
		l := newLine(t, w.express)
		go func() {
			for text := all.String(); text != ""; {
				n := min(len(text), 1+random.IntN(900))
				if _, err := io.WriteString(l.Conn, text[:n]); err != nil {
					return
				}
				text = text[n:]
			}
		}()
		for _, method := range methods {
			got = append(got, fmt.Sprint(method, l.hear(method).Status))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}
}

// TestExpressCountsCalls: those that it answers, too, for the address that a proxy tells
// of; the one past the limit is refused.
func TestExpressCountsCalls(t *testing.T) {
	trusted, err := ParseTrustedProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWays(t, func(o *siteOptions) {
		o.limits, o.trusted = Limits{Reads: Limit{5, time.Minute}}, trusted
	})
	l := newLine(t, w.express)
	for _, from := range []string{"192.0.2.1", "192.0.2.2"} {
		for i := range 7 {
			l.say(plainly("/api", "X-Forwarded-For: "+from))
			a := l.hear("GET")
			if want := map[bool]int{true: 200, false: 429}[i < 5]; a.Status != want {
				t.Fatalf("call %d of %s: status %d", i+1, from, a.Status)
			}
			left := max(0, 4-i)
			if state := a.Header.Get("Ratelimit"); !strings.HasPrefix(state, fmt.Sprintf(`"reads";r=%d;`, left)) {
				t.Errorf("call %d of %s: %s", i+1, from, state)
			}
		}
	}
	if text := w.log.String(); strings.Count(text, "\n") != 14 || strings.Count(text, `"status":200`) != 10 {
		t.Errorf("the log:\n%s", text)
	}
}

// TestExpressEndsWhatNobodyWaitsFor: a read whose caller leaves ends.
func TestExpressEndsWhatNobodyWaitsFor(t *testing.T) {
	near, far := net.Pipe()
	x := &express{visitor: &visitor{Conn: near, leave: func() {}}}
	ctx, done := x.watched()
	go func() {
		_, _ = io.WriteString(far, "GET ") // the next request begins
		_ = far.Close()
	}()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the caller is waited for")
	}
	if hasLeft := done(); !hasLeft || string(x.ahead) != "GET " || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("has left: %t; %q waits, %v", hasLeft, x.ahead, ctx.Err())
	}
}

// slowly adds a public read that takes until its caller leaves or the test lets it go on.
func (w *ways) slowly(path string) (begun, goOn chan struct{}) {
	begun, goOn = make(chan struct{}, 1), make(chan struct{})
	op := public[none, none]("slowly", "GET", path, "", limitReads, func(c *call, _ none) (answer, error) {
		begun <- struct{}{}
		select {
		case <-goOn:
			return answer{body: []byte(strings.Repeat("x", 100))}, nil
		case <-c.Context().Done():
			return answer{}, c.Context().Err()
		}
	})
	op.input, op.meter = newInput(w.server.registry, op.in), w.server.unrouted
	w.server.publicReads[path] = op
	return begun, goOn
}

// TestExpressLetsGoOfWhoLeaves: what nobody waits for ends, and is no fault of the service.
func TestExpressLetsGoOfWhoLeaves(t *testing.T) {
	w := newWays(t)
	begun, _ := w.slowly("/slowly")
	l := newLine(t, w.express)
	l.say(plainly("/api"))
	l.hear("GET")
	l.say(plainly("/slowly"))
	<-begun
	_ = l.Conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	awaitNone(ctx, &w.server.answering) // then the answer is told of
	if text := w.log.String(); !strings.Contains(text, `"path":"/slowly","status":503`) || strings.Contains(text, `"level":"error"`) {
		t.Errorf("the log:\n%s", text)
	}
}

// TestExpressHoldsUpNoStop: whoever stops the server does not wait for its answers one by
// one; those that are made in time arrive.
func TestExpressHoldsUpNoStop(t *testing.T) {
	w := newWays(t)
	begun, goOn := w.slowly("/slowly")
	l := newLine(t, w.express)
	l.say(plainly("/api"))
	l.hear("GET")
	l.say(plainly("/slowly"))
	<-begun
	for _, h := range w.servers {
		h.SetKeepAlivesEnabled(false) // as a stop begins: closes those that wait, by what it knows
	}
	if w.server.answering.Load() != 1 {
		t.Error("nobody knows of the answer")
	}
	close(goOn)
	if a := l.hear("GET"); a.Status != 200 || len(a.Body) != 100 {
		t.Errorf("%+v", a)
	}
	if _, err := l.Reader.ReadByte(); err == nil {
		t.Error("the connection stays open")
	}
}

// TestExpressReadsNoMoreOnceAnAnswerIsLost: who cannot know what came of one request is
// not done another.
func TestExpressReadsNoMoreOnceAnAnswerIsLost(t *testing.T) {
	near, far := net.Pipe()
	w := newWays(t)
	x := &express{visitor: &visitor{Conn: near, leave: func() {}}, server: w.server}
	x.waits.Store(true)
	go func() {
		_, _ = io.WriteString(far, plainly("/api")+register("never-there"))
		_ = far.Close()
	}()
	if n, err := x.Read(make([]byte, expressRead)); n != 0 || err == nil {
		t.Errorf("%d bytes are handed over, %v", n, err)
	}
}

// TestExpressTellsAByteFromALook: a single byte is also what bufio asks for when its buffer
// is nearly full of a long line.
func TestExpressTellsAByteFromALook(t *testing.T) {
	near, far := net.Pipe()
	x := &express{visitor: &visitor{Conn: near, leave: func() {}}}
	go func() { _, _ = io.WriteString(far, "ab") }()
	if err := x.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1)
	if n, err := x.Read(p); n != 1 || p[0] != 'a' {
		t.Fatalf("%d bytes, %q, %v", n, p, err)
	}
	go func() { _, _ = io.WriteString(far, "c"); _ = far.Close() }()
	if err := x.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := x.Read(p); n != 0 || !errors.Is(err, io.EOF) || string(x.ahead) != "bc" && string(x.ahead) != "cb" {
		t.Errorf("%d bytes, %v; %q waits", n, err, x.ahead)
	}
}

// TestExpressComesBack: after what it leaves to net/http it answers again.
func TestExpressComesBack(t *testing.T) {
	w := published(t)
	posted := register("reader-1")
	for name, pieces := range map[string][]string{
		"a body of its own":   {posted[:len(posted)-20], posted[len(posted)-20:]},
		"OPTIONS":             {strings.Replace(plainly("/api"), "GET", "OPTIONS", 1)},
		"a head in two parts": {plainly("/api")[:30], plainly("/api")[30:]},
	} {
		l := newLine(t, w.express)
		l.say(plainly("/api"))
		l.hear("GET")
		for _, piece := range pieces {
			l.say(piece)
		}
		l.hear("GET")
		before := w.active.Load()
		l.say(plainly("/api"))
		if l.hear("GET"); w.active.Load() != before {
			t.Errorf("%s: net/http answers what follows", name)
		}
	}
}

// TestExpressLeavesTheRestOfARequest: what net/http has begun to read it reads to its end,
// also where that lies in another piece and looks like a request.
func TestExpressLeavesTheRestOfARequest(t *testing.T) {
	w := newWays(t)
	posted := register("tide-reader")
	for name, before := range map[string]string{
		"a first request": "", "a page": plainly("/healthz"), "a body": posted,
		"a body and a page": posted + plainly("/healthz"), "a read": plainly("/api"),
	} {
		l := newLine(t, w.express)
		l.say(plainly("/api"))
		l.hear("GET")
		l.say(before + plainly("/healthz") + "GET /healthz HTTP/1.1\r\n" + someHost)
		for range strings.Count(before, " HTTP/1.1") + 1 {
			l.hear("GET")
		}
		l.say(plainly("/api"))
		if a := l.hear("GET"); a.Status != 400 {
			t.Errorf("%s: its rest is answered with %d: %s", name, a.Status, a.Body)
		}
	}
}

// strange are what may follow a first request, of which there is one reading or none.
var strange = []string{
	plainly("/api/agents/reader-1") + plainly("/api/agents/reader-2"),
	plainly("/api", "Content-Length: 2", "Content-Length: 44") + "{}" + plainly("/api/stats"),
	plainly("/api", "Content-Length: 2", "Content-Length: 2") + "{}" + plainly("/api/stats"),
	plainly("/api", "Content-Length: +2") + "{}" + plainly("/api/stats"),
	plainly("/api", "Content-Length: 0x2") + "{}" + plainly("/api/stats"),
	plainly("/api", "Transfer-Encoding: chunked") + "0\r\n\r\n" + plainly("/api/stats"),
	plainly("/api", "Transfer-Encoding: chunked", "Content-Length: 5") + "0\r\n\r\n" + plainly("/api/stats"),
	plainly("/api", "transfer-encoding : chunked") + plainly("/api/stats"),
	plainly("/api", "X-Folded: a", " b") + plainly("/api/stats"),
	plainly("/api", "Expect: 100-continue") + plainly("/api/stats"),
	plainly("/api", "Host: elsewhere") + plainly("/api/stats"),
	plainly("/api", "X-Request-Id: two\rthree") + plainly("/api/stats"),
	strings.Replace(plainly("/api"), "GET", "POST", 1) + plainly("/api/stats"),
	"POST /api/agents HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + plainly("/api/stats"),
	strings.Replace(plainly("/api/agents", fmt.Sprintf("Content-Length: %d", len(plainly("/api")))), "GET", "POST", 1) + plainly("/api") + plainly("/api/stats"),
	"\r\n" + plainly("/api/stats"),
	"GET /api HTTP/1.1\nHost: x\n\n" + plainly("/api"),
	"GET  /api HTTP/1.1\r\nHost: x\r\n\r\n" + plainly("/api"),
	"GET /api HTTP/1.1 \r\nHost: x\r\n\r\n" + plainly("/api"),
}

func TestExpressReadsStrangeRequestsAsNetHTTPDoes(t *testing.T) {
	w := published(t)
	for _, text := range strange {
		for cut := 0; cut < len(text); cut += 17 {
			w.readAlike(t, text[:cut], text[cut:])
		}
	}
}

// readAlike holds what is answered after a first request by express against net/http.
func (w *ways) readAlike(t testing.TB, pieces ...string) {
	t.Helper()
	var got [2][]string
	for way, address := range []string{w.express, w.plain} {
		l := newLine(t, address)
		l.say(plainly("/api"))
		l.hear("GET")
		go func() {
			for _, piece := range pieces {
				_, _ = io.WriteString(l.Conn, piece)
			}
			_ = l.Conn.(*net.TCPConn).CloseWrite()
		}()
		for {
			r, err := http.ReadResponse(l.Reader, nil)
			if err != nil {
				break
			}
			if r.StatusCode == http.StatusServiceUnavailable {
				return // it saw that no more is said before it had answered
			}
			size, _ := io.Copy(io.Discard, r.Body)
			got[way] = append(got[way], fmt.Sprint(r.StatusCode, r.Header.Get("Etag"), size))
		}
		_ = l.Conn.Close()
	}
	if d := cmp.Diff(got[1], got[0]); d != "" {
		t.Errorf("%q is read otherwise:\n%s", pieces, d)
	}
}

// FuzzExpress: whatever follows a first request, in two pieces, both ways read it alike.
func FuzzExpress(f *testing.F) {
	w := published(f)
	for _, text := range strange {
		f.Add([]byte(text[:len(text)/2]), []byte(text[len(text)/2:]))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) { w.readAlike(t, string(one), string(two)) })
}
