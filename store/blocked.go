package store

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// Words that the operator does not allow in what agents write for others.

// The bounds of the list, and of a word in it, in characters after folding. A
// script without spaces says much in one character; of the others, one would be
// found in too much.
const (
	maxBlockedWords  = 1000
	maxBlockedLength = 64
	minBlockedLength = 2
)

// BlockedWord is a word or a phrase that no agent may use.
type BlockedWord struct {
	Word      string      `db:"word"` // as text.BlockedForm returns it
	CreatedAt domain.Time `db:"created_at"`
}

// BlockWord keeps a word, or a phrase of several, out of what agents write from now
// on: handles, names, cards, menus, calls, replies, contact requests, and
// collaborations. What is stored stays. Case, width, accents, and what stands
// between words do not count. A word of letters is found as a whole word, one
// with characters of a script without spaces, such as Chinese, also inside others.
// It returns the form in which the word is kept; one that is there already stays.
// It refuses with validation_failed a word of fewer than 2 characters (1 of a
// script without spaces) or more than 64, and one more than 1000 words.
func (s *Store) BlockWord(ctx context.Context, word string) (string, error) {
	word = text.BlockedForm(word)
	if err := checkBlockedWord(word); err != nil {
		return "", err
	}
	return word, s.changeBlockedWords(ctx, "block-word", word, func(t *tx) (changed int64, err error) {
		changed, err = t.Change(`
			INSERT INTO blocked_words (word, created_at) VALUES (?, ?)
			ON CONFLICT (word) DO NOTHING`, word, t.now)
		var n int
		if err == nil {
			err = t.Get(&n, `SELECT COUNT(*) FROM blocked_words`)
		}
		if err == nil && n > maxBlockedWords {
			err = domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooMany})
		}
		return changed, err
	})
}

func checkBlockedWord(word string) error {
	switch n := utf8.RuneCountInString(word); {
	case n == 0, n < minBlockedLength && !strings.ContainsFunc(word, search.IsUnspaced):
		return domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooShort})
	case n > maxBlockedLength:
		return domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooLong})
	}
	return nil
}

// UnblockWord allows a word again, and returns the form in which it was kept. It
// refuses with not_found one that is not blocked.
func (s *Store) UnblockWord(ctx context.Context, word string) (string, error) {
	word = text.BlockedForm(word)
	return word, s.changeBlockedWords(ctx, "unblock-word", word, func(t *tx) (int64, error) {
		changed, err := t.Change(`DELETE FROM blocked_words WHERE word = ?`, word)
		if err == nil && changed == 0 {
			err = domain.NewError(domain.CodeNotFound)
		}
		return changed, err
	})
}

// changeBlockedWords changes the list, and keeps a note of it if there was
// anything to change.
func (s *Store) changeBlockedWords(ctx context.Context, act, word string, change func(*tx) (int64, error)) error {
	return s.write(ctx, func(t *tx) error {
		changed, err := change(t)
		if err != nil || changed == 0 {
			return err
		}
		return t.audit(act, word, "")
	})
}

// BlockedWords lists all of them, by word.
func (s *Store) BlockedWords(ctx context.Context) (words []BlockedWord, err error) {
	err = s.selectAll(ctx, &words, `SELECT word, created_at FROM blocked_words ORDER BY word`)
	return words, err
}

// refoldBlockedWords keeps words that an older program folded in another way as this
// one does.
func (t *tx) refoldBlockedWords() error {
	var words []BlockedWord
	if err := t.Select(&words, `SELECT word, created_at FROM blocked_words`); err != nil {
		return err
	}
	for _, w := range words {
		form := text.BlockedForm(w.Word)
		if form == w.Word {
			continue
		}
		err := t.Exec(`DELETE FROM blocked_words WHERE word = ?`, w.Word)
		if err == nil {
			err = t.Exec(`INSERT INTO blocked_words (word, created_at) VALUES (?, ?) ON CONFLICT (word) DO NOTHING`, form, w.CreatedAt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTexts refuses with validation_failed a draft with texts that hold a blocked
// word, together with the faults that were found in it already.
func (t *tx) checkTexts(draft any, faults ...domain.FieldError) error {
	var words []string
	if err := t.Select(&words, `SELECT word FROM blocked_words`); err != nil {
		return fmt.Errorf("read the blocked words: %w", err)
	}
	if len(words) > 0 {
		eachText("", reflect.ValueOf(draft), func(field, written string) {
			if text.HoldsBlocked(written, words) {
				faults = append(faults, domain.FieldError{Field: field, Code: domain.FaultBadValue, Topic: "blocked"})
			}
		})
	}
	if len(faults) > 0 {
		return domain.Invalid(faults...)
	}
	return nil
}

// eachText calls f with each text of a draft that others will read, and the path of
// its field. All strings are such texts but those that the tags of their field
// tell to be something else; see isText.
func eachText(path string, v reflect.Value, f func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		f(path, v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(path, v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(fmt.Sprintf("%s[%d]", path, i), v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); isText(field.Tag) {
				eachText(pathOf(path, field), v.Field(i), decoding(field.Tag, f))
			}
		}
	}
}

// isText tells whether others will read the text of a field as its writer chose
// it. A choice from a list, a code of a language, a date, and what the tag text:"-"
// marks as the name of another record say nothing of their own. A mailbox has to
// be the one that mail reaches, and is shown to few.
func isText(tag reflect.StructTag) bool {
	switch tag.Get("format") {
	case "email", "language", "date":
		return false
	}
	return tag.Get("enum") == "" && tag.Get("text") != "-"
}

// decoding has web addresses read as people see them: what is not ASCII in them is
// stored percent-encoded.
func decoding(tag reflect.StructTag, f func(path, text string)) func(path, text string) {
	if tag.Get("format") != "uri" {
		return f
	}
	return func(path, text string) {
		if decoded, err := url.PathUnescape(text); err == nil {
			text = decoded
		}
		f(path, text)
	}
}

func pathOf(parent string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous:
		return parent
	case parent == "":
		return name
	}
	return parent + "." + name
}
