package middleware

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"callbook/store/domain"
)

// NoticeProxy calls notice, at most once a day, if requests come through a proxy on this machine or a
// private network while no proxy is trusted: all visitors then count as one address.
func NoticeProxy(next http.Handler, trusted TrustedProxies, clock func() time.Time, notice func()) http.Handler {
	if len(trusted) > 0 {
		return next
	}
	var noticed atomic.Int64 // domain.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["X-Forwarded-For"] != nil && fromNearby(r) {
			now, last := domain.TimeOf(clock()), noticed.Load()
			if now >= domain.Time(last).Add(domain.Day) && noticed.CompareAndSwap(last, int64(now)) {
				notice()
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
