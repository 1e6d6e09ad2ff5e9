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

// The prefixes of ids, by kind of record.
const (
	IDOffering = "off_"
	IDPost     = "pst_"
	IDReply    = "rpl_"
	IDReport   = "rpt_"
	IDRequest  = "req_"
	IDCollab   = "col_"
	IDMail     = "mail_"
	IDWake     = "wake_"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").
	WithPadding(base32.NoPadding)

// NewID returns an id: the prefix, then 26 characters that sort by time. They encode 48 bits of
// milliseconds and 80 random bits.
func NewID(prefix string, now Time, random io.Reader) (string, error) {
	var raw [16]byte

	// The time takes the first six bytes; the other two are overwritten.
	binary.BigEndian.PutUint64(raw[:8], uint64(now)<<16)
	if _, err := io.ReadFull(random, raw[6:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + idEncoding.EncodeToString(raw[:]), nil
}

// An API key is KeyPrefix, then keyRandom base62 characters of randomness (256 bits), then keyCheck
// base62 characters that are the CRC-32 of all characters before them.
const (
	KeyPrefix = "cq_"
	keyRandom = 43
	keyCheck  = 6
	keyLength = len(KeyPrefix) + keyRandom + keyCheck
)

// Base62 is the alphabet of keys and secrets.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewSecret returns keyRandom base62 characters of randomness.
func NewSecret(random io.Reader) (string, error) {
	secret := make([]byte, 0, keyRandom)
	var raw [64]byte
	for len(secret) < keyRandom {
		if _, err := io.ReadFull(random, raw[:]); err != nil {
			return "", fmt.Errorf("make a secret: %w", err)
		}

		for _, b := range raw {
			// 248 is the largest multiple of 62 in a byte: the values above would make some
			// characters more likely than others.
			if b < 248 && len(secret) < keyRandom {
				secret = append(secret, Base62[b%62])
			}
		}
	}

	return string(secret), nil
}

// NewKey returns a new API key.
func NewKey(random io.Reader) (string, error) {
	secret, err := NewSecret(random)
	if err != nil {
		return "", err
	}
	return string(appendCheck([]byte(KeyPrefix + secret))), nil
}

// appendCheck appends the checksum to the other parts of a key.
func appendCheck(key []byte) []byte {
	sum := crc32.ChecksumIEEE(key)
	var check [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		check[i] = Base62[sum%62]
		sum /= 62
	}
	return append(key, check[:]...)
}

// WellFormedKey reports whether s has the form and the checksum of an API key. It rejects every
// key with a typo, without a query.
func WellFormedKey(s string) bool {
	// Trim leaves nothing of a text in which every character is of the alphabet.
	random, found := strings.CutPrefix(s, KeyPrefix)
	if !found || len(s) != keyLength || strings.Trim(random, Base62) != "" {
		return false
	}
	return string(appendCheck([]byte(s[:keyLength-keyCheck]))) == s
}

// ContainsKey reports whether a text contains a well-formed API key.
func ContainsKey(s string) bool {
	for at := range len(s) - keyLength + 1 {
		if WellFormedKey(s[at : at+keyLength]) {
			return true
		}
	}
	return false
}

// HashKey returns the hash under which a key is stored.
func HashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// HashParts returns the hash of several texts, separated by NUL.
func HashParts(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
