package systemtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The reverse proxies of the manual, with the configurations that it shows.

// sharedCaches start each of them before the program at an address, store responses below a folder, and return the
// address to visit.
var sharedCaches = []struct {
	name  string
	start func(t testing.TB, folder, origin string) (addr string)
}{
	{"nginx", startNginx},
	{"Varnish", startVarnish},
	{"Caddy and Varnish", startCaddy},
}

// needCaches skips a test that runs these programs.
func needCaches(t testing.TB) {
	t.Helper()
	skipUnlessRacing(t)
	if os.Getenv("CACHES") == "" {
		t.Skip("needs nginx, varnishd with gcc, and caddy: install them and set CACHES, as .ci/run caches does")
	}
}

// configFromManual returns a block of the chapter of the manual with other values in the place of what it shows.
func configFromManual(t testing.TB, language string, values ...string) string {
	t.Helper()
	all := blocks(readText(t, root+"static/docs/scaling.md"), language)
	if len(all) != 1 {
		t.Fatalf("scaling.md has %d blocks of %s, want 1", len(all), language)
	}
	for i := 0; i < len(values); i += 2 {
		if !strings.Contains(all[0], values[i]) {
			t.Fatalf("the block of %s in scaling.md has no %q", language, values[i])
		}
	}
	return strings.NewReplacer(values...).Replace(all[0])
}

func startNginx(t testing.TB, folder, origin string) (addr string) {
	addr = freeAddress(t)
	site := configFromManual(t, "nginx", "127.0.0.1:8080", origin, "/var/cache/nginx/callbook", filepath.Join(folder, "stored"), "directory.example.org", "callbook.example.org",
		"listen 443 ssl;", "listen "+addr+";", "    listen [::]:443 ssl;\n", "", "ssl_certificate ", "# ", "ssl_certificate_key ", "# ")
	writeFile(t, filepath.Join(folder, "site.conf"), []byte(site))
	main := "pid " + folder + "/pid;\nworker_processes 2;\nevents {}\nhttp {\naccess_log off;\n"
	if os.Geteuid() == 0 {
		main = "user root;\n" + main // the folder is for its owner
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + folder + "/" + kind + ";\n"
	}
	writeFile(t, filepath.Join(folder, "nginx.conf"), []byte(main+"include "+folder+"/site.conf;\n}\n"))
	startBeside(t, addr, exec.Command("nginx", "-e", "stderr", "-g", "daemon off;", "-p", folder, "-c", filepath.Join(folder, "nginx.conf")))
	return addr
}

func startVarnish(t testing.TB, folder, origin string) (addr string) {
	addr = freeAddress(t)
	file := filepath.Join(folder, "default.vcl")
	_, port, _ := net.SplitHostPort(origin)
	writeFile(t, file, []byte(configFromManual(t, "vcl", `"8080"`, `"`+port+`"`)))
	unit := configFromManual(t, "systemd", "-j unix,user=vcache", "-j none -n "+folder+"/work", "127.0.0.1:6081", addr, "-T localhost:6082", "-T none",
		"/etc/varnish/default.vcl", file, "-S /etc/varnish/secret ", "", "malloc,256m", "file,"+folder+"/stored,64m")
	args := strings.Fields(unit[strings.LastIndex(unit, "ExecStart=")+len("ExecStart="):])
	startBeside(t, addr, exec.Command(args[0], args[1:]...))
	return addr
}

func startCaddy(t testing.TB, folder, origin string) (addr string) {
	addr = freeAddress(t)
	site := configFromManual(t, "caddyfile", "directory.example.org", strings.Replace("http://"+addr, "127.0.0.1", "callbook.example.org", 1), "127.0.0.1:6081", startVarnish(t, folder, origin))
	site = strings.Replace(site, "{", "{\n\tbind 127.0.0.1", 1)
	writeFile(t, filepath.Join(folder, "Caddyfile"), []byte("{\n\tadmin off\n}\n"+site))
	command := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(folder, "Caddyfile"))
	command.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	startBeside(t, addr, command)
	return addr
}

// cacheClient sends requests through a shared cache, and checks for each that a response for one client comes from the
// program itself and is shown to no other.
type cacheClient struct {
	*process
	addr            string // of the proxy
	next            http.Transport
	sent            atomic.Int64
	mu              sync.Mutex
	hits            int
	unauthenticated map[string]bool // URLs whose response to one client was requested without a key
}

func newCacheClient(p *process, addr string) *cacheClient {
	v := &cacheClient{process: p, addr: addr, next: http.Transport{DisableCompression: true}, unauthenticated: map[string]bool{}}
	p.Cleanup(v.next.CloseIdleConnections)
	return v
}

