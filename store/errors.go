package store

import (
	"database/sql"
	"errors"

	"callbook/store/domain"
)

// orNotFound returns not_found for sql.ErrNoRows, and any other error unchanged.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeNotFound)
	}
	return err
}
