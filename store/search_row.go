package store

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"
)

// A search row holds each word up to three times: as it is, marked if it stands
// in the first two kinds of text, and marked otherwise if in the first kind. So
// each tier's words are found by look-ups of their own, and a word that is common
// in the third kind of text costs a search in the first nothing.
const (
	inFirst         = "\uE201"
	inSecond        = "\uE202" // or in the first
	anywhere        = ""
	beginningMark   = "\uE200"
	scopes          = 3
	longestTierList = scopes + 1 // the exact handle comes before them
)

var marks = [scopes]string{inFirst, inSecond, anywhere}

// searchRow is what a search table holds of one agent or call: its texts by
// weight, and the values that lists filter by.
type searchRow struct {
	first, second, third []string
	facets               []string

	cut func() (text string, long []scopedWord) // terms, when they are being made already
}

// scopedWord is a word of a row.
type scopedWord struct {
	text  string
	scope int // the first that holds it
}

// prepare has the row's words cut beside the writer, which is the one that all
// writes wait for: that takes as long as some statements do, and nothing of it hangs
// on the transaction. Where the other goroutine is behind, the writer does it.
func (r *searchRow) prepare(rows chan<- *searchRow) {
	r.cut = sync.OnceValues(r.makeTerms)
	select {
	case rows <- r:
	default:
	}
}

// cutRows cuts the rows that writers prepare. It is one goroutine, and lets others on
// between two rows: one for each would stand in the way of those who read.
func cutRows(rows <-chan *searchRow) {
	for r := range rows {
		r.cutBeside()
		runtime.Gosched()
	}
}

func (r *searchRow) cutBeside() {
	defer func() { _ = recover() }() // the writer meets the panic again
	_, _ = r.cut()
}

// terms are the words of the row as FTS5 gets them, but for the beginnings of its long
// ones.
func (r *searchRow) terms() (text string, long []scopedWord) {
	if r.cut != nil {
		return r.cut()
	}
	return r.makeTerms()
}

func (r *searchRow) makeTerms() (text string, long []scopedWord) {
	sections := []string{segment(r.first...), segment(r.second...), segment(r.third...)}
	words, begun := newNested(), newNested()
	for scope, section := range sections {
		for w := range strings.FieldsSeq(section) {
			// One character is only ever asked as a beginning.
			if !isOneCharacter(w) && !words.add(w) {
				continue
			}
			beginnings(w, func(beginning string) { begun.add(beginning) })
			if completes(w) {
				long = append(long, scopedWord{w, scope})
			}
		}
		words.ends[scope], begun.ends[scope] = len(words.all), len(begun.all)
	}
	var b strings.Builder
	b.Grow(4*len(sections[0]) + 4*len(sections[1]) + 4*len(sections[2]) + 256)
	for scope, mark := range marks {
		for _, w := range words.in(scope) {
			writeTerm(&b, mark, "", w)
		}
		for _, w := range begun.in(scope) {
			writeTerm(&b, mark, beginningMark, w)
		}
	}
	for _, f := range r.facets {
		writeTerm(&b, "", "", f)
	}
	return b.String(), long
}

func writeTerm(b *strings.Builder, mark, beginning, w string) {
	b.WriteString(mark)
	b.WriteString(beginning)
	b.WriteString(w)
	b.WriteByte(' ')
}

// nested are the words of a row, each once, in the order of the texts: those of a
// scope are the first of them, as each scope holds the one before it.
type nested struct {
	all  []string
	ends [scopes]int // how many of all a scope has
	seen map[string]struct{}
}

func newNested() *nested { return &nested{seen: make(map[string]struct{}, 256)} }

// add tells whether the word is new.
func (n *nested) add(w string) bool {
	if _, ok := n.seen[w]; ok {
		return false
	}
	n.seen[w] = struct{}{}
	n.all = append(n.all, w)
	return true
}

func (n *nested) in(scope int) []string { return n.all[:n.ends[scope]] }

// The search tables.
const (
	agentSearch = "agent_search"
	postSearch  = "post_search"
)

// mirror is what a record's number and that of its search row add up to, so that the
// newest record comes first: FTS5 walks upwards in a half to a third of the time that
// it takes downwards. There are never so many agents or calls.
const mirror = "4294967296"

type searchKey struct {
	table  string
	number int64 // of the agent or call
}

