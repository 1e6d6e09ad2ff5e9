package cli

import (
	"context"
	"errors"
	"fmt"

	"callbook/store"
	"callbook/store/blocklist"
	"callbook/store/domain"
)

type wordArgument struct {
	Word string `arg:"" help:"A word of 2 to 64 characters (1 in Chinese, Japanese and similar scripts), or a phrase in quotation marks. Case, width, accents, and characters between words are ignored."`
}

type blockWordCommand struct{ wordArgument }

// Help returns the text that kong shows below the usage.
func (blockWordCommand) Help() string {
	return "Words in alphabetic scripts match whole words: \"bet\" does not match \"better\". Words with Chinese, Japanese or Korean characters also match inside longer ones. " +
		"Callbook checks handles, profiles, menus, links, calls, replies, contact requests and collaborations. The error names the field, but not the word. " +
		"Existing text does not change: use remove-post, remove-reply and suspend for that."
}

func (c *blockWordCommand) Run(ctx context.Context, console *adminConsole) error {
	return console.open(ctx, func(st *store.Store) error {
		word, err := st.BlockWord(ctx, c.Word)
		if err != nil {
			return blockError(err)
		}
		return console.printf("%q is blocked in new text. Existing text does not change.", word)
	})
}

// blockError translates the limit that a word to block exceeds.
func blockError(err error) error {
	var rejected *domain.Error
	if !errors.As(err, &rejected) || len(rejected.Fields) == 0 {
		return err
	}
	switch rejected.Fields[0].Code {
	case domain.FaultTooShort:
		return errors.New("give a word of at least 2 letters or digits; one character is enough in a script without spaces, such as Chinese. Symbols and emoji cannot be blocked")
	case domain.FaultTooLong:
		return errors.New("a blocked word has at most 64 characters: give a part of it")
	case domain.FaultTooMany:
		return errors.New("1000 words are blocked, the limit: remove one with unblock-word first")
	}
	return err
}

type unblockWordCommand struct{ wordArgument }

func (c *unblockWordCommand) Run(ctx context.Context, console *adminConsole) error {
	return console.open(ctx, func(st *store.Store) error {
		word, err := st.UnblockWord(ctx, c.Word)
		if errors.Is(err, &domain.Error{Code: domain.CodeNotFound}) {
			return errors.New("this word is not blocked: callbook admin blocked-words lists the blocked words")
		}
		if err != nil {
			return err
		}
		return console.printf("%q is allowed again.", word)
	})
}

type blockedWordsCommand struct{}

func (c *blockedWordsCommand) Run(ctx context.Context, console *adminConsole) error {
	return console.open(ctx, func(st *store.Store) error {
		list, err := st.BlockedWords(ctx)
		return printList(console, list, err, func(w blocklist.Word) string { return fmt.Sprintf("%s  %q", minute(w.CreatedAt), w.Word) }, "No words are blocked.")
	})
}
