package middleware

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"callbook/store/domain"
)

// NoticeProxy calls notice, at most once a day, if requests come through a proxy on this machine or a
// private network while no proxy is trusted, or over a Unix socket without X-Forwarded-For: all visitors then count as one address.
func NoticeProxy(next http.Handler, trusted TrustedProxies, clock func() time.Time, notice func(socket bool)) http.Handler {
	var noticed atomic.Int64 // domain.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded, socket := r.Header["X-Forwarded-For"] != nil, fromSocket(r)
		if socket && !forwarded || len(trusted) == 0 && forwarded && fromNearby(r) {
			now, last := domain.TimeOf(clock()), noticed.Load()
			if now >= domain.Time(last).Add(domain.Day) && noticed.CompareAndSwap(last, int64(now)) {
				notice(socket)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// fromSocket reports whether a request came over a Unix socket, whose peer has no address.
func fromSocket(r *http.Request) bool {
	_, err := netip.ParseAddrPort(r.RemoteAddr)
	return err != nil
}

// fromNearby reports whether the peer of a request is this machine or in a private network.
func fromNearby(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	return err == nil && (addr.IsLoopback() || addr.IsPrivate())
}
