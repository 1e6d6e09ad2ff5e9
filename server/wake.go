package server

import (
	"callbook/server/api"
	"callbook/server/outbound"
	"callbook/store/domain"
)

func (s *Server) getWake(req *api.Request, caller domain.Caller, _ api.None) (domain.Wake, error) {
	return s.store.Wake(req.Context(), caller)
}

// newWake is the response of PUT /api/me/wake.
type newWake struct {
	URL    string `json:"url"`
	Secret string `json:"secret" doc:"Verifies the signatures, as Standard Webhooks has it. Shown this once: another PUT makes a new one." example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	Status string `json:"status" enum:"ok"`
}

func (s *Server) setWake(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[domain.WakeDraft],
) (newWake, error) {
	url, secret, err := s.store.SetWake(req.Context(), caller, in.Body.URL)
	return newWake{url, outbound.WebhookKey(secret).Secret(), domain.WakeOK}, err
}

func (s *Server) deleteWake(req *api.Request, caller domain.Caller, _ api.None) (api.None, error) {
	return api.None{}, s.store.RemoveWake(req.Context(), caller)
}
