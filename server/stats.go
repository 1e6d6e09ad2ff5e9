package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

func (s *Server) getStats(req *api.Request, _ api.None) (api.Response, error) {
	stats, err := s.store.Stats(req.Context())
	if err != nil {
		return api.Response{}, err
	}
	return api.Response{Body: api.Marshal(stats), Tags: cacheTags(siteData), Expires: stats.AsOf.Time().Add(domain.StatsAge)}, nil
}
