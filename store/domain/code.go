package domain

import (
	"encoding/base32"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A code that verifies a mailbox has 40 bits. Its alphabet has no letters that look like digits.
const (
	codeLength   = 8
	codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

var codeEncoding = base32.NewEncoding(codeAlphabet).WithPadding(base32.NoPadding)

// NewCode returns a code in the form XXXX-XXXX.
func NewCode(random io.Reader) (string, error) {
	var raw [codeLength * 5 / 8]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("create a code: %w", err)
	}
	text := codeEncoding.EncodeToString(raw[:])
	return text[:codeLength/2] + "-" + text[codeLength/2:], nil
}

// RecoveryBytes is the size of a recovery code before it is encoded: 128 bits, so that nobody guesses
// it, however often they try.
const RecoveryBytes = 16

// RecoveryCode returns a recovery code in groups of four characters.
func RecoveryCode(raw []byte) string {
	const group = codeLength / 2
	text := codeEncoding.EncodeToString(raw)
	groups := make([]string, 0, len(text)/group+1)
	for part := range slices.Chunk([]byte(text), group) {
		groups = append(groups, string(part))
	}
	return strings.Join(groups, "-")
}

var codeReader = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1")

// HashCode returns the hash of a code. It ignores case and hyphens, and reads letters that the
// alphabet omits as the digits that they look like.
func HashCode(agentID int64, purpose, mailbox, code string) []byte {
	sum := HashParts(strconv.FormatInt(agentID, 10), purpose, mailbox, codeReader.Replace(strings.ToUpper(code)))
	return sum[:]
}
