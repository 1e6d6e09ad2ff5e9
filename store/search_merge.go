package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// FTS5 writes the rows of each commit as a segment of its own, and a search looks
// into every segment: of 100,000 agents, two thirds of its time went into 25 of them.
// FTS5 by itself merges four of a size into one while they are written, which was a
// fifth of every write. So a write merges little, and the service merges most, in
// steps between the writes of others, down to a few segments.
//
// A search that leaps along the rows of a common word leaps from page to page, and
// steps from row to row within one. A row is a byte or two, so pages are made small.
var searchSettings = []struct {
	name  string
	value int
}{
	{"pgsz", 1000},      // bytes of a page
	{"crisismerge", 64}, // segments of a size that are merged at once: never, as the next comes before
	{"automerge", 16},   // segments of a size that writes merge bit by bit
	{"usermerge", 2},    // those that mergeSearch merges
}

// tuneSearch stores the settings in a search table that has others, before the
// writer's first row of it.
func (t *tx) tuneSearch(table string) error {
	if t.writer.tuned[table] {
		return nil
	}
	for _, setting := range searchSettings {
		var value int
		_, err := t.find(&value, `SELECT v FROM `+table+`_config WHERE k = ?`, setting.name)
		if err == nil && value != setting.value {
			err = t.exec(`INSERT INTO `+table+` (`+table+`, rank) VALUES (?, ?)`, setting.name, setting.value)
		}
		if err != nil {
			return fmt.Errorf("set %s of %s: %w", setting.name, table, err)
		}
	}
	t.writer.tuned[table] = true
	return nil
}

// One step of a merge writes mergePages pages, so that those who wait for it wait
// some 5 ms; one run makes mergeSteps of a table at the most. Where others have written
// since the step before, the next comes after mergePause times the length of a step:
// who writes alone would else wait for a step with every write.
const (
	mergePages = 128
	mergeSteps = 200
	mergePause = 9
)

// mergeWholeEvery is how often a table is merged down to one segment: a long query looks
// for each of its hundred words in each segment, and words that were deleted leave the
// file with the segment that held them.
const mergeWholeEvery = Day

// searchMerged is when that was done last.
const searchMerged = "search_merged_at"

// mergeSearch merges what was written to the search tables since it last found
// nothing to merge. Without room on the disk they stay as they are.
func (s *Store) mergeSearch(ctx context.Context) error {
	due := !s.within(mergeWholeEvery, s.notedTime(ctx, searchMerged))
	whole := due
	for _, table := range []string{agentSearch, postSearch} {
		var err error
		if due {
			err = s.writeDue(ctx, func(t *tx) error { return t.gatherSegments(table) })
		}
		var done bool
		if err == nil || errors.Is(err, errMerged) {
			done, err = s.mergeSearchTable(ctx, table)
		}
		if err != nil && !errors.Is(err, refuse(CodeStorageFull)) {
			return fmt.Errorf("%s: %w", table, err)
		}
		whole = whole && done
	}
	if !whole {
		return nil
	}
	err := s.writeDue(ctx, func(t *tx) error {
		clear(t.writer.gathered)
		return t.noteTime(searchMerged, t.now)
	})
	if errors.Is(err, refuse(CodeStorageFull)) {
		return nil
	}
	return err
}

// mergeSearchTable makes the steps of one run. It tells whether nothing is left to merge.
func (s *Store) mergeSearchTable(ctx context.Context, table string) (done bool, err error) {
	commits := s.writer.commits.Load()
	for range mergeSteps {
		var more bool
		var took time.Duration
		err := s.writeDue(ctx, func(t *tx) (err error) {
			begun := time.Now() //clock: how long it took, not what time it is
			more, err = t.mergeSearchStep(table)
			took = time.Since(begun) //clock: as above
			return err
		})
		if errors.Is(err, errMerged) {
			return true, nil
		}
		if err != nil || !more {
			return false, err
		}
		before := commits
		if commits = s.writer.commits.Load(); commits == before+1 {
			continue // nobody else writes
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(mergePause * took):
		}
	}
	return false, nil
}

// errMerged undoes a step that found nothing to merge, so that it stores nothing.
var errMerged = errors.New("there is nothing to merge")

func (t *tx) mergeSearchStep(table string) (more bool, err error) {
	if t.writer.merged[table] {
		return false, errMerged
	}
	if more, err = t.mergeSegments(table, mergePages); err == nil && !more {
		t.writer.merged[table], err = true, errMerged
	}
	return more, err
}

// gatherSegments makes all segments of a table the input of one merge, which the steps
// then do: for FTS5, a negative number of pages says so. Once is enough, however many
// runs the merge takes: again it would begin anew.
func (t *tx) gatherSegments(table string) error {
	if t.writer.gathered[table] {
		return errMerged
	}
	more, err := t.mergeSegments(table, -mergePages)
	if err != nil {
		return err
	}
	t.writer.gathered[table] = true
	if !more {
		return errMerged
	}
	t.writer.merged[table] = false
	return nil
}

// mergeSegments has FTS5 merge so many pages of a table, and tells whether it found any.
func (t *tx) mergeSegments(table string, pages int) (found bool, err error) {
	var before, after int64
	if err := t.get(&before, `SELECT total_changes()`); err != nil {
		return false, err
	}
	if err := t.exec(`INSERT INTO `+table+` (`+table+`, rank) VALUES ('merge', ?)`, pages); err != nil {
		return false, err
	}
	if err := t.get(&after, `SELECT total_changes()`); err != nil {
		return false, err
	}
	if after-before < 2 { // FTS5's own sign that it had nothing to do
		return false, nil
	}
	t.changes.Removed = true // of rows that were deleted before
	return true, nil
}
