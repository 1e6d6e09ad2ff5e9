package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

func (s *Server) getStats(req *api.Request, _ api.None) (domain.Stats, error) {
	return s.store.Stats(req.Context())
}

// FacetsResponse is the response of GET /api/facets.
type FacetsResponse struct {
	Notice Notice `json:"notice"`
	domain.Facets
}

func (s *Server) getFacets(req *api.Request, _ api.None) (FacetsResponse, error) {
	facets, err := s.store.Facets(req.Context())
	return FacetsResponse{notice, facets}, err
}
