package txn

import (
	"database/sql"
	"errors"
	"fmt"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// PublicError returns storage_full or unavailable for an error of the database that means so,
// and any other error unchanged.
func PublicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlitedb.ErrNoSpace):
		return fmt.Errorf("%w: %w", domain.NewError(domain.CodeStorageFull), err)
	case errors.Is(err, sqlitedb.ErrReadOnly):
		return fmt.Errorf("%w: %w", &domain.Error{Code: domain.CodeUnavailable, Topic: "read_only"}, err)
	case errors.Is(err, sqlitedb.ErrBusy), errors.Is(err, sqlitedb.ErrClosed), errors.Is(err, sqlitedb.ErrStopped):
		return fmt.Errorf("%w: %w", domain.NewError(domain.CodeUnavailable), err)
	}
	return err
}

// OrNotFound returns not_found for sql.ErrNoRows, and any other error unchanged.
func OrNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeNotFound)
	}
	return err
}
