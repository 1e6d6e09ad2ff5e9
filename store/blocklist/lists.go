package blocklist

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"callbook/store/txn"
)

// Lists has in memory what requests are checked against before a transaction, and reads it again after a commit that
// changed it. Its methods may be called from any goroutine.
type Lists struct {
	db      *txn.DB
	stale   atomic.Bool
	mu      sync.Mutex // of reading
	current atomic.Pointer[lists]
}

type lists struct {
	hosts    []string
	networks map[Kind][]netip.Prefix
}

// NewLists returns the lists of a database.
func NewLists(db *txn.DB) *Lists {
	l := &Lists{db: db}
	l.stale.Store(true)
	l.current.Store(&lists{})
	return l
}

// Committed must be called after each commit and before its writers return.
func (l *Lists) Committed(c txn.Changes) {
	if c.All || c.Lists {
		l.stale.Store(true)
	}
}

// HostBlocked reports whether links to a host are blocked.
func (l *Lists) HostBlocked(host string) bool {
	l.Refresh()
	return holdsName(l.current.Load().hosts, host)
}

// NetworkBlocked reports whether the network of a client is blocked.
func (l *Lists) NetworkBlocked(client netip.Addr) bool {
	l.Refresh()
	return l.has(Network, client)
}

// NetworkExempt reports whether limits of networks do not count a client.
func (l *Lists) NetworkExempt(client netip.Addr) bool {
	l.Refresh()
	return l.has(Exempt, client)
}

// WasExempt is NetworkExempt by the lists as they were read last, for transactions, which must not wait for a read.
func (l *Lists) WasExempt(client netip.Addr) bool { return l.has(Exempt, client) }

func (l *Lists) has(kind Kind, client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return slices.ContainsFunc(l.current.Load().networks[kind], func(p netip.Prefix) bool { return p.Contains(client) })
}

// Refresh reads the lists if they have changed. They stay as they are while another goroutine reads them, and if the
// database does not respond.
func (l *Lists) Refresh() {
	if !l.stale.Load() || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if !l.stale.Swap(false) {
		return
	}
	entries, err := List(context.Background(), l.db)
	if err != nil {
		l.stale.Store(true)
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
}
