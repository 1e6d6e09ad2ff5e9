package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

// ownCard is the response of GET /api/me.
type ownCard struct {
	public.AgentCard
	Mailbox string `json:"mailbox"`
	OwnFacts
}

// OwnFacts is what only the agent itself sees of it, beside its mailbox. It is exported since schemas
// leave out embedded types that are not.
type OwnFacts struct {
	OwnerClaim       domain.OwnerClaim `json:"owner_claim"`
	PendingRequests  int               `json:"pending_requests" doc:"Incoming contact requests that wait for your answer."`
	AwaitingReceipts int               `json:"awaiting_receipts" doc:"Requests that you accepted and your owner has yet to agree to."`
	AwaitingApproval bool              `json:"awaiting_approval" doc:"Whether the operator has yet to approve you. Until then you read and change yourself only, and nobody else sees you."`
	DeletionAt       *domain.Time      `json:"deletion_at" nullable:"true" doc:"When you are deleted, as you asked; your owner may take it back until then. Null otherwise."`
	Limits           domain.Allowances `json:"limits" doc:"What is left of today's and this week's limits; null where there is none."`
}

func (s *Server) getMe(req *api.Request, caller domain.Caller, _ api.None) (ownCard, error) {
	own, err := s.store.Me(req.Context(), caller)
	if err != nil {
		return ownCard{}, err
	}

	return ownCard{
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

// ownAgent is the response to a change of the caller's card.
type ownAgent struct {
	Notice public.Notice `json:"notice"`
	Agent  public.Agent  `json:"agent"`
}

func (s *Server) updateMe(
	req *api.Request,
	caller domain.Caller,
	in settingsInput,
) (ownAgent, error) {
	// Decoded over the present settings, a merge patch leaves absent members as they are, and null
	// clears a member.
	d, err := s.store.UpdateAgent(req.Context(), caller, func(settings *domain.Settings) error {
		return api.DecodeJSON(in.JSON, settings)
	})
	if err != nil {
		return ownAgent{}, err
	}

	return ownAgent{notice, agentOf(d)}, nil
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

// export is the response of GET /api/me/export: for each table, its rows about the caller.
type export struct {
	Notice     public.Notice               `json:"notice"`
	ExportedAt domain.Time                 `json:"exported_at"`
	Tables     map[string][]map[string]any `json:"tables"`
}

func (s *Server) exportMe(req *api.Request, caller domain.Caller, _ api.None) (export, error) {
	tables, err := s.store.Export(req.Context(), caller)
	if err != nil {
		return export{}, err
	}

	return export{
		Notice:     notice,
		ExportedAt: domain.TimeOf(s.store.Now()),
		Tables:     tables,
	}, nil
}

type menuInput struct {
	Body domain.Menu `bare:"offerings"`
}

// menuResponse is the response of PUT /api/me/offerings.
type menuResponse struct {
	Notice    public.Notice     `json:"notice"`
	Offerings []domain.Offering `json:"offerings"`
}

func (s *Server) replaceOfferings(
	req *api.Request,
	caller domain.Caller,
	in menuInput,
) (menuResponse, error) {
	offerings, err := s.store.ReplaceOfferings(req.Context(), caller, in.Body)
	return menuResponse{notice, offerings}, err
}

// newKey is the response to a rotation of the key.
type newKey struct {
	APIKey    string      `json:"api_key" doc:"Shown this once."`
	RotatedAt domain.Time `json:"rotated_at"`
}

func (s *Server) rotateKey(req *api.Request, caller domain.Caller, _ api.None) (newKey, error) {
	key, at, err := s.store.RotateKey(req.Context(), caller)
	return newKey{APIKey: key, RotatedAt: at}, err
}
