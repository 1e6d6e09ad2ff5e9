package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"callbook/store"
	"callbook/store/document"
	"callbook/store/listing"
)

// storedAsFresh compares what reads and searches were served from with the same made
// anew from the records: after all that was written, there must be no difference.
func storedAsFresh(ctx context.Context, b *bench, _ string) (f figures, err error) {
	if _, err := b.on(ctx, cached); err != nil {
		return f, err
	}
	b.sites[cached].stop()
	delete(b.sites, cached)
	served, fresh := b.database(string(cached)), b.database("fresh")
	if err := copyFile(served, fresh); err != nil {
		return f, err
	}
	if err := forgetFormat(ctx, fresh); err != nil {
		return f, err
	}
	if err := b.makeAnew(ctx, fresh); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, removeDatabase(fresh)) }()
	differences, err := b.compare(ctx, served, fresh)
	f.Value, f.Unit = float64(len(differences)), "differences"
	f.Notes = differences[:min(len(differences), 5)]
	return f, err
}

// forgetFormat has the next opening make all derived data anew.
func forgetFormat(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	done, err := db.ExecContext(ctx, `DELETE FROM site WHERE name = 'document_format'`)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("there is no format of documents in %s: %w", path, err)
	}
	return nil
}

func (b *bench) makeAnew(ctx context.Context, path string) error {
	bar := b.progress.bar("making all documents anew", 0)
	defer bar.stop()
	st, err := openStore(ctx, store.Options{Path: path, Normal: true, NetworkDisk: true})
	if err != nil {
		return err
	}
	return st.Close()
}

func (b *bench) compare(ctx context.Context, served, fresh string) ([]string, error) {
	bar := b.progress.bar("comparing all documents", 0)
	defer bar.stop()
	differences, err := compareDocuments(ctx, served, fresh)
	if err != nil {
		return differences, err
	}
	more, err := compareSearches(ctx, served, fresh)
	return append(differences, more...), err
}

// documents are the tables of derived data, and what tells their rows apart.
var documents = map[string]string{"agent_documents": "agent_id", "post_documents": "post_seq"}

func compareDocuments(ctx context.Context, served, fresh string) (differences []string, err error) {
	db, err := sql.Open("sqlite", "file:"+served)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // what is attached belongs to a connection
	if _, err := db.ExecContext(ctx, `ATTACH ? AS fresh`, fresh); err != nil {
		return nil, err
	}
	for table, id := range documents {
		for _, sides := range [][2]string{{"main", "fresh"}, {"fresh", "main"}} {
			found, err := onlyIn(ctx, db, sides[0]+"."+table, sides[1]+"."+table, id)
			if err != nil {
				return differences, err
			}
			differences = append(differences, found...)
		}
	}
	return differences, nil
}

func onlyIn(ctx context.Context, db *sql.DB, one, other, id string) (found []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT `+id+` FROM (SELECT * FROM `+one+` EXCEPT SELECT * FROM `+other+`)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return found, err
		}
		found = append(found, fmt.Sprintf("%s %d is only in %s", id, n, one))
	}
	return found, rows.Err()
}

// compareSearches compares what some words find.
func compareSearches(ctx context.Context, served, fresh string) (differences []string, err error) {
	stores := make([]*store.Store, 2)
	for i, path := range []string{served, fresh} {
		if stores[i], err = openStore(ctx, store.Options{Path: path, Normal: true, NetworkDisk: true}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stores[i].Close()) }()
	}
	for _, q := range sampleWords() {
		one, err := finds(ctx, stores[0], q)
		if err != nil {
			return differences, err
		}
		other, err := finds(ctx, stores[1], q)
		if err != nil {
			return differences, err
		}
		if !slices.Equal(one, other) {
			differences = append(differences, fmt.Sprintf("%q finds %v, made anew %v", q, one, other))
		}
	}
	return differences, nil
}

func sampleWords() (words []string) {
	for _, s := range searches {
		words = append(words, s.q)
	}
	for _, n := range ranks(englishWords) {
		words = append(words, englishWord(n), englishWord(n)[:2]+" "+englishWord(n/2))
	}
	for _, n := range ranks(chineseWords) {
		words = append(words, chineseWord(n))
	}
	return words
}

// finds are the first hundred agents and calls of a search, in their order, and how
// many there are.
func finds(ctx context.Context, st *store.Store, q string) (found []string, err error) {
	agents, err := st.Agents(ctx, document.AgentFilter{Query: q}, listing.Page{Limit: 100})
	if err != nil {
		return nil, err
	}
	posts, err := st.Posts(ctx, document.PostFilter{Query: q}, listing.Page{Limit: 100})
	if err != nil {
		return nil, err
	}
	found = append(found, fmt.Sprint(agents.Total), fmt.Sprint(posts.Total))
	for _, a := range agents.Items {
		found = append(found, a.Handle)
	}
	for _, p := range posts.Items {
		found = append(found, p.ID)
	}
	return found, nil
}
