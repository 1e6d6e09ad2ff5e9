package server

import (
	"net/url"

	"callbook/store"
)

// perList is how many bytes of a list are neither its records' nor the caller's query, about.
const perList = 256

// beginList begins a list with its plural, and makes room for records of that size in all.
func beginList(c *call, plural string, size int) []byte {
	b := beginAnswer(perList + len(c.URL.RawQuery) + size)
	return append(b, `,"`+plural+`":[`...)
}

// listAnswer is a page of records that are answered as they are.
func listAnswer[T any](c *call, plural string, list store.List[T], limit int) answer {
	b := beginList(c, plural, 0)
	for i := range list.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, marshal(list.Items[i])...)
	}
	return endList(c, b, list, hintedSearch{limit: limit})
}

// endPage closes an answer with the address of its next page, or null: the same query
// with a cursor instead of an offset.
func endPage(c *call, b []byte, cursor string) answer {
	b = append(b, `,"next":`...)
	next := nextPage(c.URL, cursor)
	if next == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, next)
	}
	return answer{body: append(b, '}'), next: next}
}

func nextPage(u *url.URL, cursor string) string {
	if cursor == "" {
		return ""
	}
	query := u.Query()
	query.Del("offset")
	query.Set("cursor", cursor)
	return u.EscapedPath() + "?" + query.Encode()
}
