package server

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"callbook/store"
)

// The cache is bounded by count and by the size of all its bodies; one answer by
// the longest list page of ordinary size.
const (
	cacheEntries = 8192
	cacheBytes   = 32 << 20
	maxCached    = 256 << 10
	maxKey       = 2 << 10 // a query can be written in endless ways, some of them long
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

// cached is a public answer, ready to be sent.
type cached struct {
	body       []byte
	etag       string
	link       string
	dependence dependence
	card       int64
	generation uint64
	made       time.Time // one from the future is not used: the clock went back
	until      time.Time // zero: until a commit makes it stale
}

// cache keeps public answers by path and query. Commits make them stale before
// their writers are answered, so a caller always reads what it wrote.
type cache struct {
	mu         sync.Mutex
	entries    *lru.Cache[string, *cached]
	generation [dependences]uint64
	cards      map[int64]string // agent → key of its card
	commits    uint64
	bytes      int // of all bodies
}

func newCache() (*cache, error) {
	c := &cache{cards: map[int64]string{}}
	entries, err := lru.NewWithEvict(cacheEntries, func(key string, e *cached) {
		c.bytes -= len(key) + len(e.body)
		if e.dependence == onCard {
			delete(c.cards, e.card)
		}
	})
	c.entries = entries
	return c, err
}

// begin marks the moment from which an answer to be kept is read.
func (c *cache) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits
}

func (c *cache) get(key string, now time.Time) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	if !ok || e.generation != c.generation[e.dependence] || now.Before(e.made) || !e.until.IsZero() && !now.Before(e.until) {
		return nil
	}
	return e
}

// put keeps an answer, unless a commit since begin may have made it stale.
func (c *cache) put(key string, e *cached, begun uint64) {
	if e.dependence == onNothing || len(e.body) > maxCached || len(key) > maxKey {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commits != begun {
		return
	}
	e.generation = c.generation[e.dependence]
	if e.dependence == onCard {
		// The same address can be spelt in many ways (%61 is a); one is kept, so
		// that a commit finds it.
		if other, ok := c.cards[e.card]; ok && other != key {
			c.entries.Remove(other)
		}
	}
	c.entries.Remove(key) // so that the one before is counted out
	c.entries.Add(key, e)
	for c.bytes += len(key) + len(e.body); c.bytes > cacheBytes; {
		c.entries.RemoveOldest()
	}
	if e.dependence == onCard {
		c.cards[e.card] = key
	}
}

// size is how many bytes all bodies have.
func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// changed drops what a commit made stale.
func (c *cache) changed(changes store.Changes) {
	if !changes.Public() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	for id := range changes.Cards {
		if key, ok := c.cards[id]; ok {
			c.entries.Remove(key)
		}
	}
	if changes.All {
		c.entries.Purge()
	}
	if changes.Agents {
		c.generation[onAgents]++
	}
	if changes.Posts {
		c.generation[onPosts]++
	}
	if changes.Collabs {
		c.generation[onCollabs]++
	}
}
