package store

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// The lists of the operator are what is not allowed here, and networks that no limit counts.
//
// Case, width, accents and what stands between words do not count. A word of letters matches as
// a whole word; one with characters of a script without spaces, such as Chinese, also inside
// others. A domain or a host matches with the names below it. Stored texts are not checked again.

// The limits of each list, and of a word in characters after folding. A network with a shorter
// prefix than minNetworkBits would match too much.
const (
	maxBlocks      = 1000
	maxBlockLength = 64
	minBlockLength = 2
	minNetworkBits = 8
)

// BlockKind is a list.
type BlockKind string

// The lists.
const (
	BlockWord     BlockKind = "word"    // words and phrases that agents do not write for others
	BlockDomain   BlockKind = "domain"  // domains of mailboxes
	BlockHost     BlockKind = "host"    // hosts of links
	BlockNetwork  BlockKind = "network" // networks that change nothing
	ExemptNetwork BlockKind = "exempt"  // networks that no limit counts
)

// BlockKinds are all lists.
var BlockKinds = []BlockKind{BlockWord, BlockDomain, BlockHost, BlockNetwork, ExemptNetwork}

// Act returns the name of the operator's act that adds an entry.
func (k BlockKind) Act() string {
	if k == ExemptNetwork {
		return "exempt-network"
	}
	return "block-" + string(k)
}

// UndoAct returns the name of the act that removes an entry.
func (k BlockKind) UndoAct() string { return "un" + k.Act() }

// ParseBlockAct returns the list that an act changes, and whether it removes an entry.
func ParseBlockAct(act string) (kind BlockKind, undo, ok bool) {
	for _, k := range BlockKinds {
		if act == k.Act() || act == k.UndoAct() {
			return k, act == k.UndoAct(), true
		}
	}
	return "", false, false
}

// BlockEntry is an entry of a list.
type BlockEntry struct {
	Kind      BlockKind   `db:"kind"`
	Entry     string      `db:"entry"` // as Parse returns it
	CreatedAt domain.Time `db:"created_at"`
}

// parseBlock returns an entry in the form in which it is stored. It returns validation_failed for
// a word that is too short or too long for the list, a name that is no domain, and a network that
// is none or too large.
func parseBlock(kind BlockKind, written string) (string, error) {
	switch kind {
	case BlockWord:
		form := blockForm(written)

		// In a script without spaces, one character can be a word; in others, one letter would
		// match too much.
		switch n := utf8.RuneCountInString(form); {
		case n == 0, n < minBlockLength && !strings.ContainsFunc(form, search.IsUnspaced):
			return form, blockFault(domain.FaultTooShort, "")

		case n > maxBlockLength:
			return form, blockFault(domain.FaultTooLong, "")
		}

		return form, nil

	case BlockDomain, BlockHost:
		name := strings.ToLower(strings.TrimLeft(strings.TrimSpace(written), "@."))
		if !text.IsHostName(name) {
			return name, blockFault(domain.FaultBadFormat, "entry_name")
		}

		return name, nil
	}

	network, err := domain.ParseNetwork(strings.TrimSpace(written))
	// One person usually has the whole /64 of an address.
	if addr := network.Addr(); addr.Is6() && network.IsSingleIP() {
		network = domain.SmallestNetwork(addr)
	}

	if err != nil || network.Bits() < minNetworkBits {
		return written, blockFault(domain.FaultBadFormat, "entry_network")
	}

	return network.String(), nil
}

func blockFault(code domain.FieldCode, topic string) error {
	return domain.Invalid(domain.FieldError{Field: "entry", Code: code, Topic: topic})
}

// addBlock adds an entry, and returns 0 if the list has it already. The verified links to a host
// are checked again soon. It returns validation_failed if the list would have more than 1000
// entries.
func (t *tx) addBlock(kind BlockKind, entry string) (added int64, err error) {
	t.Changes.Lists = true
	added, err = t.Change(`
		INSERT INTO blocklist (kind, entry, created_at) VALUES (?, ?, ?)
		ON CONFLICT (kind, entry) DO NOTHING`, kind, entry, t.Now)
	if err != nil {
		return 0, err
	}

	var n int
	if err := t.Get(&n, `SELECT COUNT(*) FROM blocklist WHERE kind = ?`, kind); err != nil {
		return 0, err
	}
	if n > maxBlocks {
		return 0, blockFault(domain.FaultTooMany, "")
	}
	return added, nil
}

