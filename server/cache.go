package server

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzip"

	"callbook/store"
)

// DefaultCacheBytes is how much the cache of answers holds unless the operator says
// otherwise.
const DefaultCacheBytes = 16 << 20

// The cache is cut into shards, so that readers seldom wait for each other. Each is
// bounded by count and by the size of its answers.
const (
	cacheShards  = 16
	shardEntries = 1024
	maxCached    = 256 << 10 // one answer: the longest list page of ordinary size
	maxKey       = 2 << 10   // a query can be written in endless ways, some of them long
)

// dependence says what a public answer is made from, and so when it is stale.
type dependence int

const (
	onNothing dependence = iota // not kept
	onSite                      // the program and its options only
	onCard                      // one agent's card
	onAgents                    // any agent
	onPosts                     // any call or reply, or an author's name or level
	onCollabs                   // any confirmed collaboration, or a party's name or level
	dependences
)

// cached is a public answer, ready to be sent, with the values of its headers.
type cached struct {
	body       []byte
	length     []string
	tag        []string
	link       []string // nil: none
	dependence dependence
	card       int64 // with onCard: whose
	generation uint64
	made       time.Time // one from the future is not used: the clock went back
	until      time.Time // zero: until a commit makes it stale
	zipped     atomic.Pointer[gzipped]
}

// gzipped is an answer compressed, once for all who take it so.
type gzipped struct {
	body   []byte // nil: not worth it
	length []string
}

// newCached is an answer that no commit makes stale.
func newCached(content string) *cached {
	body := []byte(content)
	return tagged(body, etag(body))
}

func tagged(body []byte, tag string) *cached {
	return &cached{body: body, length: []string{strconv.Itoa(len(body))}, tag: []string{tag}, dependence: onSite}
}

// minZipped is how long an answer is that is sent compressed.
const minZipped = 1024

// zip is the answer compressed, if that is shorter. It is kept: the cache has counted it
// in beforehand.
func (e *cached) zip() *gzipped {
	if z := e.zipped.Load(); z != nil {
		return z
	}
	z := &gzipped{}
	if body := compressed(e.body); len(body) < len(e.body) {
		z = &gzipped{body, []string{strconv.Itoa(len(body))}}
	}
	e.zipped.Store(z)
	return z
}

// cost is how many bytes of the cache an answer takes at the most, with its compressed
// form.
func (e *cached) cost(key string) int { return len(key) + cap(e.body) + len(e.body) }

// cache keeps public answers by path and query. Commits make them stale before
// their writers are answered, so a caller always reads what it wrote. Nothing is
// dropped for that: each answer knows the generation of what it is made from.
type cache struct {
	seed       maphash.Seed
	shards     [cacheShards]shard
	bytes      int // of a shard; 0: nothing is kept
	commits    atomic.Uint64
	generation [dependences]atomic.Uint64
	cards      [1024]atomic.Uint64 // generations of agents' cards, by their number; some share one
}

type shard struct {
	mu      sync.Mutex
	entries *lru.Cache[string, *cached]
	bytes   int
}

// newCache makes a cache of so many bytes in all; none keeps nothing.
func newCache(bytes int64) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed(), bytes: int(bytes / cacheShards)}
	for i := range c.shards {
		s := &c.shards[i]
		var err error
		s.entries, err = lru.NewWithEvict(shardEntries, func(key string, e *cached) { s.bytes -= e.cost(key) })
		if err != nil {
			return nil, fmt.Errorf("make the cache: %w", err)
		}
	}
	return c, nil
}

func (c *cache) shard(key string) *shard {
	return &c.shards[maphash.String(c.seed, key)%cacheShards]
}

// current is the generation of what an answer is made from.
func (c *cache) current(e *cached) uint64 {
	if e.dependence == onCard {
		return c.cards[uint64(e.card)%uint64(len(c.cards))].Load()
	}
	return c.generation[e.dependence].Load()
}

// begin marks the moment from which an answer to be kept is read.
func (c *cache) begin() uint64 { return c.commits.Load() }

func (c *cache) get(key string, now time.Time) *cached {
	if c.bytes == 0 {
		return nil
	}
	s := c.shard(key)
	s.mu.Lock()
	e, ok := s.entries.Get(key)
	s.mu.Unlock()
	if !ok || e.generation != c.current(e) || now.Before(e.made) || !e.until.IsZero() && !now.Before(e.until) {
		return nil
	}
	return e
}

// put keeps an answer, unless a commit since begin may have made it stale. The
// generation is read before the commits are, for changed counts them the other way
// round.
func (c *cache) put(key string, e *cached, begun uint64) {
	cost := e.cost(key)
	if e.dependence == onNothing || len(e.body) > maxCached || len(key) > maxKey || cost > c.bytes {
		return
	}
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.generation = c.current(e)
	if c.commits.Load() != begun {
		return
	}
	s.entries.Remove(key) // so that the one before is counted out
	s.entries.Add(key, e)
	for s.bytes += cost; s.bytes > c.bytes; {
		s.entries.RemoveOldest()
	}
}

// size is how many bytes are taken.
func (c *cache) size() int {
	size := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		size += s.bytes
		s.mu.Unlock()
	}
	return size
}

// changed makes stale what a commit changed.
func (c *cache) changed(changes store.Changes) {
	if !changes.Public() {
		return
	}
	c.commits.Add(1)
	for id := range changes.Cards {
		c.cards[uint64(id)%uint64(len(c.cards))].Add(1)
	}
	if changes.All {
		c.clear()
	}
	if changes.Agents {
		c.generation[onAgents].Add(1)
	}
	if changes.Posts {
		c.generation[onPosts].Add(1)
	}
	if changes.Collabs {
		c.generation[onCollabs].Add(1)
	}
}

func (c *cache) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.entries.Purge()
		s.mu.Unlock()
	}
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzkp.NewWriter(&b, gzip.DefaultCompression) // of a pool: one takes most of a megabyte
	_, _ = w.Write(body)                             // to memory: neither fails
	_ = w.Close()
	return bytes.Clone(b.Bytes()) // without the room that the buffer has left
}
