package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
)

// Tx is one write's view of the transaction. After a statement has failed it runs no other: SQLite
// may have rolled the transaction back by itself, and later statements would be stored alone.
type Tx struct {
	writer *writer
	failed error // of a statement
}

// run runs f with a prepared statement, unless a statement before it has failed.
func (t *Tx) run(query string, f func(*sqlx.Stmt) error) error {
	if t.failed != nil {
		return t.failed
	}

	stmt, err := t.writer.statements.get(context.Background(), query)
	if err == nil {
		err = f(stmt)
	}
	if err == nil || errors.Is(err, sql.ErrNoRows) { // no row is an answer, not a failure
		return err
	}

	t.failed = fmt.Errorf("%s: %w", firstWords(query), err)
	return t.failed
}

// firstWords returns the beginning of a statement, which says in an error what failed.
func firstWords(query string) string {
	words := strings.Fields(query)
	return strings.Join(words[:min(len(words), 4)], " ")
}

// CheckRoom returns ErrNoSpace if the records, without free pages of the file, have reached
// Options.MaxBytes. A write that creates or enlarges a record calls it first, so that the file
// exceeds the limit by such writes of one transaction at most.
func (t *Tx) CheckRoom() error {
	db := t.writer.db
	if db.options.MaxBytes == 0 {
		return nil
	}

	var used int64
	err := t.Get(&used, `
		SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`)
	if err != nil {
		return err
	}
	if used >= db.options.MaxBytes {
		db.probed.Store(0) // so that Ready says so
		return ErrNoSpace
	}
	return nil
}

// Get reads one row into dest. It returns sql.ErrNoRows if there is none.
func (t *Tx) Get(dest any, query string, args ...any) error {
	return t.run(query, func(stmt *sqlx.Stmt) error { return stmt.Get(dest, args...) })
}

// Find reads one row into dest, and reports whether there is one.
func (t *Tx) Find(dest any, query string, args ...any) (bool, error) {
	return found(t.Get(dest, query, args...))
}

// Select reads every row of a query into the slice dest.
func (t *Tx) Select(dest any, query string, args ...any) error {
	return t.run(query, func(stmt *sqlx.Stmt) error { return stmt.Select(dest, args...) })
}

// ExecNamed is Exec with the values of row, a struct, by the names of its columns: :name.
func (t *Tx) ExecNamed(query string, row any) error {
	query, args, err := sqlx.Named(query, row)
	if err != nil {
		return err
	}
	return t.Exec(query, args...)
}

// GetNamed is Get with the values of row, a struct, by the names of its columns: :name.
func (t *Tx) GetNamed(dest any, query string, row any) error {
	query, args, err := sqlx.Named(query, row)
	if err != nil {
		return err
	}
	return t.Get(dest, query, args...)
}

// Exec runs a statement.
func (t *Tx) Exec(query string, args ...any) error {
	_, err := t.Change(query, args...)
	return err
}

// ExecEach runs statements with the same value.
func (t *Tx) ExecEach(value any, queries ...string) error {
	for _, query := range queries {
		if err := t.Exec(query, value); err != nil {
			return err
		}
	}
	return nil
}

// ExecOr is Exec that returns none if the statement changes no row.
func (t *Tx) ExecOr(none error, query string, args ...any) error {
	n, err := t.Change(query, args...)
	if err != nil {
		return err
	}
	if n == 0 {
		return none
	}
	return nil
}

// Change runs a statement and returns the number of rows that it changed.
func (t *Tx) Change(query string, args ...any) (n int64, err error) {
	err = t.run(query, func(stmt *sqlx.Stmt) error {
		result, err := stmt.Exec(args...)
		if err != nil {
			return err
		}

		n, err = result.RowsAffected()
		return err
	})

	return n, err
}
