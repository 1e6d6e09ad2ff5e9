package server

import (
	"callbook/server/api"
	"callbook/store/listing"
)

// listOverhead is the approximate size of a list without its records and the query.
const listOverhead = 256

// newListBody begins the body of a list, with room for records of this size in all. view is empty for a list that has one
// view only.
func newListBody(req *api.Request, view, plural string, size int) []byte {
	b := newBody(listOverhead + len(req.URL.RawQuery) + size)
	if view != "" {
		b = append(b, `,"view":"`+view+`"`...)
	}
	return append(b, `,"`+plural+`":[`...)
}

// appendComma appends the comma before the element i of an array.
func appendComma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

// listResponse returns a page of records that are encoded as they are.
func listResponse[T any](req *api.Request, plural string, list listing.List[T], limit int) api.Response {
	b := newListBody(req, "", plural, 0)
	for i := range list.Items {
		b = append(appendComma(b, i), api.Marshal(list.Items[i])...)
	}
	return listEnd(req, b, list, hintedSearch{limit: limit})
}

// pageResponse ends a body with the address of the next page, or null: the same query with a
// cursor instead of an offset.
func pageResponse(req *api.Request, b []byte, cursor string) api.Response {
	b = append(b, `,"next":`...)
	if cursor == "" {
		return api.Response{Body: append(b, "null}"...)}
	}
	query := req.URL.Query()
	query.Del("offset")
	query.Set("cursor", cursor)
	next := req.URL.EscapedPath() + "?" + query.Encode()
	return api.Response{Body: append(appendText(b, next), '}'), Next: next}
}
