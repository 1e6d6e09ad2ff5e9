package middleware

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"callbook/store/domain"
)

// requestID returns the request id of the client if it is well-formed and not an API key, or a
// new one.
func requestID(given string) string {
	valid := given != "" && len(given) <= 64 && !domain.WellFormedKey(given)
	for i := range len(given) {
		c := given[i]
		valid = valid && (c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z')
	}
	if valid {
		return given
	}
	var raw [12]byte // unique, not secret
	binary.LittleEndian.PutUint64(raw[:], rand.Uint64())
	binary.LittleEndian.PutUint32(raw[8:], rand.Uint32())
	return hex.EncodeToString(raw[:])
}
