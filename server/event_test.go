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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"callbook/server/api"
	"callbook/server/mail"
	"callbook/server/ratelimit"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// grace is longer than any step of a test and shorter than the wait of a request, so that no test
// passes because a wait times out.
const grace = 25 * time.Second

const (
	eventsPath = "/api/me/events"
	longWait   = "?wait=30"
)

// waitForEvents requests events and sends the response to a channel.
func (s *site) waitForEvents(key, query string) <-chan *result {
	return s.requestEvents("GET", key, query)
}

func (s *site) requestEvents(method, key, query string) <-chan *result {
	responses := make(chan *result, 1)
	go func() {
		defer close(responses)
		responses <- s.send(method, eventsPath+query, key, nil)
	}()
	return responses
}

// awaitResponse waits for the response to such a request.
func (s *site) awaitResponse(call <-chan *result) *result {
	s.Helper()
	select {
	case a, ok := <-call:
		if !ok {
			s.Fatal("the call fails")
		}
		return a
	case <-time.After(grace):
		s.Fatal("the call gets no answer")
	}
	return nil
}

// checkStillWaiting fails the test if a request has its response already.
func (s *site) checkStillWaiting(what string, call <-chan *result) {
	s.Helper()
	select {
	case a := <-call:
		s.Fatalf("%s is answered: %d %s", what, a.Status, a.Body)
	default:
	}
}

func (r *result) events() (response eventsResponse) {
	r.Helper()
	r.status(200).into(&response)
	if response.Next == "" {
		r.Fatalf("no next: %s", r.Body)
	}
	return response
}

// checkEvents fails the test unless a response has exactly these events, each "type handle".
func (r *result) checkEvents(want ...string) *result {
	r.Helper()
	var got []string
	for _, e := range r.events().Events {
		got = append(got, e.Type+" "+e.Subject.Handle)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("events (-want +got):\n%s", diff)
	}
	return r
}

// lastEventID returns the id after which new events follow.
func (s *site) lastEventID(key string) string {
	s.Helper()
	return s.send("GET", eventsPath, key, nil).events().Next
}

func (s *site) reply(key, post string) (id string) {
	s.Helper()
	return s.send("POST", "/api/posts/"+post+"/replies", key, `{"body":"At high water."}`).status(201).text("reply", "id")
}

func (s *site) caller(key string) domain.Caller {
	s.Helper()
	return testkit.Must(s.store.Authenticate(context.Background(), key))(s)
}

func (s *site) waiting() int { return s.server.waiters.count() }

// queues returns the waiting requests by agent.
func (s *site) queues() map[int64][]waiter {
	w := s.server.waiters
	w.mu.Lock()
	defer w.mu.Unlock()
	copied := map[int64][]waiter{}
	for id, calls := range w.byAgent {
		copied[id] = slices.Clone(calls)
	}
	return copied
}

func (s *site) awaitWaiting(n int) {
	s.Helper()
	s.await(fmt.Sprintf("%d calls wait", n), func() bool { return s.waiting() == n })
}

func (s *site) await(what string, is func() bool) {
	s.Helper()
	for late := time.Now().Add(grace); !is(); runtime.Gosched() {
		if time.Now().After(late) {
			s.Fatalf("it never comes that %s; %d calls wait, %d goroutines", what, s.waiting(), runtime.NumGoroutine())
		}
	}
}

// serve runs the HTTP server of the program on a listener; stop ends it and returns its error.
func (s *site) serve(listener net.Listener) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(ctx, Front{Listener: listener}) }()
	return sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(grace):
			return errors.New("the server does not stop")
		}
	})
}

// memoryNetwork is a listener with connections in memory, which block as synctest requires.
type memoryNetwork struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *memoryNetwork) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memoryNetwork) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memoryNetwork) Addr() net.Addr { return &net.TCPAddr{} }

