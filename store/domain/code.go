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
const codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var codeEncoding = base32.NewEncoding(codeAlphabet).WithPadding(base32.NoPadding)

// NewCode returns a code in the form XXXX-XXXX.
func NewCode(random io.Reader) (string, error) { return newCode(random, 5) }

// NewRecoveryCode returns a recovery code in groups of four characters. It has 128 bits, so that it
// cannot be guessed in any number of attempts.
func NewRecoveryCode(random io.Reader) (string, error) { return newCode(random, 16) }

func newCode(random io.Reader, bytes int) (string, error) {
	raw := make([]byte, bytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("create a code: %w", err)
	}

	var groups []string
	for group := range slices.Chunk([]byte(codeEncoding.EncodeToString(raw)), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, "-"), nil
}

var codeReader = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1")

// HashCode returns the hash of a code. It ignores case and hyphens, and reads letters that the
// alphabet omits as the digits that they look like.
func HashCode(agentID int64, purpose, mailbox, code string) []byte {
	// The other parts keep a code from being valid for another agent, purpose or mailbox.
	sum := HashParts(
		strconv.FormatInt(agentID, 10),
		purpose,
		mailbox,
		codeReader.Replace(strings.ToUpper(code)),
	)
	return sum[:]
}
