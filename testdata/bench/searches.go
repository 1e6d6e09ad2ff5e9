package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"callbook/store"
	"callbook/store/domain"
	"callbook/store/listing"
)

// storedAsFresh compares the search rows that searches were served from with the same made anew
// from the records: after all that was written, there must be no difference.
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
	if err := b.makeAnew(ctx, fresh); err != nil {
		return f, err
	}

	defer func() { err = errors.Join(err, removeDatabase(fresh)) }()
	differences, err := compareSearches(ctx, served, fresh)
	f.Value, f.Unit = float64(len(differences)), "differences"
	f.Notes = differences[:min(len(differences), 5)]

	return f, err
}

// makeAnew makes the search rows of a directory anew.
func (b *bench) makeAnew(ctx context.Context, path string) error {
	bar := b.progress.bar("making all search rows anew", 0)
	defer bar.stop()
	st, err := openStore(ctx, store.Options{Path: path, Normal: true, NetworkDisk: true})
	if err != nil {
		return err
	}

	_, _, err = st.Compact(ctx)
	return errors.Join(err, st.Close())
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
			differences = append(
				differences,
				fmt.Sprintf("%q finds %v, made anew %v", q, one, other),
			)
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
	agents, err := st.Agents(ctx, domain.AgentFilter{Query: q}, listing.Page{Limit: 100})
	if err != nil {
		return nil, err
	}

	posts, err := st.Posts(ctx, domain.PostFilter{Query: q}, listing.Page{Limit: 100})
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
