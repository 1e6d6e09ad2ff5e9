package server

import (
	"net/url"
	"strconv"

	"callbook/store"
)

// perList is how many bytes of a list are neither its records' nor the caller's query, about.
const perList = 256

// beginList begins a list with its plural, and makes room for records of that size in all.
func beginList(c *call, plural string, size int) []byte {
	b := beginAnswer(perList + len(c.URL.RawQuery) + size)
	return append(b, `,"`+plural+`":[`...)
}

// endList closes a list and makes the address of its next page: the same query
// with a cursor instead of an offset.
func endList(c *call, b []byte, total int, exact bool, limit int, cursor string) answer {
	return endPage(c, appendLimit(appendTotal(b, total, exact), limit), cursor)
}

// appendTotal closes the array of records and appends how many there are.
func appendTotal(b []byte, total int, exact bool) []byte {
	b = append(b, `],"total":`...)
	b = strconv.AppendInt(b, int64(total), 10)
	b = append(b, `,"total_is_exact":`...)
	return strconv.AppendBool(b, exact)
}

func appendLimit(b []byte, limit int) []byte {
	b = append(b, `,"limit":`...)
	return strconv.AppendInt(b, int64(limit), 10)
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
	return endList(c, b, list.Total, list.TotalIsExact, limit, list.Next)
}

// endPage closes an answer with the address of its next page, or null.
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

// linkNext is the Link header of a page that another follows.
func linkNext(next string) string {
	if next == "" {
		return ""
	}
	return "<" + next + `>; rel="next"`
}