// cacheResponse is a response, and whether the cache sent it without the program.
type cacheResponse struct {
	*http.Response
	body      string
	fromCache bool
}

// isCacheHit reports whether a cache of the manual sent a response without the program.
func isCacheHit(a *http.Response) bool {
	return slices.Contains([]string{"HIT", "STALE", "UPDATING"}, a.Header.Get("X-Cache"))
}

// isPrivate reports whether only the program may respond to a request.
func isPrivate(r *http.Request) bool {
	return r.Method != "GET" && r.Method != "HEAD" || r.Header.Get("Authorization") != "" || strings.HasPrefix(r.URL.Path, "/owner/") ||
		r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
}

// RoundTrip sends a request of another part of the tests.
func (v *cacheClient) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := v.roundTrip(r)
	if err != nil {
		return nil, err
	}
	return a.Response, nil
}

// roundTrip sends a request and checks its response.
func (v *cacheClient) roundTrip(r *http.Request) (a cacheResponse, err error) {
	r = r.Clone(r.Context())
	id := fmt.Sprint("visit-", v.sent.Add(1), "-end")
	r.Header.Set("X-Request-Id", id)
	r.Host, r.URL.Scheme, r.URL.Host = strings.TrimPrefix(site, "http://"), "http", v.addr
	if a.Response, err = v.next.RoundTrip(r); err != nil {
		return a, err
	}
	body, err := io.ReadAll(a.Body)
	a.Body.Close()
	a.Body, a.body = io.NopCloser(bytes.NewReader(body)), string(body)
	a.fromCache = isCacheHit(a.Response)
	what := fmt.Sprintf("%s %s (%d, X-Cache %s)", r.Method, r.URL.Path, a.StatusCode, a.Header.Get("X-Cache"))
	if !slices.Equal(a.Header.Values("X-Request-Id"), []string{id}) {
		v.Errorf("%s: X-Request-Id %q instead of %s", what, a.Header.Values("X-Request-Id"), id)
	}
	if floods := a.StatusCode == 404 || a.StatusCode == 405; !floods && !a.fromCache { // of those the log has only some
		waitFor(v, what+" is in the log", func() bool { return strings.Contains(v.err.String(), "="+id) })
	}
	cacheable := strings.Contains(a.Header.Get("Cache-Control"), "s-maxage=1")
	if a.fromCache && (isPrivate(r) || !cacheable || a.StatusCode != 200 && a.StatusCode != 304 || a.Header.Get("RateLimit") != "") {
		v.Errorf("%s is a response of the cache: %v", what, a.Header)
	}
	v.mu.Lock()
	if a.fromCache {
		v.hits++
	}
	v.mu.Unlock()
	if owner := strings.HasPrefix(r.URL.Path, "/owner/"); owner && cacheable {
		v.Errorf("%s may be stored: %v", what, a.Header)
	} else if isPrivate(r) && !cacheable && !owner && a.StatusCode < 300 && (r.Method != "GET" || r.Header.Get("Authorization") != "") {
		v.wantNoLeak(r, a)
	}
	return a, err
}

// wantNoLeak sends the URL of a response for one client without a key: nothing of that response may be shown.
func (v *cacheClient) wantNoLeak(r *http.Request, private cacheResponse) {
	bare := r.Clone(r.Context())
	bare.Method, bare.Body, bare.ContentLength, bare.Header = "GET", nil, 0, http.Header{}
	for range 2 {
		a, err := v.roundTrip(bare)
		if err != nil {
			v.Error(err)
			return
		}
		if strings.Contains(a.body, "@example.org") || strings.Contains(a.body, `"api_key"`) || a.body == private.body && a.body != "" && !isPrivate(bare) {
			v.Errorf("%s %s shows without a key: %s", r.Method, r.URL.Path, a.body)
		}
	}
	v.mu.Lock()
	v.unauthenticated[r.Method+" "+r.URL.Path] = true
	v.mu.Unlock()
}

// get reads a path.
func (v *cacheClient) get(path string, headers ...string) cacheResponse {
	v.Helper()
	return v.send("GET", path, "", headers...)
}

// getFromCache reads a path until its response comes from the cache.
func (v *cacheClient) getFromCache(path string, headers ...string) (a cacheResponse) {
	v.Helper()
	for try := 0; try < 5 && !a.fromCache; try++ {
		a = v.get(path, headers...)
	}
	if !a.fromCache {
		v.Errorf("%s never comes from the cache: %v", path, a.Header)
	}
	return a
}