func (m *memoryNetwork) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withFakeTime runs a test where time passes only while everybody waits, and then at
// once. The site is behind the program's own HTTP server, with all its timeouts.
func withFakeTime(t *testing.T, test func(s *site)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	synctest.Test(t, func(t *testing.T) {
		st := testkit.Must(store.Open(t.Context(), store.Options{Path: path, Quotas: domain.Quotas{}, Mails: &domain.MailCaps{}, Normal: true}))(t)
		log, sent := &lockedBuffer{}, mail.NewMemory(100)
		server := testkit.Must(New(st, Options{BaseURL: "http://callbook.example.org", Log: zerolog.New(log), Version: "test", Mail: sent}))(t)
		network := &memoryNetwork{conns: make(chan net.Conn), closed: make(chan struct{})}
		client := &http.Client{Transport: &http.Transport{DialContext: network.dial}}
		s := &site{TB: t, server: server, store: st, log: log, outgoing: sent, url: "http://callbook.example.org", client: client, documented: &sync.Map{}}
		stop := s.serve(network)
		defer func() {
			client.CloseIdleConnections()
			if err := errors.Join(stop(), st.Close()); err != nil {
				t.Errorf("stop: %v", err)
			}
		}()
		test(s)
	})
}

// TestEvents_WaitEndsWithoutDelay: polling would let time pass between the commit and the response.
func TestEvents_WaitEndsWithoutDelay(t *testing.T) {
	withFakeTime(t, func(s *site) {
		pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
		post := s.post(pilot, "Tides")
		for _, method := range []string{"GET", "HEAD"} {
			call := s.requestEvents(method, pilot, longWait+"&after="+s.lastEventID(pilot))
			time.Sleep(29*time.Second + 999*time.Millisecond)
			s.checkStillWaiting(method, call)
			begun := time.Now()
			s.reply(gauge, post)
			a := s.awaitResponse(call).status(200)
			equal(s, time.Duration(0), time.Since(begun), "%s takes", method)
			if method == "HEAD" {
				if len(a.Body) > 0 || a.Header.Get("Content-Type") != api.JSONType || a.Header.Get("Content-Length") == "" {
					s.Errorf("HEAD: %v %q", a.Header, a.Body)
				}
				continue
			}
			a.checkEvents("reply.received tide-gauge")
		}
	})
}

func TestEvents_WaitTimesOut(t *testing.T) {
	withFakeTime(t, func(s *site) {
		pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
		post := s.post(pilot, "Tides")
		for query, want := range map[string]time.Duration{
			"?": 0, "?wait=0&": 0, "?wait=1&": time.Second, longWait + "&": 30 * time.Second,
		} {
			after := s.lastEventID(pilot)
			begun := time.Now()
			a := s.send("GET", eventsPath+query+"after="+after, pilot, nil).checkEvents()
			equal(s, want, time.Since(begun), "%q takes", query)
			s.reply(gauge, post)
			s.send("GET", eventsPath+"?after="+a.events().Next, pilot, nil).checkEvents("reply.received tide-gauge")
		}
	})
}

// follower receives all events by consecutive waiting requests.
type follower struct {
	ids   []string // of the subjects
	calls int
	heard chan int // how many, after each call
}

func (f *follower) follow(s *site, key string, events int) {
	for query := longWait; len(f.ids) < events && !s.Failed(); f.calls++ {
		response := s.send("GET", eventsPath+query, key, nil).events()
		for _, e := range response.Events {
			f.ids = append(f.ids, *e.Subject.ID)
		}
		query = longWait + "&after=" + response.Next
		f.heard <- len(f.ids)
	}
}

// hears returns once the follower has received this many events.
func (f *follower) hears(s *site, events int) {
	s.Helper()
	for late := time.After(grace); ; {
		select {
		case n := <-f.heard:
			if n >= events {
				return
			}
		case <-late:
			s.Fatalf("nobody hears of event %d", events)
		}
	}
}

