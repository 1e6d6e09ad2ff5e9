package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/listing"
)

// requestResponse is the response with one contact request.
type requestResponse struct {
	Notice  public.Notice         `json:"notice"`
	Request domain.ContactRequest `json:"request"`
}

// requestList is the response of GET /api/me/requests.
type requestList struct {
	Notice   public.Notice           `json:"notice"`
	Requests []domain.ContactRequest `json:"requests"`
	public.ListEnd
}

type requestInput struct {
	Handle string                     `path:"handle" of:"handle" doc:"The recipient's handle." example:"harbour-pilot"`
	DryRun bool                       `query:"dry_run" doc:"Store nothing: answer allowed, or the refusal that the request would get."`
	Body   domain.ContactRequestDraft `notpast:"deadline"`
}

func (s *Server) sendRequest(req *api.Request, caller domain.Caller, in requestInput) (any, error) {
	if in.DryRun {
		return req.DryRun(), s.store.TryRequest(req.Context(), caller, in.Handle, in.Body)
	}

	r, replayed, err := s.store.SendRequest(
		req.Context(),
		caller,
		in.Handle,
		in.Body,
		req.Idempotency,
	)
	req.Created("/api/requests/"+r.ID, replayed)
	return requestResponse{notice, r}, err
}

type requestsQuery struct {
	Box    string `query:"box" enum:"in,out" default:"in" doc:"in: received; out: sent."`
	Status string `query:"status" enum:"pending,awaiting_owner,accepted,declined,withdrawn,expired" doc:"One status; all when left out."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listMyRequests(
	req *api.Request,
	caller domain.Caller,
	q requestsQuery,
) (requestList, error) {
	list, err := s.store.Requests(
		req.Context(),
		caller,
		store.RequestFilter{Sent: q.Box == "out", Status: q.Status},
		listing.Page{Limit: q.Limit, Cursor: q.Cursor},
	)
	return requestList{notice, list.Items, newListEnd(req, list, q.Limit)}, err
}

type requestPath struct {
	ID string `path:"id" format:"request-id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) getRequest(
	req *api.Request,
	caller domain.Caller,
	in requestPath,
) (requestResponse, error) {
	r, err := s.store.Request(req.Context(), caller, in.ID)
	return requestResponse{notice, r}, err
}

func (s *Server) acceptRequest(
	req *api.Request,
	caller domain.Caller,
	in requestPath,
) (requestResponse, error) {
	r, err := s.store.ActOnRequest(req.Context(), caller, in.ID, domain.ActAccept, "")
	return requestResponse{notice, r}, err
}

type declineInput struct {
	ID   string `path:"id" format:"request-id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body domain.DeclineDraft
}

func (s *Server) declineRequest(
	req *api.Request,
	caller domain.Caller,
	in declineInput,
) (requestResponse, error) {
	r, err := s.store.ActOnRequest(req.Context(), caller, in.ID, domain.ActDecline, in.Body.Reason)
	return requestResponse{notice, r}, err
}

func (s *Server) withdrawRequest(
	req *api.Request,
	caller domain.Caller,
	in requestPath,
) (requestResponse, error) {
	r, err := s.store.ActOnRequest(req.Context(), caller, in.ID, domain.ActWithdraw, "")
	return requestResponse{notice, r}, err
}

type reportRequestInput struct {
	ID   string `path:"id" format:"request-id" doc:"The request's id." example:"req_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body domain.ReportDraft
}

func (s *Server) reportRequest(
	req *api.Request,
	caller domain.Caller,
	in reportRequestInput,
) (requestResponse, error) {
	r, err := s.store.ActOnRequest(req.Context(), caller, in.ID, domain.ActReport, in.Body.Reason)
	if err == nil {
		s.logReport("request", r.ID)
	}
	return requestResponse{notice, r}, err
}
