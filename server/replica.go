package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/store/domain"
)

// A replica serves the public reads of a directory from a copy that another process replaces by newer ones, and
// rejects all else: the primary may have replaced a key, or deleted its agent, since the copy was made.

// Replica configures a server whose store is read-only. The zero value is for all others.
type Replica struct {
	Primary string        // base URL of the server that writes
	MaxLag  time.Duration // beyond which GET /readyz reports a problem
}

// ReplicaState is the state of a replica in GET /readyz.
type ReplicaState struct {
	Primary    string `json:"primary"`
	LagSeconds int64  `json:"lag_seconds"` // rounded up: the copy has everything that was written before
}

// lag returns how old the served copy is at most, rounded up to a second, and why a newer one is not served.
func (s *Server) lag() (time.Duration, error) {
	written, err := s.store.CopyState()
	lag := max(s.store.Now().Sub(written), 0)
	return (lag + time.Second - 1).Truncate(time.Second), err
}

// onPrimary returns the handler of a route that a replica rejects.
func (s *Server) onPrimary(h httprouter.Handle) httprouter.Handle {
	primary := s.options.Replica.Primary
	if primary == "" {
		return h
	}
	rejection := &domain.Error{Code: domain.CodeUnavailable, Topic: domain.TopicReplica, Names: []any{primary}}
	reject := s.countUnrouted(func(w http.ResponseWriter, r *http.Request) { s.reject(w, r, rejection) })
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) { reject.ServeHTTP(w, r) }
}

// replicaHeaders adds the headers of a replica to every response.
func (s *Server) replicaHeaders(next http.Handler) http.Handler {
	primary := s.options.Replica.Primary
	if primary == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lag, _ := s.lag()
		w.Header()["Callbook-Primary"] = []string{primary}
		w.Header()["Callbook-Lag"] = []string{strconv.FormatInt(int64(lag/time.Second), 10)}
		next.ServeHTTP(w, r)
	})
}

// replicaJobs returns the jobs of a replica.
func (s *Server) replicaJobs() []job {
	return []job{
		{failure: "cannot close idle connections", run: s.closeIdleConnections, every: time.Second, slow: true},
		{failure: "cannot serve the newest copy of the database", run: s.reportCopy},
		{failure: "the copy of the database is old: look for the process that replaces it, and for Litestream on the primary", run: s.reportLag},
	}
}

func (s *Server) reportCopy(context.Context) error {
	_, err := s.lag()
	return err
}

func (s *Server) reportLag(context.Context) error {
	if lag, _ := s.lag(); lag > s.options.Replica.MaxLag {
		return errors.New(lag.String() + " behind the primary")
	}
	return nil
}
