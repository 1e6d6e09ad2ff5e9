package wake

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/x509"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"callbook/server/linkcheck"
	"callbook/server/webhook"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// directory is a real directory whose agents are to be woken, with a clock that a test moves, and a receiver.
type directory struct {
	testing.TB
	*store.Store
	worker  *Worker
	options linkcheck.Options
	log     strings.Builder
	speaker domain.Caller // who makes events for others
	posts   sync.Map      // ids of the agents' posts by handle

	mu       sync.Mutex
	now      time.Time
	handle   http.HandlerFunc // of the receiver
	received []string         // handles
	dialed   []string
	arrived  chan string
	held     chan string // addresses that do not respond
}

func (d *directory) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *directory) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *directory) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// newDirectory opens a directory. Connections lead to the receiver, by TLS if the port is 443, but those to 127.1.0.0/16:
// there nobody ever responds.
func newDirectory(t testing.TB, loopback bool) *directory {
	t.Helper()
	d := &directory{TB: t, now: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), arrived: make(chan string, 10_000), held: make(chan string, 10_000)}
	d.handle = func(http.ResponseWriter, *http.Request) {}
	receive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.handle(w, r) })
	plain, secure := httptest.NewServer(receive), httptest.NewTLSServer(receive)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	d.options = linkcheck.Options{
		Loopback: loopback, Roots: x509.NewCertPool(), UserAgent: "Callbook/test", Resolver: names{"example.com": {"93.184.216.34"}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			d.mu.Lock()
			d.dialed = append(d.dialed, address)
			d.mu.Unlock()
			switch {
			case strings.HasPrefix(address, "127.1."):
				d.held <- address
				client, server := net.Pipe()
				t.Cleanup(func() { _ = server.Close() })
				return client, nil
			case strings.HasSuffix(address, ":443"):
				return (&net.Dialer{}).DialContext(ctx, network, secure.Listener.Addr().String())
			}
			return (&net.Dialer{}).DialContext(ctx, network, plain.Listener.Addr().String())
		},
	}
	d.options.Roots.AddCert(secure.Certificate())
	st, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "callbook.db"), Clock: d.clock, Quotas: &domain.Quotas{}, Normal: true, LoopbackLinks: loopback,
		ReadTimeout: 10 * time.Second, QueryTimeout: 10 * time.Second,
	})
	d.ok(err)
	t.Cleanup(func() { d.ok(st.Close()) })
	d.Store = st
	d.worker = New(st, d.options, zerolog.New(zerolog.SyncWriter(&d.log)).Level(zerolog.DebugLevel), metrics.NewSet())
	st.Watch(d.worker.Notify)
	d.speaker = d.join("speaker")
	return d
}

// names are the addresses of names.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
	for _, addr := range n[host] {
		addrs = append(addrs, netip.MustParseAddr(addr))
	}
	return addrs, nil
}

// join registers an agent of level 1.
func (d *directory) join(handle string) domain.Caller {
	d.Helper()
	ctx := context.Background()
	registered, _, err := d.Register(ctx, domain.Registration{
		Handle: handle, Name: handle, Owner: "Mei Lin", Mailbox: handle + "@agents.example.org", AcceptRules: true,
		Profile: domain.Profile{DescriptionEN: "Does things."},
	}, domain.IdempotencyKey{})
	d.ok(err)
	d.ok(d.Verify(ctx, handle))
	caller, err := d.Authenticate(ctx, registered.Key)
	d.ok(err)
	return caller
}

// agent registers an agent that is woken at a URL, and returns its secret.
func (d *directory) agent(handle, url string) (secret string) {
	d.Helper()
	ctx, caller := context.Background(), d.join(handle)
	post, _, err := d.CreatePost(ctx, caller, domain.PostDraft{Kind: "seeking", Title: "Tides", Body: "Levels wanted."}, domain.IdempotencyKey{})
	d.ok(err)
	d.posts.Store(handle, post.ID)
	_, key, err := d.SetWake(ctx, caller, url)
	d.ok(err)
	return webhook.Key(key).Secret()
}

// event makes an event for an agent: a reply.
func (d *directory) event(handle string) {
	d.Helper()
	post, _ := d.posts.Load(handle)
	_, _, err := d.CreateReply(context.Background(), d.speaker, post.(string), domain.ReplyDraft{Body: "Here they are."}, domain.IdempotencyKey{})
	d.ok(err)
}

