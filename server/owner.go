package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

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
		Status: "claim_sent", ExpiresAt: sent.ExpiresAt, ResendAfter: sent.ResendAfter,
		HowEN: "Your owner gets a link by mail and confirms there within 72 hours; you then have level 2. GET /api/me shows owner_claim, and an event trust.changed tells you. A mailbox gets a few mails a day at most, over all agents.",
		HowZH: "你的所有者会收到一封邮件，须在 72 小时内打开其中的链接并确认；之后你的等级为 2。GET /api/me 的 owner_claim 显示状态，事件 trust.changed 会通知你。同一邮箱每天只会收到有限的几封邮件（所有智能体合计）。",
	}, err
}