// removeBlock removes an entry. It returns not_found if the list does not have it.
func (t *tx) removeBlock(kind BlockKind, entry string) (removed int64, err error) {
	t.Changes.Lists = true
	removed, err = t.Change(`DELETE FROM blocklist WHERE kind = ? AND entry = ?`, kind, entry)
	if err != nil {
		return 0, err
	}
	if removed == 0 {
		return 0, domain.NewError(domain.CodeNotFound)
	}
	return removed, nil
}

// listBlocks returns all entries, in alphabetical order of each list.
func listBlocks(ctx context.Context, db *sqlitedb.DB) (entries []BlockEntry, err error) {
	err = db.Select(
		ctx,
		&entries,
		`SELECT kind, entry, created_at FROM blocklist ORDER BY kind, entry`,
	)
	return entries, err
}

// checkBlocks returns validation_failed if a text of a draft contains a blocked word, a mailbox
// has a blocked domain or a web address a blocked host, or if there are errors already, with all
// of them.
func (t *tx) checkBlocks(draft any, errs ...domain.FieldError) error {
	var entries []BlockEntry
	err := t.Select(&entries, `SELECT kind, entry FROM blocklist WHERE kind IN (?, ?, ?)`,
		BlockWord, BlockDomain, BlockHost)
	if err != nil {
		return fmt.Errorf("read the blocklist: %w", err)
	}

	lists := map[BlockKind][]string{}
	for _, e := range entries {
		lists[e.Kind] = append(lists[e.Kind], e.Entry)
	}

	// All texts of the draft are looked at, so that the response names every invalid field.
	if len(lists) > 0 {
		eachText("", "", reflect.ValueOf(draft), func(field, format, written string) {
			fault := domain.FieldError{Field: field, Code: domain.FaultBadValue}
			fault.Topic = findBlocked(lists, format, written)
			if fault.Topic != "" {
				errs = append(errs, fault)
			}
		})
	}

	if len(errs) > 0 {
		return domain.Invalid(errs...)
	}
	return nil
}

// findBlocked returns the topic of the error of a text of a format; empty if it may be written.
func findBlocked(lists map[BlockKind][]string, format, written string) (topic string) {
	switch format {
	case "email":
		if holdsName(lists[BlockDomain], written[strings.LastIndexByte(written, '@')+1:]) {
			return domain.TopicProvider
		}

		return ""

	case "uri", "webhook": // a profile link to a blocked host is no error: its check fails
		if u, err := url.Parse(written); err == nil && holdsName(lists[BlockHost], u.Hostname()) {
			return domain.TopicHost
		}
	}

	switch format {
	case "webhook": // no other agent sees it
		return ""

	case "uri", "link": // as people see them, without percent-encoding
		if decoded, err := url.PathUnescape(written); err == nil {
			written = decoded
		}
	}

	if holds(written, lists[BlockWord]) {
		return domain.TopicBlocked
	}

	return ""
}

// isAtHost reports whether an address is at a host or below it.
func isAtHost(address, host string) bool {
	u, err := url.Parse(address)
	return err == nil && holdsName([]string{host}, u.Hostname())
}

// holdsName reports whether a list has a name or one above it.
func holdsName(list []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(list, func(entry string) bool {
		return name == entry || strings.HasSuffix(name, "."+entry)
	})
}

// eachText calls f with path, format and value of each field of a draft that is a text; see isText.
func eachText(path, format string, v reflect.Value, f func(path, format, text string)) {
	switch v.Kind() {
	case reflect.String:
		f(path, format, v.String())

	case reflect.Pointer:
		if !v.IsNil() {
			eachText(path, format, v.Elem(), f)
		}

	case reflect.Slice:
		for i := range v.Len() {
			eachText(fmt.Sprintf("%s[%d]", path, i), format, v.Index(i), f)
		}

	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); isText(field.Tag) {
				eachText(fieldPath(path, field), field.Tag.Get("format"), v.Field(i), f)
			}
		}
	}
}

