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
// file with the segment that held them. FTS5 gives the table two levels more with each,
// up to 65, and has a write that fills 64 pages go on with a merge that is under way by
// 64 pages a level: up to 90 ms.
const mergeWholeEvery = Day

// mergedAt follows the name of a table in that of the time when that was begun last. It
// is stored with the beginning: FTS5 goes on by itself, also after a restart, and
// would begin anew if it were told again.
const mergedAt = "_merged_at"

// mergeRetry is how long the tables are left alone once there was no room on the disk: a
// commit that fails drops all that is kept in memory.
const mergeRetry = time.Hour

// mergeSearch merges what was written to the search tables since it last found
// nothing to merge. Without room on the disk they stay as they are.
func (s *Store) mergeSearch(ctx context.Context) error {
	if s.within(mergeRetry, Time(s.unmerged.Load())) {
		return nil
	}
	for _, table := range []string{agentSearch, postSearch} {
		err := s.mergeSearchTable(ctx, table)
		if errors.Is(err, refuse(CodeStorageFull)) {
			s.unmerged.Store(int64(at(s.clock())))
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}

func (s *Store) mergeSearchTable(ctx context.Context, table string) error {
	begun, err := s.notedTime(ctx, table+mergedAt)
	if err == nil && !s.within(mergeWholeEvery, begun) {
		err = s.writeDue(ctx, func(t *tx) error { return t.gatherSegments(table) })
	}
	if err != nil {
		return err
	}
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
			return nil
		}
		if err != nil || !more {
			return err
		}
		before := commits
		if commits = s.writer.commits.Load(); commits == before+1 {
			continue // nobody else writes
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(mergePause * took):
		}
	}
	return nil
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
// then do: for FTS5, a negative number of pages says so.
func (t *tx) gatherSegments(table string) error {
	found, err := t.mergeSegments(table, -mergePages)
	if err != nil {
		return err
	}
	if found {
		t.writer.merged[table] = false
	}
	return t.noteTime(table+mergedAt, t.now)
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
