package server

import (
	"net/http"

	"callbook/server/api"
	"callbook/server/public"
)

// Numbers of records on the home page.
const (
	homeAgents = 6
	homePosts  = 4
)

// addHomeOperation adds the operation behind the home page, which is not in the list: what stands
// there is a choice of this program and not a part of the API.
func (s *Server) addHomeOperation() {
	s.engine.Prepare(api.Public("getHome", http.MethodGet, "/home",
		"The lists of the home page", limitReads, s.getHome))
}

func (s *Server) getHome(req *api.Request, _ api.None) (public.Home, error) {
	agents, posts, err := s.store.Home(req.Context(), homeAgents, homePosts)
	if err != nil {
		return public.Home{}, err
	}

	home := public.Home{Notice: notice, Posts: posts}
	for _, a := range agents {
		home.Agents = append(home.Agents, briefItemOf(a, ""))
	}
	return home, nil
}
