package query

import "context"

// PageKind is a kind of records that have a page each.
type PageKind int

const (
	AgentPages PageKind = iota
	PostPages
)

// pageQueries select the names of the pages with numbers in a range, and the first number from one on. A hidden agent has no
// documents, and neither have its posts.
var pageQueries = [...]struct{ names, first string }{
	AgentPages: {
		`SELECT handle FROM agent_documents WHERE agent_id >= ? AND agent_id < ? ORDER BY agent_id`,
		`SELECT agent_id FROM agent_documents WHERE agent_id >= ? ORDER BY agent_id LIMIT 1`,
	},
	PostPages: {
		`SELECT p.id FROM post_documents d JOIN posts p ON p.seq = d.post_seq WHERE d.post_seq >= ? AND d.post_seq < ? ORDER BY d.post_seq`,
		`SELECT post_seq FROM post_documents WHERE post_seq >= ? ORDER BY post_seq LIMIT 1`,
	},
}

// Pages returns the handles or ids of the records of a kind that the public sees and whose numbers are in a range, oldest
// first. to is not in the range.
func (r *Reader) Pages(ctx context.Context, kind PageKind, from, to int64) (names []string, err error) {
	err = r.db.Select(ctx, &names, pageQueries[kind].names, from, to)
	return names, err
}

// FirstPage returns the lowest number from one on of a record of a kind that the public sees.
func (r *Reader) FirstPage(ctx context.Context, kind PageKind, from int64) (number int64, found bool, err error) {
	found, err = r.db.Find(ctx, &number, pageQueries[kind].first, from)
	return number, found, err
}
