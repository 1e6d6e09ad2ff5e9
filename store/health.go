package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Health is how the database stands.
type Health struct {
	Schema    int64 `json:"schema"`         // version
	FileBytes int64 `json:"database_bytes"` // of the database file
	LogBytes  int64 `json:"log_bytes"`      // of the write-ahead log
	FreeBytes int64 `json:"free_bytes"`     // of the disk, for this user; -1 when it does not tell
}

// probe is the last look whether the directory can be read and written.
type probe struct {
	sync.Mutex
	passed  time.Time     // when it last could
	running chan struct{} // closed when the look that runs has ended
	err     error         // of the last look
}

const (
	readyAge     = time.Second // how long a good probe counts: each one costs a write
	readyTimeout = time.Second // how long one may take
	probeRoom    = 64 << 10    // bytes; more than most writes need
)

// Ready reports whether the directory can be read and written, now or within the
// last second, and how it stands. It waits a second at the most.
func (s *Store) Ready(ctx context.Context) (Health, error) {
	return s.ready(ctx, readyTimeout)
}

// Alive reports whether the store responds within a time, for a watchdog: a full disk, a
// compaction and another process that writes are no reason to start again.
func (s *Store) Alive(ctx context.Context, within time.Duration) error {
	_, err := s.ready(ctx, within)
	if errors.Is(err, refuse(CodeStorageFull)) || errors.Is(err, refuse(CodeUnavailable)) {
		return nil
	}
	return err
}

func (s *Store) ready(ctx context.Context, within time.Duration) (Health, error) {
	h := s.health()
	if err := s.Failure(); err != nil {
		return h, err
	}
	if s.compacting.Load() {
		return h, nil // it reads, and writes wait
	}
	done := s.startProbe()
	if done == nil {
		return h, nil
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-done:
		s.probe.Lock()
		defer s.probe.Unlock()
		return h, s.probe.err
	case <-late.C:
		return h, fmt.Errorf("the database does not write and read within %s", within)
	case <-ctx.Done():
		return h, ctx.Err()
	}
}

// startProbe begins a look unless one runs; nil when none is needed.
func (s *Store) startProbe() <-chan struct{} {
	s.probe.Lock()
	defer s.probe.Unlock()
	if s.probe.running != nil {
		return s.probe.running
	}
	now := s.Now()
	if age := now.Sub(s.probe.passed); age >= 0 && age < readyAge && !s.full.Load() {
		return nil
	}
	done := make(chan struct{})
	s.probe.running = done
	go func() {
		err := s.probeOnce(context.Background())
		s.probe.Lock()
		defer s.probe.Unlock()
		if s.probe.err = err; err == nil {
			s.probe.passed = now
		}
		s.probe.running = nil
		close(done)
	}()
	return done
}

// probeOnce reads and writes.
func (s *Store) probeOnce(ctx context.Context) error {
	var settings int
	if err := s.get(ctx, &settings, `SELECT COUNT(*) FROM site`); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	// After a write that found no room, one that takes room: what fits into a page
	// that is there tells nothing.
	full := s.full.Load()
	err := s.write(ctx, func(t *tx) error {
		value := []byte(t.now.String())
		if full {
			value = make([]byte, probeRoom)
		}
		return t.setSite("probe", value)
	})
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if full {
		s.full.Store(false)
	}
	return nil
}

// health asks the system, without opening a file: closing it would drop SQLite's
// locks.
func (s *Store) health() Health {
	h := Health{Schema: s.upgraded.to, FileBytes: fileSize(s.path), LogBytes: fileSize(s.path + "-wal"), FreeBytes: -1}
	if d, err := s.Disk(); err == nil {
		h.FreeBytes = d.Free
	}
	return h
}

// Disk tells of the disk that the database lies on.
func (s *Store) Disk() (Disk, error) { return DiskOf(filepath.Dir(s.path)) }
