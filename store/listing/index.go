package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"callbook/store/search"
)

// Index is a full-text table with the queries that a search of it needs.
type Index struct {
	IDs    string // selects a page of matches as id; values: expression, id below, bounds, limit, offset
	Count  string // counts the matches as n; values: expression, bounds, limit
	strict string // selects a page of tiers and their total; see searchRun.readStrict
	ask    string // answers questions, which stand before it; see Index.answers
}

// NewIndex returns the queries of a full-text table. tokens is its fts5vocab table of the type instance, and where is a
// condition that all matches meet, whose values are the bounds.
func NewIndex(table, tokens, where string) Index {
	match := ` FROM ` + table + ` WHERE ` + table + ` MATCH `
	page := match + `? AND rowid < ?` + where + ` ORDER BY rowid DESC LIMIT ?`
	count := ` COUNT(*) FROM (SELECT rowid` + match + `?` + where + ` LIMIT ?)`

	// The exact match is the first tier, and in no other.
	tiers := []string{fmt.Sprintf(`SELECT %d * rowid AS place FROM (SELECT rowid%s)`, search.Tiers, page)}
	for tier := 1; tier < search.Tiers; tier++ {
		rows := match + `? AND rowid < ? AND rowid IS NOT (SELECT id FROM exact)` + where + ` ORDER BY rowid DESC LIMIT ?`
		tiers = append(tiers, fmt.Sprintf(`SELECT %d * rowid + %d FROM (SELECT rowid%s)`, search.Tiers, tier, rows))
	}

	newest := func(expression string) string {
		return fmt.Sprintf(`
			CASE WHEN %[1]s <> '' THEN (
				SELECT json_group_array(rowid)
				FROM (SELECT rowid %[2]s %[1]s %[3]s ORDER BY rowid DESC LIMIT %[4]d)
			) ELSE '[]' END`, expression, match, where, search.PartMatches)
	}

	return Index{
		IDs:   `SELECT rowid AS id` + page + ` OFFSET ?`,
		Count: `SELECT` + count,

		// SQLite reads the tiers one after the other, and no further than a page needs. All are counted only if the
		// page does not show how many there are. The places are one text, as reading a row takes longer than finding it.
		strict: `
			WITH exact (id) AS MATERIALIZED (
				SELECT rowid` + match + `? LIMIT 1
			),
			page (place) AS MATERIALIZED (
				SELECT place FROM (` + strings.Join(tiers, ` UNION ALL `) + `) LIMIT ? OFFSET ?
			)
			SELECT json_group_array(place) AS places,
				CASE WHEN COUNT(*) >= ? THEN (SELECT` + count + `) ELSE COUNT(*) END AS total
			FROM page`,

		// Each step of found seeks the next token, behind those that are cut to the same beginning, and does not read
		// the rows of the one before.
		ask: `
			SELECT n, count,` + newest(`listed`) + ` AS ids,` + newest(`upper`) + ` AS in_upper,
				IFNULL(CASE WHEN listed <> '' THEN (
					SELECT rowid FROM ` + table + ` ORDER BY rowid DESC LIMIT 1
				) END, 0) AS newest,
				CASE WHEN low <> '' AND count = 0 THEN (
					WITH RECURSIVE found (token) AS (
						SELECT (SELECT substr(term, 1, length) FROM ` + tokens + ` WHERE term >= low LIMIT 1)
						UNION ALL
						SELECT (
							SELECT substr(term, 1, length) FROM ` + tokens + `
							WHERE term >= token || CASE WHEN length(token) < length THEN char(1) ELSE char(1114111) END
							LIMIT 1
						) FROM found WHERE token < high
					)
					SELECT json_group_array(token) FROM (SELECT token FROM found WHERE token < high LIMIT ?)
				) ELSE '[]' END AS tokens
			FROM (
				SELECT n, listed, upper, low, high, length,
					CASE WHEN counted <> '' THEN (
						SELECT COUNT(*) FROM (SELECT rowid` + match + `counted LIMIT ?)
					) ELSE 0 END AS count
				FROM questions
				WHERE n IS NOT NULL
			)`,
	}
}

// question asks a full-text table for what its fields say. An empty field asks for nothing.
type question struct {
	count  string            // expression: how many records match it
	list   string            // expression: the newest records that match it within the bounds
	upper  string            // likewise
	tokens search.TokenRange // the tokens of the range, if no record matches count
}

// answer is that of a question.
type answer struct {
	N       int          `db:"n"` // number of the question
	Count   int          `db:"count"`
	IDs     list[int64]  `db:"ids"`
	InUpper list[int64]  `db:"in_upper"`
	Newest  int          `db:"newest"` // the highest number of a record, if records are listed
	Tokens  list[string] `db:"tokens"`
}

// list is an array in JSON.
type list[T any] []T

// Scan reads a list from a column.
func (l *list[T]) Scan(value any) error {
	text, _ := value.(string)
	return json.Unmarshal([]byte(text), (*[]T)(l))
}

// answers asks questions in one statement, if there are any, and returns as many answers in the same order. counted and
// tokens limit how far each counts and how many tokens it has.
func (x *Index) answers(ctx context.Context, r Reader, questions []question, bounds []any, counted, tokens int) ([]answer, error) {
	var values []any
	for i, q := range questions {
		if q != (question{}) {
			values = append(values, i, q.count, q.list, q.upper, q.tokens.From, q.tokens.To, q.tokens.Length)
		}
	}
	answers := make([]answer, len(questions))
	if len(values) == 0 {
		return answers, nil
	}

	const columns = `n, counted, listed, upper, low, high, length`
	placeholders, values := padded(values, 7)
	values = append(append(append(values, bounds...), bounds...), tokens, counted)
	var rows []answer
	err := r.Select(ctx, &rows, `WITH questions (`+columns+`) AS (VALUES `+placeholders+`)`+x.ask, values...)
	for _, row := range rows {
		answers[row.N] = row
	}
	return answers, err
}

// padded returns placeholders for values, in rows of so many, and the values with empty ones behind them. The number of
// rows is a power of two, so that there are few statements.
func padded(values []any, columns int) (string, []any) {
	rows := 1 << bits.Len(uint(len(values)/columns-1))
	row := `(?` + strings.Repeat(`, ?`, columns-1) + `)`
	return row + strings.Repeat(`, `+row, rows-1), append(values, make([]any, rows*columns-len(values))...)
}
