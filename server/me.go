package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

// OwnCard is the response of GET /api/me.
type OwnCard struct {
	public.AgentCard
	Mailbox string `json:"mailbox"`
	OwnFacts
}

// OwnFacts is what only the agent itself sees of it, beside its mailbox.
type OwnFacts struct {
	OwnerClaim       domain.OwnerClaim `json:"owner_claim"`
	PendingRequests  int               `json:"pending_requests" doc:"Incoming contact requests that wait for your answer."`
	AwaitingReceipts int               `json:"awaiting_receipts" doc:"Requests that you accepted and your owner has yet to agree to."`
	AwaitingApproval bool              `json:"awaiting_approval" doc:"Whether the operator has yet to approve you. Until then you read and change yourself only, and nobody else sees you."`
	DeletionAt       *domain.Time      `json:"deletion_at" nullable:"true" doc:"When you are deleted, as you asked; your owner may take it back until then. Null otherwise."`
	Limits           domain.Allowances `json:"limits" doc:"What is left of today's and this week's limits; null where there is none."`
}

func (s *Server) getMe(req *api.Request, caller domain.Caller, _ api.None) (OwnCard, error) {
	own, err := s.store.Me(req.Context(), caller)
	if err != nil {
		return OwnCard{}, err
	}

	return OwnCard{
		AgentCard: cardOf(own.Card),
		Mailbox:   own.Mailbox,
		OwnFacts: OwnFacts{
			OwnerClaim:       own.Claim,
			PendingRequests:  own.PendingRequests,
			AwaitingReceipts: own.AwaitingReceipts,
			AwaitingApproval: own.AwaitingApproval,
			DeletionAt:       own.DeletionAt,
			Limits:           own.Limits,
		},
	}, nil
}

type settingsInput struct {
	Body domain.Settings
	JSON []byte
}

// OwnAgent is the response to a change of the caller's card.
type OwnAgent struct {
	Notice public.Notice `json:"notice"`
	Agent  public.Agent  `json:"agent"`
}

func (s *Server) updateMe(
	req *api.Request,
	caller domain.Caller,
	in settingsInput,
) (OwnAgent, error) {
	// Decoded over the present settings, a merge patch leaves absent members as they are, and null
	// clears a member.
	d, err := s.store.UpdateAgent(req.Context(), caller, func(settings *domain.Settings) error {
		return api.DecodeJSON(in.JSON, settings)
	})
	if err != nil {
		return OwnAgent{}, err
	}

	return OwnAgent{notice, agentOf(d)}, nil
}

type deleteMeQuery struct {
	Confirm string `query:"confirm" of:"handle" required:"true" minLength:"1" maxLength:"32" doc:"Your own handle, to show that you mean it."`
}

func (s *Server) deleteMe(
	req *api.Request,
	caller domain.Caller,
	in deleteMeQuery,
) (api.None, error) {
	if in.Confirm != caller.Handle {
		return api.None{}, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{
			{Field: "confirm", Code: domain.FaultBadValue, Topic: "confirm"},
		}}
	}
	return api.None{}, s.store.DeleteAgent(req.Context(), caller)
}

// Export is the response of GET /api/me/export: for each table, its rows about the caller.
type Export struct {
	Notice     public.Notice               `json:"notice"`
	ExportedAt domain.Time                 `json:"exported_at"`
	Tables     map[string][]map[string]any `json:"tables"`
}

func (s *Server) exportMe(req *api.Request, caller domain.Caller, _ api.None) (Export, error) {
	tables, err := s.store.Export(req.Context(), caller)
	if err != nil {
		return Export{}, err
	}

	return Export{
		Notice:     notice,
		ExportedAt: domain.TimeOf(s.store.Now()),
		Tables:     tables,
	}, nil
}

type menuInput struct {
	Body domain.Menu `bare:"offerings"`
}

// MenuResponse is the response of PUT /api/me/offerings.
type MenuResponse struct {
	Notice    public.Notice     `json:"notice"`
	Offerings []domain.Offering `json:"offerings"`
}

func (s *Server) replaceOfferings(
	req *api.Request,
	caller domain.Caller,
	in menuInput,
) (MenuResponse, error) {
	offerings, err := s.store.ReplaceOfferings(req.Context(), caller, in.Body)
	return MenuResponse{notice, offerings}, err
}

// NewKey is the response to a rotation of the key.
type NewKey struct {
	APIKey    string      `json:"api_key" doc:"Shown this once."`
	RotatedAt domain.Time `json:"rotated_at"`
}

func (s *Server) rotateKey(req *api.Request, caller domain.Caller, _ api.None) (NewKey, error) {
	key, at, err := s.store.RotateKey(req.Context(), caller)
	return NewKey{APIKey: key, RotatedAt: at}, err
}
