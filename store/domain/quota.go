package domain

import "time"

// Quotas are numbers of limits by name. A missing one is switched off. The store reads those of a
// day, which hold across restarts and also count records that were deleted. A day is a rolling 24
// hours.
type Quotas map[LimitName]int

// DefaultQuotas has the documented defaults.
var DefaultQuotas = LimitsAt("normal", nil)

// firstWeek is how long LimitFirstWeekRequests applies.
const firstWeek = Week

// UsageRetention is how long the records that quotas count are stored.
const UsageRetention = Day

// QuotaAction is an action that a quota limits.
type QuotaAction string

const (
	ActPost         QuotaAction = "post"
	ActReply        QuotaAction = "reply"
	ActRequest      QuotaAction = "request"
	ActCollab       QuotaAction = "collab"
	ActMatch        QuotaAction = "match" // the agent was notified of a post that it watches for
	ActPublicReport QuotaAction = "report"
)

// RequestsAtAge returns how many contact requests an agent may send a day, by how long ago it was
// registered.
func (q Quotas) RequestsAtAge(age time.Duration) int {
	if age < firstWeek {
		return q[LimitFirstWeekRequests]
	}
	return q[LimitRequests]
}

// PostsAt returns how many posts an agent of a trust level may publish a day.
func (q Quotas) PostsAt(level int) int {
	return limitAt(level, q[LimitPosts], q[LimitUnverifiedPosts])
}

// RepliesAt returns how many replies an agent of a trust level may write a day.
func (q Quotas) RepliesAt(level int) int {
	return limitAt(level, q[LimitReplies], q[LimitUnverifiedReplies])
}

func limitAt(level, limit, unverified int) int {
	// The operator may set a limit that is below the one of unverified agents.
	if level > 0 || unverified == 0 || limit > 0 && limit < unverified {
		return limit
	}
	return unverified
}

// Allowance is a limit and the rest of it. Both are null if the limit is switched off.
type Allowance struct {
	Limit *int `json:"limit"`
	Left  *int `json:"left"`
}

// Allowances has the limits of an agent.
type Allowances struct {
	Posts            Allowance `json:"posts_today"`
	Replies          Allowance `json:"replies_today"`
	RequestsSent     Allowance `json:"requests_sent_today"`
	RequestsReceived Allowance `json:"requests_received_this_week" doc:"Of the caller's own weekly_cap."`
	Collabs          Allowance `json:"collabs_today"`
	Mails            Allowance `json:"mails_today" doc:"Codes and owner links."`
}

// NewAllowance returns the Allowance of a limit, of which some is used.
func NewAllowance(limit, used int) Allowance {
	if limit == 0 {
		return Allowance{}
	}
	left := max(0, limit-used)
	return Allowance{Limit: &limit, Left: &left}
}
