package store

import (
	"callbook/store/domain"
	"callbook/store/text"
)

// The canonical forms of checked fields are stored.

func canonicalMailbox(s string) string {
	if canonical, ok := text.ParseMailbox(s); ok {
		return canonical
	}
	return s
}

func canonicalURL(s string) *string {
	if canonical, ok := text.ParseWebURL(s); ok {
		return &canonical
	}
	return domain.Optional(s)
}

func canonicalLanguages(tags []string) domain.Texts {
	canonical := make(domain.Texts, len(tags))
	for i, tag := range tags {
		canonical[i] = tag
		if c, ok := text.ParseLanguage(tag); ok {
			canonical[i] = c
		}
	}
	return canonical
}
