package store

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"callbook/store/sqlitedb"
)

// BlockLists has in memory what requests are checked against outside of transactions. Its methods may be
// called from any goroutine.
type BlockLists struct {
	db      *sqlitedb.DB
	current atomic.Pointer[lists]

	mu    sync.Mutex
	stale bool // current is to be read again
}

type lists struct {
	hosts    []string
	networks map[BlockKind][]netip.Prefix
}

// newLists returns the lists of a database, which are empty until Committed is called.
func newLists(db *sqlitedb.DB) *BlockLists {
	l := &BlockLists{db: db}
	l.current.Store(&lists{})
	return l
}

// Committed reads the lists again after a commit that changed them. It must be called after each
// commit and before its writers return. If they cannot be read, they stay as they are until the next
// commit.
func (l *BlockLists) Committed(c Changes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale = l.stale || c.All || c.Lists; !l.stale {
		return
	}

	entries, err := listBlocks(context.Background(), l.db)
	if err != nil {
		return
	}
	current := &lists{networks: map[BlockKind][]netip.Prefix{}}
	for _, e := range entries {
		switch e.Kind {
		case BlockHost:
			current.hosts = append(current.hosts, e.Entry)
		case BlockNetwork, ExemptNetwork:
			if network, err := netip.ParsePrefix(e.Entry); err == nil {
				current.networks[e.Kind] = append(current.networks[e.Kind], network)
			}
		}
	}
	l.current.Store(current)
	l.stale = false
}

// HostBlocked reports whether links to a host are blocked.
func (l *BlockLists) HostBlocked(host string) bool { return holdsName(l.current.Load().hosts, host) }

// NetworkBlocked reports whether the network of a client is blocked.
func (l *BlockLists) NetworkBlocked(client netip.Addr) bool { return l.has(BlockNetwork, client) }

// NetworkExempt reports whether limits of networks do not count a client.
func (l *BlockLists) NetworkExempt(client netip.Addr) bool { return l.has(ExemptNetwork, client) }

func (l *BlockLists) has(kind BlockKind, client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return slices.ContainsFunc(l.current.Load().networks[kind], func(p netip.Prefix) bool {
		return p.Contains(client)
	})
}
