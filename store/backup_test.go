package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

// restored opens what a backup brings back, in another place.
func restored(t testing.TB, name string) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restored.db")
	if _, _, err := RestoreBackup(context.Background(), name, path, time.Now()); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Path: path, Normal: true})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestBackup_ContainsAllConfirmedWrites takes backups while others write: each
// holds every write that was answered before it began.
func TestBackup_ContainsAllConfirmedWrites(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var answered [4]atomic.Int64
	turns, done := make(chan struct{}), make(chan struct{}) // so many writes a backup that the file stays small
	for w := range answered {
		author, _ := s.register(fmt.Sprintf("writer-%d", w))
		go func() {
			defer func() { done <- struct{}{} }()
			i := int64(0)
			for range turns {
				i++
				draft := domain.PostDraft{Kind: "seeking", Title: fmt.Sprintf("%d of %d", i, w), Body: "Tide levels."}
				if _, _, err := s.CreatePost(context.Background(), author, draft, domain.IdempotencyKey{}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				answered[w].Store(i)
			}
		}()
	}
	rounds := proof.Rounds(20, 200, 200)
	if proof.RaceDetector() || testing.Short() {
		rounds = 20
	}
	folder, meanwhile := t.TempDir(), int64(0)
	for i := range rounds {
		var least [len(answered)]int64
		for w := range answered {
			least[w] = answered[w].Load()
		}
		name := filepath.Join(folder, fmt.Sprintf("%d.db", i))
		go func() {
			pace := time.NewTicker(time.Millisecond) // a backup takes ten or more
			defer pace.Stop()
			for range 20 {
				turns <- struct{}{}
				<-pace.C
			}
			done <- struct{}{}
		}()
		contents, err := MakeBackup(context.Background(), s.path, name)
		for w := range answered {
			meanwhile += answered[w].Load()
		}
		if err != nil {
			t.Fatalf("backup %d: %v", i, err)
		}
		meanwhile -= int64(contents.Posts) // those in the copy may have been answered before it was made
		t.Run(fmt.Sprint(i), func(t *testing.T) { holdsAll(t, restored(t, name), least[:]) })
		s.ok(os.Remove(name))
		<-done
	}
	close(turns)
	for range answered {
		<-done
	}
	if meanwhile < int64(rounds) {
		t.Errorf("%d writes were answered while %d copies were made and checked", meanwhile, rounds)
	}
	proof.Figure(t, "backups", rounds)
	proof.Figure(t, "writes meanwhile", int(meanwhile))
}

// holdsAll: each writer's calls up to that number are there, and can be found.
func holdsAll(t testing.TB, s *Store, least []int64) {
	t.Helper()
	for w, want := range least {
		list, err := s.Posts(context.Background(), domain.PostFilter{Author: fmt.Sprintf("writer-%d", w)}, listing.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		if len(list.Items) > 0 {
			_, _ = fmt.Sscan(list.Items[0].Title, &got)
		}
		var count int64
		if err := s.db.Get(context.Background(), &count, ofTest+`
			SELECT COUNT(*) FROM posts WHERE title LIKE ?`, fmt.Sprintf("%% of %d", w)); err != nil {
			t.Fatal(err)
		}
		if got < want || count != got {
			t.Errorf("of writer %d the newest call is %d and %d are there; %d were answered", w, got, count, want)
		}
	}
}
