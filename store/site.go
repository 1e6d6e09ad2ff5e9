package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"callbook/store/domain"
	"callbook/store/text"
)

// Names of site values.
const (
	secretName = "secret"      // the key of Pseudonym
	erasedAt   = "erased_at"   // the time of the first erasure since the last compaction
	mailsSince = "mails_since" // when the site began to send mail; 0 while it sends none
	devName    = "dev"         // set in a directory that callbook dev has made
	// untrustedProxyAt is when a request last came through a proxy that is not trusted.
	untrustedProxyAt = "untrusted_proxy_at"
)

// readSecret reads the key of Pseudonym, which the first process creates.
func (s *Store) readSecret(ctx context.Context) error {
	found, err := s.db.Find(ctx, &s.secret, selectSiteValue, secretName)
	if err != nil || found {
		return err
	}

	return s.write(ctx, func(t *tx) error {
		secret := make([]byte, sha256.Size)
		if _, err := io.ReadFull(t.Random, secret); err != nil {
			return fmt.Errorf("create the site's secret: %w", err)
		}
		if err := t.setFirst(secretName, secret); err != nil {
			return err
		}

		// Another process may have stored one meanwhile, which then is the secret.
		return t.Get(&s.secret, selectSiteValue, secretName)
	})
}

const selectSiteValue = `SELECT value FROM site WHERE name = ?`

// pseudonym returns a keyed hash of a value that must not be stored itself. The key never
// leaves the database.
func (s *Store) pseudonym(value string) []byte { return keyedHash(s.secret, value) }

// Pseudonym is Store.pseudonym.
func (t *tx) Pseudonym(value string) []byte { return t.store.pseudonym(value) }

// NetworkHash returns the pseudonym of a network.
func (t *tx) NetworkHash(network netip.Prefix) []byte {
	return t.Pseudonym("network\x00" + network.String())
}

// MailboxHash returns the pseudonym of a mailbox, which is the same for every spelling of its
// address.
func (t *tx) MailboxHash(address string) []byte {
	return t.Pseudonym("mailbox\x00" + text.NormalMailbox(address))
}

// CodeHash returns the keyed hash of a code by which the database knows it, from its hash. The key
// is Options.Secret, without which a stolen database does not tell the code, or else that of
// Pseudonym.
func (t *tx) CodeHash(hash []byte) []byte {
	if secret := t.store.codeSecret; len(secret) > 0 {
		return keyedHash(secret, string(hash))
	}
	return t.Pseudonym("code\x00" + string(hash))
}

func keyedHash(key []byte, value string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// SetSiteValue stores a named value of the site.
func (t *tx) SetSiteValue(name string, value []byte) error {
	return t.Exec(`
		INSERT INTO site (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

// SetSiteNumber stores a named number of the site.
func (t *tx) SetSiteNumber(name string, n int64) error {
	return t.SetSiteValue(name, formatNumber(n))
}

// SetSiteTime stores a named time of the site.
func (t *tx) SetSiteTime(name string, at domain.Time) error {
	return t.SetSiteNumber(name, int64(at))
}

// setFirst stores a named value of the site, unless there is one.
func (t *tx) setFirst(name string, value []byte) error {
	return t.Exec(
		`INSERT INTO site (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
		name,
		value,
	)
}

func formatNumber(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// siteTime returns a named time of the site; 0 if there is none.
func (s *Store) siteTime(ctx context.Context, name string) (domain.Time, error) {
	n, err := s.siteNumber(ctx, name)
	return domain.Time(n), err
}

// siteNumber returns a named number of the site; 0 if there is none.
func (s *Store) siteNumber(ctx context.Context, name string) (n int64, err error) {
	_, err = s.db.Find(ctx, &n, selectSiteNumber, name)
	return n, err
}

// SiteNumber is Store.siteNumber.
func (t *tx) SiteNumber(name string) (n int64, err error) {
	_, err = t.Find(&n, selectSiteNumber, name)
	return n, err
}

const selectSiteNumber = `SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?`
