package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// newRequest builds a request with headers such as "Name: value".
func newRequest(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	setHeaders(r, headers)
	return r
}

// call sends a request and returns status and body.
func (p *program) call(method, path, body string, headers ...string) (int, string) {
	p.Helper()
	status, text, err := exchange(http.DefaultClient, method, p.base+path, body, headers...)
	if err != nil {
		p.Fatal(err)
	}
	return status, text
}

// exchange sends a request and reads the whole response.
func exchange(
	client *http.Client, method, url, body string, headers ...string,
) (status int, text string, err error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	setHeaders(r, headers)
	a, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	return a.StatusCode, string(data), err
}

func setHeaders(r *http.Request, headers []string) {
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
}

// readBody reads the body of a response to its end.
func readBody(t testing.TB, a *http.Response) string {
	t.Helper()
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object sends a request that must succeed and returns its JSON.
func (p *program) object(method, path, body string, headers ...string) (object map[string]any) {
	p.Helper()
	status, text := p.call(method, path, body, headers...)
	if err := json.Unmarshal([]byte(text), &object); err != nil || status >= 300 {
		p.Fatalf("%s %s: %d %s (%v)", method, path, status, text, err)
	}
	return object
}

// create sends a request whose response has one record, as in {"post":{"id":…}}, and returns its id.
func (p *program) create(path, body string, headers ...string) (id string) {
	p.Helper()
	ids := 0
	for _, member := range p.object("POST", path, body, headers...) {
		record, _ := member.(map[string]any)
		if of, ok := record["id"].(string); ok {
			id, ids = of, ids+1
		}
	}
	if ids != 1 {
		p.Fatalf("POST %s returns %d ids, want 1", path, ids)
	}
	return id
}

// tryGet reads from a service that may exit meanwhile: then the status is 0.
func (p *program) tryGet(path string) (status int, text string) {
	status, text, err := exchange(newUnpooledClient(), "GET", p.base+path, "")
	if err != nil {
		return 0, err.Error()
	}
	return status, text
}

// newUnpooledClient returns a client that opens a connection for each request.
func newUnpooledClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
}

// newSocketClient returns a client that connects to a Unix socket for every host.
func newSocketClient(socket string) *http.Client {
	client := newUnpooledClient()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return client
}

func fetch(t testing.TB, client *http.Client, method, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	a, err := client.Do(newRequest(t, method, url, "", headers...))
	if err != nil {
		t.Fatal(err)
	}
	return a, readBody(t, a)
}

func registrationJSON(handle, mailbox string) string {
	return fmt.Sprintf(`{"handle":"%s","name":"A","owner":"B","mailbox":"%s","description_en":"D","accept_rules":true}`, handle, mailbox)
}

func (p *program) register(handle string) (key string) {
	p.Helper()
	return p.object("POST", "/api/agents", registrationJSON(handle, "a@b.example.org"))["api_key"].(string)
}

// agent is a registered agent with its key.
type agent struct{ handle, mailbox, auth string }

func (p *program) registerAgent(handle, mailbox string) agent {
	p.Helper()
	key := p.object("POST", "/api/agents", registrationJSON(handle, mailbox))["api_key"].(string)
	return agent{handle, mailbox, "Authorization: Bearer " + key}
}

// tryRegister tries to register an agent with an Idempotency-Key; it returns 0 if the service has exited.
func (p *program) tryRegister(handle string) (status int) {
	status, _, _ = exchange(newUnpooledClient(), "POST", p.base+"/api/agents",
		registrationJSON(handle, handle+"@example.org"), "Idempotency-Key: registration-of-"+handle)
	return status
}

// requestCode requests a code; it returns the status and the body of a rejection.
func (p *program) requestCode(a agent) (rejection string) {
	p.Helper()
	return p.requestMail("/api/me/verify", "", a.auth)
}

// requestMail sends a request that sends a mail.
func (p *program) requestMail(path, body string, headers ...string) (rejection string) {
	p.Helper()
	if status, text := p.call("POST", path, body, headers...); status != 202 {
		return fmt.Sprint(status, " ", text)
	}
	return ""
}

func firstSubmatch(what *regexp.Regexp, text string) string {
	if m := what.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

var (
	apiKeyInJSON = regexp.MustCompile(`"api_key":"(\w+)"`)
	postIDInJSON = regexp.MustCompile(`"id":"(pst_\w+)"`)
)
