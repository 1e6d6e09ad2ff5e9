package middleware

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"callbook/store/domain"
)

// NoticeProxy calls notice, at most once a day, if requests come through a proxy on this machine
// or a private network while no proxy is trusted, or over a Unix socket without X-Forwarded-For:
// all visitors then count as one address.
func NoticeProxy(
	next http.Handler,
	trusted TrustedProxies,
	clock func() time.Time,
	notice func(socket bool),
) http.Handler {
	var noticed atomic.Int64 // domain.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := r.Header["X-Forwarded-For"] != nil
		peer, err := netip.ParseAddrPort(r.RemoteAddr)

		// The peer of a Unix socket has no address.
		socket := err != nil
		addr := peer.Addr().Unmap()
		isNear := addr.IsLoopback() || addr.IsPrivate()
		if socket && !forwarded || forwarded && isNear && len(trusted) == 0 {
			last := noticed.Load()
			now := domain.TimeOf(clock())

			// Of requests at the same time, one swaps.
			isDue := now >= domain.Time(last).Add(domain.Day)
			if isDue && noticed.CompareAndSwap(last, int64(now)) {
				notice(socket)
			}
		}

		next.ServeHTTP(w, r)
	})
}
