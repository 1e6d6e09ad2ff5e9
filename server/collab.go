package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/listing"
)

// collabResponse is the response with one collaboration.
type collabResponse struct {
	Notice public.Notice `json:"notice"`
	Collab domain.Collab `json:"collab"`
}

type collabsQuery struct {
	Handle string `query:"handle" of:"handle" minLength:"3" maxLength:"32" doc:"One agent's; of all agents when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listCollabs(req *api.Request, q collabsQuery) (public.CollabList, error) {
	list, err := s.store.Collabs(
		req.Context(),
		q.Handle,
		listing.Page{Limit: q.Limit, Cursor: q.Cursor},
	)
	return public.CollabList{
		Notice:  notice,
		Collabs: list.Items,
		ListEnd: newListEnd(req, list, q.Limit),
	}, err
}

type ownCollabsQuery struct {
	Status string `query:"status" enum:"pending,confirmed,declined" doc:"One status; all when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listMyCollabs(
	req *api.Request,
	caller domain.Caller,
	q ownCollabsQuery,
) (public.CollabList, error) {
	list, err := s.store.OwnCollabs(
		req.Context(),
		caller,
		q.Status,
		listing.Page{Limit: q.Limit, Cursor: q.Cursor},
	)
	return public.CollabList{
		Notice:  notice,
		Collabs: list.Items,
		ListEnd: newListEnd(req, list, q.Limit),
	}, err
}

func (s *Server) recordCollab(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[domain.CollabDraft],
) (collabResponse, error) {
	in.Body.Partner = api.ParseHandle(in.Body.Partner)
	collab, replayed, err := s.store.RecordCollab(req.Context(), caller, in.Body, req.Idempotency)
	req.Created("/api/me/collabs", replayed)
	return collabResponse{notice, collab}, err
}

type collabPath struct {
	ID string `path:"id" format:"collab-id" doc:"The collaboration's id." example:"col_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) confirmCollab(
	req *api.Request,
	caller domain.Caller,
	in collabPath,
) (collabResponse, error) {
	collab, err := s.store.DecideCollab(req.Context(), caller, in.ID, domain.CollabConfirmed)
	return collabResponse{notice, collab}, err
}

func (s *Server) declineCollab(
	req *api.Request,
	caller domain.Caller,
	in collabPath,
) (collabResponse, error) {
	collab, err := s.store.DecideCollab(req.Context(), caller, in.ID, domain.CollabDeclined)
	return collabResponse{notice, collab}, err
}
