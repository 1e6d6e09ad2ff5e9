package middleware

import (
	"math/rand/v2"
	"regexp"
	"strconv"

	"callbook/store/domain"
)

// wellFormedID matches the request ids that clients may choose.
var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// requestID returns the request id of the client if it is well-formed, or a new one.
func requestID(given string) string {
	// The id is logged, and a client may send its API key by mistake.
	if given != "" && wellFormedID.MatchString(given) && !domain.WellFormedKey(given) {
		return given
	}
	return strconv.FormatUint(rand.Uint64(), 36) // unique, not secret
}
