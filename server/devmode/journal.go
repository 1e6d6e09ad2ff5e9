package devmode

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
)

// maxEntries is how many requests the journal has, and maxPath the bytes of a path in it.
const maxEntries, maxPath = 1000, 200

// Entry is a request as GET /dev/calls lists it. It has no secret: no query, no header, and no
// body.
type Entry struct {
	At        domain.Time `json:"at"`
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	Operation string      `json:"operation,omitzero"` // id; empty for none of the API
	Handle    string      `json:"handle,omitzero"`    // of the agent whose key it had

	// Status is 0 if the connection was closed before the operation ran.
	Status int `json:"status"`
	// Replayed reports that the response is that to an earlier request with the same
	// Idempotency-Key.
	Replayed bool             `json:"replayed,omitzero"`
	MS       int64            `json:"ms"`
	Fault    *Fault           `json:"fault,omitzero"`
	Error    *api.ErrorObject `json:"error,omitzero"`
}

// requests and dropped are in the counts of an operation beside the codes of errors: all its
// requests, and connections that faults closed.
const requests, dropped domain.Code = "", "dropped"

// journal has the newest requests, and counts all of them since the start.
type journal struct {
	mu      sync.Mutex
	entries []Entry                        // the oldest first
	counts  map[string]map[domain.Code]int // by operation
}

// add adds a request, and drops the oldest one beyond maxEntries.
func (j *journal) add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.entries) == maxEntries {
		j.entries = slices.Delete(j.entries, 0, 1)
	}

	j.entries = append(j.entries, e)
	if e.Operation == "" {
		return
	}

	counts := j.counts[e.Operation]
	if counts == nil {
		counts = map[domain.Code]int{}
		j.counts[e.Operation] = counts
	}

	counts[requests]++
	if e.Fault != nil && e.Fault.Drop != "" {
		counts[dropped]++
	} else if e.Error != nil {
		counts[e.Error.Code]++
	}
}

// list returns the entries that a filter selects, newest first.
func (j *journal) list(selects func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := []Entry{}

	for _, e := range slices.Backward(j.entries) {
		if selects(e) {
			list = append(list, e)
		}
	}

	return list
}

// listCalls handles GET /dev/calls.
func (d *Server) listCalls(_ context.Context, query url.Values) ([]Entry, error) {
	operation := query.Get("operation")
	ids := d.operationIDs()
	if operation != "" && !slices.Contains(ids, operation) {
		return nil, invalidQuery("operation: " + strings.Join(ids, ", "))
	}

	status, err := strconv.Atoi(cmp.Or(query.Get("status"), "0"))
	if err != nil || status < 0 || status > 599 {
		return nil, invalidQuery("status: 0 … 599")
	}

	handle := api.ParseHandle(query.Get("handle"))
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return d.journal.list(func(e Entry) bool {
		return is(handle, e.Handle) && is(operation, e.Operation) &&
			(query.Get("status") == "" || status == e.Status)
	}), nil
}

// report handles GET /dev/report.
func (d *Server) report(*http.Request, []byte) (any, error) {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()

	reports := []any{}
	never := []string{}
	for _, id := range d.operationIDs() {
		// A clone, as requests go on while the response is written.
		counts := maps.Clone(d.journal.counts[id])
		if counts == nil {
			never = append(never, id)
			continue
		}

		calls := counts[requests]
		delete(counts, requests)
		reports = append(reports, map[string]any{"operation": id, "calls": calls, "errors": counts})
	}

	return map[string]any{"operations": reports, "never_called": never}, nil
}

// secrets are the parts of paths that the journal leaves out: tokens of owners' pages, and keys
// and codes at a wrong place.
var secrets = regexp.MustCompile(`^/owner/.+|cq_[^/]*|\b[0-9A-Z]{4}-[0-9A-Z]{4}\b`)

// shownPath returns the path of a request without secrets.
func shownPath(r *http.Request) string {
	path := secrets.ReplaceAllString(r.URL.Path, "…")
	return strings.ToValidUTF8(path[:min(len(path), maxPath)], "\uFFFD")
}

