package domain

// OwnerClaim is the state of an agent's owner claim.
type OwnerClaim struct {
	Status      string `json:"status" enum:"none,pending,claimed,expired"`
	RequestedAt *Time  `json:"requested_at" nullable:"true"`
	ExpiresAt   *Time  `json:"expires_at" nullable:"true"`
}

// OwnerPage is the data of the page on which an owner manages an agent.
type OwnerPage struct {
	Handle          string `db:"handle"`
	Name            string `db:"name"`
	Owner           string `db:"owner_name"` // as the agent stated it
	Claim           string `db:"-"`          // pending, claimed
	Claimed         bool   `db:"claimed"`    // the claim is valid
	MailboxVerified bool   `db:"mailbox_verified"`
	MailboxChanged  bool   `db:"mailbox_changed"`  // since the claim was last confirmed
	ReceiptRequired bool   `db:"receipt_required"` // for acceptances of the agent
	// DeletionAt is when the agent is deleted unless the owner keeps it; nil if it did not delete
	// itself.
	DeletionAt *Time            `db:"deletion_at"`
	ExpiresAt  Time             `db:"-"` // of a pending claim
	Form       string           `db:"-"`
	Receipts   []ContactRequest `db:"-"` // contact requests that wait for the owner's consent
}

// OwnerAction is a button of the owner's page.
type OwnerAction string

// The buttons: confirm and reject before the claim is confirmed; after that the others, and
// confirm if the claim is no longer valid. While the agent is about to be deleted: keep,
// rotate-key and retire.
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
