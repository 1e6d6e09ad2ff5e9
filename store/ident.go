package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"
)

// Ids are a prefix that tells the kind of record, then 26 characters that sort
// by the time of making: 48 bits of milliseconds and 80 random bits.
const (
	idOffering = "off_"
	idPost     = "pst_"
	idReply    = "rpl_"
	idReport   = "rpt_"
	idRequest  = "req_"
	idCollab   = "col_"
	idMail     = "mail_"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func newID(prefix string, now Time, random io.Reader) (string, error) {
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
	keyPrefix = "cq_"
	keyRandom = 43
	keyCheck  = 6
	keyLength = len(keyPrefix) + keyRandom + keyCheck
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newSecret is keyRandom base62 characters of randomness.
func newSecret(random io.Reader) (string, error) {
	secret := make([]byte, 0, keyRandom)
	var raw [64]byte
	for len(secret) < keyRandom {
		if _, err := io.ReadFull(random, raw[:]); err != nil {
			return "", fmt.Errorf("make a secret: %w", err)
		}
		for _, b := range raw {
			// 248 is the largest multiple of 62 in a byte: what lies above would
			// make some characters more likely than others.
			if b < 248 && len(secret) < keyRandom {
				secret = append(secret, base62[b%62])
			}
		}
	}
	return string(secret), nil
}

func newKey(random io.Reader) (string, error) {
	secret, err := newSecret(random)
	if err != nil {
		return "", err
	}
	return string(appendCheck([]byte(keyPrefix + secret))), nil
}

func appendCheck(key []byte) []byte {
	sum := crc32.ChecksumIEEE(key)
	var check [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		check[i] = base62[sum%62]
		sum /= 62
	}
	return append(key, check[:]...)
}

// WellFormedKey reports whether s could be an API key: its shape and checksum
// are right. A mistyped key is refused by this alone, without a look-up.
func WellFormedKey(s string) bool {
	random, found := strings.CutPrefix(s, keyPrefix)
	if !found || len(s) != keyLength || strings.Trim(random, base62) != "" {
		return false
	}
	return string(appendCheck([]byte(s[:keyLength-keyCheck]))) == s
}

func hashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// pseudonym is a keyed hash of what must not be kept as it is. Its key never
// leaves the database.
func (t *tx) pseudonym(value string) ([]byte, error) {
	secret, err := t.secret()
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(value))
	return mac.Sum(nil), nil
}

// secret is the site's own, made when first needed.
func (t *tx) secret() (secret []byte, err error) {
	const name = "secret"
	found, err := t.Find(&secret, `SELECT value FROM site WHERE name = ?`, name)
	if err != nil || found {
		return secret, err
	}
	secret = make([]byte, sha256.Size)
	if _, err := io.ReadFull(t.store.random, secret); err != nil {
		return nil, fmt.Errorf("make the site's secret: %w", err)
	}
	return secret, t.Exec(`INSERT INTO site (name, value) VALUES (?, ?)`, name, secret)
}

// setSite keeps a value of the site's own.
func (t *tx) setSite(name string, value []byte) error {
	return t.Exec(`
		INSERT INTO site (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

// noteTime keeps when something was done for the whole site.
func (t *tx) noteTime(name string, done Time) error {
	return t.setSite(name, timeNote(done))
}

func timeNote(done Time) []byte { return strconv.AppendInt(nil, int64(done), 10) }

// notedTime is when something was done last; 0 when it never was.
func (s *Store) notedTime(ctx context.Context, name string) (done Time, err error) {
	_, err = s.find(ctx, &done, `SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?`, name)
	return done, err
}

// within tells whether something was done so short a time ago, by a clock that has not
// gone back.
func (s *Store) within(age time.Duration, done Time) bool {
	now := at(s.clock())
	return now.add(-age) <= done && done <= now
}
