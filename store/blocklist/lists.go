package blocklist

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"callbook/store/txn"
)

// Lists has in memory what requests are checked against outside of transactions. Its methods may be
// called from any goroutine.
type Lists struct {
	db      *txn.DB
	current atomic.Pointer[lists]

	mu    sync.Mutex
	stale bool // current is to be read again
}

type lists struct {
	hosts    []string
	networks map[Kind][]netip.Prefix
}

// NewLists returns the lists of a database, which are empty until Committed is called.
func NewLists(db *txn.DB) *Lists {
	l := &Lists{db: db}
	l.current.Store(&lists{})
	return l
}

// Committed reads the lists again after a commit that changed them. It must be called after each
// commit and before its writers return. If they cannot be read, they stay as they are until the next
// commit.
func (l *Lists) Committed(c txn.Changes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale = l.stale || c.All || c.Lists; !l.stale {
		return
	}

	entries, err := List(context.Background(), l.db)
	if err != nil {
		return
	}
	current := &lists{networks: map[Kind][]netip.Prefix{}}
	for _, e := range entries {
		switch e.Kind {
		case Host:
			current.hosts = append(current.hosts, e.Entry)
		case Network, Exempt:
			if network, err := netip.ParsePrefix(e.Entry); err == nil {
				current.networks[e.Kind] = append(current.networks[e.Kind], network)
			}
		}
	}
	l.current.Store(current)
	l.stale = false
}

// HostBlocked reports whether links to a host are blocked.
func (l *Lists) HostBlocked(host string) bool { return holdsName(l.current.Load().hosts, host) }

// NetworkBlocked reports whether the network of a client is blocked.
func (l *Lists) NetworkBlocked(client netip.Addr) bool { return l.has(Network, client) }

// NetworkExempt reports whether limits of networks do not count a client.
func (l *Lists) NetworkExempt(client netip.Addr) bool { return l.has(Exempt, client) }

func (l *Lists) has(kind Kind, client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return slices.ContainsFunc(l.current.Load().networks[kind], func(p netip.Prefix) bool {
		return p.Contains(client)
	})
}
