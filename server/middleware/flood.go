package middleware

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limits of the log. Requests that anybody can send without end have one line for each network and
// period, so that a flood of them cannot fill the disk.
const (
	floodPeriod = time.Second
	maxFloods   = 4096 // networks; the least recently seen are dropped first
)

// floods counts the requests that are not logged.
type floods struct {
	mu       sync.Mutex
	networks *simplelru.LRU[netip.Prefix, *flood]
}

// flood counts the requests of a network.
type flood struct {
	logged   time.Time // time of its last line
	unlogged int       // requests since then
}

// log reports whether a request of a network is logged, and how many before it were not.
func (f *floods) log(network netip.Prefix, now time.Time) (unlogged int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.networks == nil {
		// Fails only for a size below 1.
		f.networks, _ = simplelru.NewLRU[netip.Prefix, *flood](maxFloods, nil)
	}

	of, known := f.networks.Get(network)
	if !known {
		of = &flood{}
		f.networks.Add(network, of)
	}

	// Negative if the clock was set back: then the request is logged.
	if since := now.Sub(of.logged); known && since >= 0 && since < floodPeriod {
		of.unlogged++
		return 0, false
	}

	unlogged = of.unlogged
	of.logged = now
	of.unlogged = 0
	return unlogged, true
}

// canFlood reports whether anybody can cause the response without end.
func (r *responseRecorder) canFlood() bool {
	switch r.status {
	case http.StatusNotFound,
		http.StatusMethodNotAllowed,
		http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge,
		http.StatusServiceUnavailable: // while the service is busy or its disk is full
		return true
	}
	return false
}

// widestNetwork returns the largest network of the client of a request.
func (r *responseRecorder) widestNetwork() (widest netip.Prefix) {
	for _, network := range r.networks {
		widest = network
	}
	return widest
}
