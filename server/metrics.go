package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"github.com/VictoriaMetrics/metrics"
	"github.com/julienschmidt/httprouter"

	"callbook/server/middleware"
)

// countRoute counts the requests of a method of a route.
func (s *Server) countRoute(method, route string, h httprouter.Handle) httprouter.Handle {
	m := s.observer.Metrics.Route(method, route)
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		middleware.RecordOf(w).Route = m
		h(w, r, params)
	}
}

// writeMetrics writes the samples of all metrics, which exportedMetrics lists. It leaves out those
// of the database if it cannot be read: then the others are needed most.
func (s *Server) writeMetrics(ctx context.Context, w io.Writer) {
	s.metrics.WritePrometheus(w)
	build := fmt.Sprintf("callbook_build_info{goversion=%q,version=%q}", runtime.Version(), s.options.Version)
	metrics.WriteGaugeUint64(w, build, 1)
	metrics.WriteGaugeUint64(w, "callbook_event_calls_waiting", uint64(s.waiters.count()))
	metrics.WriteGaugeUint64(w, "callbook_connections_open", uint64(s.connections.Open()))
	metrics.WriteGaugeUint64(w, "callbook_memory_in_flight_bytes", uint64(s.observer.Memory.Used()))
	metrics.WriteGaugeUint64(w, "callbook_cache_bytes", uint64(s.engine.Cache.Bytes()))
	metrics.WriteGaugeUint64(w, "callbook_limiter_subjects", uint64(s.engine.Limiter.Len()))

	if s.options.Backups.Folder != "" {
		newest := uint64(0)
		if at := s.status.newestBackup.Load(); at != nil {
			newest = uint64(at.Time().Unix())
		}

		metrics.WriteGaugeUint64(w, "callbook_backup_timestamp_seconds", newest)
	}

	up := uint64(1)
	if err := s.writeDatabaseMetrics(ctx, w); err != nil {
		up = 0
		s.options.Log.Error().Err(err).Msg("cannot read the metrics of the database")
	}

	metrics.WriteGaugeUint64(w, "callbook_database_up", up)
	metrics.WriteProcessMetrics(w)
	metrics.WriteFDMetrics(w)
}

func (s *Server) writeDatabaseMetrics(ctx context.Context, w io.Writer) error {
	f, err := s.store.Figures(ctx)
	if err != nil {
		return err
	}

	pools, err := s.store.MailPools(ctx)
	if err != nil {
		return err
	}

	for _, p := range pools {
		if p.Limit > 0 {
			name := fmt.Sprintf("callbook_mails_left{pool=%q}", p.Pool)
			metrics.WriteGaugeUint64(w, name, uint64(p.Left))
		}
	}

	stats, err := s.store.Stats(ctx)
	if err != nil {
		return err
	}

	for _, gauge := range []struct {
		name  string
		value int64
	}{
		{"callbook_agents", int64(stats.Agents)},
		{"callbook_posts", int64(stats.Posts)},
		{"callbook_requests_accepted", int64(stats.RequestsAccepted)},
		{"callbook_reports_open", int64(f.Reports)},
		{"callbook_mails_waiting", int64(f.Mails)},
		{"callbook_database_bytes", f.FileBytes},
		{"callbook_database_log_bytes", f.LogBytes},
		{"callbook_disk_free_bytes", f.FreeBytes},
	} {
		if gauge.value >= 0 { // unknown on some disks
			metrics.WriteGaugeUint64(w, gauge.name, uint64(gauge.value))
		}
	}

	metrics.WriteCounterUint64(w, "callbook_commits_total", f.Commits)
	metrics.WriteCounterUint64(w, "callbook_writes_total", f.Writes)
	return nil
}

// storeAbuse adds the requests rejected as abuse since its last run to those of the day. A restart
// loses those of the last minute.
func (s *Server) storeAbuse(ctx context.Context) error {
	requests := s.observer.Metrics.TakeAbuse()
	err := s.store.AddAbuse(ctx, requests)
	if err != nil {
		s.observer.Metrics.AddAbuse(requests) // the next run tries again
	}
	return err
}

// Metrics returns the handler of GET /metrics.
func (s *Server) Metrics() http.Handler {
	return metricsHandler(s.writeMetrics)
}