func (v *cacheClient) send(method, path, body string, headers ...string) cacheResponse {
	v.Helper()
	a, err := v.roundTrip(newRequest(v, method, path, body, headers...))
	if err != nil {
		v.Fatal(err)
	}
	return a
}

// TestCaches_ServePublicResponsesOnly runs every operation through each cache of the manual. A response for one client
// comes from the program, and is neither stored nor shown to others; public ones come from the cache, in the form that
// the client wants, until they change.
func TestCaches_ServePublicResponsesOnly(t *testing.T) {
	needCaches(t)
	for _, cache := range sharedCaches {
		t.Run(cache.name, func(t *testing.T) {
			t.Parallel()
			d := newCrashDirectory(t, &crashCounts{})
			r := d.newRun("cached")
			p := spawn(d, d.db, append(d.mails.flags(), "--shared-cache=1s", "--trusted-proxy=127.0.0.1")...)
			folder, c := t.TempDir(), &crashClient{crashDirectory: d}
			v := newCacheClient(p, cache.start(t, folder, strings.TrimPrefix(p.base, "http://")))
			c.connect(site)
			c.http.Transport = v
			for !r.finished() {
				if !c.next(r, p) {
					t.Fatalf("step %d of the session has no response: %s", r.done, p.err)
				}
			}
			v.readAll(r)
			v.wantChangeSeen(r)
			v.wantVariants()
			v.wantNoSecretStored(r, folder)
			p.stopCleanly()
		})
	}
}