// tap records the response of a handler.
type tap struct {
	http.ResponseWriter
	status int
	lost   bool   // the client gets nothing of it
	body   []byte // of an error
}

// WriteHeader records the status, and sends it unless the response is lost.
func (t *tap) WriteHeader(status int) {
	if t.status == 0 && status >= http.StatusOK {
		t.status = status
	}
	if !t.lost {
		t.ResponseWriter.WriteHeader(status)
	}
}

// Write records the body of an error, and sends it unless the response is lost.
func (t *tap) Write(b []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	if t.status >= http.StatusBadRequest && len(t.body) < api.MaxBody {
		t.body = append(t.body, b...)
	}

	if t.lost {
		return len(b), nil
	}

	return t.ResponseWriter.Write(b)
}

// error returns the error of the response; nil for another response.
func (t *tap) error() *api.ErrorObject {
	var response api.ErrorBody
	if json.Unmarshal(t.body, &response) != nil || response.Error.Code == "" {
		return nil
	}
	return &response.Error
}

// Unwrap returns the wrapped writer, for http.ResponseController and package middleware.
func (t *tap) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// record adds a request to the journal, with the response that serve writes.
func (d *Server) record(
	w http.ResponseWriter,
	r *http.Request,
	op *api.Operation,
	serve func(*tap, *Entry),
) {
	began := time.Now() //clock: how long it took
	entry := Entry{Method: r.Method, Path: shownPath(r)}
	if op != nil {
		entry.Operation = op.ID
	}

	// Deferred: a fault and a handler may panic to close the connection.
	seen := &tap{ResponseWriter: w}
	defer func() {
		entry.At = domain.Time(d.store.Now().UnixMilli())
		entry.MS = time.Since(began).Milliseconds() //clock: as above
		entry.Status = seen.status
		entry.Handle = middleware.RecordOf(w).Handle
		entry.Replayed = w.Header().Get("Idempotent-Replayed") != ""
		entry.Error = seen.error()
		d.journal.add(entry)
	}()

	serve(seen, &entry)
}

// serve serves a request unless a fault prevents that.
func (d *Server) serve(
	next http.Handler,
	seen *tap,
	r *http.Request,
	op *api.Operation,
	entry *Entry,
) {
	if op != nil {
		entry.Fault = d.faults.next(op.ID)
	}

	fault := entry.Fault
	if fault == nil {
		d.pass(next, seen, r)
		return
	}

	d.log.Info().
		Str("operation", op.ID).
		Str("fault", fault.Effect()).
		Str("request_id", seen.Header().Get("X-Request-Id")).
		Msg("a fault was injected")
	switch {
	case fault.Status != 0 || fault.Drop == dropBefore:
		next = d.failing(op, fault)

	case fault.Drop == dropAfter:
		seen.lost = true

	default:
		select {
		case <-time.After(time.Duration(fault.DelayMS) * time.Millisecond):
		case <-r.Context().Done():
		}
	}

	d.pass(next, seen, r)
	if fault.Drop != "" {
		panic(http.ErrAbortHandler) // closes the connection
	}
}

// failing returns a handler that fails in place of an operation. It reads the key, to name the
// agent in the journal.
func (d *Server) failing(op *api.Operation, fault *Fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); op.Keyed {
			// An unknown key is that of no agent, and the handle stays empty.
			caller, _ := d.store.Authenticate(r.Context(), key)
			middleware.RecordOf(w).Handle = caller.Handle
		}

		if fault.Status != 0 {
			// Without the methods of w, the request log and the metrics do not count an error of
			// the site.
			d.Site.WriteError(struct{ http.ResponseWriter }{w}, r, fault.error(op, d.store.Now()))
		}
	})
}

// pass serves a request, most of them while the clock does not move.
func (d *Server) pass(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if !needsNoGate(r) {
		d.gate.RLock()
		defer d.gate.RUnlock()
	}
	next.ServeHTTP(w, r)
}
