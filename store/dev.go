package store

import (
	"errors"
	"fmt"
)

// ErrNotDev is returned for a file that callbook dev did not create.
var ErrNotDev = errors.New("this directory was not made by callbook dev, which could empty it; give another --db")

// markDev marks a fresh directory as one of callbook dev. It returns ErrNotDev for another that is
// not marked.
func markDev(t *tx, fresh bool) error {
	if fresh {
		return t.Exec(`INSERT INTO site (name, value) VALUES ('dev', ?)`, []byte(t.Now.String()))
	}
	var since []byte
	marked, err := t.Find(&since, `SELECT value FROM site WHERE name = 'dev'`)
	if err == nil && !marked {
		err = ErrNotDev
	}
	return err
}

// clearDirectory deletes everything in the directory, including handles, for tests of agents.
func clearDirectory(t *tx) error {
	for _, table := range []string{
		"outbox", "mail_log", "mail_networks", "mail_stops", "reports", "audit", "blocklist", "blocks", "network_usage", "invites", "operator_links", "abuse_days", "requests", "collabs",
		"agents", "handles", "sqlite_sequence",
	} {
		if err := t.Exec(`DELETE FROM ` + table); err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	if err := t.Exec(`DELETE FROM site WHERE name LIKE 'matched_%'`); err != nil { // numbers of posts begin again
		return err
	}
	if err := t.ClearSearch(); err != nil {
		return err
	}
	t.Changes = everything
	return nil
}
