package server

import "callbook/store"

func (s *Server) getStats(c *call, _ none) (answer, error) {
	stats, err := s.store.Stats(c.Context())
	if err != nil {
		return answer{}, err
	}
	return answer{body: marshal(stats), tags: cacheTags(siteData), expires: stats.AsOf.Time().Add(store.StatsAge)}, nil
}
