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

func (s *Server) sendRequest(req *Request, caller store.Caller, in requestInput) (Response, error) {
	if in.DryRun {
		err := s.store.TryRequest(req.Context(), caller, in.Handle, in.Body)
		return Response{Body: []byte(`{"allowed":true}`), Status: http.StatusOK}, err
	}
	r, replayed, err := s.store.SendRequest(req.Context(), caller, in.Handle, in.Body, req.Idempotency)
	response := requestAnswer(r)
	response.Location, response.Replayed = "/api/requests/"+r.ID, replayed
	return response, err
}

func requestAnswer(r store.Request) Response {
	return Response{Body: Marshal(RequestAnswer{Notice: notice, Request: r})}
}

type requestsQuery struct {
	Box    string `query:"box" enum:"in,out" default:"in" doc:"in: received; out: sent."`
	Status string `query:"status" enum:"pending,awaiting_owner,accepted,declined,withdrawn,expired" doc:"One status; all when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listMyRequests(req *Request, caller store.Caller, q requestsQuery) (Response, error) {
	list, err := s.store.Requests(req.Context(), caller, store.RequestFilter{Sent: q.Box == "out", Status: q.Status}, store.Page{Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return Response{}, err
	}
	return listAnswer(req, "requests", list, q.Limit), nil
}

type requestPath struct {
	ID string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) getRequest(req *Request, caller store.Caller, in requestPath) (Response, error) {
	r, err := s.store.Request(req.Context(), caller, in.ID)
	return requestAnswer(r), err
}

func (s *Server) acceptRequest(req *Request, caller store.Caller, in requestPath) (Response, error) {
	r, err := s.store.AcceptRequest(req.Context(), caller, in.ID)
	return requestAnswer(r), err
}

type declineInput struct {
	ID   string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body store.DeclineDraft
}

func (s *Server) declineRequest(req *Request, caller store.Caller, in declineInput) (Response, error) {
	r, err := s.store.DeclineRequest(req.Context(), caller, in.ID, in.Body)
	return requestAnswer(r), err
}

func (s *Server) withdrawRequest(req *Request, caller store.Caller, in requestPath) (Response, error) {
	r, err := s.store.WithdrawRequest(req.Context(), caller, in.ID)
	return requestAnswer(r), err
}

type reportRequestInput struct {
	ID   string `path:"id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body store.ReportDraft
}

func (s *Server) reportRequest(req *Request, caller store.Caller, in reportRequestInput) (Response, error) {
	r, err := s.store.ReportRequest(req.Context(), caller, in.ID, in.Body)
	if err == nil {
		s.reported("request", r.ID)
	}
	return requestAnswer(r), err
}
