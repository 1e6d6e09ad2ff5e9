package ratelimit

import (
	"net/netip"
	"sync"

	"callbook/store/domain"
)

// reservedPart is the part of a pool that is reserved for networks with little use: an eighth.
const reservedPart = 8

// Pool shares a resource, such as memory or connections, among the networks of clients. It is
// safe for concurrent use.
type Pool struct {
	total  int          // units of all clients
	share  domain.Share // units of each network of a client
	little int          // units of a network that may use the reserved part

	mu       sync.Mutex
	used     int
	networks map[netip.Prefix]int
}

// NewPool returns a pool of total units, of which each network of a client can have its share. An
// eighth of the pool is reserved for networks that have no more units than little with what they
// acquire.
func NewPool(total int, share domain.Share, little int) *Pool {
	return &Pool{
		total:    total,
		share:    share,
		little:   little,
		networks: map[netip.Prefix]int{},
	}
}

// Acquire acquires n units for a client with these networks, as domain.Networks returns them. It
// reports false, and acquires none, if the pool or a network would exceed its limit. A client
// without networks is limited by the total only.
func (p *Pool) Acquire(networks []netip.Prefix, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.total {
		return false
	}

	// Nothing is acquired before all networks are checked.
	for level, network := range networks {
		used := p.networks[network]
		if used+n > p.share[level] {
			return false
		}
		if used+n > p.little && p.used+n > p.total-p.total/reservedPart {
			return false
		}
	}

	p.used += n
	for _, network := range networks {
		p.networks[network] += n
	}

	return true
}

// Release releases n units that Acquire has acquired.
func (p *Pool) Release(networks []netip.Prefix, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n

	for _, network := range networks {
		// Without an entry, so that the map does not grow with every network ever seen.
		if p.networks[network] -= n; p.networks[network] <= 0 {
			delete(p.networks, network)
		}
	}
}

// Used returns the number of units in use.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
