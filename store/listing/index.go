package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"callbook/store/search"
)

// Index is a full-text table with the queries that a search of it needs.
type Index struct {
	// IDs selects a page of matches as id; values: expression, id below, bounds, limit, offset.
	IDs string
	// Count counts the matches; values: expression, bounds, limit.
	Count string

	strict string // selects a page of tiers and their total; see searchRun.readStrict
	ask    string // answers questions, which stand before it; see Index.answers
}

// NewIndex returns the queries of a full-text table. tokens is its fts5vocab table of the type
// instance, and where is a condition that all matches meet, whose values are the bounds.
func NewIndex(table, tokens, where string) Index {
	// FTS5 takes the name of the table for all of its columns.
	match := ` FROM ` + table + ` WHERE ` + table + ` MATCH `
	given := match + `IFNULL(NULLIF(?, ''), '""')` // an empty expression would be a syntax error
	page := given + ` AND rowid < ?` + where + ` ORDER BY rowid DESC LIMIT ?`
	count := ` COUNT(*) FROM (SELECT rowid` + given + where + ` LIMIT ?)`

	tiers := make([]string, search.Tiers)
	for tier := range tiers {
		tiers[tier] = fmt.Sprintf(`SELECT %d AS tier, id FROM (SELECT rowid AS id%s)`, tier, page)
	}
	newest := func(expression string) string {
		return fmt.Sprintf(`
			json(CASE WHEN %[1]s <> '' THEN (
				SELECT json_group_array(rowid)
				FROM (SELECT rowid %[2]s %[1]s %[3]s ORDER BY rowid DESC LIMIT %[4]d)
			) ELSE '[]' END)`, expression, match, where, search.PartMatches)
	}

	return Index{
		IDs:   `SELECT rowid AS id` + page + ` OFFSET ?`,
		Count: `SELECT` + count,

		// SQLite reads the tiers one after the other, and no further than a page needs. All are
		// counted only if the page does not show how many there are. The exact match is in no other
		// tier than its own.
		strict: `
			WITH exact (id) AS MATERIALIZED (
				SELECT rowid` + given + ` LIMIT 1
			),
			page (place) AS MATERIALIZED (
				SELECT ` + strconv.Itoa(search.Tiers) + ` * id + tier
				FROM (` + strings.Join(tiers, ` UNION ALL `) + `)
				WHERE tier = 0 OR id IS NOT (SELECT id FROM exact)
				LIMIT ? OFFSET ?
			)
			SELECT json_object(
				'Places', json_group_array(place),
				'Total', CASE WHEN COUNT(*) >= ? THEN (SELECT` + count + `) ELSE COUNT(*) END
			) FROM page`,

		// Each step of found seeks the next token, behind those that are cut to the same beginning,
		// and does not read the rows of the one before. The limits are in a table: SQLite would
		// prepare the statement again whenever a parameter of LIMIT changes from or to 1.
		ask: `
			SELECT json_group_array(json_object(
				'Count', count,
				'Indexed', json(CASE
					WHEN exactly = '' THEN 'false'
					WHEN EXISTS (SELECT 1` + match + `exactly) THEN 'true'
					ELSE 'false'
				END),
				'IDs', ` + newest(`listed`) + `,
				'InUpper', ` + newest(`upper`) + `,
				'Newest', CASE WHEN listed <> '' THEN (
					SELECT rowid FROM ` + table + ` ORDER BY rowid DESC LIMIT 1
				) END,
				'Tokens', json(CASE WHEN low <> '' AND count = 0 THEN (
					WITH RECURSIVE found (token) AS (
						SELECT (
							SELECT substr(term, 1, length) FROM ` + tokens + `
							WHERE term >= low
							LIMIT 1
						)
						UNION ALL
						SELECT (
							SELECT substr(term, 1, length) FROM ` + tokens + `
							WHERE term >= token ||
								CASE WHEN length(token) < length THEN char(1) ELSE char(1114111) END
							LIMIT 1
						) FROM found WHERE token < high
					)
					SELECT json_group_array(token)
					FROM (
						SELECT token FROM found
						WHERE token < high
						LIMIT (SELECT tokens FROM most)
					)
				) ELSE '[]' END)
			) ORDER BY n) FROM (
				SELECT n, exactly, listed, upper, low, high, length,
					CASE WHEN counted <> '' THEN (
						SELECT COUNT(*)
						FROM (SELECT rowid` + match + `counted LIMIT (SELECT counted FROM most))
					) ELSE 0 END AS count
				FROM questions
				WHERE n IS NOT NULL
			)`,
	}
}

// question asks a full-text table about each of its fields that is not empty.
type question struct {
	count  string            // expression: how many records match it
	exact  string            // expression: whether any record matches it
	list   string            // expression: the newest records that match it within the bounds
	upper  string            // likewise
	tokens search.TokenRange // the tokens of the range, if no record matches count
}

// answers asks questions in one statement, if there are any, and returns the answers in the same
// order. counted and tokens limit how far each counts and how many tokens it has.
func (x *Index) answers(
	ctx context.Context,
	r Reader,
	questions []question,
	bounds []any,
	counted, tokens int,
) (answers []search.Answer, err error) {
	if len(questions) == 0 {
		return nil, nil
	}

	var values []any
	for i, q := range questions {
		values = append(values, i, q.count, q.exact, q.list, q.upper)
		values = append(values, q.tokens.From, q.tokens.To, q.tokens.Length)
	}
	placeholders, values := padded(values, 8) // as many as a question has
	query := `
		WITH most (counted, tokens) AS (VALUES (?, ?)),
		questions (n, counted, exactly, listed, upper, low, high, length) AS (
			VALUES ` + placeholders + `
		)` + x.ask
	values = slices.Concat([]any{counted, tokens}, values, bounds, bounds)
	return answers, getJSON(ctx, r, &answers, query, values...)
}

// getJSON reads a value that a query returns as JSON, since reading many rows takes longer than
// finding them.
func getJSON(ctx context.Context, r Reader, dest any, query string, args ...any) error {
	var text []byte
	if err := r.Get(ctx, &text, query, args...); err != nil {
		return err
	}
	return json.Unmarshal(text, dest)
}

// padded returns placeholders for values, in rows of so many, and the values with empty ones behind
// them. The number of rows is a power of two, so that there are few statements.
func padded(values []any, columns int) (string, []any) {
	rows := 1 << bits.Len(uint(len(values)/columns-1))
	row := `(?` + strings.Repeat(`, ?`, columns-1) + `)`
	values = append(values, make([]any, rows*columns-len(values))...)
	return row + strings.Repeat(`, `+row, rows-1), values
}
