package devmode

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"callbook/server"
	"callbook/server/api"
	"callbook/store/domain"
)

// Limits of faults, and where one closes the connection.
const (
	maxTimes   = 1000
	maxDelay   = 60_000   // milliseconds
	dropBefore = "before" // the operation does not run
	dropAfter  = "after"  // it runs, and its response is lost
)

// faultCodes are the errors that faults respond with, by status.
var faultCodes = map[int]domain.Code{
	http.StatusUnauthorized:        domain.CodeUnauthorized,
	http.StatusForbidden:           domain.CodeForbidden,
	http.StatusNotFound:            domain.CodeNotFound,
	http.StatusTooManyRequests:     domain.CodeRateLimited,
	http.StatusInternalServerError: api.CodeInternal,
	http.StatusServiceUnavailable:  domain.CodeUnavailable,
}

// FaultRule is a fault as POST /dev/faults takes it. It has one of Status, DelayMS and Drop.
type FaultRule struct {
	Operation string  `json:"operation,omitzero"` // id; empty for any
	Rate      float64 `json:"rate"`               // part of matching requests that fail
	Status    int     `json:"status,omitzero"`
	DelayMS   int     `json:"delay_ms,omitzero"`
	Drop      string  `json:"drop,omitzero"`
	Times     int     `json:"times"`
	Seed      uint32  `json:"seed"`
}

// Fault makes requests to the API fail, as GET /dev/faults shows it.
type Fault struct {
	FaultRule
	Matched int `json:"matched"` // requests, failed or not
	Left    int `json:"left"`    // failures that are still to come

	// draws has a sequence for each operation, so that requests to others do not shift it.
	draws map[string]*rand.Rand
}

// hits counts a request to an operation and reports whether it fails. The same seed produces the
// same sequence.
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
	all []Fault
}

// next counts a request to an operation and returns a copy of the first fault that it meets, or
// nil.
func (f *faults) next(operation string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.all {
		if f.all[i].hits(operation) {
			hit := f.all[i]
			return &hit
		}
	}

	return nil
}

// listFaults handles GET /dev/faults.
func (d *Server) listFaults(context.Context, url.Values) ([]Fault, error) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	return append([]Fault{}, d.faults.all...), nil
}

// clearFaults handles DELETE /dev/faults.
func (d *Server) clearFaults(*http.Request, []byte) (any, error) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.all = nil
	return map[string]any{"faults": []Fault{}}, nil
}

// addFault handles POST /dev/faults.
func (d *Server) addFault(_ *http.Request, body []byte) (any, error) {
	rule := FaultRule{Rate: 1, Times: 1}
	invalidRule := domain.FieldError{Field: "fault", Code: domain.FaultBadValue, Topic: "fault"}
	if err := decode(body, &rule, "fault", invalidRule); err != nil {
		return nil, err
	}
	if invalid := d.invalidFields(rule); len(invalid) > 0 {
		return nil, domain.Invalid(invalid...)
	}

	fault := Fault{FaultRule: rule, Left: rule.Times, draws: map[string]*rand.Rand{}}
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.all = append(d.faults.all, fault)

	return fault, nil
}

// invalidFields returns the errors of the fields of a rule that are not right; fault is the rule
// as a whole.
func (d *Server) invalidFields(f FaultRule) (invalid []domain.FieldError) {
	effects := 0
	for _, set := range []bool{f.Status != 0, f.DelayMS != 0, f.Drop != ""} {
		if set {
			effects++
		}
	}

	for _, rule := range []struct {
		field string
		valid bool
	}{
		{"fault", effects == 1},
		{"operation", f.Operation == "" || slices.Contains(d.operationIDs(), f.Operation)},
		{"status", f.Status == 0 || faultCodes[f.Status] != ""},
		{"delay_ms", f.DelayMS >= 0 && f.DelayMS <= maxDelay},
		{"drop", slices.Contains([]string{"", dropBefore, dropAfter}, f.Drop)},
		{"rate", f.Rate > 0 && f.Rate <= 1},
		{"times", f.Times > 0 && f.Times <= maxTimes},
	} {
		if !rule.valid {
			invalid = append(invalid, domain.FieldError{
				Field: rule.field,
				Code:  domain.FaultBadValue,
				Topic: "fault",
			})
		}
	}

	return invalid
}

// operationIDs returns the ids of the operations of the API.
func (d *Server) operationIDs() (ids []string) {
	for _, op := range d.Site.Operations() {
		ids = append(ids, op.ID)
	}
	return ids
}

// operationOf returns the operation that a request is for, or nil.
func (d *Server) operationOf(r *http.Request) *api.Operation {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}

	isPart := func(part, want string) bool {
		return part == want || strings.HasPrefix(want, "{") && part != ""
	}
	parts := strings.Split(r.URL.Path, "/")
	for _, op := range d.Site.Operations() {
		if op.Method == method && slices.EqualFunc(parts, strings.Split(op.Path, "/"), isPart) {
			return op
		}
	}

	return nil
}

// error returns the error that a fault responds with.
func (f *Fault) error(op *api.Operation, now time.Time) error {
	rejection := &domain.Error{Code: faultCodes[f.Status]}
	if rejection.Code == domain.CodeRateLimited {
		class := op.Limit.Base()
		rejection.Topic = string(class)
		rejection.Limit = server.DefaultLimits[class].Requests

		// Soon, so that tests can wait for it.
		rejection.RetryAt = now.Add(time.Second)
	}

	return rejection
}
