package store

import (
	"database/sql"
	"errors"
	"fmt"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// publicError gives an error of the database the code that its caller can act on. Anything else
// stays the program's own error.
func publicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlitedb.ErrNoSpace):
		return fmt.Errorf("%w: %w", domain.NewError(domain.CodeStorageFull), err)
	case errors.Is(err, sqlitedb.ErrBusy), errors.Is(err, sqlitedb.ErrClosed), errors.Is(err, sqlitedb.ErrStopped):
		return fmt.Errorf("%w: %w", domain.NewError(domain.CodeUnavailable), err)
	}
	return err
}

// orNotFound turns the absence of a row into the error not_found.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeNotFound)
	}
	return err
}
