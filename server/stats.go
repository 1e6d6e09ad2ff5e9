package server

import "callbook/store"

func (s *Server) getStats(req *Request, _ None) (Response, error) {
	stats, err := s.store.Stats(req.Context())
	if err != nil {
		return Response{}, err
	}
	return Response{Body: Marshal(stats), Tags: cacheTags(siteData), Expires: stats.AsOf.Time().Add(store.StatsAge)}, nil
}
