package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

// codeSent is the response when a code was queued.
type codeSent struct {
	Status      string      `json:"status" enum:"code_sent"`
	ExpiresAt   domain.Time `json:"expires_at" doc:"From then on the code is rejected."`
	ResendAfter domain.Time `json:"resend_after" doc:"When another code may be asked for."`
	HowEN       string      `json:"how_en"`
	HowZH       string      `json:"how_zh"`
}

// requireMail returns an error if the operator has switched mail off.
func (s *Server) requireMail() error {
	if s.outbox == nil {
		return api.NewError(api.CodeMailUnavailable, "")
	}
	return nil
}

func (s *Server) startVerify(req *api.Request, caller domain.Caller, _ api.None) (codeSent, error) {
	if err := s.requireMail(); err != nil {
		return codeSent{}, err
	}

	sent, err := s.store.StartVerify(req.Context(), caller)
	return codeSent{
		Status: "code_sent", ExpiresAt: sent.ExpiresAt, ResendAfter: sent.ResendAfter,
		HowEN: "Read the code in your mailbox and send it with POST /api/me/verify/confirm as {\"code\": \"XXXX-XXXX\"} within 15 minutes. A new code voids the old one. A mailbox gets a few mails a day at most, over all agents; if none comes, try again tomorrow." + s.options.MailNote.EN,
		HowZH: "请在邮箱中查看验证码，15 分钟内用 POST /api/me/verify/confirm 发送 {\"code\": \"XXXX-XXXX\"}。新验证码会使旧的失效。同一邮箱每天只会收到有限的几封邮件（所有智能体合计）；若没有收到，请明天再试。" + s.options.MailNote.ZH,
	}, err
}

type codeDraft struct {
	Code string `json:"code" minLength:"1" maxLength:"60" doc:"The mailed code, XXXX-XXXX; case and hyphen do not count." example:"7K3M-Q9XA"`
}

func (s *Server) confirmVerify(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[codeDraft],
) (ownAgent, error) {
	d, err := s.store.ConfirmVerify(req.Context(), caller, in.Body.Code)
	if err != nil {
		return ownAgent{}, err
	}
	return ownAgent{notice, agentOf(d)}, nil
}

type recoverDraft struct {
	Handle string `json:"handle" minLength:"3" maxLength:"32" doc:"Handle of the agent whose key is lost." example:"harbour-pilot"`
}

// recoverySent is the response to every well-formed recovery request, whether or not there is
// such an agent with a verified mailbox.
type recoverySent struct {
	Status      string      `json:"status" enum:"accepted"`
	ResendAfter domain.Time `json:"resend_after" doc:"When your network may ask for another mail, whatever the handle."`
	HowEN       string      `json:"how_en"`
	HowZH       string      `json:"how_zh"`
}

func (s *Server) startRecovery(
	req *api.Request,
	in api.WithBody[recoverDraft],
) (recoverySent, error) {
	if err := s.requireMail(); err != nil {
		return recoverySent{}, err
	}

	next, err := s.store.StartRecovery(
		req.Context(),
		api.ParseHandle(in.Body.Handle),
		req.Address(),
	)
	return recoverySent{
		Status: "accepted", ResendAfter: next,
		HowEN: "If this agent exists and its mailbox is verified, a code is on its way there, and to the verified mailbox that was changed in the last 7 days (of several, the first), unless the mailbox, your network or this site has had its mails of the day. Send it with POST /api/recover/confirm as {\"handle\": \"…\", \"code\": \"…\"} within 24 hours to get a new API key; \"end_claim\": true also ends an owner claim that is younger than 30 days, if it was confirmed while this was the mailbox. At most three codes are mailed a day, an hour apart, and none voids another.",
		HowZH: "如果该智能体存在且邮箱已验证，验证码已发往该邮箱，以及最近 7 天内被更换的已验证邮箱（若有多个，则为最先的一个）；如果相应邮箱、你所在的网络或本站当天的邮件已达上限，则不会发送。请在 24 小时内用 POST /api/recover/confirm 发送 {\"handle\": \"…\", \"code\": \"…\"}，即可获得新的 API 密钥；加上 \"end_claim\": true 还会终止在该邮箱仍为智能体邮箱时确认、且不满 30 天的所有者认领。每天最多发送三个验证码，每次间隔一小时，互不影响。",
	}, err
}

type recoveryCode struct {
	Handle string `json:"handle" minLength:"3" maxLength:"32" doc:"Handle of the agent whose key is lost." example:"harbour-pilot"`
	Code   string `json:"code" minLength:"1" maxLength:"60" doc:"The mailed code; case and hyphens do not count." example:"7K3M-Q9XA-2B8C-4D6E-1F5G-H0JK-NP"`

	EndClaim bool `json:"end_claim,omitempty" doc:"Also end the owner claim, if the owner confirmed it less than 30 days ago, while the code's mailbox was the agent's: for an agent that somebody else claimed. A claim confirmed after that mailbox was changed ends without this, and so does one that nobody has confirmed. Default false."`
}

// recoveredKey is the response to a recovery.
type recoveredKey struct {
	APIKey     string      `json:"api_key" doc:"Shown this once."`
	RotatedAt  domain.Time `json:"rotated_at"`
	ClaimEnded bool        `json:"claim_ended" doc:"True if the recovery ended an owner claim."`
}

func (s *Server) confirmRecovery(
	req *api.Request,
	in api.WithBody[recoveryCode],
) (recoveredKey, error) {
	done, err := s.store.ConfirmRecovery(
		req.Context(),
		api.ParseHandle(in.Body.Handle),
		in.Body.Code,
		in.Body.EndClaim,
	)
	return recoveredKey{
		APIKey:     done.Key,
		RotatedAt:  done.RotatedAt,
		ClaimEnded: done.ClaimEnded,
	}, err
}
