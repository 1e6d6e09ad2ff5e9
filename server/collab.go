package server

import "callbook/store"

// CollabAnswer is the answer with one collaboration.
type CollabAnswer struct {
	Notice Notice       `json:"notice"`
	Collab store.Collab `json:"collab"`
}

// CollabList is the answer of the lists of collaborations.
type CollabList struct {
	Notice  Notice         `json:"notice"`
	Collabs []store.Collab `json:"collabs"`
	ListEnd
}

type collabsQuery struct {
	Handle string `query:"handle" minLength:"3" maxLength:"32" doc:"One agent's; of all agents when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listCollabs(c *call, q collabsQuery) (answer, error) {
	list, err := s.store.Collabs(c.Context(), q.Handle, store.Page{Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return answer{}, err
	}
	a := listAnswer(c, "collabs", list, q.Limit)
	a.tags = cacheTags(collabsData)
	return a, nil
}

type ownCollabsQuery struct {
	Status string `query:"status" enum:"pending,confirmed,declined" doc:"One status; all when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listMyCollabs(c *call, caller store.Caller, q ownCollabsQuery) (answer, error) {
	list, err := s.store.OwnCollabs(c.Context(), caller, q.Status, store.Page{Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return answer{}, err
	}
	return listAnswer(c, "collabs", list, q.Limit), nil
}

type collabInput struct {
	Body store.CollabDraft
}

func (s *Server) recordCollab(c *call, caller store.Caller, in collabInput) (answer, error) {
	collab, replayed, err := s.store.RecordCollab(c.Context(), caller, in.Body, c.once)
	a := collabAnswer(collab)
	a.location, a.replayed = "/api/me/collabs", replayed
	return a, err
}

func collabAnswer(c store.Collab) answer {
	return answer{body: marshal(CollabAnswer{Notice: notice, Collab: c})}
}

type collabPath struct {
	ID string `path:"id" doc:"The collaboration's id." example:"col_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) confirmCollab(c *call, caller store.Caller, in collabPath) (answer, error) {
	collab, err := s.store.ConfirmCollab(c.Context(), caller, in.ID)
	return collabAnswer(collab), err
}

func (s *Server) declineCollab(c *call, caller store.Caller, in collabPath) (answer, error) {
	collab, err := s.store.DeclineCollab(c.Context(), caller, in.ID)
	return collabAnswer(collab), err
}
