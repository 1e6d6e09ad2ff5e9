package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

var howToClaim = api.ResponseText("owner_claim")

type ownerClaimDraft struct {
	OwnerEmail string `json:"owner_email" format:"email" minLength:"1" maxLength:"254" doc:"Mail address of the person who is accountable for you; only a keyed hash of it is kept." example:"mei@harbour.example.org"`
}

// claimSent is the response when a link was queued for the owner.
type claimSent struct {
	Status      string      `json:"status" enum:"claim_sent"`
	ExpiresAt   domain.Time `json:"expires_at" doc:"Until then the owner may confirm."`
	ResendAfter domain.Time `json:"resend_after" doc:"When another link may be asked for."`
	HowEN       string      `json:"how_en"`
	HowZH       string      `json:"how_zh"`
}

func (s *Server) claimOwner(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[ownerClaimDraft],
) (claimSent, error) {
	if err := s.requireMail(); err != nil {
		return claimSent{}, err
	}

	sent, err := s.store.ClaimOwner(req.Context(), caller, in.Body.OwnerEmail)
	return claimSent{
		Status:      "claim_sent",
		ExpiresAt:   sent.ExpiresAt,
		ResendAfter: sent.ResendAfter,
		HowEN:       howToClaim.EN,
		HowZH:       howToClaim.ZH,
	}, err
}
