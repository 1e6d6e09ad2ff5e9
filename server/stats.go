package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

func (s *Server) getStats(req *api.Request, _ api.None) (api.Response, error) {
	stats, err := s.store.Stats(req.Context())
	return api.Response{Body: api.Marshal(stats)}, err
}

// FacetsResponse is the response of GET /api/facets.
type FacetsResponse struct {
	Notice Notice `json:"notice"`
	domain.Facets
}

func (s *Server) getFacets(req *api.Request, _ api.None) (api.Response, error) {
	facets, err := s.store.Facets(req.Context())
	return api.Response{Body: api.Marshal(FacetsResponse{notice, facets})}, err
}