// isText reports whether a field is a text as its writer chose it. It is not a choice from a list,
// a language code, a date, or the name of another record, which has the tag text:"-".
func isText(tag reflect.StructTag) bool {
	switch tag.Get("format") {
	case "language", "date":
		return false
	}
	return tag.Get("enum") == "" && tag.Get("text") != "-"
}

func fieldPath(parent string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous:
		return parent

	case parent == "":
		return name
	}

	return parent + "." + name
}

// BlockLists has in memory what requests are checked against outside of transactions. Its methods
// may be called from any goroutine.
type BlockLists struct {
	db      *sqlitedb.DB
	current atomic.Pointer[lists]

	mu    sync.Mutex
	stale bool // current is to be read again
}

type lists struct {
	hosts    []string
	networks map[BlockKind][]netip.Prefix
}

// newLists returns the lists of a database, which are empty until Committed is called.
func newLists(db *sqlitedb.DB) *BlockLists {
	l := &BlockLists{db: db}
	l.current.Store(&lists{})
	return l
}

// Committed reads the lists again after a commit that changed them. It must be called after each
// commit and before its writers return.
func (l *BlockLists) Committed(c Changes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = l.stale || c.All || c.Lists
	if !l.stale {
		return
	}

	// If they cannot be read, they stay as they are, and stale lets the next commit try again.
	entries, err := listBlocks(context.Background(), l.db)
	if err != nil {
		return
	}

	current := &lists{networks: map[BlockKind][]netip.Prefix{}}
	for _, e := range entries {
		switch e.Kind {
		case BlockHost:
			current.hosts = append(current.hosts, e.Entry)
		case BlockNetwork, ExemptNetwork:
			if network, err := netip.ParsePrefix(e.Entry); err == nil {
				current.networks[e.Kind] = append(current.networks[e.Kind], network)
			}
		}
	}
	l.current.Store(current)
	l.stale = false
}

// HostBlocked reports whether links to a host are blocked.
func (l *BlockLists) HostBlocked(host string) bool {
	return holdsName(l.current.Load().hosts, host)
}

// NetworkBlocked reports whether the network of a client is blocked.
func (l *BlockLists) NetworkBlocked(client netip.Addr) bool { return l.has(BlockNetwork, client) }

// NetworkExempt reports whether limits of networks do not count a client.
func (l *BlockLists) NetworkExempt(client netip.Addr) bool { return l.has(ExemptNetwork, client) }

func (l *BlockLists) has(kind BlockKind, client netip.Addr) bool {
	client = client.Unmap().WithZone("") // in the form of the entries
	return slices.ContainsFunc(l.current.Load().networks[kind], func(p netip.Prefix) bool {
		return p.Contains(client)
	})
}

// blockForm returns a text in the form in which blocked words are stored and compared: its
// words, cut and folded as for a search, with one space between.
func blockForm(text string) string { return strings.Join(search.Words(text), " ") }

// holds reports whether a text holds one of some words in the form of blockForm.
func holds(text string, words []string) bool {
	text = blockForm(text)
	return slices.ContainsFunc(words, func(word string) bool { return holdsWord(text, word) })
}

// holdsWord reports whether a text contains a word: anywhere if the word has characters of a
// script without spaces, else as a whole word.
func holdsWord(text, word string) bool {
	anywhere := strings.ContainsFunc(word, search.IsUnspaced)
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}

		i += from
		if anywhere || isWordEdge(text, i-1) && isWordEdge(text, i+len(word)) {
			return true
		}

		from = i + 1 // occurrences may overlap
	}
}

// isWordEdge reports whether a word ends at a byte of a form. A sign belongs to a word, as in c++,
// but the word without it is found as well.
func isWordEdge(text string, i int) bool {
	return i < 0 || i == len(text) || text[i] == ' ' || text[i] == '+' || text[i] == '#'
}
