package https

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/acme"
)

// authority is the transport to the certificate authority. It remembers the problems that
// the authority reports, because autocert drops those of a challenge.
type authority struct {
	mu       sync.Mutex
	problems map[string]string // by name and type of challenge; by "" the last that concerns no name
}

// maxAuthorityBody is the maximum size of a response in bytes.
const maxAuthorityBody = 1 << 20

// RoundTrip implements http.RoundTripper.
func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		a.remember("", err.Error())
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAuthorityBody))
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	a.read(body)
	return response, nil
}

// read remembers the problems in a response (RFC 8555, 6.7 and 7.1.4).
func (a *authority) read(body []byte) {
	type problem struct{ Type, Detail string }
	var response struct {
		problem
		Identifier struct{ Value string }
		Challenges []struct {
			Type  string
			Error problem
		}
	}
	if json.Unmarshal(body, &response) != nil { // a certificate, for example
		return
	}
	if response.Detail != "" && !strings.HasSuffix(response.Type, ":badNonce") { // acme retries after badNonce
		a.remember("", response.Detail)
	}
	for _, c := range response.Challenges {
		if c.Error.Detail != "" {
			a.remember(response.Identifier.Value+" "+c.Type, c.Type+": "+c.Error.Detail)
		}
	}
}

func (a *authority) remember(key, problem string) {
	const maxProblem = 300
	if len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "…"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problems[key] = problem
}

// forget drops the problems of earlier attempts.
func (a *authority) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.problems {
		if key == "" || strings.HasPrefix(key, name+" ") {
			delete(a.problems, key)
		}
	}
}

// reason describes why there is no certificate for a name: the problems of its
// challenges, or err.
func (a *authority) reason(name string, err error) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for key, problem := range a.problems {
		if strings.HasPrefix(key, name+" ") {
			found = append(found, problem)
		}
	}
	slices.Sort(found)
	if _, reported := errors.AsType[*acme.Error](err); err != nil && (reported || len(found) == 0) {
		found = append(found, err.Error())
	}
	return cmp.Or(strings.Join(found, "; "), a.problems[""])
}
