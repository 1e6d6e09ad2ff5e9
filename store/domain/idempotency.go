package domain

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
)

// IdempotencyRetention is how long a request with an Idempotency-Key can be repeated.
const IdempotencyRetention = Day

// IdempotencyKey makes a request that creates a record repeatable. Its zero value does not.
type IdempotencyKey struct {
	scope   string            // the operation and the Idempotency-Key
	request [sha256.Size]byte // hash of the request
	from    netip.Addr        // of a client without an API key; else invalid
}

// NewIdempotencyKey returns the key of a request to an operation. header is its
// Idempotency-Key; request is all that distinguishes two requests: path, query and body.
func NewIdempotencyKey(operation, header string, request ...string) IdempotencyKey {
	return IdempotencyKey{scope: operation + "\x00" + header, request: HashParts(request...)}
}

// From returns the key of a client that has no API key. Clients in other networks have other keys.
func (k IdempotencyKey) From(client netip.Addr) IdempotencyKey {
	k.from = client
	return k
}

// Network returns the smallest network of a client that has no API key, or the zero Prefix.
func (k IdempotencyKey) Network() netip.Prefix { return SmallestNetwork(k.from) }

// IsZero reports whether the request has no Idempotency-Key.
func (k IdempotencyKey) IsZero() bool { return k.scope == "" }

// Hash returns the hash under which the response of an agent's request is stored; 0 is a client
// without an API key. network is the keyed hash of its network, if that is known.
func (k IdempotencyKey) Hash(agentID int64, network []byte) []byte {
	// Clients choose the same keys: those of each agent, or of each network, are apart.
	parts := []string{fmt.Sprint(agentID), k.scope}
	if network != nil {
		parts = append(parts, string(network))
	}
	sum := HashParts(parts...)
	return sum[:]
}

// RequestHash returns the hash of the request.
func (k IdempotencyKey) RequestHash() []byte { return k.request[:] }
