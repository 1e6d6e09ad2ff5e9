package store

import (
	"context"
	"strings"
	"testing"
)

func TestStatementRefusesWhatDoesNotFit(t *testing.T) {
	type named struct {
		A string `db:"a"`
	}
	var (
		text   string
		short  int8
		yes    bool
		row    named
		absent *string
	)
	s := newStore(t)
	for _, c := range []struct {
		name, query string
		dest        any
		want        string // part of the error; empty for none
	}{
		{"a column without a field", `SELECT 'x' AS a, 'y' AS b`, &row, "column b"},
		{"two columns for one value", `SELECT 'x', 'y'`, &text, "2 columns"},
		{"null for a text", `SELECT NULL AS a`, &row, "column a"},
		{"a number for a text", `SELECT 1`, &text, "cannot hold"},
		{"a text for a number", `SELECT '1'`, &short, "cannot hold"},
		{"a number that is too large", `SELECT 300`, &short, "cannot hold"},
		{"a number that is no yes or no", `SELECT 2`, &yes, "cannot hold"},
		{"null for what may be absent", `SELECT NULL`, &absent, ""},
		{"no row", `SELECT 1 WHERE FALSE`, &short, "no rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.write(context.Background(), func(tx *tx) error { return tx.get(c.dest, c.query) })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	var texts []string
	if err := s.all(context.Background(), &texts, `SELECT json(column1) FROM (VALUES ('1'), ('broken'))`); err == nil {
		t.Errorf("a row that cannot be read ends a list: %q", texts)
	}
}

// TestStatementKeepsNoValues: a text of the last run is not held until the next.
func TestStatementKeepsNoValues(t *testing.T) {
	s := newStore(t)
	s.ok(s.write(context.Background(), func(tx *tx) error {
		const query = `SELECT ? AS a`
		var a string
		if err := tx.get(&a, query, "private"); err != nil {
			return err
		}
		stmt := tx.writer.stmts[query]
		if stmt.args[0].Value != nil || stmt.row[0] != nil {
			t.Errorf("it still holds %v and %v", stmt.args, stmt.row)
		}
		return nil
	}))
}
