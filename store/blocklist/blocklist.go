// Package blocklist holds the words that the operator does not allow in what agents write for
// others, and checks drafts against them.
//
// Case, width, accents and what stands between words do not count. A word of letters matches as
// a whole word; one with characters of a script without spaces, such as Chinese, also inside
// others. Stored texts are not checked again.
package blocklist

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/txn"
)

// The limits of the list, and of a word in characters after folding. In a script without spaces,
// one character can be a word; in others, one letter would match too much.
const (
	maxWords  = 1000
	maxLength = 64
	minLength = 2
)

// Word is a word or a phrase that no agent may use.
type Word struct {
	Word      string      `db:"word"` // as Form returns it
	CreatedAt domain.Time `db:"created_at"`
}

// CheckWord returns validation_failed for a word, in the form of Form, that is too
// short or too long for the list.
func CheckWord(word string) error {
	switch n := utf8.RuneCountInString(word); {
	case n == 0, n < minLength && !strings.ContainsFunc(word, search.IsUnspaced):
		return domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooShort})
	case n > maxLength:
		return domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooLong})
	}
	return nil
}

// Add adds a word, and returns 0 if the list has it already. It returns validation_failed if the
// list would have more than 1000 words.
func Add(t *txn.Tx, word string) (added int64, err error) {
	added, err = t.Change(`
		INSERT INTO blocked_words (word, created_at) VALUES (?, ?)
		ON CONFLICT (word) DO NOTHING`, word, t.Now)
	var n int
	if err == nil {
		err = t.Get(&n, `SELECT COUNT(*) FROM blocked_words`)
	}
	if err == nil && n > maxWords {
		err = domain.Invalid(domain.FieldError{Field: "word", Code: domain.FaultTooMany})
	}
	return added, err
}

// Remove removes a word. It returns not_found if the list does not have it.
func Remove(t *txn.Tx, word string) (removed int64, err error) {
	removed, err = t.Change(`DELETE FROM blocked_words WHERE word = ?`, word)
	if err == nil && removed == 0 {
		err = domain.NewError(domain.CodeNotFound)
	}
	return removed, err
}

// List returns all words, in alphabetical order.
func List(ctx context.Context, db *txn.DB) (words []Word, err error) {
	err = db.Select(ctx, &words, `SELECT word, created_at FROM blocked_words ORDER BY word`)
	return words, err
}

// Refold stores the words as this program folds them, after an older program folded them in
// another way.
func Refold(t *txn.Tx) error {
	var words []Word
	if err := t.Select(&words, `SELECT word, created_at FROM blocked_words`); err != nil {
		return err
	}
	for _, w := range words {
		form := Form(w.Word)
		if form == w.Word {
			continue
		}
		err := t.Exec(`DELETE FROM blocked_words WHERE word = ?`, w.Word)
		if err == nil {
			err = t.Exec(`INSERT INTO blocked_words (word, created_at) VALUES (?, ?) ON CONFLICT (word) DO NOTHING`, form, w.CreatedAt)
		}
		if err != nil {
			return fmt.Errorf("fold the blocked words: %w", err)
		}
	}
	return nil
}

// Check returns validation_failed if a text of a draft contains a blocked word, or if there are
// errors already, with all of them.
func Check(t *txn.Tx, draft any, errs ...domain.FieldError) error {
	var words []string
	if err := t.Select(&words, `SELECT word FROM blocked_words`); err != nil {
		return fmt.Errorf("read the blocked words: %w", err)
	}
	if len(words) > 0 {
		eachText("", reflect.ValueOf(draft), func(field, written string) {
			if holds(written, words) {
				errs = append(errs, domain.FieldError{Field: field, Code: domain.FaultBadValue, Topic: domain.TopicBlocked})
			}
		})
	}
	if len(errs) > 0 {
		return domain.Invalid(errs...)
	}
	return nil
}

// eachText calls f with the path and the value of each field of a draft that is a text which
// others read; see isText.
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
				eachText(fieldPath(path, field), v.Field(i), decoding(field.Tag, f))
			}
		}
	}
}

// isText reports whether a field is a text that others read as its writer chose it. It is not a
// choice from a list, a language code, a date, or the name of another record, which has the tag
// text:"-". A mailbox must be the one that mail reaches, and few see it.
func isText(tag reflect.StructTag) bool {
	switch tag.Get("format") {
	case "email", "language", "date":
		return false
	}
	return tag.Get("enum") == "" && tag.Get("text") != "-"
}

// decoding returns f so that it gets web addresses as people see them, without percent-encoding.
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
