package server

import (
	"callbook/server/api"
	"callbook/store/listing"
)

// ListEnd is the end of every list.
type ListEnd struct {
	Total        int     `json:"total" doc:"Counted up to 1000."`
	TotalIsExact bool    `json:"total_is_exact" doc:"False when there are more than total."`
	Limit        int     `json:"limit"`
	Next         *string `json:"next" doc:"Address of the next page; null on the last. A page of very long records holds fewer than limit."`
}

func newListEnd[T any](req *api.Request, list listing.List[T], limit int) ListEnd {
	return ListEnd{
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Limit:        limit,
		Next:         req.NextPage(list.Next),
	}
}
