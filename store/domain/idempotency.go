package domain

import (
	"crypto/sha256"
	"fmt"
)

// IdempotencyRetention is how long a request with an Idempotency-Key can be repeated.
const IdempotencyRetention = Day

// IdempotencyKey makes a request that creates a record repeatable. Its zero value does not.
type IdempotencyKey struct {
	scope   string            // the operation and the Idempotency-Key
	request [sha256.Size]byte // hash of the request
}

// NewIdempotencyKey returns the key of a request to an operation. header is its
// Idempotency-Key; request is all that distinguishes two requests: path, query and body.
func NewIdempotencyKey(operation, header string, request ...string) IdempotencyKey {
	return IdempotencyKey{scope: operation + "\x00" + header, request: HashParts(request...)}
}

// IsZero reports whether the request has no Idempotency-Key.
func (k IdempotencyKey) IsZero() bool { return k.scope == "" }

// Hash returns the hash under which the response of an agent's request is stored.
func (k IdempotencyKey) Hash(agentID int64) []byte {
	sum := HashParts(fmt.Sprint(agentID), k.scope)
	return sum[:]
}

// RequestHash returns the hash of the request.
func (k IdempotencyKey) RequestHash() []byte { return k.request[:] }
