package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/jmoiron/sqlx"
	"github.com/jmoiron/sqlx/reflectx"
)

// statement is a prepared statement of a connection that one goroutine at a time
// uses, without database/sql: each statement is ended before the next, so none of the
// locks, contexts and pools in between has anything to do, and they take as long as
// SQLite does with a small statement.
type statement struct {
	run    driver.Stmt
	args   []driver.NamedValue // of one run after the other
	row    []driver.Value
	fields map[reflect.Type][][]int // where the columns go, by the type of a row
	mapper *reflectx.Mapper
}

// rowFunc takes one row of a query, whose values are valid for that call.
type rowFunc func(s *statement, columns []string, values []driver.Value) (more bool, err error)

// statements are those of a connection, by their SQL texts.
type statements map[string]*statement

// on returns the connection's prepared statement for a constant SQL text.
func (all statements) on(conn *sqlx.Conn, query string) (*statement, error) {
	if s, ok := all[query]; ok {
		return s, nil
	}
	s, err := prepareOn(conn, query)
	if err == nil {
		all[query] = s
	}
	return s, err
}

// close comes before the connection's: SQLite keeps the file open for a statement
// that is left.
func (all statements) close() error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.run.Close())
	}
	return errors.Join(errs...)
}

// prepareOn prepares a query on a connection that nobody else uses.
func prepareOn(conn *sqlx.Conn, query string) (*statement, error) {
	s := &statement{mapper: conn.Mapper, fields: map[reflect.Type][][]int{}}
	err := conn.Raw(func(c any) (err error) {
		s.run, err = c.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	return s, nil
}

// bound are the values as the driver takes them.
func (s *statement) bound(args []any) ([]driver.NamedValue, error) {
	s.args = s.args[:0]
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", i+1, err)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args, nil
}

// exec returns how many rows the statement changed.
func (s *statement) exec(args []any) (int64, error) {
	bound, err := s.bound(args)
	if err != nil {
		return 0, err
	}
	defer clear(s.args) // no text is held longer than needed
	result, err := s.run.(driver.StmtExecContext).ExecContext(context.Background(), bound)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls row with each row, until there is no more or it wants no more. SQLite
// watches the context while it steps to the first row, and this between rows.
func (s *statement) query(ctx context.Context, args []any, row rowFunc) (err error) {
	bound, err := s.bound(args)
	if err != nil {
		return err
	}
	defer clear(s.args)
	rows, err := s.run.(driver.StmtQueryContext).QueryContext(ctx, bound)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns := rows.Columns()
	if len(s.row) != len(columns) {
		s.row = make([]driver.Value, len(columns))
	}
	defer clear(s.row)
	for more := true; more; {
		if err := rows.Next(s.row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if more, err = row(s, columns, s.row); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// get reads one row into dest by a query; sql.ErrNoRows when there is none.
func get(dest any, query func(rowFunc) error) error {
	found := false
	err := query(func(s *statement, columns []string, values []driver.Value) (bool, error) {
		found = true
		return false, s.scan(reflect.ValueOf(dest).Elem(), columns, values)
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// all reads every row of a query into the slice that dest points to.
func all(dest any, query func(rowFunc) error) error {
	list := reflect.ValueOf(dest).Elem()
	list.SetLen(0)
	return query(func(s *statement, columns []string, values []driver.Value) (bool, error) {
		n := list.Len()
		list.Grow(1)
		list.SetLen(n + 1)
		list.Index(n).SetZero()
		return true, s.scan(list.Index(n), columns, values)
	})
}

// scan puts a row into a struct, by the names of its fields, or its only column
// into anything else.
func (s *statement) scan(dest reflect.Value, columns []string, values []driver.Value) error {
	if _, scanner := dest.Addr().Interface().(sql.Scanner); scanner || dest.Kind() != reflect.Struct {
		if len(columns) != 1 {
			return fmt.Errorf("read %d columns into a %s", len(columns), dest.Type())
		}
		return assign(dest, values[0])
	}
	fields, ok := s.fields[dest.Type()]
	if !ok {
		fields = s.mapper.TraversalsByName(dest.Type(), columns)
		s.fields[dest.Type()] = fields
	}
	for i, path := range fields {
		if len(path) == 0 {
			return fmt.Errorf("read column %s: a %s has no field for it", columns[i], dest.Type())
		}
		if err := assign(dest.FieldByIndex(path), values[i]); err != nil {
			return fmt.Errorf("read column %s: %w", columns[i], err)
		}
	}
	return nil
}

// assign stores a value as SQLite has it. The tables are strict, so its kind is the
// column's; one that does not fit is a fault of the program.
func assign(dest reflect.Value, v driver.Value) error {
	if scanner, ok := dest.Addr().Interface().(sql.Scanner); ok {
		return scanner.Scan(v)
	}
	if dest.Kind() == reflect.Pointer {
		if v == nil {
			dest.SetZero()
			return nil
		}
		dest.Set(reflect.New(dest.Type().Elem()))
		return assign(dest.Elem(), v)
	}
	switch v := v.(type) {
	case int64:
		switch {
		case dest.CanInt() && !dest.OverflowInt(v):
			dest.SetInt(v)
			return nil
		case dest.Kind() == reflect.Bool && (v == 0 || v == 1):
			dest.SetBool(v == 1)
			return nil
		}
	case string:
		if dest.Kind() == reflect.String {
			dest.SetString(v)
			return nil
		}
	case []byte:
		if dest.Kind() == reflect.Slice && dest.Type().Elem().Kind() == reflect.Uint8 {
			dest.SetBytes(v)
			return nil
		}
	case nil:
		if dest.Kind() == reflect.Slice {
			dest.SetZero()
			return nil
		}
	}
	return fmt.Errorf("a %s cannot hold a %T", dest.Type(), v)
}
