package store

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// searchRow is what a search table holds of one agent or call: its texts by
// weight, and the values that lists filter by.
type searchRow struct {
	first, second, third []string
	facets               []string

	cut func() (text string, complete []string) // terms, when they are being made already
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

// terms are the words of the row as FTS5 gets them, and those that a longer
// beginning may be completed to.
func (r *searchRow) terms() (text string, complete []string) {
	if r.cut != nil {
		return r.cut()
	}
	return r.makeTerms()
}

func (r *searchRow) makeTerms() (text string, complete []string) {
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
				complete = append(complete, w)
			}
		}
		words.ends[scope], begun.ends[scope] = len(words.all), len(begun.all)
	}
	var b strings.Builder
	b.Grow(4*len(sections[0]) + 4*len(sections[1]) + 4*len(sections[2]) + 256)
	for scope, mark := range []string{inFirst, inSecond, anywhere} {
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
	return b.String(), complete
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
		kept[w] = true
	}
	for _, w := range before {
		if !kept[w] {
			t.dropped[w] = struct{}{}
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
		text, complete := row.terms()
		text += strings.Join(blocks(key.number), " ")
		if err := t.exec(`INSERT INTO `+key.table+` (rowid, words) VALUES (`+mirror+` - ?, ?)`, key.number, text); err != nil {
			return fmt.Errorf("insert a row of %s: %w", key.table, err)
		}
		if err := t.learn(complete); err != nil {
			return fmt.Errorf("learn the words of a row: %w", err)
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

// learn stores words that beginnings can be completed to.
func (t *tx) learn(words []string) error {
	for _, w := range words {
		if t.writer.store.words.Contains(w) {
			continue
		}
		if _, ok := t.learned[w]; ok {
			continue
		}
		if err := t.exec(`INSERT INTO search_words (word) VALUES (?) ON CONFLICT (word) DO NOTHING`, w); err != nil {
			return err
		}
		t.learned[w] = struct{}{}
	}
	return nil
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
	if err := t.all(&words, `SELECT word FROM search_dropped LIMIT ?`, dueStep); err != nil {
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
	return nil
}
