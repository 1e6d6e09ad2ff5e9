package domain

import "time"

// OperatorAct names an act of the operator. The command of callbook admin, the button of the
// operator's page and the note in the log of acts have the same name. The acts on lists of the
// operator are those of store.BlockKind.
type OperatorAct string

// The acts on agents. The first four can be done to many agents at once.
const (
	OperatorSuspend   OperatorAct = "suspend"
	OperatorDelete    OperatorAct = "delete"    // at once, also an agent that a person has claimed
	OperatorApprove   OperatorAct = "approve"   // lets an agent take part that waits for approval
	OperatorReject    OperatorAct = "reject"    // deletes an agent that waits for approval
	OperatorUnsuspend OperatorAct = "unsuspend" // if the agent is suspended
	OperatorVerify    OperatorAct = "verify"    // marks the mailbox as verified

	// OperatorUnverify marks the mailbox as not verified and forgets the former one, so that neither
	// recovers the key.
	OperatorUnverify OperatorAct = "unverify"
	// OperatorUnclaim ends an owner claim, and the deletion that its owner could take back.
	OperatorUnclaim OperatorAct = "unclaim"

	OperatorNewKey  OperatorAct = "new-key"
	OperatorExport  OperatorAct = "export"
	OperatorUnblock OperatorAct = "unblock" // ends a block between two agents
)

// The other acts.
const (
	OperatorCloseReport  OperatorAct = "close-report"
	OperatorRemovePost   OperatorAct = "remove-post"
	OperatorRemoveReply  OperatorAct = "remove-reply"
	OperatorInvite       OperatorAct = "invite"
	OperatorRevokeInvite OperatorAct = "revoke-invite"
	OperatorPage         OperatorAct = "page" // makes or revokes links to the operator's page
)

// BulkAct is an act of the operator on many agents.
type BulkAct struct {
	Act     OperatorAct
	Handles []string
	Reason  string    // of suspensions, for the agents
	Until   time.Time // of suspensions; zero for no end
	DryRun  bool      // whether nothing is to be stored
}

// BulkResult counts what an act on many agents did, or would do.
type BulkResult struct {
	Agents   []string // the handles of the agents that it was done to
	Rejected []string // the handles without an agent, or whose agent is not in a state for the act
	Posts    int      // of those agents, which are now hidden, deleted or shown
	Replies  int      // likewise
	Reports  int      // open reports of them and their texts, which all acts but approve close
}

// Add adds the result for other agents.
func (r *BulkResult) Add(other BulkResult) {
	r.Agents = append(r.Agents, other.Agents...)
	r.Rejected = append(r.Rejected, other.Rejected...)
	r.Posts += other.Posts
	r.Replies += other.Replies
	r.Reports += other.Reports
}

// NetworkRetention is how long the hash of the network that an agent was registered from is stored.
const NetworkRetention = 30 * Day

// AbuseRetention is how long the number of requests of a day that were rejected as abuse is stored.
const AbuseRetention = 30 * Day

// PageLinkAge is how long a link to the operator's page is valid. Then it is deleted.
const PageLinkAge = 12 * time.Hour

// AgentOrder is the order of a list of agents for the operator.
type AgentOrder string

// The orders. The zero value is the newest first.
const (
	MostReported AgentOrder = "reports"
	ByNetwork    AgentOrder = "network" // the network with the most of them first
)

// Counted is a kind of records, or of requests, that are counted by day.
type Counted int

// The kinds.
const (
	CountedAgents Counted = iota
	CountedPosts
	CountedRequests
	CountedAbuse // requests that were rejected as abuse; see Error.IsAbuse
)

// AgentRecordFilter selects agents for the operator. The zero value of a field selects all.
type AgentRecordFilter struct {
	// Query is a part of the handle, name, owner, tagline, a description or the mailbox; ASCII case
	// does not count.
	Query     string
	Since     Time   // registered then or later
	MaxLevel  *int   // the highest trust level
	Reported  bool   // with an open report of it or its texts
	Awaiting  bool   // waits for approval
	Suspended bool   // suspended now
	Shown     bool   // its AgentRecord.State is shown
	Network   string // the first characters of AgentRecord.Network, or an address in the network
	Order     AgentOrder
}

// The states of an AgentRecord, of which the last one that applies counts.
const (
	AgentShown     = "shown"
	AgentAwaiting  = "awaiting" // the operator's approval
	AgentSuspended = "suspended"
	AgentLeaving   = "leaving" // to be deleted
)

// AgentRecord is an agent as the operator lists it, hidden or not.
type AgentRecord struct {
	Handle string `db:"handle"`
	Name   string `db:"name"`
	Level  int    `db:"level"`
	State  string `db:"state"` // one of the states
	// Network is the keyed hash of the network that it was registered from, in hexadecimal; empty
	// after NetworkRetention.
	Network   string  `db:"network"`
	Posts     int     `db:"posts"`
	Title     string  `db:"title"`   // of its newest post; empty without one
	Reports   int     `db:"reports"` // open ones, of it and its texts
	CreatedAt Time    `db:"created_at"`
	Reason    *string `db:"reason"` // of a suspension; nil without one
	Until     *Time   `db:"until"`  // its end; nil for none
}