// A request is signed for the secret of its agent, and has no text but its handle.
func TestWorker_SignsRequests(t *testing.T) {
	d := newDirectory(t, false)
	secret := d.agent("harbour-pilot", "https://example.com/wake?token=hunter2")
	d.handle = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		d.ok(err)
		hook, err := standardwebhooks.NewWebhook(secret)
		d.ok(err)
		if err := hook.Verify(body, r.Header); err != nil {
			t.Errorf("verify: %v", err)
		}
		if want := `{"type":"wake","handle":"harbour-pilot","pending":2}`; string(body) != want || r.Method != "POST" || r.RequestURI != "/wake?token=hunter2" ||
			r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "Callbook/test" {
			t.Errorf("%s %s: %v\n%s", r.Method, r.RequestURI, r.Header, body)
		}
		d.received = append(d.received, r.Header.Get("Webhook-Id"))
		w.WriteHeader(http.StatusNoContent)
	}
	d.event("harbour-pilot")
	d.ok(d.worker.Deliver(t.Context()))
	if len(d.received) != 1 || d.worker.counts[domain.WakeDelivered].Get() != 1 {
		t.Errorf("received %q", d.received)
	}
	for _, secret := range []string{"example.com", "hunter2", "93.184", secret} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log has %s: %s", secret, d.log.String())
		}
	}
}

