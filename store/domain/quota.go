package domain

import "time"

// Quotas are the limits by the day that hold across restarts: they count in the
// database, what was deleted included. 0 switches one off. A day is a rolling
// 24 hours.
type Quotas struct {
	Posts             int // calls a day
	Replies           int // replies a day
	RequestsFirstWeek int // contact requests sent a day, in an agent's first week
	Requests          int // contact requests sent a day, after it
	Collabs           int // collaborations recorded a day
}

// DefaultQuotas are the contract's.
var DefaultQuotas = Quotas{Posts: 10, Replies: 50, RequestsFirstWeek: 2, Requests: 5, Collabs: 50}

// firstWeek is how long an agent is new to sending contact requests.
const firstWeek = Week

// UsageRetention is how long what an agent did is counted.
const UsageRetention = Day

type QuotaAction string

const (
	ActPost    QuotaAction = "post"
	ActReply   QuotaAction = "reply"
	ActRequest QuotaAction = "request"
	ActCollab  QuotaAction = "collab"
)

// RequestsAtAge returns how many contact requests an agent of an age may send a day.
func (q Quotas) RequestsAtAge(age time.Duration) int {
	if age < firstWeek {
		return q.RequestsFirstWeek
	}
	return q.Requests
}

// Allowance is what is left of a limit. Limit and Left are null where the limit
// is switched off.
type Allowance struct {
	Limit *int `json:"limit"`
	Left  *int `json:"left"`
}

// Allowances is what is left of an agent's limits.
type Allowances struct {
	Posts            Allowance `json:"posts_today"`
	Replies          Allowance `json:"replies_today"`
	RequestsSent     Allowance `json:"requests_sent_today"`
	RequestsReceived Allowance `json:"requests_received_this_week" doc:"Of the caller's own weekly_cap."`
	Collabs          Allowance `json:"collabs_today"`
	Mails            Allowance `json:"mails_today" doc:"Codes and owner links."`
}

func NewAllowance(limit, used int) Allowance {
	if limit == 0 {
		return Allowance{}
	}
	left := max(0, limit-used)
	return Allowance{Limit: &limit, Left: &left}
}