// index replaces a search row, and unindex deletes one, just before the commit:
// FTS5 writes all it has gathered to disk whenever a savepoint ends, so the rows
// of the writes that share a transaction go in together after the last of them.
func (t *tx) index(table string, number int64, row *searchRow) {
	row.prepare(t.writer.rows)
	t.search[searchKey{table, number}] = row
}

func (t *tx) unindex(table string, number int64, was *searchRow) {
	t.search[searchKey{table, number}] = nil
	t.drop(was, &searchRow{})
}

// drop marks the words that a row held and holds no more.
func (t *tx) drop(was, is *searchRow) {
	_, before := was.terms()
	_, after := is.terms()
	kept := map[string]bool{}
	for _, w := range after {
		kept[w.text] = true
	}
	for _, w := range before {
		if !kept[w.text] {
			t.dropped[w.text] = struct{}{}
		}
	}
}

// reword runs a change of an agent, which must settle it, and drops the words
// that the agent no longer has.
func (t *tx) reword(agentID int64, change func() error) error {
	was, _, err := t.agentSearchRow(agentID)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if is := t.search[searchKey{agentSearch, agentID}]; is != nil {
		t.drop(was, is)
	}
	return nil
}

// storeSearchRows writes the search rows that were gathered.
func (t *tx) storeSearchRows() error {
	keys := slices.SortedFunc(maps.Keys(t.search), func(a, b searchKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(b.number, a.number)) // FTS5 wants them upwards
	})
	for _, key := range keys {
		if err := t.tuneSearch(key.table); err != nil {
			return err
		}
		t.writer.merged[key.table] = false
		t.changes.rows[key.table]++
		if err := t.exec(`DELETE FROM `+key.table+` WHERE rowid = `+mirror+` - ?`, key.number); err != nil {
			return fmt.Errorf("delete a row of %s: %w", key.table, err)
		}
		row := t.search[key]
		if row == nil {
			continue
		}
		text, long := row.terms()
		beginnings, err := t.learn(long)
		if err != nil {
			return fmt.Errorf("learn the words of a row: %w", err)
		}
		text += beginnings + strings.Join(blocks(key.number), " ")
		if err := t.exec(`INSERT INTO `+key.table+` (rowid, words) VALUES (`+mirror+` - ?, ?)`, key.number, text); err != nil {
			return fmt.Errorf("insert a row of %s: %w", key.table, err)
		}
		runtime.Gosched() // as between the writes of a batch
	}
	clear(t.search)
	return t.unlearn()
}

// knownWords is how many words are remembered as stored, about 3 MB: most words
// of a text are among them, so that learning costs little.
const knownWords = 1 << 15

// rememberedWord is how many bytes a word has at the most that is remembered so.
const rememberedWord = 64

// longWord is a word that is longer than the beginnings that always stand in its rows.
// It is found by a longer one in one of two ways: from some length on, beginnings are
// completed to it, each to at most maxForms words; shorter ones stand in its rows too.
// That length is settled when the word is learned, as the least with room for it from
// there on, and stays until no row holds the word and it is dropped.
type longWord struct {
	Word          string
	CompletedFrom int `db:"completed_from"`
}

// maxSpelled is how long a beginning can be that stands in rows. A longer one is
// completed to as many words as there is room for, which may not be all that begin so:
// that is only where very many have their first 15 letters in common, or some are as
// long as texts.
const maxSpelled = 15

// maxCompleted is how many letters a word has at the most that shorter beginnings than
// these are completed to, so that maxForms of them stay below formBytes.
const maxCompleted = 32

// begunBy selects the long words between a beginning and what follows all words with
// it: first those that the shortest beginnings are completed to. All lengths are named,
// from past maxBeginning to past maxSpelled, so that an index has them in that order.
const begunBy = `
	SELECT word, completed_from FROM search_words
	WHERE completed_from IN (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16) AND word >= ? AND word < ?
	ORDER BY completed_from, word
	LIMIT ?`

// learn stores the long words of a row, which are in the order of their scopes, and
// tells as terms of it the beginnings that are not completed to them.
func (t *tx) learn(words []scopedWord) (terms string, err error) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, w := range words {
		from, err := t.completedFrom(w.text)
		if err != nil {
			return "", err
		}
		n := 0
		for i, r := range w.text {
			if n++; n >= from { // mostly at the first that could be
				break
			}
			beginning := w.text[:i+utf8.RuneLen(r)]
			if n <= maxBeginning || seen[beginning] {
				continue
			}
			seen[beginning] = true
			for _, mark := range marks[w.scope:] {
				writeTerm(&b, mark, beginningMark, beginning)
			}
		}
	}
	return b.String(), nil
}

