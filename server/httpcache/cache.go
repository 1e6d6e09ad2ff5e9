// Package httpcache caches public responses by URL. A response carries tags that name
// the data it was made from, and a change of that data invalidates it by tag. The
// package knows neither the data nor what a response consists of.
package httpcache

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limits of the cache that no option changes. A query can be written in endless ways,
// some of them long, and one large response must not evict hundreds of ordinary ones.
const (
	maxEntries = 16 << 10
	maxKey     = 2 << 10
	maxSize    = 512 << 10
)

// Cache is an LRU cache that is bounded by count and by bytes. It is safe for
// concurrent use.
type Cache[T comparable, V any] struct {
	maxBytes int

	mu      sync.Mutex
	entries *simplelru.LRU[string, Item[T, V]]
	byTag   map[T]map[string]struct{} // keys of entries
	bytes   int
	version uint64 // number of invalidations
}

// Item is a value to be cached.
type Item[T comparable, V any] struct {
	Value   V
	Size    int // in bytes, without the key
	Tags    []T
	Added   time.Time
	Expires time.Time // zero: never
}

// New returns a cache of at most maxBytes. One of 0 bytes caches nothing.
func New[T comparable, V any](maxBytes int) *Cache[T, V] {
	c := &Cache[T, V]{maxBytes: maxBytes, byTag: map[T]map[string]struct{}{}}
	c.entries, _ = simplelru.NewLRU(maxEntries, c.removed) // fails only for a size below 1
	return c
}

// removed is the LRU's callback for every entry that leaves it.
func (c *Cache[T, V]) removed(key string, item Item[T, V]) {
	c.bytes -= len(key) + item.Size
	for _, tag := range item.Tags {
		if delete(c.byTag[tag], key); len(c.byTag[tag]) == 0 {
			delete(c.byTag, tag)
		}
	}
}

// Get returns the value that is cached for a key. If there is none, the caller reads
// the data and passes version to Add. An entry from the future is not returned: the
// clock was set back, so nothing is known about its age.
func (c *Cache[T, V]) Get(key string, now time.Time) (value V, version uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.entries.Get(key)
	if !ok || now.Before(item.Added) || !item.Expires.IsZero() && !now.Before(item.Expires) {
		return value, c.version, false
	}
	return item.Value, c.version, true
}

// Add caches a value. It does nothing if anything was invalidated since Get returned
// version, because the value may have been made from data that has changed since. It
// does not compare tags for that: a value that is read while data changes is read again.
func (c *Cache[T, V]) Add(key string, item Item[T, V], version uint64) {
	size := len(key) + item.Size
	if len(key) > maxKey || size > min(maxSize, c.maxBytes) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		return
	}
	c.entries.Remove(key) // the LRU does not call back for an entry that Add replaces
	c.entries.Add(key, item)
	for _, tag := range item.Tags {
		if c.byTag[tag] == nil {
			c.byTag[tag] = map[string]struct{}{}
		}
		c.byTag[tag][key] = struct{}{}
	}
	for c.bytes += size; c.bytes > c.maxBytes; {
		c.entries.RemoveOldest()
	}
}

// Invalidate removes the entries that carry one of the tags. When it has returned, no
// value that was read before is returned by Get.
func (c *Cache[T, V]) Invalidate(tags ...T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	for _, tag := range tags {
		for key := range c.byTag[tag] {
			c.entries.Remove(key)
		}
	}
}

// Clear removes all entries.
func (c *Cache[T, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.entries.Purge()
}

// Bytes returns the size of all entries with their keys.
func (c *Cache[T, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
