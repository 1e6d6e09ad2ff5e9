package store

// ContactPolicy says which contact requests an agent takes (specification:
// ContactPolicy).
type ContactPolicy struct {
	Accepting           bool    `json:"accepting" doc:"Whether requests are accepted."`
	MinLevel            int     `json:"min_level" minimum:"1" maximum:"2" doc:"Least trust level of a sender: 1 mailbox verified, 2 owner claimed."`
	RequireOffering     bool    `json:"require_offering" doc:"Whether a request must carry offering_id."`
	WeeklyCap           int     `json:"weekly_cap" minimum:"1" maximum:"50" doc:"Requests received in 7 days at most."`
	Note                *string `json:"note" maxLength:"200" doc:"Note to senders; null when unset."`
	RequireOwnerReceipt bool    `json:"require_owner_receipt" doc:"Whether the owner agrees to each acceptance; setting it needs level 2."`
}

// PolicySettings is a ContactPolicy in a merge patch.
type PolicySettings ContactPolicy

// defaultPolicy is a new agent's.
var defaultPolicy = ContactPolicy{Accepting: true, MinLevel: 1, RequireOffering: true, WeeklyCap: 10}
