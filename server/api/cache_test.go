package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// load loads a key, and reports whether the response was read.
func load(t *testing.T, c *Cache, key string, now time.Time, stale time.Duration, body string) (got *Cached, read bool) {
	t.Helper()
	got, err := c.Load(t.Context(), key, now, stale, func(context.Context) (*Cached, error) {
		read = true
		return NewCached([]byte(body)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, read
}

func TestCache_IsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		maxBytes, size, added int
		min, max              int // entries that are left
	}{
		"by count":                  {1 << 30, 1, maxEntries + 100, maxEntries, maxEntries},
		"by bytes":                  {1 << 20, 1000, 1000, 340, 349},
		"one that caches nothing":   {0, 10, 100, 0, 0},
		"a value larger than it is": {1000, 334, 10, 0, 0},
		"a value that is too large": {1 << 30, maxSize/3 + 1, 10, 0, 0},
	} {
		c, body := NewCache(tt.maxBytes), strings.Repeat("x", tt.size)
		for i := range tt.added {
			load(t, c, fmt.Sprint(i), start, 0, body)
		}
		load(t, c, strings.Repeat("x", maxKey+1), start, 0, body)
		if n := c.entries.Len(); n < tt.min || n > tt.max || c.Bytes() > tt.maxBytes {
			t.Errorf("%s: %d entries of %d bytes; want %d to %d of %d bytes", name, n, c.Bytes(), tt.min, tt.max, tt.maxBytes)
		}
		if _, read := load(t, c, fmt.Sprint(tt.added-1), start, 0, body); read != (tt.max == 0) {
			t.Errorf("%s: the newest entry is read again: %t", name, read)
		}
	}
}

func TestCache_CountsAReplacedResponseOnce(t *testing.T) {
	c := NewCache(1 << 20)
	load(t, c, "key", start, 0, "old")
	c.Invalidate()
	if got, _ := load(t, c, "key", start, 0, "newer"); string(got.Body) != "newer" || c.Bytes() != len("key")+got.size() {
		t.Errorf("%s of %d bytes", got.Body, c.Bytes())
	}
}

func TestCache_UsesAResponseForATime(t *testing.T) {
	for name, tt := range map[string]struct {
		stale   time.Duration
		age     time.Duration
		changed bool
		read    bool
	}{
		"at once":                          {0, 0, false, false},
		"before a minute":                  {0, maxAge - 1, false, false},
		"after a minute":                   {0, maxAge, false, true},
		"from the future":                  {0, -1, false, true},
		"after a change":                   {0, 0, true, true},
		"stale, before its time":           {time.Second, time.Second - 1, true, false},
		"stale, after its time":            {time.Second, time.Second, true, true},
		"stale, unchanged, after its time": {time.Second, time.Second, false, true},
		"stale, from the future":           {time.Second, -1, false, true},
	} {
		c := NewCache(1 << 20)
		load(t, c, "key", start, tt.stale, "old")
		if tt.changed {
			c.Invalidate()
		}
		if _, read := load(t, c, "key", start.Add(tt.age), tt.stale, "new"); read != tt.read {
			t.Errorf("%s: it is read again: %t", name, read)
		}
	}
}

func TestCache_KeepsNoError(t *testing.T) {
	c, planted := NewCache(1<<20), errors.New("planted")
	_, err := c.Load(t.Context(), "key", start, 0, func(context.Context) (*Cached, error) { return nil, planted })
	if !errors.Is(err, planted) {
		t.Errorf("error %v", err)
	}
	if _, read := load(t, c, "key", start, 0, "good"); !read {
		t.Error("an error was kept")
	}
}

// TestCache_ReadsAMissingResponseOnce: requests for it wait for the first, which may end before.
func TestCache_ReadsAMissingResponseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, release := NewCache(1<<20), make(chan struct{})
		var reads, answered atomic.Int32
		first, leave := context.WithCancel(t.Context())
		for range 10 {
			go func() {
				got, err := c.Load(first, "key", start, 0, func(ctx context.Context) (*Cached, error) {
					reads.Add(1)
					<-release
					return NewCached([]byte("response")), ctx.Err()
				})
				if err == nil && string(got.Body) == "response" {
					answered.Add(1)
				}
			}()
		}
		synctest.Wait()
		leave()
		close(release)
		synctest.Wait()
		if reads.Load() != 1 || answered.Load() != 10 {
			t.Errorf("%d reads for %d responses", reads.Load(), answered.Load())
		}
	})
}

// TestCache_UsesNothingReadBeforeAChange: neither does a later request wait for it, nor is it kept.
func TestCache_UsesNothingReadBeforeAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, release := NewCache(1<<20), make(chan struct{})
		go func() {
			_, _ = c.Load(t.Context(), "key", start, 0, func(context.Context) (*Cached, error) {
				<-release
				return NewCached([]byte("old")), nil
			})
		}()
		synctest.Wait()
		c.Invalidate()
		if got, _ := load(t, c, "key", start, 0, "new"); string(got.Body) != "new" {
			t.Errorf("after the change: %s", got.Body)
		}

		close(release)
		synctest.Wait()
		if got, _ := load(t, c, "key", start, 0, "newer"); string(got.Body) == "old" {
			t.Errorf("after the read ended: %s", got.Body)
		}
	})
}
