package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/x509"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"callbook/store"
	"callbook/store/domain"
)

// directory is a real directory whose agents are to be woken, and a receiver.
type directory struct {
	testing.TB
	*store.Store
	worker  *WakeWorker
	options Options
	log     strings.Builder
	speaker domain.Caller // who makes events for others
	posts   sync.Map      // ids of the agents' posts by handle

	mu       sync.Mutex
	handle   http.HandlerFunc // of the receiver
	received []string         // handles
	dialed   []string
}

func (d *directory) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// newDirectory opens a directory. Connections lead to the receiver, by TLS if the port is 443.
func newWakeDirectory(t testing.TB, loopback bool) *directory {
	t.Helper()
	d := &directory{TB: t}
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	d.handle = func(http.ResponseWriter, *http.Request) {}
	receive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.handle(w, r) })
	plain, secure := httptest.NewServer(receive), httptest.NewTLSServer(receive)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	d.options = Options{
		Loopback: loopback, Roots: x509.NewCertPool(), UserAgent: "Callbook/test", Resolver: nameTable{"example.com": {"93.184.216.34"}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			d.mu.Lock()
			d.dialed = append(d.dialed, address)
			d.mu.Unlock()
			if strings.HasSuffix(address, ":443") {
				return (&net.Dialer{}).DialContext(ctx, network, secure.Listener.Addr().String())
			}
			return (&net.Dialer{}).DialContext(ctx, network, plain.Listener.Addr().String())
		},
	}
	d.options.Roots.AddCert(secure.Certificate())
	st, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "callbook.db"), Clock: func() time.Time { return now }, Quotas: domain.Quotas{}, Normal: true, LoopbackLinks: loopback,
		ReadTimeout: 10 * time.Second, QueryTimeout: 10 * time.Second,
	})
	d.ok(err)
	t.Cleanup(func() { d.ok(st.Close()) })
	d.Store = st
	d.worker = NewWakeWorker(st, d.options, zerolog.New(zerolog.SyncWriter(&d.log)).Level(zerolog.DebugLevel), metrics.NewSet())
	st.OnCommit(d.worker.Notify)
	d.speaker = d.join("speaker")
	return d
}

// names are the addresses of names.
type nameTable map[string][]string

func (n nameTable) LookupNetIP(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
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
	d.ok(d.ActOnAgent(ctx, domain.OperatorVerify, handle))
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
	return WebhookKey(key).Secret()
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
	d := newWakeDirectory(t, false)
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
	if len(d.received) != 1 || d.worker.delivered.Get() != 1 {
		t.Errorf("received %q", d.received)
	}
	for _, secret := range []string{"example.com", "hunter2", "93.184", secret} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log has %s: %s", secret, d.log.String())
		}
	}
}

func TestWorker_ResponsesThatFail(t *testing.T) {
	d := newWakeDirectory(t, false)
	for status, want := range map[int]bool{200: true, 204: true, 299: true, 301: false, 307: false, 404: false, 500: false} {
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
	if got, reason := d.post("https://example.com/"); !got {
		t.Errorf("a body without an end: %v (%s)", got, reason)
	}
}

// post makes one request.
func (d *directory) post(address string) (delivered bool, result string) {
	due := domain.DueWake{Handle: "harbour-pilot", URL: address, MessageID: "wake_1", Secret: make([]byte, 32)}
	return d.worker.post(context.Background(), due)
}

// TestWorker_InnerAddresses: no connection is made, whatever a name resolves to when it is used. TestGuard_NeverDialsInternalAddress tests all
// addresses.
func TestWorker_InnerAddresses(t *testing.T) {
	d := newWakeDirectory(t, false)
	for _, address := range []string{"http://127.0.0.1:9000/", "https://127.0.0.1/", "https://example.com:8443/"} {
		if got, _ := d.post(address); got || len(d.dialed) != 0 {
			t.Errorf("%s: %v, dialed %v", address, got, d.dialed)
		}
	}
	if got, reason := d.post("https://example.com/"); !got || len(d.dialed) != 1 {
		t.Fatalf("before: %v, %s", got, reason)
	}
	d.options.Resolver.(nameTable)["example.com"] = []string{"93.184.216.34", "10.0.0.1"} // the name turns
	if got, _ := d.post("https://example.com/"); got || len(d.dialed) != 1 {
		t.Errorf("%v, dialed %v", got, d.dialed)
	}
}

// TestWorker_SendsMoreThanItSendsAtOnce checks that requests beyond maxRequests follow.
func TestWorker_SendsMoreThanItSendsAtOnce(t *testing.T) {
	const agents = maxWakes + 8
	d := newWakeDirectory(t, true)
	for n := range agents {
		handle := fmt.Sprintf("pilot-%d", n)
		d.agent(handle, "http://127.0.0.1/")
		d.event(handle)
	}

	d.ok(d.worker.Deliver(t.Context()))
	if n := d.worker.delivered.Get(); n != agents {
		t.Errorf("%d of %d requests are delivered", n, agents)
	}
}
