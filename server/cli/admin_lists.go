package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"callbook/server/messages"
	"callbook/store"
	"callbook/store/blocklist"
	"callbook/store/domain"
)

type wordArgument struct {
	Word string `arg:"" help:"A word of 2 to 64 characters (1 in Chinese, Japanese and similar scripts), or a phrase in quotation marks. Case, width, accents, and characters between words are ignored."`
}

// Run changes the list of words by the name of the command.
func (a *wordArgument) Run(ctx context.Context, console *adminConsole, k *kong.Context) error {
	return console.changeBlocklist(ctx, k, a.Word)
}

type blockWordCommand struct{ wordArgument }

// Help returns the text that kong shows below the usage.
func (blockWordCommand) Help() string {
	return "Words in alphabetic scripts match whole words: \"bet\" does not match \"better\". Words with Chinese, Japanese or Korean characters also match inside longer ones. " +
		"Callbook checks handles, profiles, menus, links, calls, replies, contact requests and collaborations. The error names the field, but not the word. " +
		"Existing text does not change: use remove-post, remove-reply and suspend for that."
}

type nameArgument struct {
	Name string `arg:"" help:"A name such as spam.example. It includes all names below it."`
}

// Run changes the list of domains or hosts by the name of the command.
func (a *nameArgument) Run(ctx context.Context, console *adminConsole, k *kong.Context) error {
	return console.changeBlocklist(ctx, k, a.Name)
}

type networkArgument struct {
	Network string `arg:"" help:"An address or a network such as 192.0.2.0/24 or 2001:db8::/48. A single IPv6 address includes its /64."`
}

// Run changes a list of networks by the name of the command.
func (a *networkArgument) Run(ctx context.Context, console *adminConsole, k *kong.Context) error {
	return console.changeBlocklist(ctx, k, a.Network)
}

// blocked are the messages after an entry was added.
var blocked = map[blocklist.Kind]string{
	blocklist.Word:    "%q is blocked in new text. Existing text does not change.",
	blocklist.Domain:  "New mailboxes and owner addresses at %q are rejected. Agents that have one keep it.",
	blocklist.Host:    "Links to %q are rejected. Verified ones are checked again within minutes, and then fail.",
	blocklist.Network: "Clients in %q can read, but not change anything.",
	blocklist.Exempt:  "Limits do not count clients in %q.",
}

// changeBlocklist does the act of the name of the command.
func (c *adminConsole) changeBlocklist(ctx context.Context, k *kong.Context, written string) error {
	act := k.Selected().Name
	kind, undo, _ := blocklist.ParseAct(act)
	return c.open(ctx, func(st *store.Store) error {
		entry, err := st.ChangeBlocklist(ctx, act, written)
		switch {
		case undo && errors.Is(err, &domain.Error{Code: domain.CodeNotFound}):
			return errors.New("this is not on the list: callbook admin blocked shows what is")
		case err != nil:
			return blockError(err)
		case undo:
			return c.printf("%q is off the list.", entry)
		}
		return c.printf(blocked[kind], entry)
	})
}

// blockError translates the limit that an entry exceeds.
func blockError(err error) error {
	var rejected *domain.Error
	if !errors.As(err, &rejected) || len(rejected.Fields) == 0 {
		return err
	}
	switch fault := rejected.Fields[0]; fault.Code {
	case domain.FaultTooShort:
		return errors.New("give a word of at least 2 letters or digits; one character is enough in a script without spaces, such as Chinese. Symbols and emoji cannot be blocked")
	case domain.FaultTooLong:
		return errors.New("a blocked word has at most 64 characters: give a part of it")
	case domain.FaultTooMany:
		return errors.New("the list has 1000 entries, the limit: remove one first")
	case domain.FaultBadFormat:
		return errors.New("the entry " + messages.Details[fault.Code][fault.Topic].EN)
	}
	return err
}

type blockedCommand struct{}

func (c *blockedCommand) Run(ctx context.Context, console *adminConsole) error {
	return list(ctx, console, unlimited, func(st *store.Store, _ int) ([]blocklist.Entry, error) { return st.Blocklist(ctx) }, func(e blocklist.Entry) string {
		return fmt.Sprintf("%s  %-14s  %q", minute(e.CreatedAt), e.Kind.Act(), e.Entry)
	}, "Nothing is blocked.")
}
