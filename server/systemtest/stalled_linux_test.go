package systemtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"callbook/testdata/proof"
)

// stalledServer is a site behind a proxy, with the memory limit of the unit, and clients that do not
// read their responses.
type stalledServer struct {
	*process
	at, figures string
	trusted     *x509.CertPool
	clients     sync.WaitGroup
	stop        chan struct{}
}

// startStalledServer serves a directory with that many agents.
func startStalledServer(t testing.TB, agents int) *stalledServer {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root, "server/cli/callbook.service"))
	limit := regexp.MustCompile(`GOMEMLIMIT=\w+`).Find(unit)
	most := regexp.MustCompile(`MemoryMax=(\d+)M`).FindSubmatch(unit)
	if err != nil || limit == nil || most == nil {
		t.Fatalf("the unit sets no limit: %v", err)
	}
	group := memoryGroup(t, string(most[1]))
	db := newDBWithAgents(t, agents)
	directory, certs := unreachableAuthority()
	begin := time.Now().Add(-time.Hour)
	made, trusted := newSelfSignedCert(t, begin, begin.Add(90*24*time.Hour), testDomain), x509.NewCertPool()
	trusted.AppendCertsFromPEM(made)
	writeFile(t, filepath.Join(filepath.Dir(db), certs, testDomain), made)
	s := newSockets(t)
	p := s.serve(t, group+"export "+string(limit), "--domain", testDomain, "--acme-directory", directory, "--http-addr=off", "--limits=off", "--log-level=info", "--trusted-proxy=127.0.0.1", "--db", db)
	b := &stalledServer{process: p, at: s.addr, figures: s.figures, trusted: trusted, stop: make(chan struct{})}
	t.Cleanup(func() { close(b.stop); b.clients.Wait() })
	waitFor(t, "the name is served", func() bool {
		_, err := tlsHandshake(s.addr, &tls.Config{ServerName: testDomain, RootCAs: trusted})
		return err == nil
	})
	return b
}

// memoryGroup makes a control group with a limit of memory, the page cache included: the system kills a process that
// needs more. It returns the command by which a shell enters the group, or "" if this machine has no control groups.
func memoryGroup(t testing.TB, megabytes string) (enter string) {
	t.Helper()
	size := []byte(megabytes + "M")
	for _, version := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		folder := fmt.Sprintf("%s/callbook-test-%d", version.root, os.Getpid())
		if _, err := os.Stat(filepath.Join(version.root, "cgroup.procs")); err != nil || os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(folder) })                                     // after the process has ended
		limit, err := os.OpenFile(filepath.Join(folder, version.limit), os.O_WRONLY, 0) // without creating one
		if err != nil {
			continue
		}
		_, err = limit.Write(size)
		if err := errors.Join(err, limit.Close()); err == nil {
			n, _ := strconv.Atoi(megabytes)
			proof.Figure(t, "MB of the group", n)
			return "echo $$ > " + folder + "/cgroup.procs; "
		}
	}
	t.Log("this machine has no groups with a memory limit")
	proof.Figure(t, "MB of the group", 0)
	return ""
}

// stallClient has a client send bytes over a new connection and then hold it for longer than the
// service waits for it to read, again and again.
func (b *stalledServer) stallClient(protocol string, sent []byte, then func(conn io.Reader)) {
	b.clients.Go(func() {
		for {
			conn, err := net.Dial("tcp", b.at)
			if err == nil {
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				encrypted := tls.Client(conn, &tls.Config{ServerName: testDomain, RootCAs: b.trusted, NextProtos: []string{protocol}})
				_, err = encrypted.Write(sent)
				b.clients.Go(func() { then(encrypted) })
			}
			select {
			case <-time.After(12 * time.Second):
			case <-b.stop:
			}
			if conn != nil {
				_ = conn.Close()
			}
			select {
			case <-b.stop:
				return
			default:
			}
			if err != nil && b.Context().Err() == nil {
				b.Logf("a stalled client: %v", err) // it was over a limit
			}
		}
	})
}