// readAll reads each operation with two keys and without one.
func (v *cacheClient) readAll(r *crashRun) {
	v.Helper()
	post, request := r.values["pst of c"], r.values["req"] // from b to c
	ids := map[string]string{"/api/posts/{id}": post, "/calls/{id}": post, "/api/requests/{id}": request}
	public := []string{"GET /", "GET /agents", "GET /calls.atom", "GET /skill.md", "GET /llms.txt", "GET /openapi.json", "GET /docs/api", "GET /style.css"}
	for _, operation := range append(public, operationKinds(v)...) {
		method, path, _ := strings.Cut(operation, " ")
		if method != "GET" {
			continue
		}
		path = strings.NewReplacer("{id}", ids[path], "{handle}", r.handle("b")).Replace(path)
		for _, agent := range []string{"b", "c"} {
			keyed := v.get(path, "Authorization: Bearer "+r.values["key of "+agent])
			if keyed.StatusCode != 200 && path != "/api/me/wake" || path == "/api/me" && !strings.Contains(keyed.body, r.handle(agent)+"@example.org") {
				v.Errorf("%s by %s: %d %s", operation, agent, keyed.StatusCode, keyed.body)
			}
		}
		if bare := v.get(path); bare.StatusCode == 401 {
			continue
		}
		waitFor(v, operation+" is not modified", func() bool { // at first the cache may have a response from before the last write
			public := v.getFromCache(path)
			known := v.getFromCache(path, "If-None-Match: "+public.Header.Get("ETag"))
			return public.StatusCode == 200 && known.StatusCode == 304 && known.body == ""
		})
	}
	for range 2 {
		if a := v.send("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type: application/json", "Accept: application/json, text/event-stream"); a.StatusCode != 200 {
			v.Errorf("MCP: %d %s", a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/api/agents/no-such-agent", "/agents/no-such-agent"} {
		if a := v.get(path); a.Header.Get("Cache-Control") != "no-store" || v.get(path).fromCache {
			v.Errorf("%s: %d %v", path, a.StatusCode, a.Header)
		}
	}
}

// wantChangeSeen changes a card. Its agent sees that at once, others within twice the time of --shared-cache, and a second:
// also if nobody reads it meanwhile.
func (v *cacheClient) wantChangeSeen(r *crashRun) {
	v.Helper()
	path, auth := "/api/agents/"+r.handle("a"), "Authorization: Bearer "+r.values["key of a"]
	changes := func(tagline string) {
		if a := v.send("PATCH", "/api/me", `{"tagline":"`+tagline+`"}`, auth); a.StatusCode != 200 {
			v.Fatalf("a change: %d %s", a.StatusCode, a.body)
		}
	}
	for turn := range 3 {
		before, tagline := v.get(path).body, fmt.Sprint("Turn ", turn)
		changes(tagline)
		changed := time.Now()
		if own := v.get(path, auth).body; own == before || !strings.Contains(own, tagline) {
			v.Errorf("the agent does not see its change: %s", own)
		}
		for seen := before; seen == before; {
			asked := time.Since(changed)
			if seen = v.get(path).body; seen == before && asked > 3*time.Second {
				v.Fatalf("after %v the card is the old one", asked)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	changes("The last")
	<-time.After(3 * time.Second)
	if !strings.Contains(v.get(path).body, "The last") {
		v.Error("who reads the card some time after its change sees the old one")
	}
}

// wantVariants reads a page in both languages and forms, each after one of another kind.
func (v *cacheClient) wantVariants() {
	v.Helper()
	for range 2 {
		for _, language := range []string{"en", "zh"} {
			for _, coding := range []string{"gzip", "identity"} {
				a := v.get("/agents", "Accept-Language: "+language, "Accept-Encoding: "+coding)
				if got := a.Header.Get("Content-Encoding"); (got == "gzip") != (coding == "gzip") || a.Header.Get("Content-Language") != language {
					v.Errorf("a page in %s for %s is in %s, and %q", language, coding, a.Header.Get("Content-Language"), got)
				}
			}
		}
	}
}

// wantNoSecretStored searches the files of the cache, in which the handle of an agent is.
func (v *cacheClient) wantNoSecretStored(r *crashRun, folder string) {
	v.Helper()
	var stored []byte
	err := filepath.WalkDir(filepath.Join(folder, "stored"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		stored = append(stored, data...)
		for i := 0; ; {
			next := bytes.Index(data[i:], []byte{0x1f, 0x8b, 0x08})
			if next < 0 {
				return err
			}
			i += next + 1
			if z, err := gzip.NewReader(bytes.NewReader(data[i-1:])); err == nil {
				z.Multistream(false)
				text, _ := io.ReadAll(io.LimitReader(z, 1<<20))
				stored = append(stored, text...)
			}
		}
	})
	if err != nil || !bytes.Contains(stored, []byte(r.handle("b"))) {
		v.Fatalf("%v; %d bytes are stored, without an agent", err, len(stored))
	}
	for _, agent := range crashAgents {
		for _, secret := range []string{r.values["key of "+agent], r.handle(agent) + "@example.org"} {
			if bytes.Contains(stored, []byte(secret)) {
				v.Errorf("the cache stores %s of %s", secret, agent)
			}
		}
	}
	v.Logf("%d requests, %d of them to the cache alone, %d URLs again without a key", v.sent.Load(), v.hits, len(v.unauthenticated))
}

// BenchmarkCaches measures reads of cards, lists and pages over eight connections: the requests a second, the part of
// them that the cache responds to, and the processor time that the program takes for all of them.
func BenchmarkCaches(b *testing.B) {
	needCaches(b)
	none := func(_ testing.TB, _, origin string) string { return origin }
	b.Run("none", func(b *testing.B) { measureCache(b, none, "--shared-cache=0s") })
	for _, cache := range sharedCaches {
		b.Run(cache.name, func(b *testing.B) { measureCache(b, cache.start, "--shared-cache=5s") })
	}
}

// cachedAgents is the number of agents whose cards are read.
const cachedAgents = 100

func measureCache(b *testing.B, start func(t testing.TB, folder, origin string) string, setting string) {
	p := spawn(b, newDB(b), setting, "--trusted-proxy=127.0.0.1")
	paths := []string{"/", "/agents", "/api/agents", "/api/posts"}
	for i := range cachedAgents {
		handle := fmt.Sprint("agent-", i)
		p.registerAgent(handle, handle+"@example.org")
		paths = append(paths, "/api/agents/"+handle)
	}
	addr := start(b, b.TempDir(), strings.TrimPrefix(p.base, "http://"))
	var hits atomic.Int64
	worked := p.processor()
	b.SetParallelism((8 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var conn net.Conn
		var from *bufio.Reader
		for i := rand.IntN(len(paths)); pb.Next(); i++ {
			if conn == nil { // nginx closes one after a thousand requests
				var err error
				if conn, err = net.Dial("tcp", addr); err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				from = bufio.NewReader(conn)
			}
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: callbook.example.org\r\nAccept-Encoding: gzip\r\n\r\n", paths[i%len(paths)])
			a, err := http.ReadResponse(from, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, a.Body)
			}
			if err != nil || a.StatusCode != 200 {
				b.Errorf("%v %v", a, err)
				return
			}
			if isCacheHit(a) {
				hits.Add(1)
			}
			if a.Close {
				conn = nil
			}
		}
	})
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(100*float64(hits.Load())/n, "%hits")
	b.ReportMetric((p.processor()-worked).Seconds()/n*1e6, "callbook-ms/1000")
}
