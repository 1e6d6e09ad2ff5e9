package store

import (
	"callbook/store/domain"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"time"
)

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
func (t *tx) noteTime(name string, done domain.Time) error {
	return t.setSite(name, timeNote(done))
}

func timeNote(done domain.Time) []byte { return strconv.AppendInt(nil, int64(done), 10) }

// notedTime is when something was done last; 0 when it never was.
func (s *Store) notedTime(ctx context.Context, name string) (done domain.Time, err error) {
	_, err = s.find(ctx, &done, `SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?`, name)
	return done, err
}

// within tells whether something was done so short a time ago, by a clock that has not
// gone back.
func (s *Store) within(age time.Duration, done domain.Time) bool {
	now := domain.TimeOf(s.clock())
	return now.Add(-age) <= done && done <= now
}
