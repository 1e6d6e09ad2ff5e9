package store

import "context"

// PageKind is a kind of records that have a page each.
type PageKind int

const (
	AgentPages PageKind = iota
	PostPages
)

// pageQueries select the names of the pages with numbers in a range, and the first number from one
// on.
var pageQueries = [...]struct{ names, first string }{
	AgentPages: {
		names: `
			SELECT h.handle
			FROM agents a
			JOIN handles h ON h.id = a.id
			WHERE NOT a.hidden AND a.id >= ? AND a.id < ?
			ORDER BY a.id`,
		first: `
			SELECT id FROM agents
			WHERE hidden = 0 AND id >= ?
			ORDER BY id
			LIMIT 1`,
	},
	PostPages: {
		names: `
			SELECT p.id
			FROM posts p
			JOIN agents a ON a.id = p.author_id
			WHERE NOT a.hidden AND p.seq >= ? AND p.seq < ?
			ORDER BY p.seq`,
		first: `
			SELECT p.seq
			FROM posts p
			JOIN agents a ON a.id = p.author_id
			WHERE NOT a.hidden AND p.seq >= ?
			ORDER BY p.seq
			LIMIT 1`,
	},
}

// Pages returns the handles or ids of the records of a kind that the public sees and whose numbers
// are in a range, oldest first. to is not in the range.
func (s *Store) Pages(
	ctx context.Context,
	kind PageKind,
	from, to int64,
) (names []string, err error) {
	err = s.db.Select(ctx, &names, pageQueries[kind].names, from, to)
	return names, err
}

// FirstPage returns the lowest number from one on of a record of a kind that the public sees.
func (s *Store) FirstPage(
	ctx context.Context,
	kind PageKind,
	from int64,
) (number int64, found bool, err error) {
	found, err = s.db.Find(ctx, &number, pageQueries[kind].first, from)
	return number, found, err
}
