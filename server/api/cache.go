package api

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"callbook/server/middleware"
)

// Limits of the cache that no option changes. A query can be written in endless ways, some of
// them long, and one large response must not evict hundreds of ordinary ones.
const (
	maxEntries = 16 << 10
	maxKey     = 2 << 10
	maxSize    = 512 << 10
)

// maxAge is how long a response is used at most. Some say how something stands today, or how
// long ago it happened, and no commit tells when that changes.
const maxAge = time.Minute

// Cache holds finished public responses: those of operations by path and query, and pages by
// language and form as well. A commit that changes anything public invalidates all of them, before
// its writer gets a response, so that a client always reads what it wrote. It is an LRU cache,
// bounded by count and by bytes, and safe for concurrent use.
type Cache struct {
	maxBytes   int
	generation atomic.Uint64 // number of calls of Invalidate
	missing    singleflight.Group

	mu      sync.Mutex
	entries *simplelru.LRU[string, entry]
	bytes   int
}

// entry is a cached response.
type entry struct {
	*Cached
	generation uint64    // before the data of the response was read
	readAt     time.Time // likewise
}

// NewCache returns a cache of at most maxBytes. One of 0 bytes caches nothing.
func NewCache(maxBytes int) *Cache {
	c := &Cache{maxBytes: maxBytes}
	c.entries, _ = simplelru.NewLRU(maxEntries, c.removed) // fails only for a size below 1
	return c
}

// removed is the LRU's callback for every entry that leaves it.
func (c *Cache) removed(key string, e entry) { c.bytes -= len(key) + e.size() }

// Load returns the response of a key. If it is not cached, Load calls read, once for all requests
// that wait for the same response, with a context that does not end with the first of them.
// Errors are not cached. A response may be as old as stale although data has changed since; with
// 0, never.
func (c *Cache) Load(
	ctx context.Context,
	key string,
	now time.Time,
	stale time.Duration,
	read func(context.Context) (*Cached, error),
) (*Cached, error) {
	generation := c.generation.Load()
	if cached := c.get(key, generation, now, stale); cached != nil {
		return cached, nil
	}

	// With the generation in its name, a request that follows an acknowledged write waits for no
	// computation that began before the write.
	flight := strconv.FormatUint(generation, 36) + " " + key
	response, err, _ := c.missing.Do(flight, func() (any, error) {
		cached, err := read(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}

		c.add(key, entry{cached, generation, now})
		return cached, nil
	})
	if err != nil {
		return nil, err
	}
	return response.(*Cached), nil
}

// get returns the response that is cached for a key, or nil if there is none that may be used.
func (c *Cache) get(key string, generation uint64, now time.Time, stale time.Duration) *Cached {
	c.mu.Lock()
	defer c.mu.Unlock()

	e, ok := c.entries.Get(key)
	if !ok {
		return nil
	}

	limit := maxAge
	if stale > 0 {
		limit = stale
	} else if e.generation != generation {
		return nil
	}

	// The clock may have been set back: nothing is known about the age of a response of the future.
	age := now.Sub(e.readAt)
	if age < 0 || age >= limit {
		return nil
	}
	return e.Cached
}

func (c *Cache) add(key string, e entry) {
	size := len(key) + e.size()
	if len(key) > maxKey || size > min(maxSize, c.maxBytes) {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	// The LRU does not call back for an entry that Add replaces.
	c.entries.Remove(key)
	c.entries.Add(key, e)
	c.bytes += size
	for c.bytes > c.maxBytes {
		c.entries.RemoveOldest()
	}
}

// Invalidate makes all responses invalid whose data was read before. It must be called after a
// commit that changes anything public, and before its writer gets a response.
func (c *Cache) Invalidate() { c.generation.Add(1) }

// Clear also removes those that may be stale. It is for a commit that replaced everything.
func (c *Cache) Clear() {
	c.Invalidate()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Purge()
}

// Bytes returns the size of all entries with their keys.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.bytes
}

// Cached is a public response, ready to be sent.
type Cached struct {
	// Value is what the handler returned, for pages and tools; nil for a document. Requests share
	// it.
	Value any

	Body       []byte
	ETag       string
	Link       string // header; empty: none
	compress   sync.Once
	compressed []byte
}

// NewCached returns a response with a body.
func NewCached(body []byte) *Cached { return &Cached{Body: body, ETag: etag(body)} }

// gzip returns the compressed body, or nil if compression does not make it shorter. The
// body is compressed once for all clients; size includes it from the beginning.
func (cached *Cached) gzip() []byte {
	cached.compress.Do(func() {
		if body := middleware.Gzip(cached.Body); len(body) < len(cached.Body) {
			cached.compressed = body
		}
	})
	return cached.compressed
}

// size returns about the most memory that a response takes: its body, that compressed, and its
// value, which has the same texts.
func (cached *Cached) size() int { return cap(cached.Body) + 2*len(cached.Body) }