func TestEvents_NoneIsLostBetweenRequests(t *testing.T) {
	t.Parallel()
	events := proof.Rounds(300, 2000, 40_000)
	if proof.RaceDetector() {
		events = 100
	}
	s := newSite(t)
	pilot, gauge := s.agent("harbour-pilot"), s.caller(s.agent("tide-gauge"))
	post := s.post(pilot, "Tides")
	followers := make([]*follower, 3)
	var following sync.WaitGroup
	for i := range followers {
		followers[i] = &follower{heard: make(chan int, events)}
		following.Go(func() { followers[i].follow(s, pilot, events) })
	}
	t.Cleanup(following.Wait)
	want := make([]string, events)
	for i := range want {
		if i%2 == 0 && i > 0 { // then it comes at any moment of the calls that follow the one before
			for _, f := range followers {
				f.hears(s, i)
			}
			<-time.After(rand.N(time.Millisecond))
		}
		reply, _, err := s.store.CreateReply(t.Context(), gauge, post, domain.ReplyDraft{Body: "At high water."}, domain.IdempotencyKey{})
		testkit.NoError(t, err)
		want[i] = reply.ID
	}
	following.Wait()
	for i, f := range followers {
		equal(t, want, f.ids, "follower %d", i)
		t.Logf("%d events in %d calls", events, f.calls)
	}
}

func TestEvents_WaitEndsAtShutdown(t *testing.T) {
	t.Parallel()
	const calls = 50
	s := newSite(t)
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	stop := s.serve(listener)
	served := *s
	served.url = "http://" + listener.Addr().String()
	var key string
	var waiting []<-chan *result
	for i := range calls {
		if i%maxWaitsPerAgent == 0 {
			key = s.agent(fmt.Sprintf("agent-%d", i))
		}
		waiting = append(waiting, served.waitForEvents(key, longWait))
	}
	s.awaitWaiting(calls)
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, call := range waiting {
		s.awaitResponse(call).checkEvents() // one that waited on would have been cut off
	}
	// What comes in while it stops does not wait either.
	s.awaitResponse(s.waitForEvents(key, longWait)).checkEvents()
	equal(t, 0, s.waiting(), "waiting requests")
}

