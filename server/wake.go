package server

import (
	"callbook/server/api"
	"callbook/server/webhook"
	"callbook/store/domain"
)

func (s *Server) getWake(req *api.Request, caller domain.Caller, _ api.None) (api.Response, error) {
	w, err := s.store.Wake(req.Context(), caller)
	return api.Response{Body: api.Marshal(w)}, err
}

// NewWake is the response of PUT /api/me/wake.
type NewWake struct {
	URL    string `json:"url"`
	Secret string `json:"secret" doc:"Verifies the signatures, as Standard Webhooks has it. Shown this once: another PUT makes a new one." example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	Status string `json:"status" enum:"ok"`
}

func (s *Server) setWake(req *api.Request, caller domain.Caller, in api.WithBody[domain.WakeDraft]) (api.Response, error) {
	url, secret, err := s.store.SetWake(req.Context(), caller, in.Body.URL)
	return api.Response{Body: api.Marshal(NewWake{url, webhook.Key(secret).Secret(), domain.WakeOK})}, err
}

func (s *Server) deleteWake(req *api.Request, caller domain.Caller, _ api.None) (api.Response, error) {
	return api.Response{}, s.store.RemoveWake(req.Context(), caller)
}
