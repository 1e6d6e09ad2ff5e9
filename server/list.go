package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/listing"
)

func newListEnd[T any](req *api.Request, list listing.List[T], limit int) public.ListEnd {
	return public.ListEnd{
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Limit:        limit,
		Next:         req.NextPage(list.Next),
	}
}
