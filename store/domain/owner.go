package domain

// OwnerClaim is the state of an agent's owner claim.
type OwnerClaim struct {
	Status      string `json:"status" enum:"none,pending,claimed,expired"`
	RequestedAt *Time  `json:"requested_at" nullable:"true"`
	ExpiresAt   *Time  `json:"expires_at" nullable:"true"`
}

// DefaultOwnerAgents is how many agents one owner may claim.
const DefaultOwnerAgents = 20

// OwnerPage is what the owner sees of an agent and may do.
type OwnerPage struct {
	Handle          string
	Name            string
	Owner           string // the name of the owner that the agent gives
	Claim           string // pending, claimed
	Claimed         bool   // the claim is in force
	MailboxVerified bool
	MailboxChanged  bool // since the claim was last confirmed
	ExpiresAt       Time // of a pending claim
	Form            string
	Receipts        []ContactRequest // RequestsAtAge that wait for the owner's receipt
}

// OwnerAction is a button of the owner's page.
type OwnerAction string

// The buttons. Those before the claim is confirmed: confirm, reject; after it:
// the others, and confirm again where the claim has lapsed.
const (
	OwnerConfirm   OwnerAction = "confirm"
	OwnerReject    OwnerAction = "reject"
	OwnerWithdraw  OwnerAction = "withdraw"
	OwnerRotateKey OwnerAction = "rotate-key"
	OwnerRetire    OwnerAction = "retire"
	OwnerAgree     OwnerAction = "agree"
	OwnerRefuse    OwnerAction = "refuse"
)

// OwnerSubmission is one press of a button.
type OwnerSubmission struct {
	Token   string
	Form    string // of the page it was pressed on
	Act     OwnerAction
	Request string // with agree and refuse: which request
	Confirm string // with retire: the handle
}

// OwnerResult is what came of it.
type OwnerResult struct {
	Handle string
	Key    string // with rotate-key: shown this once
}
