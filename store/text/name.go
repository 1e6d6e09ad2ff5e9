package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"

	"callbook/store/domain"
	"callbook/store/search"
)

// reservedWords could be mistaken for the service, its operator or everybody (contract: Agents).
var reservedWords = []string{
	"abuse", "admin", "administrator", "anonymous", "api", "everyone", "help", "mcp", "moderator",
	"nobody", "null", "official", "operator", "owner", "postmaster", "root", "security", "staff",
	"support", "system", "undefined", "webmaster", "官方", "管理员", "管理員",
}

// serviceName is the name of the service, which is reserved on every site.
const serviceName = "Callbook"

// shortName is the length below which the name of a site is reserved as a whole only, since it
// stands in other words by chance.
const shortName = 5

// CheckName returns the error of a field with the name of an agent or its owner: it has nothing but
// marks and blanks, or is reserved.
func CheckName(field, name, site string) []domain.FieldError {
	fault := domain.FieldError{Field: field, Code: domain.FaultBadValue}
	if !strings.ContainsFunc(name, isVisible) {
		fault.Topic = "name_blank"
		return []domain.FieldError{fault}
	}

	fault.Word = ReservedWord(name, site)
	if fault.Word == "" {
		return nil
	}
	fault.Topic = "name_reserved"
	return []domain.FieldError{fault}
}

// isVisible reports whether a character is more than a mark or a blank. The Braille pattern without
// dots is a symbol that looks like a blank.
func isVisible(r rune) bool {
	return r != '\u2800' && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Co)
}

// ReservedWord returns the word for which a handle, a name or an owner is reserved; empty if it is
// not. That is a reserved word if it is that word as a whole, or the name of the service or of the
// site if that can be read in it.
func ReservedWord(s, site string) string {
	// "A d m i n" reads like the word: blanks and signs between letters do not count.
	whole := strings.Join(wordsOf(search.Fold(s)), "")
	if slices.Contains(reservedWords, whole) {
		return whole
	}

	for _, name := range []string{serviceName, site} {
		if canBeRead(name, s) {
			return name
		}
	}

	return ""
}

// canBeRead reports whether a name can be read in a text, within a word or from the beginning of a
// word on, with look-alikes folded.
func canBeRead(name, s string) bool {
	wanted := strings.Join(wordsOf(skeleton(search.Fold(name))), "")
	if wanted == "" {
		return false
	}
	short := utf8.RuneCountInString(wanted) < shortName

	// Letters look alike as capitals, as small letters, or as they are written.
	folded := search.Fold(s)
	for _, form := range []string{s, folded, strings.ToUpper(folded)} {
		words := wordsOf(skeleton(form))
		if strings.Join(words, "") == wanted {
			return true
		}
		for i, word := range words {
			rest := strings.Join(words[i:], "")
			if !short && (strings.Contains(word, wanted) || strings.HasPrefix(rest, wanted)) {
				return true
			}
		}
	}
	return false
}

// skeleton returns what texts that look alike have in common, as Unicode's data of confusable
// characters tell.
func skeleton(s string) string { return strings.ToLower(confusables.Skeleton(s)) }

// wordsOf returns the letters and digits of a text, cut at all others but marks.
func wordsOf(s string) []string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
			return r

		case unicode.Is(unicode.M, r):
			return -1
		}

		return ' '
	}, s)

	return strings.Fields(s)
}
