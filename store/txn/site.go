package txn

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"

	"callbook/store/domain"
	"callbook/store/text"
)

// Names of site values.
const (
	secretName = "secret"      // the key of Pseudonym
	ErasedAt   = "erased_at"   // the time of the first erasure since the last compaction
	MailsSince = "mails_since" // the time at which the site began to send mail; 0 while it sends none

	UntrustedProxyAt = "untrusted_proxy_at" // when a request last came through a proxy that is not trusted
)

// Pseudonym returns a keyed hash of a value that must not be stored itself. The key never
// leaves the database.
func (t *Tx) Pseudonym(value string) ([]byte, error) {
	secret, err := t.secret()
	return keyedHash(secret, value), err
}

// CodeHash returns the keyed hash of a code by which the database knows it, from its hash. The key is
// Options.Secret, without which a stolen database does not tell the code, or else that of Pseudonym.
func (t *Tx) CodeHash(hash []byte) ([]byte, error) {
	if len(t.codeKey) > 0 {
		return keyedHash(t.codeKey, string(hash)), nil
	}
	return t.Pseudonym("code\x00" + string(hash))
}

func keyedHash(key []byte, value string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// Pseudonym is Tx.Pseudonym for reads. It returns not_found if there is no key yet.
func (db *DB) Pseudonym(ctx context.Context, value string) ([]byte, error) {
	var secret []byte
	err := db.Get(ctx, &secret, selectSecret, secretName)
	return keyedHash(secret, value), OrNotFound(err)
}

const selectSecret = `SELECT value FROM site WHERE name = ?`

// MailboxHash returns the pseudonym of a mailbox, which is the same for every spelling of its address.
func (t *Tx) MailboxHash(address string) ([]byte, error) {
	return t.Pseudonym("mailbox\x00" + text.NormalMailbox(address))
}

// secret returns the key of Pseudonym, which is created when it is first needed.
func (t *Tx) secret() (secret []byte, err error) {
	found, err := t.Find(&secret, selectSecret, secretName)
	if err != nil || found {
		return secret, err
	}
	secret = make([]byte, sha256.Size)
	if _, err := io.ReadFull(t.Random, secret); err != nil {
		return nil, fmt.Errorf("create the site's secret: %w", err)
	}
	return secret, t.SetSiteValue(secretName, secret)
}

// SetSiteValue stores a named value of the site.
func (t *Tx) SetSiteValue(name string, value []byte) error {
	return t.Exec(`
		INSERT INTO site (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

// SetSiteTime stores a named time of the site.
func (t *Tx) SetSiteTime(name string, at domain.Time) error {
	return t.SetSiteValue(name, formatTime(at))
}

// setFirstTime stores the current time under a name, unless there is one.
func (t *Tx) setFirstTime(name string) error {
	return t.Exec(`INSERT INTO site (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, formatTime(t.Now))
}

func formatTime(at domain.Time) []byte { return strconv.AppendInt(nil, int64(at), 10) }

// SiteTime returns a named time of the site; 0 if there is none.
func (db *DB) SiteTime(ctx context.Context, name string) (at domain.Time, err error) {
	_, err = db.Find(ctx, &at, `SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?`, name)
	return at, err
}