// completedFrom is how long a beginning must be to be completed to a word, which is
// stored unless it is known.
func (t *tx) completedFrom(word string) (from int, err error) {
	if from, ok := t.writer.store.words.Get(word); ok {
		return from, nil
	}
	if from, ok := t.learned[word]; ok {
		return from, nil
	}
	known, err := t.find(&from, `SELECT completed_from FROM search_words WHERE word = ?`, word)
	if err == nil && !known {
		if from, err = t.leastCompletedFrom(word); err == nil {
			err = t.exec(`INSERT INTO search_words (completed_from, word) VALUES (?, ?)`, from, word)
		}
	}
	if err == nil {
		t.learned[strings.Clone(word)] = from // not the whole text that it is cut from
	}
	return from, err
}

// leastCompletedFrom is completedFrom of a new word: the least length of its beginnings
// from which on each is completed to fewer than maxForms.
func (t *tx) leastCompletedFrom(word string) (from int, err error) {
	var ends []int
	letters := 0
	for i, r := range word {
		if letters++; letters <= maxSpelled {
			ends = append(ends, i+utf8.RuneLen(r))
		}
	}
	from = len(ends) + 1
	if letters > maxCompleted {
		return from, nil
	}
	reaches := func(query string, length int, more ...any) bool {
		var n int
		beginning := word[:ends[length-1]]
		if err == nil {
			err = t.get(&n, query, append([]any{beginning, beginning + string(utf8.MaxRune), maxForms}, more...)...)
		}
		return n >= maxForms
	}
	// many tells whether that many words have a beginning, full whether it is completed
	// to that many.
	many := func(length int) bool {
		return reaches(`SELECT COUNT(*) FROM (SELECT 1 FROM search_words WHERE word >= ? AND word < ? LIMIT ?)`, length)
	}
	full := func(length int) bool {
		return reaches(`SELECT COUNT(*) FROM (`+begunBy+`) WHERE completed_from <= ?`, length, length)
	}
	// The longer a beginning is, the fewer words have it, whatever they are completed
	// from: mostly there are few from the start.
	const least = maxBeginning + 1
	if !many(least) || err != nil {
		return least, err
	}
	from = least + 1 + sort.Search(from-least-1, func(i int) bool { return !many(least + 1 + i) })
	for from > least && !full(from-1) {
		from--
	}
	return from, err
}

// unlearn notes the words of deleted rows: looking for each in the index takes too
// long for those who wait.
func (t *tx) unlearn() error {
	for w := range t.dropped {
		if err := t.exec(`INSERT INTO search_dropped (word) VALUES (?) ON CONFLICT (word) DO NOTHING`, w); err != nil {
			return fmt.Errorf("drop a word: %w", err)
		}
	}
	clear(t.dropped)
	return nil
}

// dropWords drops words that were noted and that no row holds: a name may be among
// them.
func (t *tx) dropWords() (done int, err error) {
	var words []string
	if err := t.selectAll(&words, `SELECT word FROM search_dropped LIMIT ?`, dueStep); err != nil {
		return 0, err
	}
	for _, w := range words {
		t.writer.store.words.Remove(w)
		err := t.exec(`
			DELETE FROM search_words
			WHERE word = ?
				AND NOT EXISTS (SELECT 1 FROM agent_search WHERE agent_search MATCH ?)
				AND NOT EXISTS (SELECT 1 FROM post_search WHERE post_search MATCH ?)`, w, quote(w), quote(w))
		if err == nil {
			err = t.exec(`DELETE FROM search_dropped WHERE word = ?`, w)
		}
		if err != nil {
			return 0, fmt.Errorf("drop a word: %w", err)
		}
	}
	return len(words), nil
}

// clearSearch empties the search tables.
func (t *tx) clearSearch() error {
	t.writer.store.words.Purge()
	for _, query := range []string{`DELETE FROM search_words`, `DELETE FROM search_dropped`} {
		if err := t.exec(query); err != nil {
			return fmt.Errorf("clear the words: %w", err)
		}
	}
	for _, table := range []string{agentSearch, postSearch} {
		if err := t.exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('delete-all')`); err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	clear(t.search)
	clear(t.learned)
	clear(t.dropped)
	return nil
}
