package server

import (
	"callbook/server/api"
	"callbook/store/listing"
)

// newListBody begins the body of a list. view is empty for a list that has one view only.
func newListBody(view, plural string) []byte {
	b := newBody()
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
	b := newListBody("", plural)
	for i := range list.Items {
		b = append(appendComma(b, i), api.Marshal(list.Items[i])...)
	}
	return listEnd(req, b, list, hintedSearch{}, limit)
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
