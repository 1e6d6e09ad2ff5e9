package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
)

// ReportDraft says, optionally, why something is reported.
type ReportDraft struct {
	Reason string `json:"reason,omitempty" format:"multiline" maxLength:"300" doc:"For the operator."`
}

// reportWindow is how long an address counts once for a call; after it the
// address's hash is dropped.
const reportWindow = Day

// ReportPost tells the operator of a call. An address counts once a day for a
// call; nothing is hidden by reports alone.
func (s *Store) ReportPost(ctx context.Context, postID, address string, draft ReportDraft) error {
	return s.write(ctx, func(t *tx) error {
		var post PostDocument
		found, err := t.find(&post, selectPost+` WHERE p.id = ?`, postID)
		if err != nil {
			return err
		}
		if !found {
			return refuse(CodeNotFound)
		}
		reporter, err := t.pseudonym(address)
		if err != nil {
			return err
		}
		var earlier int64
		repeated, err := t.find(&earlier, `
			SELECT seq FROM reports
			WHERE about = 'post' AND subject = ? AND reporter = ? AND created_at > ?`,
			postID, reporter, t.now.add(-reportWindow))
		if err != nil || repeated {
			return err
		}
		id, err := t.newID(idReport)
		if err != nil {
			return err
		}
		return t.exec(`
			INSERT INTO reports (id, about, subject, reporter, reason, created_at)
			VALUES (?, 'post', ?, ?, ?, ?)`, id, postID, reporter, optional(draft.Reason), t.now)
	})
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
	found, err := t.find(&secret, `SELECT value FROM site WHERE name = ?`, name)
	if err != nil || found {
		return secret, err
	}
	secret = make([]byte, sha256.Size)
	if _, err := io.ReadFull(t.writer.store.random, secret); err != nil {
		return nil, fmt.Errorf("make the site's secret: %w", err)
	}
	return secret, t.exec(`INSERT INTO site (name, value) VALUES (?, ?)`, name, secret)
}
