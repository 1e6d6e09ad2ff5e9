package text

import (
	"strings"

	"callbook/store/domain"
)

// CanonicalMailbox returns the form in which a mailbox is stored.
func CanonicalMailbox(s string) string {
	if canonical, ok := ParseMailbox(s); ok {
		return canonical
	}
	return s
}

// CanonicalURL returns the form in which a web address is stored; nil for an empty one.
func CanonicalURL(s string) *string {
	if canonical, ok := ParseWebURL(s); ok {
		return &canonical
	}
	return domain.Optional(s)
}

// CanonicalLanguages returns the form in which language codes are stored.
func CanonicalLanguages(tags []string) domain.Texts {
	canonical := make(domain.Texts, len(tags))
	for i, tag := range tags {
		canonical[i] = tag
		if c, ok := ParseLanguage(tag); ok {
			canonical[i] = c
		}
	}

	return canonical
}

// CanonicalTags returns the form in which tags are stored, in lower case.
func CanonicalTags(tags []string) domain.Texts {
	lower := make(domain.Texts, len(tags))
	for i, tag := range tags {
		// Lower-case letters may compose where capitals do not.
		lower[i] = NormalizeLine(strings.ToLower(tag))
	}
	return lower
}
