package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

func (s *Server) getStats(req *api.Request, _ api.None) (domain.Stats, error) {
	return s.store.Stats(req.Context())
}

func (s *Server) getFacets(req *api.Request, _ api.None) (public.FacetsResponse, error) {
	facets, err := s.store.Facets(req.Context())
	return public.FacetsResponse{Notice: notice, Facets: facets}, err
}
