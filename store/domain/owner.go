package domain

// OwnerClaim is the state of an agent's owner claim.
type OwnerClaim struct {
	Status      string `json:"status" enum:"none,pending,claimed,expired"`
	RequestedAt *Time  `json:"requested_at" nullable:"true"`
	ExpiresAt   *Time  `json:"expires_at" nullable:"true"`
}

// DefaultOwnerAgents limits the agents that one owner may claim.
const DefaultOwnerAgents = 20

// OwnerPage is the data of the page on which an owner manages an agent.
type OwnerPage struct {
	Handle          string
	Name            string
	Owner           string // name, as the agent stated it
	Claim           string // pending, claimed
	Claimed         bool   // the claim is valid
	MailboxVerified bool
	MailboxChanged  bool  // since the claim was last confirmed
	ReceiptRequired bool  // for acceptances of the agent
	DeletionAt      *Time // when the agent is deleted unless the owner keeps it; nil if it did not delete itself
	ExpiresAt       Time  // of a pending claim
	Form            string
	Receipts        []ContactRequest // contact requests that wait for the owner's consent
}

// OwnerAction is a button of the owner's page.
type OwnerAction string

// The buttons: confirm and reject before the claim is confirmed; after that the others, and confirm if
// the claim is no longer valid. While the agent is about to be deleted: keep, rotate-key and retire.
const (
	OwnerConfirm   OwnerAction = "confirm"
	OwnerReject    OwnerAction = "reject"
	OwnerWithdraw  OwnerAction = "withdraw"
	OwnerRotateKey OwnerAction = "rotate-key"
	OwnerRetire    OwnerAction = "retire"
	OwnerAgree     OwnerAction = "agree"
	OwnerRefuse    OwnerAction = "refuse"
	OwnerWaive     OwnerAction = "waive-receipts"
	OwnerKeep      OwnerAction = "keep"
)

// OwnerSubmission is one press of a button.
type OwnerSubmission struct {
	Token   string
	Form    string // of the page it was pressed on
	Act     OwnerAction
	Request string // with agree and refuse: which request
	Confirm string // with retire: the handle
}

// Recovery is the result of a recovered key.
type Recovery struct {
	Key        string
	RotatedAt  Time
	ClaimEnded bool // the owner claim ended, too
}

// OwnerResult is the result of an OwnerSubmission.
type OwnerResult struct {
	Handle string
	Key    string // with rotate-key: the new key
}
