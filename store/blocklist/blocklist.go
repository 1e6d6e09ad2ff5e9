// Package blocklist holds the lists of the operator: what is not allowed here, and networks that no limit counts. It
// checks drafts against them.
//
// Case, width, accents and what stands between words do not count. A word of letters matches as
// a whole word; one with characters of a script without spaces, such as Chinese, also inside
// others. A domain or a host matches with the names below it. Stored texts are not checked again.
package blocklist

import (
	"context"
	"strings"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
	"callbook/store/txn"
)

// The limits of each list, and of a word in characters after folding. In a script without spaces,
// one character can be a word; in others, one letter would match too much. So would a network with a
// shorter prefix than minBits.
const (
	maxEntries = 1000
	maxLength  = 64
	minLength  = 2
	minBits    = 8
)

// Kind is a list.
type Kind string

// The lists.
const (
	Word    Kind = "word"    // words and phrases that agents do not write for others
	Domain  Kind = "domain"  // domains of mailboxes
	Host    Kind = "host"    // hosts of links
	Network Kind = "network" // networks that change nothing
	Exempt  Kind = "exempt"  // networks that no limit counts
)

// Kinds are all lists.
var Kinds = []Kind{Word, Domain, Host, Network, Exempt}

// Act returns the name of the operator's act that adds an entry.
func (k Kind) Act() string {
	if k == Exempt {
		return "exempt-network"
	}
	return "block-" + string(k)
}

// UndoAct returns the name of the act that removes an entry.
func (k Kind) UndoAct() string { return "un" + k.Act() }

// ParseAct returns the list that an act changes, and whether it removes an entry.
func ParseAct(act string) (kind Kind, undo, ok bool) {
	for _, k := range Kinds {
		if act == k.Act() || act == k.UndoAct() {
			return k, act == k.UndoAct(), true
		}
	}
	return "", false, false
}

// Entry is an entry of a list.
type Entry struct {
	Kind      Kind        `db:"kind"`
	Entry     string      `db:"entry"` // as Parse returns it
	CreatedAt domain.Time `db:"created_at"`
}

// Parse returns an entry in the form in which it is stored. It returns validation_failed for a word that is too short or
// too long for the list, a name that is no domain, and a network that is none or too large. An IPv6 address
// stands for its /64, which one person usually has.
func Parse(kind Kind, written string) (string, error) {
	switch kind {
	case Word:
		form := Form(written)
		switch n := utf8.RuneCountInString(form); {
		case n == 0, n < minLength && !strings.ContainsFunc(form, search.IsUnspaced):
			return form, fault(domain.FaultTooShort, "")
		case n > maxLength:
			return form, fault(domain.FaultTooLong, "")
		}
		return form, nil
	case Domain, Host:
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
	if err != nil || network.Bits() < minBits {
		return written, fault(domain.FaultBadFormat, "entry_network")
	}
	return network.String(), nil
}

func fault(code domain.FieldCode, topic string) error {
	return domain.Invalid(domain.FieldError{Field: "entry", Code: code, Topic: topic})
}

// Add adds an entry, and returns 0 if the list has it already. The verified links to a host are checked
// again soon. It returns validation_failed if the list would have more than 1000 entries.
func Add(t *txn.Tx, kind Kind, entry string) (added int64, err error) {
	added, err = t.Change(`
		INSERT INTO blocklist (kind, entry, created_at) VALUES (?, ?, ?)
		ON CONFLICT (kind, entry) DO NOTHING`, kind, entry, t.Now)
	var n int
	if err == nil {
		err = t.Get(&n, `SELECT COUNT(*) FROM blocklist WHERE kind = ?`, kind)
	}
	if err == nil && n > maxEntries {
		err = fault(domain.FaultTooMany, "")
	}
	t.Changes.Lists = true
	return added, err
}

// Remove removes an entry. It returns not_found if the list does not have it.
func Remove(t *txn.Tx, kind Kind, entry string) (removed int64, err error) {
	removed, err = t.Change(`DELETE FROM blocklist WHERE kind = ? AND entry = ?`, kind, entry)
	if err == nil && removed == 0 {
		err = domain.NewError(domain.CodeNotFound)
	}
	t.Changes.Lists = true
	return removed, err
}

// List returns all entries, in alphabetical order of each list.
func List(ctx context.Context, db *txn.DB) (entries []Entry, err error) {
	err = db.Select(ctx, &entries, `SELECT kind, entry, created_at FROM blocklist ORDER BY kind, entry`)
	return entries, err
}
