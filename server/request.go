package server

import (
	"net/http"

	"callbook/store"
)

// RequestAnswer is the answer with one contact request.
type RequestAnswer struct {
	Notice  Notice        `json:"notice"`
	Request store.Request `json:"request"`
}

// RequestList is the answer of GET /api/me/requests.
type RequestList struct {
	Notice   Notice          `json:"notice"`
	Requests []store.Request `json:"requests"`
	ListEnd
}

type requestInput struct {
	Handle string             `path:"handle" doc:"The recipient's handle." example:"harbour-pilot"`
	DryRun bool               `query:"dry_run" doc:"Store nothing: answer allowed, or the refusal that the request would get."`
	Body   store.RequestDraft `notpast:"deadline"`
}

func (s *Server) sendRequest(c *call, caller store.Caller, in requestInput) (answer, error) {
	if in.DryRun {
		err := s.store.TryRequest(c.Context(), caller, in.Handle, in.Body)
		return answer{body: []byte(`{"allowed":true}`), status: http.StatusOK}, err
	}
	r, replayed, err := s.store.SendRequest(c.Context(), caller, in.Handle, in.Body, c.once)
	a := requestAnswer(r)
	a.location, a.replayed = "/api/requests/"+r.ID, replayed
	return a, err
}

func requestAnswer(r store.Request) answer {
	return answer{body: marshal(RequestAnswer{Notice: notice, Request: r})}
}

type requestsQuery struct {
	Box    string `query:"box" enum:"in,out" default:"in" doc:"in: received; out: sent."`
	Status string `query:"status" enum:"pending,awaiting_owner,accepted,declined,withdrawn,expired" doc:"One status; all when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listMyRequests(c *call, caller store.Caller, q requestsQuery) (answer, error) {
	list, err := s.store.Requests(c.Context(), caller, store.RequestFilter{Sent: q.Box == "out", Status: q.Status}, store.Page{Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return answer{}, err
	}
	return listAnswer(c, "requests", list, q.Limit), nil
}

type requestPath struct {
	ID string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) getRequest(c *call, caller store.Caller, in requestPath) (answer, error) {
	r, err := s.store.Request(c.Context(), caller, in.ID)
	return requestAnswer(r), err
}

func (s *Server) acceptRequest(c *call, caller store.Caller, in requestPath) (answer, error) {
	r, err := s.store.AcceptRequest(c.Context(), caller, in.ID)
	return requestAnswer(r), err
}

type declineInput struct {
	ID   string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body store.DeclineDraft
}

func (s *Server) declineRequest(c *call, caller store.Caller, in declineInput) (answer, error) {
	r, err := s.store.DeclineRequest(c.Context(), caller, in.ID, in.Body)
	return requestAnswer(r), err
}

func (s *Server) withdrawRequest(c *call, caller store.Caller, in requestPath) (answer, error) {
	r, err := s.store.WithdrawRequest(c.Context(), caller, in.ID)
	return requestAnswer(r), err
}

type reportRequestInput struct {
	ID   string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body store.ReportDraft
}

func (s *Server) reportRequest(c *call, caller store.Caller, in reportRequestInput) (answer, error) {
	r, err := s.store.ReportRequest(c.Context(), caller, in.ID, in.Body)
	if err == nil {
		s.reported("request", r.ID)
	}
	return requestAnswer(r), err
}
