// Package blocklist holds the lists of the operator: what is not allowed here, and networks that no limit counts. It
// checks drafts against them.
//
// Case, width, accents and what stands between words do not count. A word of letters matches as
// a whole word; one with characters of a script without spaces, such as Chinese, also inside
// others. A domain or a host matches with the names below it. Stored texts are not checked again.
package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// The limits of each list, and of a word in characters after folding. In a script without spaces,
// one character can be a word; in others, one letter would match too much. So would a network with a
// shorter prefix than minBits.
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

// parseBlock returns an entry in the form in which it is stored. It returns validation_failed for a word that is too short or
// too long for the list, a name that is no domain, and a network that is none or too large. An IPv6 address
// stands for its /64, which one person usually has.
func parseBlock(kind BlockKind, written string) (string, error) {
	switch kind {
	case BlockWord:
		form := blockForm(written)
		switch n := utf8.RuneCountInString(form); {
		case n == 0, n < minBlockLength && !strings.ContainsFunc(form, search.IsUnspaced):
			return form, fault(domain.FaultTooShort, "")
		case n > maxBlockLength:
			return form, fault(domain.FaultTooLong, "")
		}
		return form, nil
	case BlockDomain, BlockHost:
		name := strings.ToLower(strings.TrimLeft(strings.TrimSpace(written), "@."))
		if !text.IsHostName(name) {
			return name, fault(domain.FaultBadFormat, "entry_name")
		}
		return name, nil
	}
	network, err := domain.ParseNetwork(strings.TrimSpace(written))
	if addr := network.Addr(); addr.Is6() && network.IsSingleIP() {
		network = domain.SmallestNetwork(addr)
	}
	if err != nil || network.Bits() < minNetworkBits {
		return written, fault(domain.FaultBadFormat, "entry_network")
	}
	return network.String(), nil
}

func fault(code domain.FieldCode, topic string) error {
	return domain.Invalid(domain.FieldError{Field: "entry", Code: code, Topic: topic})
}

// addBlock adds an entry, and returns 0 if the list has it already. The verified links to a host are checked
// again soon. It returns validation_failed if the list would have more than 1000 entries.
func addBlock(t *tx, kind BlockKind, entry string) (added int64, err error) {
	added, err = t.Change(`
		INSERT INTO blocklist (kind, entry, created_at) VALUES (?, ?, ?)
		ON CONFLICT (kind, entry) DO NOTHING`, kind, entry, t.Now)
	var n int
	if err == nil {
		err = t.Get(&n, `SELECT COUNT(*) FROM blocklist WHERE kind = ?`, kind)
	}
	if err == nil && n > maxBlocks {
		err = fault(domain.FaultTooMany, "")
	}
	t.Changes.Lists = true
	return added, err
}

// removeBlock removes an entry. It returns not_found if the list does not have it.
func removeBlock(t *tx, kind BlockKind, entry string) (removed int64, err error) {
	removed, err = t.Change(`DELETE FROM blocklist WHERE kind = ? AND entry = ?`, kind, entry)
	if err == nil && removed == 0 {
		err = domain.NewError(domain.CodeNotFound)
	}
	t.Changes.Lists = true
	return removed, err
}

// listBlocks returns all entries, in alphabetical order of each list.
func listBlocks(ctx context.Context, db *sqlitedb.DB) (entries []BlockEntry, err error) {
	err = db.Select(ctx, &entries, `SELECT kind, entry, created_at FROM blocklist ORDER BY kind, entry`)
	return entries, err
}