func TestWorker_ResponsesThatFail(t *testing.T) {
	d := newDirectory(t, false)
	for status, want := range map[int]domain.WakeOutcome{
		200: domain.WakeDelivered, 204: domain.WakeDelivered, 299: domain.WakeDelivered, 301: domain.WakeFailed, 307: domain.WakeFailed, 404: domain.WakeFailed, 500: domain.WakeFailed,
	} {
		d.dialed = nil
		d.handle = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://example.com/elsewhere")
			w.WriteHeader(status)
		}
		if got, reason := d.post("https://example.com/"); got != want || len(d.dialed) != 1 {
			t.Errorf("%d: %v (%s), want %v; dialed %v", status, got, reason, want, d.dialed)
		}
	}
	d.handle = func(w http.ResponseWriter, _ *http.Request) { // a body without an end
		w.WriteHeader(http.StatusOK)
		for w.(http.Flusher).Flush(); ; {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	if got, reason := d.post("https://example.com/"); got != domain.WakeDelivered {
		t.Errorf("a body without an end: %v (%s)", got, reason)
	}
}

// post makes one request.
func (d *directory) post(address string) (domain.WakeOutcome, string) {
	due := domain.DueWake{Handle: "harbour-pilot", URL: address, MessageID: "wake_1", Secret: make([]byte, 32)}
	s, _ := d.worker.acquire(due)
	defer d.worker.release(s)
	return d.worker.post(context.WithValue(context.Background(), slotKey{}, s), due)
}

// TestWorker_InnerAddresses: no connection is made, whatever a name resolves to when it is used. Package linkcheck tests all
// addresses.
func TestWorker_InnerAddresses(t *testing.T) {
	d := newDirectory(t, false)
	for _, address := range []string{"http://example.com/", "https://example.com:8443/", "http://127.0.0.1:9000/", "https://127.0.0.1/"} {
		if got, _ := d.post(address); got != domain.WakeFailed || len(d.dialed) != 0 {
			t.Errorf("%s: %v, dialed %v", address, got, d.dialed)
		}
	}
	if got, reason := d.post("https://example.com/"); got != domain.WakeDelivered || len(d.dialed) != 1 {
		t.Fatalf("before: %v, %s", got, reason)
	}
	d.options.Resolver.(names)["example.com"] = []string{"93.184.216.34", "10.0.0.1"} // the name turns
	if got, _ := d.post("https://example.com/"); got != domain.WakeFailed || len(d.dialed) != 1 {
		t.Errorf("%v, dialed %v", got, d.dialed)
	}
}

func TestWorker_Domains(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/": "example.com", "https://a.b.example.com/": "example.com", "https://a.example.co.uk/": "example.co.uk",
		"https://a.github.io/": "a.github.io", "http://127.0.0.1:9000/": "127.0.0.1", "http://localhost/": "localhost", "http://[::1]/": "::1",
	} {
		if got := domainOf(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Neither one host nor many take the slots of others, and every slot is returned.
func TestWorker_Slots(t *testing.T) {
	d := newDirectory(t, false)
	var held []*slot
	take := func(url string, proven bool) bool {
		s, found := d.worker.acquire(domain.DueWake{URL: url, Proven: proven})
		if held = append(held, s); !found {
			d.worker.release(s)
			held = held[:len(held)-1]
		}
		return found
	}
	for n := range maxUnproven {
		if found := take(fmt.Sprintf("https://host-%d.example.com/", n), false); found != (n < maxPerDomain/2) {
			t.Fatalf("request %d to one domain: %v", n, found)
		}
	}
	for n := range maxUnproven - maxPerDomain/2 {
		take(fmt.Sprintf("https://pit-%d.example/", n), false)
	}
	if n, provenOnly := d.worker.free(); n != maxRequests-maxUnproven || !provenOnly {
		t.Errorf("%d slots, for proven ones %v", n, provenOnly)
	}
	if !take("https://example.com/", true) {
		t.Error("a proven one has no slot on the domain")
	}
	for _, s := range slices.Clone(held) {
		d.worker.release(s)
	}
	if n, provenOnly := d.worker.free(); n != maxUnproven || provenOnly || len(d.worker.domains) != 0 || d.worker.running != 0 {
		t.Errorf("%d slots, for proven ones %v, after all were returned: %v", n, provenOnly, d.worker.domains)
	}
}

// TestWorker_TriesDelayedRequestsSoon: one that found no slot is due again after its delay, not after a lease.
func TestWorker_TriesDelayedRequestsSoon(t *testing.T) {
	d := newDirectory(t, false)
	d.agent("harbour-pilot", "https://example.com/")
	d.event("harbour-pilot")
	var held []*slot
	for range maxPerDomain / 2 {
		s, _ := d.worker.acquire(domain.DueWake{URL: "https://example.com/"})
		held = append(held, s)
	}
	d.ok(d.worker.Deliver(t.Context()))
	if next, err := d.NextWakeAt(t.Context()); err != nil || next != domain.TimeOf(d.now).Add(domain.WakeDelay(false)) || len(d.dialed) != 0 {
		t.Errorf("due again at %v, %v; dialed %q", next, err, d.dialed)
	}
	for _, s := range held {
		d.worker.release(s)
	}
	d.advance(domain.WakeDelay(false))
	d.ok(d.worker.Deliver(t.Context()))
	if n := d.worker.counts[domain.WakeDelivered].Get(); n != 1 || len(d.dialed) != 1 {
		t.Errorf("%d delivered, dialed %q", n, d.dialed)
	}
}

// TestWorker_SlowHostsDelayNoOthers has 1,000 URLs, of which half never respond, with an event each. Those that respond are
// woken meanwhile, and then one of them at once.
func TestWorker_SlowHostsDelayNoOthers(t *testing.T) {
	agents := proof.Rounds(200, 200, 1000)
	proof.Figure(t, "wake URLs", agents)
	for name, pit := range map[string]struct {
		url  func(n int) string
		held int // of them at once
	}{
		"one address":    {func(int) string { return "http://127.1.0.1/" }, maxPerDomain / 2},
		"many addresses": {func(n int) string { return fmt.Sprintf("http://127.1.%d.%d/", n/250, 1+n%250) }, maxUnproven},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, true)
			d.handle = func(_ http.ResponseWriter, r *http.Request) { d.arrived <- r.URL.Path[1:] }
			var group sync.WaitGroup
			for part := range 20 {
				group.Go(func() {
					for n := part; n < agents/2; n += 20 {
						d.agent(fmt.Sprintf("pit-%d", n), pit.url(n))
						handle := fmt.Sprintf("well-%d", n)
						d.agent(handle, fmt.Sprintf("http://127.2.%d.%d/%s", n/250, 1+n%250, handle))
						d.event(handle)
					}
				})
			}
			group.Wait()
			d.ok(d.worker.Deliver(t.Context()))
			d.woken(agents / 2)
			d.advance(domain.WakePause)
			for part := range 20 {
				group.Go(func() {
					for n := part; n < agents/2; n += 20 {
						d.event(fmt.Sprintf("pit-%d", n))
					}
				})
			}
			group.Wait()

			ctx, stop := context.WithCancel(t.Context())
			defer func() { stop(); group.Wait() }()
			group.Go(func() { d.worker.Run(ctx) })
			for range pit.held {
				<-d.held
			}
			d.advance(time.Millisecond) // the others are due for longer
			begin := time.Now()
			d.event("well-0")
			d.woken(1)
			took := time.Since(begin)
			proof.Figure(t, "ms until a healthy one is woken", int(took.Milliseconds()))
			if took > time.Second && !proof.RaceDetector() {
				t.Errorf("an agent was woken after %v", took)
			}
		})
	}
}

// woken waits until n agents were woken, each once.
func (d *directory) woken(n int) {
	d.Helper()
	seen := map[string]bool{}
	for range n {
		select {
		case handle := <-d.arrived:
			if seen[handle] {
				d.Errorf("%s was woken twice", handle)
			}
			seen[handle] = true
		case <-time.After(20 * time.Second):
			d.Fatalf("%d of %d agents were woken", len(seen), n)
		}
	}
	if len(d.arrived) > 0 {
		d.Errorf("%d more were woken", len(d.arrived))
	}
}
