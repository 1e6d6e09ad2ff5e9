package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// Ids are a prefix that tells the kind of record, then 26 characters that sort
// By the time of making: 48 bits of milliseconds and 80 random bits.
const (
	IdOffering = "off_"
	IdPost     = "pst_"
	IdReply    = "rpl_"
	IdReport   = "rpt_"
	IdRequest  = "req_"
	IdCollab   = "col_"
	IdMail     = "mail_"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func NewID(prefix string, now Time, random io.Reader) (string, error) {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(now)<<16)
	if _, err := io.ReadFull(random, raw[6:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + idEncoding.EncodeToString(raw[:]), nil
}

// An API key is keyPrefix, keyRandom base62 characters of randomness (256 bits)
// and keyCheck base62 characters that are the CRC-32 of all that precedes them.
const (
	KeyPrefix = "cq_"
	KeyRandom = 43
	keyCheck  = 6
	keyLength = len(KeyPrefix) + KeyRandom + keyCheck
)

const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewSecret is keyRandom base62 characters of randomness.
func NewSecret(random io.Reader) (string, error) {
	secret := make([]byte, 0, KeyRandom)
	var raw [64]byte
	for len(secret) < KeyRandom {
		if _, err := io.ReadFull(random, raw[:]); err != nil {
			return "", fmt.Errorf("make a secret: %w", err)
		}
		for _, b := range raw {
			// 248 is the largest multiple of 62 in a byte: what lies above would
			// make some characters more likely than others.
			if b < 248 && len(secret) < KeyRandom {
				secret = append(secret, Base62[b%62])
			}
		}
	}
	return string(secret), nil
}

func NewKey(random io.Reader) (string, error) {
	secret, err := NewSecret(random)
	if err != nil {
		return "", err
	}
	return string(AppendCheck([]byte(KeyPrefix + secret))), nil
}

func AppendCheck(key []byte) []byte {
	sum := crc32.ChecksumIEEE(key)
	var check [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		check[i] = Base62[sum%62]
		sum /= 62
	}
	return append(key, check[:]...)
}

// WellFormedKey reports whether s could be an API key: its shape and checksum
// are right. A mistyped key is refused by this alone, without a look-up.
func WellFormedKey(s string) bool {
	random, found := strings.CutPrefix(s, KeyPrefix)
	if !found || len(s) != keyLength || strings.Trim(random, Base62) != "" {
		return false
	}
	return string(AppendCheck([]byte(s[:keyLength-keyCheck]))) == s
}

func HashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// HashParts hashes the parts of a scope, unambiguously.
func HashParts(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