// largePagePath returns a path of which each number has another response of 200 KB.
func largePagePath(n int) string {
	return fmt.Sprintf("/api/agents?limit=%d&offset=%d", 100-n%10, n/10)
}

// http2Requests returns the bytes of an HTTP/2 client with a window of 0 and that many requests.
func http2Requests(t testing.TB, n, first int, address string) []byte {
	t.Helper()
	sent := bytes.NewBufferString(http2.ClientPreface)
	framer := http2.NewFramer(sent, nil)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	head := &bytes.Buffer{}
	encoder := hpack.NewEncoder(head)
	for i := range n {
		head.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", testDomain}, {":path", largePagePath(first + i)}, {"x-forwarded-for", address}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	return sent.Bytes()
}

// inFlight returns the bytes of response bodies that the service counts.
func (b *stalledServer) inFlight() int {
	_, text := fetch(b, http.DefaultClient, "GET", "http://"+b.figures+"/metrics")
	n, err := strconv.Atoi(regexp.MustCompile(`(?m)^callbook_memory_in_flight_bytes (\d+)$`).FindStringSubmatch(text)[1])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// TestStalledClients_DoNotExhaustMemory measures memory while one address has HTTP/2 streams with a window of 0, eight
// others have connections from which they do not read. Each response is another one of 200 KB.
// The proof bounds the response time of others.
// It holds promise 1 of SECURITY.md.
func TestStalledClients_DoNotExhaustMemory(t *testing.T) {
	t.Parallel()
	b := startStalledServer(t, 1000)
	const perConnection, networks = 100, 8
	stalledStreams, connections := proof.Rounds(200, 600, 600), proof.Rounds(300, 1000, 1000)
	for i := range stalledStreams / perConnection {
		b.stallClient("h2", http2Requests(t, perConnection, perConnection*i, "192.0.2.1"), func(conn io.Reader) { _, _ = io.Copy(io.Discard, conn) })
	}
	for i := range connections {
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 198.51.100.%d\r\n\r\n", largePagePath(stalledStreams+i), testDomain, i%networks)
		b.stallClient("http/1.1", []byte(strings.Repeat(request, 3)), func(io.Reader) {})
	}
	const share, size = 4 << 20, 250 << 10
	waitFor(t, "nine networks hold about what they can", func() bool { return b.inFlight() > 9*(share-2*size) })
	client, took, most, rejected := httpsClient(t, b.at, b.trusted), []time.Duration{}, 0, 0
	end := time.Now().Add(time.Duration(proof.Rounds(0, 20, 120)) * time.Second)
	for i := 0; i < 60 || time.Now().Before(end); i++ {
		path := []string{"/api/agents", "/api/agents/agent-1", "/api/agents?q=tide1", "/", "/api/posts", "/agents/agent-1"}[i%6]
		begun := time.Now()
		a, _ := fetch(t, client, "GET", "https://"+testDomain+path, "X-Forwarded-For: 203.0.113.1")
		took = append(took, time.Since(begun))
		if a.StatusCode != 200 { // when all stalled clients reconnect at once
			took[i] = patience
			rejected++
		}
		if i%20 == 0 {
			most = max(most, b.anonymousMB())
		}
		<-time.After(5 * time.Millisecond)
	}
	slices.Sort(took)
	p95 := took[len(took)*95/100]
	t.Logf("%d MB, p95 %s of %d", most, p95, len(took))
	if most > 200 {
		t.Errorf("%d MB of memory", most)
	}
	if proof.Asked() && rejected > len(took)/20 {
		t.Errorf("%d of %d requests of others are rejected", rejected, len(took))
	}
	proof.Figure(t, "stalled streams", stalledStreams)
	proof.Figure(t, "stalled connections", connections)
	proof.Figure(t, "MB", most)
	proof.Figure(t, "p95 ms", int(p95.Round(time.Millisecond).Milliseconds()))
}
