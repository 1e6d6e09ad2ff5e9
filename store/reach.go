package store

import "context"

// A search walks the rows of its rarest word and looks each up in the others. Words
// that are all common, and hardly ever meet, would have it walk the whole directory
// for a page of nothing. So where all that a search asks for is common, a page looks
// at the newest numbers only, and ends early where they hold too few: next goes on
// below them, and the total is of what was looked at. That bounds a page as far as
// something is found below: FTS5 stops at the first match past the lowest number, so
// where there is none it walks on to the end.
const (
	looked    = 10_000 // look-ups of a page, about
	sampled   = 1000   // newest numbers by which it is told how common something is
	fewParts  = 8      // things that are told so, of a tier
	fewLooks  = 2      // look-ups of a row up to which a search always walks to the end
	sampleFor = 4096   // samples that are kept: about 1 MB
)

// search is what a list that is a search asks beside its rows and their count.
type search struct {
	newest string // selects the highest number
	sample string // counts the matches of an expression above a number
	lowest int64  // number that is listed
}

func (q *search) floor() int64 {
	if q == nil {
		return 0
	}
	return q.lowest
}

func sampleOf(table string) string {
	return `SELECT COUNT(*) FROM (SELECT 1 FROM ` + table + ` WHERE ` + table + ` MATCH ? AND rowid < ` + mirror + ` - ?)`
}

// sample is how many of the newest numbers something matched, when newest was the
// highest.
type sample struct{ matches, newest int64 }

// reach is the lowest number that a page looks at which begins below a number.
func (s *Store) reach(ctx context.Context, l listing, t tier, below int64) (int64, error) {
	lowest := l.search.floor()
	if l.search == nil || t.looks <= fewLooks {
		return lowest, nil
	}
	var newest int64
	if err := s.get(ctx, &newest, l.search.newest); err != nil {
		return 0, err
	}
	matches := int64(sampled) // of the rarest
	for i, part := range t.parts {
		if i == fewParts || matches*newest*int64(t.looks) <= s.looked*sampled {
			break
		}
		n, err := s.sample(ctx, l.search, part, newest)
		if err != nil {
			return 0, err
		}
		matches = min(matches, n)
	}
	if matches*newest*int64(t.looks) <= s.looked*sampled {
		return lowest, nil
	}
	return max(lowest, min(below, newest+1)-s.looked*sampled/(matches*int64(t.looks))), nil
}

// sample counts how many of the newest numbers an expression matches, and remembers
// it until the directory has grown by a tenth: it decides how far a page looks, not
// what it finds.
func (s *Store) sample(ctx context.Context, q *search, match string, newest int64) (int64, error) {
	key := q.sample + match
	if known, ok := s.samples.Get(key); ok && known.newest+known.newest/10 >= newest {
		return known.matches, nil
	}
	var n int64
	err := s.get(ctx, &n, q.sample, match, newest-sampled)
	if err == nil {
		s.samples.Add(key, sample{n, newest})
	}
	return n, err
}
