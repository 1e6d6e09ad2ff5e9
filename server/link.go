package server

import (
	"net/url"
	"slices"

	"callbook/server/api"
	"callbook/server/outbound"
	"callbook/server/public"
	"callbook/store"
	"callbook/store/domain"
)

// linkResponse is the response of POST /api/me/links.
type linkResponse struct {
	Notice public.Notice `json:"notice"`
	Link   *domain.Link  `json:"link" doc:"The link and what the look at its page found; null once it is removed."`
	Links  []domain.Link `json:"links" doc:"All of yours, at most 5."`
}

type linkDraft struct {
	URL    string `json:"url" format:"link" minLength:"1" maxLength:"2048" doc:"http(s) address of a page of yours that links to your public page here, best with rel=\"me\"." example:"https://harbour.example.org/about"`
	Remove bool   `json:"remove,omitempty" doc:"Take the link off your card."`
}

func (s *Server) setLink(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[linkDraft],
) (linkResponse, error) {
	if in.Body.Remove {
		links, err := s.store.RemoveLink(req.Context(), caller, in.Body.URL)
		return linkResponse{Notice: notice, Links: links}, err
	}

	var host string
	if u, err := url.Parse(in.Body.URL); err == nil {
		host = u.Hostname()
	}

	address, err := s.store.AddLink(req.Context(), caller, in.Body.URL, outbound.LinkKind(host))
	if err != nil {
		return linkResponse{}, err
	}

	due := store.DueLink{AgentID: caller.ID, Handle: caller.Handle, URL: address}
	links, err := s.links.CheckLink(req.Context(), due, false)
	if err != nil {
		return linkResponse{}, err
	}

	response := linkResponse{Notice: notice, Links: links}
	i := slices.IndexFunc(links, func(l domain.Link) bool { return l.URL == address })
	if i >= 0 { // else it was removed while it was checked
		response.Link = &links[i]
	}
	return response, nil
}
