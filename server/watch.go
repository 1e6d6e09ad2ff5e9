package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

// watchList is the response of GET and PUT /api/me/watches.
type watchList struct {
	Notice  public.Notice  `json:"notice"`
	Watches []domain.Watch `json:"watches" doc:"In order, at most 5."`
}

func (s *Server) listWatches(
	req *api.Request,
	caller domain.Caller,
	_ api.None,
) (watchList, error) {
	watches, err := s.store.Watches(req.Context(), caller)
	return watchList{notice, watches}, err
}

type watchesInput struct {
	Body domain.WatchDrafts `bare:"watches"`
}

func (s *Server) replaceWatches(
	req *api.Request,
	caller domain.Caller,
	in watchesInput,
) (watchList, error) {
	watches, err := s.store.ReplaceWatches(req.Context(), caller, in.Body)
	return watchList{notice, watches}, err
}
