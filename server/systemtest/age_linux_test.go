package systemtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// The service under overload, and after a simulated year.

// loadResult counts useful responses, and rejections for overload.
type loadResult struct{ served, tooLate, rejected atomic.Int64 }

// usefulWithin is the time within which a response is useful.
const usefulWithin = 5 * time.Second

// rate is the number of responses in a second of wall time, and in a second of the processor time of the service: the
// clients use the same processors.
type rate struct{ wall, processor float64 }

// run sends requests over n connections for a time, each again after its response.
func (c *loadResult) run(p *process, n int, within time.Duration, request func(caller, call int) string) rate {
	p.Helper()
	at := strings.TrimPrefix(p.base, "http://")
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			p.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	for _, conn := range conns { // each connection is accepted before the measurement
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			p.Fatal(err)
		}
	}
	readers := make([]*bufio.Reader, n)
	for i, conn := range conns {
		readers[i] = bufio.NewReader(conn)
		a, err := http.ReadResponse(readers[i], nil)
		if err != nil {
			p.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
	}
	var calling sync.WaitGroup
	worked, begun := p.processor(), time.Now()
	for i, conn := range conns {
		calling.Go(func() {
			_ = conn.SetDeadline(begun.Add(within + patience))
			for call := 0; call == 0 || time.Since(begun) < within; call++ {
				sent := time.Now()
				_, err := io.WriteString(conn, request(i, call))
				if err == nil {
					err = c.addResponse(readers[i], sent)
				}
				if err != nil {
					p.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	calling.Wait()
	served := float64(c.served.Load())
	return rate{served / time.Since(begun).Seconds(), served / (p.processor() - worked).Seconds()}
}

// addResponse reads a response: a useful one, or a rejection with Retry-After.
func (c *loadResult) addResponse(r *bufio.Reader, sent time.Time) error {
	a, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return err
	case a.StatusCode < 300 && time.Since(sent) < usefulWithin:
		c.served.Add(1)
	case a.StatusCode < 300:
		c.tooLate.Add(1)
	case a.StatusCode == 503 && a.Header.Get("Retry-After") != "" && isError(body, "unavailable"):
		c.rejected.Add(1)
	default:
		return fmt.Errorf("%d %v %.300s", a.StatusCode, a.Header, body)
	}
	return nil
}

// isError checks that an error has the form of all errors.
func isError(body []byte, code string) bool {
	var response struct {
		Error struct {
			Code string `json:"code"`
			EN   string `json:"message_en"`
			ZH   string `json:"message_zh"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &response) == nil && response.Error.Code == code && response.Error.EN != "" && response.Error.ZH != ""
}

// overloadKind is a kind of request that many clients send at once.
type overloadKind struct {
	name          string
	clientsAtPeak int // clients that keep the service fully busy
	request       func(caller, call int) string
}

// TestOverload_KeepsServing measures goodput with many times the clients that the service can handle at once: at
// least four fifths of the best, per second of its processor time. Rejected clients get a Retry-After. Wall time is
// measured too, because a service that only waits uses no processor time; the clients take their share of it.
func TestOverload_KeepsServing(t *testing.T) {
	if !proof.Asked() {
		t.Skip("measures what the machine can do: set PROOF")
	}
	db := newDB(t)
	p := spawn(t, db)
	author := p.registerAgent("tide-reader", "tide@example.org")
	rounds := proof.Rounds(1, 7, 31)
	for _, o := range []overloadKind{
		{"reads", 64, func(caller, call int) string {
			return fmt.Sprintf("GET /api/agents?limit=5&q=tide%d HTTP/1.1\r\nHost: x\r\n\r\n", caller*1_000_000+call) // none is in the cache
		}},
		{"writes", 256, func(int, int) string { return postRequest(author) }},
	} {
		new(loadResult).run(p, o.clientsAtPeak, time.Second, o.request) // warms up
		var ofProcessor, ofWall []float64
		for range rounds { // alternating, and then the median: the speed of the machine varies
			var few, many loadResult
			best, now := few.run(p, o.clientsAtPeak, time.Second, o.request), many.run(p, 4*o.clientsAtPeak, time.Second, o.request)
			ofProcessor, ofWall = append(ofProcessor, now.processor/best.processor), append(ofWall, now.wall/best.wall)
			t.Logf("%s: %.0f a second at best, %.0f with 4 times the clients; %d too late, %d turned away", o.name, best, now, many.tooLate.Load(), many.rejected.Load())
		}
		proof.Figure(t, "goodput percent of "+o.name, int(100*min(1, median(ofProcessor))))
		proof.Figure(t, "wall percent of "+o.name, int(100*min(1, median(ofWall))))
	}
	p.wantOverloadRejected(db, author)
	p.stopCleanly()
}

// median returns the median.
func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

// TestDurability_WritesPerSecond measures durable writes per second, sequential and concurrent, and the same with
// --durability normal, which does not wait for the disk.
func TestDurability_WritesPerSecond(t *testing.T) {
	if !proof.Asked() {
		t.Skip("measures what the disk can do: set PROOF")
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &disk); err != nil {
		t.Fatal(err)
	}
	if disk.Type == unix.TMPFS_MAGIC {
		t.Skip("needs a disk, not memory: set TMPDIR")
	}
	rates := map[string][]float64{}
	var turn []func()
	for _, durability := range []string{"full", "normal"} {
		p := spawn(t, newDB(t), "--durability="+durability)
		defer p.stopCleanly()
		author := p.registerAgent("tide-reader", "tide@example.org")
		for what, clients := range map[string]int{"commits": 1, "writes": 256} {
			figure := durability + " " + what + " a second"
			turn = append(turn, func() {
				r := new(loadResult).run(p, clients, 2*time.Second, func(int, int) string { return postRequest(author) })
				rates[figure] = append(rates[figure], r.wall)
			})
		}
	}
	for range 3 { // alternating, and then the median: the speed of a disk varies
		for _, measure := range turn {
			measure()
		}
	}
	for figure, all := range rates {
		proof.Figure(t, figure, int(median(all)))
	}
}

var postCount atomic.Int64 // makes the text of each post unique

func postRequest(author agent) string {
	post := fmt.Sprintf(`{"kind":"announce","title":"Tides %d","body":"Hourly levels."}`, postCount.Add(1))
	return fmt.Sprintf("POST /api/posts HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", author.auth, len(post), post)
}

// wantOverloadRejected locks the database, as a slow disk does: some of the writes wait and succeed, the others are rejected with
// Retry-After.
func (p *process) wantOverloadRejected(db string, author agent) {
	p.Helper()
	release := lockForWriting(p, db)
	const writers = 500
	var c loadResult
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(p, writers, 0, func(int, int) string { return postRequest(author) })
	}()
	waitFor(p, "writers are turned away", func() bool { return c.rejected.Load() > 0 })
	if status, text := p.call("GET", "/api/agents/tide-reader", ""); status != 200 {
		p.Errorf("who reads is turned away too: %d %s", status, text)
	}
	release()
	<-ended
	if shed, served := c.rejected.Load(), c.served.Load(); shed == 0 || served == 0 || shed+served+c.tooLate.Load() != writers {
		p.Errorf("%d are turned away, %d served, %d late", shed, served, c.tooLate.Load())
	}
	proof.Figure(p, "turned away", int(c.rejected.Load()))
}

// agingLoad is a directory that agents use in every way during a simulated year.
type agingLoad struct {
	*process
	client    *http.Client
	load      sync.RWMutex // locked while no client may send requests
	requests  atomic.Int64 // with success; rejections do not count
	failures  atomic.Int64
	kinds     []string // of requests
	mu        sync.Mutex
	succeeded map[string]bool // kinds since the last waitAllKinds
}

// startAging starts callbook dev, whose clock can be moved, with a setting of Go's garbage collector.
func startAging(t testing.TB, db, collector string) *agingLoad {
	t.Helper()
	p := spawnByShell(t, "export "+collector, nil, "dev", "--addr=127.0.0.1:0", "--empty", "--log-level=error", "--db="+db)
	waitFor(t, "it prints its address", func() bool { return printedAddress.MatchString(p.out.String()) })
	p.base = "http://" + printedAddress.FindStringSubmatch(p.out.String())[1]
	return &agingLoad{
		process: p, client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		kinds: operationKinds(t), succeeded: map[string]bool{},
	}
}

// operationKinds returns the operations of the API, the pages, the feed, and MCP.
func operationKinds(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(root + "testdata/openapi.json")
	var document struct{ Paths map[string]map[string]any }
	if err = errors.Join(err, json.Unmarshal(text, &document)); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"GET /", "GET /agents", "GET /agents/{handle}", "GET /calls", "GET /calls/{id}", "GET /calls.atom", "POST /mcp"}
	for path, methods := range document.Paths {
		for method := range methods {
			kinds = append(kinds, strings.ToUpper(method)+" "+path)
		}
	}
	return kinds
}

var (
	idInPath     = regexp.MustCompile(`/[a-z]{3}_\w+`)
	handleInPath = regexp.MustCompile(`/agents/[\w-]+`)
)

// operationKind returns the kind of a request.
func operationKind(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	path = idInPath.ReplaceAllString(path, "/{id}")
	return method + " " + handleInPath.ReplaceAllString(path, "/agents/{handle}")
}

// missingKinds returns the kinds of which no request has succeeded recently.
func (a *agingLoad) missingKinds() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.kinds), func(kind string) bool { return a.succeeded[kind] })
}

// waitAllKinds waits until requests of every kind have succeeded since its last call.
func (a *agingLoad) waitAllKinds() {
	a.Helper()
	waitFor(a, fmt.Sprintf("these are served: %q", a.missingKinds()), func() bool { return len(a.missingKinds()) == 0 })
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.succeeded)
}

// send sends a request of the load, and returns its status and JSON.
func (a *agingLoad) send(method, path, auth, body string) (status int, object map[string]any) {
	var headers []string
	if auth != "" {
		headers = append(headers, "Authorization: Bearer "+auth)
	}
	status, text, err := exchange(a.client, method, a.base+path, body, headers...)
	switch {
	case err != nil || status >= 500:
		a.failures.Add(1)
		a.Errorf("%s %s: %d %v %.300s", method, path, status, err, text)
	case status < 300:
		a.requests.Add(1)
		a.mu.Lock()
		a.succeeded[operationKind(method, path)] = true
		a.mu.Unlock()
	}
	_ = json.Unmarshal([]byte(text), &object) // pages have none
	return status, object
}

// create sends a request that creates a record, and returns its id.
func (a *agingLoad) create(path, auth, body, what string) (id string) {
	_, response := a.send("POST", path, auth, body)
	made, _ := response[what].(map[string]any)
	id, _ = made["id"].(string)
	return id
}

// loadAgent is one agent of the load.
type loadAgent struct{ handle, key, post string }

// sendForKey sends a request whose response has a new key of the agent.
func (a *agingLoad) sendForKey(d *loadAgent, path, auth, body string) {
	status, response := a.send("POST", path, auth, body)
	if key, ok := response["api_key"].(string); ok {
		d.key = key
	} else if d.key == "" {
		a.Errorf("%s has no key: %d %v", d.handle, status, response)
	}
}

// register registers an agent. Those of a worker come and go, so that the directory does not grow.
func (a *agingLoad) register(handle string) *loadAgent {
	d := &loadAgent{handle: handle}
	a.sendForKey(d, "/api/agents", "", registrationJSON(handle, mailboxOf(handle)))
	return d
}

// mailboxOf returns the mailbox of an agent of the load.
func mailboxOf(handle string) string { return handle + "@example.org" }

// deleteAgent deletes an agent.
func (a *agingLoad) deleteAgent(d *loadAgent) {
	if status, _ := a.send("DELETE", "/api/me?confirm="+d.handle, d.key, ""); status != 204 {
		a.Errorf("%s cannot leave: %d", d.handle, status)
	}
}

// verify verifies the mailbox of an agent, and recovers its key, with the mailed codes.
func (a *agingLoad) verify(d *loadAgent) {
	a.send("POST", "/api/me/verify", d.key, "")
	a.send("POST", "/api/me/verify/confirm", d.key, fmt.Sprintf(`{"code":%q}`, a.code(d)))
	a.send("POST", "/api/recover", "", fmt.Sprintf(`{"handle":%q}`, d.handle))
	a.sendForKey(d, "/api/recover/confirm", "", fmt.Sprintf(`{"handle":%q,"code":%q}`, d.handle, a.code(d)))
	a.send("PATCH", "/api/me", d.key, `{"contact_policy":{"require_offering":false,"weekly_cap":50}}`)
}

// code returns the code in the newest mail to an agent.
func (a *agingLoad) code(d *loadAgent) string {
	_, mails := a.send("GET", "/dev/mail", "", "")
	list, _ := mails["mail"].([]any)
	for _, m := range list {
		if m := m.(map[string]any); m["to"] == mailboxOf(d.handle) && m["code"] != nil {
			return m["code"].(string)
		}
	}
	return ""
}

// actsPerTurn is the number of actions of an agent in its turn.
const actsPerTurn = 22

// run sends requests of every kind until on returns false.
func (a *agingLoad) run(worker int, on func() bool) {
	const staying = 8
	var all []*loadAgent
	for i := 0; on(); i++ {
		a.load.RLock()
		if i%(4*actsPerTurn) == 0 || len(all) < 2 {
			all = append(all, a.register(fmt.Sprintf("dweller-%d-%d", worker, i)))
			a.verify(all[len(all)-1])
		}
		if len(all) > staying {
			a.deleteAgent(all[0])
			all = all[1:]
		}
		turn := worker + i/actsPerTurn // workers do not all do the same at once
		d, away := turn%len(all), 1+turn/len(all)%max(1, len(all)-1)
		a.act(all[d], all[(d+away)%len(all)], turn, i%actsPerTurn)
		a.load.RUnlock()
	}
}

// act performs one action of an agent's turn, some with another agent, which responds at once. Pending records
// expire when the clock moves.
func (a *agingLoad) act(d, other *loadAgent, turn, act int) {
	switch act {
	case 0:
		a.send("PUT", "/api/me/offerings", d.key, `{"offerings":[{"title":"Tide table","deliverable":"A table","mode":"free"}]}`)
	case 1:
		d.post = a.create("/api/posts", d.key, fmt.Sprintf(`{"kind":"seeking","title":"Tides of 港口 %d","body":"Hourly levels.","tags":["tides"]}`, postCount.Add(1)), "post")
	case 2:
		reply := a.create("/api/posts/"+d.post+"/replies", other.key, `{"body":"I have them."}`, "reply")
		a.send("POST", "/api/replies/"+reply+"/report", "", "")
		if turn%4 == 0 {
			a.send("DELETE", "/api/replies/"+reply, other.key, "")
		}
	case 3:
		a.send("POST", "/api/posts/"+d.post+"/report", "", `{"reason":"R"}`)
		a.send("POST", "/api/agents/"+other.handle+"/report", "", `{"reason":"R"}`)
	case 4:
		id := a.create("/api/collabs", d.key, fmt.Sprintf(`{"partner":%q,"summary":"Tide tables."}`, other.handle), "collab")
		a.send("POST", "/api/collabs/"+id+"/"+[]string{"confirm", "decline"}[turn%2], other.key, "")
	case 5:
		id := a.create("/api/agents/"+other.handle+"/requests", d.key, `{"purpose":"Tides","deliverable":"A table","compensation":"none"}`, "request")
		a.send("GET", "/api/requests/"+id, other.key, "")
		response, by := []string{"accept", "withdraw", "decline", "report"}[turn%4], other
		if response == "withdraw" {
			by = d
		}
		a.send("POST", "/api/requests/"+id+"/"+response, by.key, "{}")
	case 6:
		a.sendForKey(d, "/api/me/rotate-key", d.key, "")
	case 7:
		a.send("PATCH", "/api/me", d.key, fmt.Sprintf(`{"tagline":"Berth %d"}`, turn))
	case 8:
		a.send("POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_agents","arguments":{"q":"tide"}}}`)
	case 9:
		a.send("POST", "/api/me/owner-claim", d.key, fmt.Sprintf(`{"owner_email":"owner-of-%s@example.org"}`, d.handle))
	case 10:
		a.send("POST", "/api/me/links", d.key, fmt.Sprintf(`{"url":"%s/agents/%s"}`, a.base, d.handle))
	case 11:
		a.deleteAgent(a.register(fmt.Sprintf("%s-%d", d.handle, turn)))
	case 12:
		a.send("PUT", "/api/me/watches", d.key, `{"watches":[{"kind":"seeking","q":"tides"}]}`)
		if _, inbox := a.send("GET", "/api/me/inbox", d.key, ""); inbox != nil {
			a.send("POST", "/api/me/inbox/seen", d.key, fmt.Sprintf(`{"next":%q}`, inbox["next"]))
		}
	case 13:
		a.send("PUT", "/api/me/wake", d.key, `{"url":"https://harbour.example.org/wake"}`)
		if turn%2 == 0 {
			a.send("DELETE", "/api/me/wake", d.key, "")
		}
	case actsPerTurn - 1:
		if turn%2 == 0 {
			a.send("DELETE", "/api/posts/"+d.post, d.key, "")
		}
	default:
		reads := []string{
			"/api", "/api/stats", "/api/agents?q=tide", "/api/agents/" + other.handle, "/api/posts?open=true", "/api/posts/" + d.post, "/api/collabs",
			"/api/me", "/api/me/export", "/api/me/requests", "/api/me/replies", "/api/me/collabs", "/api/me/events",
			"/api/me/watches", "/api/me/wake", "/api/facets",
			"/", "/agents", "/agents/" + other.handle, "/calls", "/calls/" + d.post, "/calls.atom",
		}
		a.send("GET", reads[(7*turn+act)%len(reads)], d.key, "") // of which a turn has seven
	}
}

// advanceClock moves the clock.
func (a *agingLoad) advanceClock(by time.Duration) {
	a.Helper()
	a.object("POST", "/dev/clock", fmt.Sprintf(`{"advance":%q}`, by))
}

// resources holds the resources of the service without requests.
type resources struct{ megabytes, descriptors, goroutines int }

// measureIdle pauses the load, and measures once all connections are closed.
func (a *agingLoad) measureIdle() (r resources) {
	a.Helper()
	a.load.Lock()
	defer a.load.Unlock()
	a.client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	waitFor(a, "its connections are closed", func() bool {
		var sockets int
		sockets, r.descriptors = a.descriptors()
		return sockets <= 1 // the listener
	})
	r.megabytes = a.anonymousMB()
	return r
}

// countGoroutines ends the process and counts the goroutines in its dump, except runnable ones, which may be about to
// end.
func (a *agingLoad) countGoroutines() int {
	a.Helper()
	before := a.err.String()
	_ = a.command.Process.Signal(syscall.SIGQUIT)
	if status := a.stop(); status != 2 {
		a.Fatalf("status %d", status)
	}
	if before != "" {
		a.Errorf("failures are logged: %.2000s", before)
	}
	waiting := 0
	for _, state := range goroutineState.FindAllStringSubmatch(a.err.String(), -1) {
		if state[1] != "runnable" && state[1] != "running" {
			waiting++
		}
	}
	return waiting
}

// goroutineState matches the state of a goroutine in the dump that Go prints at SIGQUIT.
var goroutineState = regexp.MustCompile(`(?m)^goroutine \d+ (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[([^],]+)`)

// TestServe_LeaksNothingUnderLoad compares descriptors and goroutines after many requests of every kind with those
// after a tenth of them.
func TestServe_LeaksNothingUnderLoad(t *testing.T) {
	if !proof.Asked() {
		t.Skip("takes minutes, under the race detector: set PROOF")
	}
	n := proof.Rounds(0, 10_000, 1_000_000)
	before, after := resourcesAfter(t, n/10), resourcesAfter(t, n)
	percent := max(growthBeyondThree(before.descriptors, after.descriptors), growthBeyondThree(before.goroutines, after.goroutines))
	if t.Logf("%+v, then %+v", before, after); percent > 5 {
		t.Errorf("it grows by %d percent", percent)
	}
	proof.Figure(t, "growth percent", percent)
}

// growthBeyondThree returns by how many percent the descriptors or goroutines have increased. There are some twenty, and the
// store opens readers on demand, so up to three more count as none.
func growthBeyondThree(before, after int) int {
	if after-before <= 3 {
		return 0
	}
	return growth(before, after)
}

// growth returns the growth in percent; 0 for less.
func growth(before, after int) int { return max(0, 100*(after-before)/before) }

// resourcesAfter returns the resources at rest after n requests: two clients perform all actions while more of them only read.
func resourcesAfter(t testing.TB, n int) (r resources) {
	t.Helper()
	a := startAging(t, newDB(t), "GOGC=100")
	on := func() bool { // few requests do not include every kind
		done := int(a.requests.Load())
		return !t.Failed() && (done < n || done < 50*n && len(a.missingKinds()) > 0)
	}
	var looks atomic.Int64 // successful reads of public pages
	var working sync.WaitGroup
	for caller := range 8 {
		working.Go(func() {
			if caller < 2 {
				pace := time.NewTicker(20 * time.Millisecond)
				defer pace.Stop()
				a.run(caller, func() bool { <-pace.C; return on() })
				return
			}
			shown := []string{"/", "/agents", "/calls", "/calls.atom", "/api", "/api/agents?q=tide", "/api/agents?view=brief", "/api/posts?open=true", "/api/stats", "/skill.md"}
			for i := caller; on(); i++ {
				if status, _ := a.send("GET", shown[i%len(shown)], "", ""); status < 300 {
					looks.Add(1)
				}
			}
		})
	}
	working.Wait()
	if never := a.missingKinds(); len(never) > 0 {
		t.Errorf("never served: %q", never)
	}
	r = a.measureIdle()
	r.goroutines = a.countGoroutines()
	proof.Figure(t, "requests", int(a.requests.Load()))
	proof.Figure(t, "varied requests", int(a.requests.Load()-looks.Load()))
	proof.Figure(t, "failures", int(a.failures.Load()))
	return r
}

// Bounds of the write-ahead log, which is checkpointed long before, and of the file, which keeps what a year of
// requests leaves behind.
const (
	maxLog  = 32 << 20
	maxFile = 256 << 20
)

// TestAging_YearOfUse simulates a year in which agents send requests of every kind, as callbook dev with GOGC=10.
// No request fails, requests of every kind succeed in each quarter, and memory stops growing.
func TestAging_YearOfUse(t *testing.T) {
	t.Parallel()
	if !proof.Asked() {
		t.Skip("measures what the service holds after a while: set PROOF")
	}
	const collector = "GOGC=10" // little garbage, so that memory is what the service holds
	fresh := startAging(t, newDB(t), collector)
	fresh.measureIdle()
	bornWith := fresh.countGoroutines()
	db := newDB(t)
	a := startAging(t, db, collector)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	for worker := range 4 {
		working.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			a.run(worker, func() bool { <-pace.C; return ctx.Err() == nil })
		})
	}
	const months = 12
	steps := proof.Rounds(0, 3, 300) // of a month
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	var samples []resources
	var log, file int64
	for month := range months {
		for range steps {
			<-pace.C
			if info, err := os.Stat(db + "-wal"); err == nil { // before what is due folds it in
				log = max(log, info.Size())
			}
			if info, err := os.Stat(db); err == nil {
				file = max(file, info.Size())
			}
			a.advanceClock(30 * domain.Day / time.Duration(steps))
		}
		if month%3 == 2 {
			a.waitAllKinds()
		}
		samples = append(samples, a.measureIdle())
	}
	a.advanceClock(2 * domain.Day) // and the file is compacted
	stop()
	working.Wait()
	a.measureIdle()
	a.checkGrowth(samples[months/3:])
	const startedLater = 12 // goroutines of the first request that needs them
	if now := a.countGoroutines(); now > bornWith+startedLater {
		t.Errorf("%d goroutines at rest, %d at the start:\n%s", now, bornWith, a.err.String())
	}
	if log > maxLog || file > maxFile {
		t.Errorf("the log has %d bytes, the file %d", log, file)
	}
	proof.Figure(t, "requests", int(a.requests.Load()))
	proof.Figure(t, "failures", int(a.failures.Load()))
	proof.Figure(t, "kinds", len(a.kinds))
	proof.Figure(t, "MB of log", int((log+1<<20-1)>>20))
	proof.Figure(t, "MB of file", int((file+1<<20-1)>>20))
}

// maxMemory is the memory of a service under load, in megabytes, that the manual states.
const maxMemory = 100

// checkGrowth compares the first half of some samples with the second. Caches take long to
// fill, so that the memory of a short run is compared with maxMemory only.
func (a *agingLoad) checkGrowth(samples []resources) {
	a.Helper()
	a.Logf("at rest: %+v", samples)
	var megabytes, descriptors []int
	for _, r := range samples {
		megabytes, descriptors = append(megabytes, r.megabytes), append(descriptors, r.descriptors)
	}
	halves := func(all []int) (before, after int) { return median(all[:len(all)/2]), median(all[len(all)/2:]) }
	if percent := growth(halves(descriptors)); percent > proof.Rounds(0, 10, 5) { // connections for reads are opened on demand
		a.Errorf("descriptors grow by %d percent", percent)
	}
	most := slices.Max(megabytes)
	if most > maxMemory {
		a.Errorf("%d MB at rest", most)
	}
	proof.Figure(a, "MB at rest", most)
	proof.Figure(a, "growth percent", growth(halves(megabytes)))
	proof.Figure(a, "growth of descriptors", growth(halves(descriptors)))
}
