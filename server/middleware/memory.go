package middleware

import "callbook/store/domain"

// enter counts the request, and its body, which may arrive slowly. It reports false over the
// limits.
func (r *responseRecorder) enter() bool {
	client := ClientAddress(r.request, r.observer.Proxies)
	r.networks = domain.Networks(client)
	if !r.observer.Proxies.speaksForMany(client) {
		r.counted = r.networks
	}

	r.entered = r.observer.Requests.Acquire(r.counted, 1)
	if !r.entered {
		return false
	}

	// A body of unknown length counts as a large one; a larger one is rejected.
	body := r.request.ContentLength
	if body < 0 || body > MaxUnread {
		body = MaxUnread
	}
	return body <= buffered || r.acquireMemory(int(body))
}

// acquireMemory counts n more bytes of bodies. It reports false over the limits.
func (r *responseRecorder) acquireMemory(n int) bool {
	// A body that is larger than the share of its network passes if there is no other.
	n = min(n, maxMemoryOfNetwork-r.memory)
	if !r.observer.Memory.Acquire(r.networks, n) {
		return false
	}

	r.memory += n
	return true
}

// leave ends what the request counts for.
func (r *responseRecorder) leave() {
	r.observer.Memory.Release(r.networks, r.memory)
	if r.entered {
		r.observer.Requests.Release(r.counted, 1)
	}
}
