package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// live is the response of GET /healthz.
type live struct {
	Status     string `json:"status"`     // ok
	Durability string `json:"durability"` // full, or normal: a power cut may lose the last writes
}

func (s *Server) live(context.Context) (any, error) {
	durability := "full"
	if s.store.Normal() {
		durability = "normal"
	}
	return live{"ok", durability}, s.store.Failure()
}

// readiness is the response of GET /readyz.
type readiness struct {
	Status string `json:"status"` // ok, or degraded: reads work, and problems say what does not
	sqlitedb.Health
	// Of the newest scheduled copy; null when there is none.
	BackupAt *domain.Time  `json:"backup_at"`
	Problems []api.Problem `json:"problems"`
}

// ready reports an error if reads do not work: a service that only writes do not reach is better
// than none.
func (s *Server) ready(ctx context.Context) (any, error) {
	health, err := s.store.Ready(ctx)
	found := readiness{
		Status:   "ok",
		Health:   health,
		BackupAt: s.status.newestBackup.Load(),
		Problems: []api.Problem{},
	}

	isFull := errors.Is(err, sqlitedb.ErrNoSpace)
	writesFail := errors.Is(err, sqlitedb.ErrWrites)
	for _, p := range []struct {
		code string
		is   bool
	}{
		{api.ProblemStorage, isFull},
		{api.ProblemWrites, writesFail && !isFull}, // a full disk is the reason
		{api.ProblemDisk, s.status.diskLow.Load()},
		{api.ProblemBackup, s.status.backupFailed.Load()},
		{api.ProblemMails, s.status.mailsSpent.Load()},
	} {
		if p.is {
			found.Status = "degraded"
			found.Problems = append(found.Problems, api.NewProblem(p.code))
		}
	}

	if writesFail {
		return found, nil
	}
	return found, err
}

// health returns a handler that responds with the result of a probe, or with 503. A probe counts
// as a read.
func (s *Server) health(probe func(context.Context) (any, error)) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		w.Header().Set("Cache-Control", "no-store")
		if err := s.engine.Allow(w, r, limitReads); err != nil {
			s.engine.WriteError(w, r, err)
			return
		}

		found, err := probe(r.Context())
		if err == nil {
			_ = api.WriteJSON(w, http.StatusOK, api.Marshal(found))
			return
		}

		middleware.LogError(w, err)
		var rejection *domain.Error
		if !errors.As(err, &rejection) {
			err = api.NewError(domain.CodeUnavailable, "")
		}

		s.engine.WriteError(w, r, err)
	}
}
