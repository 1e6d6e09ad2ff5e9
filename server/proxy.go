package server

import (
	"net/http"
	"net/netip"
	"sync/atomic"

	"callbook/store/domain"
)

// noticeProxy reports, once a day, that requests come through a proxy on this machine or a private
// network while no proxy is trusted: all visitors then count as one address. The log tells it, and
// callbook check, which reads the time in the database.
func (s *Server) noticeProxy(next http.Handler) http.Handler {
	if len(s.options.TrustedProxies) > 0 {
		return next
	}
	var noticed atomic.Int64 // domain.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["X-Forwarded-For"] != nil && fromNearby(r) {
			now, last := domain.TimeOf(s.store.Now()), noticed.Load()
			if now >= domain.Time(last).Add(domain.Day) && noticed.CompareAndSwap(last, int64(now)) {
				s.options.Log.Warn().Msg("a request came through a proxy whose X-Forwarded-For header is not trusted: all visitors count as one address; set --trusted-proxy to the address of the proxy")
				s.store.RecordUntrustedProxy()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// fromNearby reports whether the peer of a request is this machine or in a private network.
func fromNearby(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	return err == nil && (addr.IsLoopback() || addr.IsPrivate())
}
