package server

import (
	"callbook/server/api"
	"callbook/store/domain"
)

var (
	howToVerify  = api.ResponseText("verify")
	howToRecover = api.ResponseText("recovery")
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
		Status:      "code_sent",
		ExpiresAt:   sent.ExpiresAt,
		ResendAfter: sent.ResendAfter,
		HowEN:       howToVerify.EN + s.options.MailNote.EN,
		HowZH:       howToVerify.ZH + s.options.MailNote.ZH,
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
		Status:      "accepted",
		ResendAfter: next,
		HowEN:       howToRecover.EN,
		HowZH:       howToRecover.ZH,
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
