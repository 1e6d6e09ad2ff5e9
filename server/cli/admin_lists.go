package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"callbook/store"
	"callbook/store/domain"
)

// listChange adds an entry to a list of the operator or removes one, by the name of the command.
type listChange struct{}

// Run implements the command. Its argument is the entry.
func (listChange) Run(ctx context.Context, console *console, k *kong.Context) error {
	act := k.Selected().Name
	kind, undo, _ := store.ParseBlockAct(act)
	written := k.Selected().Positional[0].Target.String()
	return console.open(ctx, func(st *store.Store) error {
		entry, err := st.ChangeBlocklist(ctx, act, written)
		if undo && errors.Is(err, domain.NewError(domain.CodeNotFound)) {
			return errors.New("this is not on the list: callbook admin blocked shows what is")
		}
		if err != nil {
			return err
		}

		if undo {
			return console.printf("%q is off the list.", entry)
		}
		return console.printf(blocked[kind], entry)
	})
}

type wordArgument struct {
	listChange
	Word string `arg:"" help:"A word of 2 to 64 characters (1 in Chinese, Japanese and similar scripts), or a phrase in quotation marks. Case, width, accents, and characters between words are ignored."`
}

type blockWordCommand struct{ wordArgument }

// Help returns the text that kong shows below the usage.
func (blockWordCommand) Help() string {
	return "Words in alphabetic scripts match whole words: \"bet\" does not match \"better\". " +
		"Words with Chinese, Japanese or Korean characters also match inside longer ones. " +
		"Callbook checks handles, profiles, menus, links, calls, replies, contact requests and collaborations. " +
		"The error names the field, but not the word. " +
		"Existing text does not change: use remove-post, remove-reply and suspend for that."
}

type nameArgument struct {
	listChange
	Name string `arg:"" help:"A name such as spam.example. It includes all names below it."`
}

type networkArgument struct {
	listChange
	Network string `arg:"" help:"An address or a network such as 192.0.2.0/24 or 2001:db8::/48. A single IPv6 address includes its /64."`
}

// blocked are the sentences after an entry was added, by list.
var blocked = map[store.BlockKind]string{
	store.BlockWord:     "%q is blocked in new text. Existing text does not change.",
	store.BlockDomain:   "New mailboxes and owner addresses at %q are rejected. Agents that have one keep it.",
	store.BlockHost:     "Links to %q are rejected. Verified ones are checked again within minutes, and then fail.",
	store.BlockNetwork:  "Clients in %q can read, but not change anything.",
	store.ExemptNetwork: "Limits do not count clients in %q.",
}

type blockedCommand struct{}

// Run implements the command.
func (c *blockedCommand) Run(ctx context.Context, console *console) error {
	read := func(st *store.Store, _ int) ([]store.BlockEntry, error) { return st.Blocklist(ctx) }
	line := func(e store.BlockEntry) string {
		return fmt.Sprintf("%s  %-14s  %q", minute(e.CreatedAt), e.Kind.Act(), e.Entry)
	}
	return list(ctx, console, unlimited, read, line, "Nothing is blocked.")
}