// openWait sends a request for events over a connection of its own, without a goroutine.
func (s *site) openWait(key, query string) *net.TCPConn {
	s.Helper()
	conn := testkit.Must(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(s)
	s.Cleanup(func() { conn.Close() })
	testkit.NoError(s, conn.SetDeadline(time.Now().Add(6*grace)))
	testkit.Must(io.WriteString(conn, "GET "+eventsPath+query+" HTTP/1.1\r\nHost: callbook.example.org\r\nAuthorization: Bearer "+key+"\r\n\r\n"))(s)
	return conn.(*net.TCPConn)
}

func (s *site) readWait(conn net.Conn) *result {
	s.Helper()
	return receive(s.TB, testkit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(s))
}

func TestEvents_DisconnectedClientLeavesNothing(t *testing.T) {
	s := newSite(t)
	var keys []string
	for i := range 10 {
		keys = append(keys, s.agent(fmt.Sprintf("agent-%d", i)))
		s.lastEventID(keys[i]) // the first call of a key, which is noted in the background
	}
	s.client.CloseIdleConnections()
	s.await("the connections are closed", func() bool { runtime.GC(); return runtime.NumGoroutine() < 30 })
	before := runtime.NumGoroutine()
	for way, leave := range map[string]func(*net.TCPConn) error{
		"closing":   (*net.TCPConn).Close,
		"resetting": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
		"half":      (*net.TCPConn).CloseWrite,
	} {
		var parked []*net.TCPConn
		for i := range maxWaitsPerAgent * len(keys) {
			parked = append(parked, s.openWait(keys[i%len(keys)], longWait))
		}
		s.awaitWaiting(len(parked))
		for _, conn := range parked {
			testkit.NoError(t, leave(conn))
		}
		s.awaitWaiting(0)
		equal(t, 0, len(s.queues()), "%s: agents that are still known", way)
		s.await("no goroutine is left after "+way, func() bool { return runtime.NumGoroutine() <= before })
	}
}

// heap returns the bytes of objects and stacks that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// TestEvents_ThousandClientsWait: a waiting request takes little memory, and a commit wakes those of its agent alone.
func TestEvents_ThousandClientsWait(t *testing.T) {
	const mostBytes, mostGoroutines = 64 << 10, 3
	agents := 250
	if proof.RaceDetector() || testing.Short() {
		agents = 50
	}
	s := newSite(t)
	var keys []string
	for i := range agents {
		keys = append(keys, s.agent(fmt.Sprintf("agent-%d", i)))
		s.lastEventID(keys[i])
	}
	post := s.post(keys[0], "Tides")
	idle, goroutines := heap(), runtime.NumGoroutine()
	var waits []net.Conn
	for _, key := range keys {
		for range maxWaitsPerAgent {
			waits = append(waits, s.openWait(key, longWait))
		}
	}
	n := len(waits)
	s.awaitWaiting(n)
	bytes, more := (heap()-idle)/n, float64(runtime.NumGoroutine()-goroutines)/float64(n)
	hasLines(t, s.metricsText(), fmt.Sprintf("callbook_event_calls_waiting %d\n", n))
	t.Logf("%d waiting requests: %d bytes and %.2f goroutines each", n, bytes, more)
	if bytes > mostBytes || more > mostGoroutines {
		t.Errorf("%d waiting requests cost %d bytes and %.2f goroutines each, want at most %d and %d", n, bytes, more, mostBytes, mostGoroutines)
	}
	want := s.queues()
	delete(want, s.caller(keys[0]).ID)
	s.reply(keys[1], post)
	for _, conn := range waits[:maxWaitsPerAgent] {
		s.readWait(conn).checkEvents("reply.received agent-1")
	}
	s.awaitWaiting(n - maxWaitsPerAgent)
	if diff := cmp.Diff(want, s.queues(), cmp.Comparer(func(a, b waiter) bool { return a == b })); diff != "" {
		t.Errorf("the event of one agent wakes others (-before +after):\n%.500s", diff)
	}
}

func TestEvents_FifthWaitEndsTheFirst(t *testing.T) {
	s := newSite(t)
	pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
	post := s.post(pilot, "Tides")
	other := s.waitForEvents(gauge, longWait)
	s.awaitWaiting(1)
	var calls []<-chan *result
	for i := range maxWaitsPerAgent {
		calls = append(calls, s.waitForEvents(pilot, longWait))
		s.awaitWaiting(i + 2)
	}
	for range 2 * maxWaitsPerAgent { // those that do not wait take no place
		s.send("GET", eventsPath, pilot, nil).checkEvents()
	}
	if n := s.waiting(); n != maxWaitsPerAgent+1 {
		t.Fatalf("%d calls wait", n)
	}
	calls = append(calls, s.waitForEvents(pilot, longWait))
	s.awaitResponse(calls[0]).checkEvents()
	s.awaitWaiting(maxWaitsPerAgent + 1)
	for i, call := range calls[1:] {
		s.checkStillWaiting(fmt.Sprintf("call %d", i+2), call)
	}
	s.checkStillWaiting("another agent's call", other)
	s.reply(gauge, post)
	for _, call := range calls[1:] {
		s.awaitResponse(call).checkEvents("reply.received tide-gauge")
	}
	s.checkStillWaiting("another agent's call", other)
	s.reply(pilot, s.post(gauge, "Mine"))
	s.awaitResponse(other).checkEvents("reply.received harbour-pilot")
}

// TestEvents_WaitCountsOnce: a wait that wakes without a new event is not counted again.
func TestEvents_WaitCountsOnce(t *testing.T) {
	s := newSite(t, func(o *siteOptions) {
		o.limits = ratelimit.Limits{limitEvents: ratelimit.Limit{Requests: 3, Period: time.Minute}}
	})
	pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
	post := s.post(pilot, "Tides")
	for range 5 {
		s.reply(gauge, post)
	}
	ahead := s.send("GET", eventsPath, pilot, nil).events().Next
	rewound := s.post(pilot, "More")
	call := s.waitForEvents(pilot, longWait+"&after="+ahead)
	s.awaitWaiting(1)
	for range 10 {
		before := s.queues()
		s.server.waiters.notify(store.Changes{All: true})
		s.await("it waits anew", func() bool {
			now := s.queues()[s.caller(pilot).ID]
			return len(now) == 1 && now[0] != before[s.caller(pilot).ID][0]
		})
	}
	s.reply(gauge, rewound)
	s.awaitResponse(call).checkEvents("reply.received tide-gauge")
	s.send("GET", eventsPath, pilot, nil).status(200)
	s.send("GET", eventsPath, pilot, nil).rejected(429, domain.CodeRateLimited)
}

// TestEvents_GapEndsTheWait: a client that has missed events learns it at once, one that has read them waits.
func TestEvents_GapEndsTheWait(t *testing.T) {
	s := newSite(t)
	pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
	post := s.post(pilot, "Tides")
	s.reply(gauge, post)
	first := s.lastEventID(pilot)
	s.reply(gauge, post)
	last := s.lastEventID(pilot)
	s.clock.Advance(domain.EventRetention)
	testkit.NoError(t, s.store.RunJobs(t.Context()))
	if gap := s.awaitResponse(s.waitForEvents(pilot, longWait+"&after="+first)).checkEvents().events(); !gap.Gap {
		t.Error("no gap is reported")
	}
	call := s.waitForEvents(pilot, longWait+"&after="+last)
	s.await("it waits or has its response", func() bool { return s.waiting() == 1 || len(call) == 1 })
	s.checkStillWaiting("the request", call)
	s.reply(gauge, post)
	if a := s.awaitResponse(call).checkEvents("reply.received tide-gauge").events(); a.Gap {
		t.Error("a gap")
	}
}

// TestEvents_WaitEndsWithTheKey: a client whose key ends during the wait gets an error.
func TestEvents_WaitEndsWithTheKey(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(s *site, key string)
		status int
		code   domain.Code
	}{
		"rotated": {func(s *site, key string) { s.send("POST", "/api/me/rotate-key", key, nil).status(200) }, 401, domain.CodeUnauthorized},
		"deleted": {func(s *site, key string) {
			s.send("DELETE", "/api/me?confirm=harbour-pilot", key, nil).status(204)
			s.server.waiters.notify(store.Changes{All: true})
		}, 401, domain.CodeUnauthorized},
		"suspended": {func(s *site, _ string) {
			s.database.MustExec(`UPDATE agents SET suspended_at = 1`)
			s.server.waiters.notify(store.Changes{All: true})
		}, 403, domain.CodeSuspended},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
			post := s.post(pilot, "Tides")
			call := s.waitForEvents(pilot, longWait)
			s.awaitWaiting(1)
			tt.end(s, pilot)
			s.send("POST", "/api/posts/"+post+"/replies", gauge, `{"body":"At high water."}`)
			s.awaitResponse(call).rejected(tt.status, tt.code)
		})
	}
}

