package sqlitedb

import (
	"reflect"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx/reflectx"
)

// Columns are the columns of a record, in the order of its fields: the one list from which
// statements on its table are built. A column has the name of the field's db tag; a field of a
// nested struct is scanned by its path, such as contact_policy.note.
type Columns struct {
	paths []string
}

// ColumnsOf returns the columns of the fields of T that have a db tag, without those of the given
// names.
func ColumnsOf[T any](without ...string) Columns {
	var c Columns
	for _, field := range reflectx.NewMapper("db").TypeMap(reflect.TypeFor[T]()).Index {
		// A struct, embedded or not, is no column itself: its fields follow in the index.
		_, tagged := field.Field.Tag.Lookup("db")
		isColumn := tagged && !field.Embedded && len(field.Children) == 0
		if isColumn && !slices.Contains(without, field.Path) {
			c.paths = append(c.paths, field.Path)
		}
	}

	return c
}

// Select returns the list of the columns for a SELECT from the table with an alias.
func (c Columns) Select(alias string) string {
	return c.join(func(path, column string) string {
		selected := alias + "." + column
		if path != column {
			selected += ` AS "` + path + `"`
		}
		return selected
	})
}

// Insert returns a statement with named values that inserts a row.
func (c Columns) Insert(table string) string {
	columns := c.join(func(_, column string) string { return column })
	values := c.join(func(path, _ string) string { return ":" + path })
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + values + ")"
}

// Set returns the assignments of an UPDATE with named values.
func (c Columns) Set() string {
	return c.join(func(path, column string) string { return column + " = :" + path })
}

func (c Columns) join(format func(path, column string) string) string {
	parts := make([]string, len(c.paths))
	for i, path := range c.paths {
		parts[i] = format(path, path[strings.LastIndexByte(path, '.')+1:])
	}
	return strings.Join(parts, ", ")
}
