package txn

import (
	"database/sql"
	"errors"

	"callbook/store/domain"
)

// OrNotFound returns not_found for sql.ErrNoRows, and any other error unchanged.
func OrNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeNotFound)
	}
	return err
}
