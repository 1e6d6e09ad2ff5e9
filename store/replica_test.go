package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"callbook/store/backup"
	"callbook/store/domain"
	"callbook/store/txn"
)

// TestReadOnly_ServesOnlyDocumentsOfThisVersion: another version would read them in another way.
func TestReadOnly_ServesOnlyDocumentsOfThisVersion(t *testing.T) {
	primary := newStore(t)
	c, _ := primary.register("tide-reader")
	path := filepath.Join(t.TempDir(), "copy.db")
	open := func() (*Store, error) {
		return Open(context.Background(), Options{Path: path, ReadOnly: true, Clock: testStart})
	}
	_, err := backup.Make(t.Context(), primary.path, path)
	primary.ok(err)
	s, err := open()
	primary.ok(err)
	if card, err := s.Card(t.Context(), "tide-reader"); err != nil || card.ID != c.ID {
		t.Errorf("%v, %v", card, err)
	}
	if _, _, err := s.RotateKey(t.Context(), c); !errors.Is(err, domain.NewError(domain.CodeUnavailable)) {
		t.Errorf("a write: %v", err)
	}
	written, err := s.CopyState()
	if err = errors.Join(err, s.Close()); err != nil || !written.Equal(testStart()) {
		t.Errorf("written at %v, %v", written, err)
	}
	primary.ok(primary.db.Write(t.Context(), func(tx *txn.Tx) error { return tx.SetSiteValue("document_format", []byte("0")) }))
	path = filepath.Join(t.TempDir(), "copy.db")
	_, err = backup.Make(t.Context(), primary.path, path)
	primary.ok(err)
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "same version of callbook") {
		t.Errorf("documents of another version: %v", err)
	}
}