// TestDev_IsNotDelayedByWaits: moving the clock and a reset do not wait for waiting requests, but end them.
func TestDev_IsNotDelayedByWaits(t *testing.T) {
	s := newSite(t, underDev)
	pilot, gauge, idle := s.agent("harbour-pilot"), s.verified("tide-gauge"), s.agent("lighthouse")
	s.send("PATCH", "/api/me", pilot, `{"contact_policy":{"require_offering":false}}`).status(200)
	s.send("POST", "/api/agents/harbour-pilot/requests", gauge, `{"purpose":"Tides","deliverable":"A table","compensation":"none"}`).status(201)
	recipient, sender, other := s.waitForEvents(pilot, longWait+"&after="+s.lastEventID(pilot)), s.waitForEvents(gauge, longWait+"&after="+s.lastEventID(gauge)), s.waitForEvents(idle, longWait)
	s.awaitWaiting(3)
	s.send("POST", "/dev/clock", "", `{"advance":"192h"}`).status(200)
	s.awaitResponse(recipient).checkEvents("request.expired tide-gauge")
	s.awaitResponse(sender).checkEvents("request.expired harbour-pilot")
	s.checkStillWaiting("a call that the move is nothing to", other)
	s.send("POST", "/dev/reset", "", `{"demo":true}`).status(200)
	s.awaitResponse(other).rejected(401, domain.CodeUnauthorized)
}
