package devmode

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/server"
	"callbook/server/api"
	"callbook/store/domain"
)

// Limits of faults.
const (
	maxFaults = 100 // that wait at once
	maxTimes  = 1000
	maxDelay  = time.Minute
)

// Where a fault closes the connection.
const (
	dropBefore = "before" // the operation does not run
	dropAfter  = "after"  // it runs, and its response is lost
)

// faultCodes are the errors that faults respond with, by status.
var faultCodes = map[int]domain.Code{
	http.StatusUnauthorized: domain.CodeUnauthorized, http.StatusForbidden: domain.CodeForbidden, http.StatusNotFound: domain.CodeNotFound,
	http.StatusTooManyRequests: domain.CodeRateLimited, http.StatusInternalServerError: api.CodeInternal, http.StatusServiceUnavailable: domain.CodeUnavailable,
}

// Fault makes requests to the API fail, as POST /dev/faults takes it and GET /dev/faults shows it.
type Fault struct {
	Operation string  `json:"operation,omitzero"` // id; empty: any
	Rate      float64 `json:"rate"`               // of matching requests that fail
	Status    int     `json:"status,omitzero"`
	DelayMS   int     `json:"delay_ms,omitzero"`
	Drop      string  `json:"drop,omitzero"`
	Times     int     `json:"times"`
	Seed      uint32  `json:"seed"`
	Matched   int     `json:"matched"` // requests, failed or not
	Left      int     `json:"left"`    // failures that are still to come

	draws map[string]*rand.Rand // by operation, so that requests to others do not shift its sequence
}

// hits counts a request to an operation and reports whether it fails. The same seed produces the same sequence.
func (f *Fault) hits(operation string) bool {
	if f.Left == 0 || f.Operation != "" && f.Operation != operation {
		return false
	}
	draw := f.draws[operation]
	if draw == nil {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(operation))
		draw = rand.New(rand.NewPCG(uint64(f.Seed), hash.Sum64()))
		f.draws[operation] = draw
	}
	f.Matched++
	if draw.Float64() >= f.Rate {
		return false
	}
	f.Left--
	return true
}

// faults are the faults of a Server, the oldest first.
type faults struct {
	mu  sync.Mutex
	all []*Fault
}

// next counts a request to an operation and returns a copy of the first fault that it meets, or nil.
func (f *faults) next(operation string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.all {
		if fault.hits(operation) {
			hit := *fault
			return &hit
		}
	}
	return nil
}

// add adds a fault, in place of those that are used up if there are many. It reports whether there was room.
func (f *faults) add(fault *Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) >= maxFaults {
		f.all = slices.DeleteFunc(f.all, func(fault *Fault) bool { return fault.Left == 0 })
	}
	if len(f.all) >= maxFaults {
		return false
	}
	f.all = append(f.all, fault)
	return true
}

func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []Fault{}
	for _, fault := range f.all {
		list = append(list, *fault)
	}
	return list
}

// listFaults handles GET /dev/faults.
func (d *Server) listFaults(context.Context, url.Values) ([]Fault, error) {
	return d.faults.list(), nil
}

// clearFaults handles DELETE /dev/faults.
func (d *Server) clearFaults(*http.Request, []byte) (any, error) {
	d.faults.clear()
	return map[string]any{"faults": []Fault{}}, nil
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

// faultDraft is the body of POST /dev/faults.
type faultDraft struct {
	Operation string   `json:"operation"`
	Rate      *float64 `json:"rate"`
	Status    *int     `json:"status"`
	DelayMS   *int     `json:"delay_ms"`
	Drop      *string  `json:"drop"`
	Times     *int     `json:"times"`
	Seed      uint32   `json:"seed"`
}

// fault returns the fault with its defaults, and the invalid fields.
func (in *faultDraft) fault() (fault *Fault, invalid []string) {
	fault = &Fault{Operation: in.Operation, Rate: 1, Times: 1, Seed: in.Seed, draws: map[string]*rand.Rand{}}
	check := func(field string, valid bool) {
		if !valid {
			invalid = append(invalid, field)
		}
	}
	effects := 0
	if in.Status != nil {
		effects, fault.Status = effects+1, *in.Status
		check("status", faultCodes[fault.Status] != "")
	}
	if in.DelayMS != nil {
		effects, fault.DelayMS = effects+1, *in.DelayMS
		check("delay_ms", fault.DelayMS > 0 && fault.DelayMS <= int(maxDelay.Milliseconds()))
	}
	if in.Drop != nil {
		effects, fault.Drop = effects+1, *in.Drop
		check("drop", fault.Drop == dropBefore || fault.Drop == dropAfter)
	}
	if in.Rate != nil {
		fault.Rate = *in.Rate
		check("rate", fault.Rate > 0 && fault.Rate <= 1)
	}
	if in.Times != nil {
		fault.Times = *in.Times
		check("times", fault.Times > 0 && fault.Times <= maxTimes)
	}
	check("fault", effects == 1)
	fault.Left = fault.Times
	return fault, invalid
}

// addFault handles POST /dev/faults.
func (d *Server) addFault(_ *http.Request, body []byte) (any, error) {
	in := &faultDraft{}
	if err := json.Unmarshal(body, in, json.RejectUnknownMembers(true)); err != nil {
		semantic, _ := errors.AsType[*json.SemanticError](err)
		if semantic == nil || semantic.JSONPointer == "" {
			return nil, invalidFault("fault")
		}
		return nil, invalidFault(semantic.JSONPointer.LastToken())
	}
	fault, invalid := in.fault()
	if fault.Operation != "" && !slices.ContainsFunc(d.Operations(), func(op *api.Operation) bool { return op.ID == fault.Operation }) {
		invalid = append(invalid, "operation")
	}
	if len(invalid) > 0 {
		return nil, invalidFault(invalid...)
	}
	added := *fault // requests may count against the fault as soon as it is added
	if !d.faults.add(fault) {
		return nil, &domain.Error{Code: domain.CodeValidationFailed, Fields: []domain.FieldError{{Field: "fault", Code: domain.FaultTooMany, Topic: "faults"}}}
	}
	return added, nil
}

// invalidFault returns the error of a fault with invalid fields; the field fault is the fault as a whole.
func invalidFault(fields ...string) error {
	invalid := &domain.Error{Code: domain.CodeValidationFailed}
	for _, field := range fields {
		invalid.Fields = append(invalid.Fields, domain.FieldError{Field: field, Code: domain.FaultBadValue, Topic: "fault"})
	}
	return invalid
}

// operationOf returns the operation that a request is for, or nil.
func (d *Server) operationOf(r *http.Request) *api.Operation {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(r.URL.Path, "/")
	for _, op := range d.Operations() {
		if op.Method == method && slices.EqualFunc(parts, strings.Split(op.Path, "/"), func(part, want string) bool {
			return part == want || strings.HasPrefix(want, "{") && part != ""
		}) {
			return op
		}
	}
	return nil
}

// error returns the error that a fault responds with. A rate limit ends after a second, so that tests can wait for it.
func (f *Fault) error(op *api.Operation, now time.Time) error {
	rejection := &domain.Error{Code: faultCodes[f.Status]}
	if rejection.Code == domain.CodeRateLimited {
		class := op.Limit.Base()
		rejection.Topic, rejection.Limit, rejection.RetryAt = string(class), server.DefaultLimits[class].Requests, now.Add(time.Second)
	}
	return rejection
}
