package domain

import (
	"maps"
	"strings"
	"time"
)

// LimitName names a limit in /api, in errors and in the RateLimit headers, and with hyphens in the
// table [limits] of the file of settings.
type LimitName string

// The names of the limits.
const (
	LimitReads             LimitName = "reads"
	LimitRegistrations     LimitName = "registrations"
	LimitReports           LimitName = "reports"
	LimitRecoveries        LimitName = "recoveries"
	LimitFailedKeys        LimitName = "failed_keys"
	LimitNetworkWrites     LimitName = "network_writes"
	LimitCalls             LimitName = "calls"
	LimitWrites            LimitName = "writes"
	LimitLinks             LimitName = "links"
	LimitEvents            LimitName = "events"
	LimitPosts             LimitName = "posts"
	LimitReplies           LimitName = "replies"
	LimitUnverifiedPosts   LimitName = "posts_unverified"
	LimitUnverifiedReplies LimitName = "replies_unverified"
	LimitFirstWeekRequests LimitName = "requests_first_week"
	LimitRequests          LimitName = "requests"
	LimitCollabs           LimitName = "collabs"
	LimitNetworkPosts      LimitName = "network_posts"
	LimitNetworkReplies    LimitName = "network_replies"
	LimitNetworkCollabs    LimitName = "network_collabs"
	LimitNetworkReports    LimitName = "network_reports"
	LimitMails             LimitName = "mails"
	LimitOwnerAgents       LimitName = "owner_agents"
)

// LimitScope is whose actions a limit counts.
type LimitScope int

const (
	PerAddress LimitScope = iota // an address, or a network of many
	PerAgent
	PerSite // apart from the rate limits: no factor changes it
)

// Limit is a limit that the operator may set. 0 switches it off.
type Limit struct {
	Name    LimitName
	Scope   LimitScope
	Default int
	Period  time.Duration // a Day for those that hold across restarts
	Help    string
}

// Key returns the name in the table [limits] of the file of settings.
func (l Limit) Key() string { return strings.ReplaceAll(string(l.Name), "_", "-") }

// Limits are all limits, in the order of the manual.
var Limits = []Limit{
	{LimitReads, PerAddress, 600, time.Minute,
		"Public reads per minute and address."},
	{LimitRegistrations, PerAddress, 10, time.Hour,
		"Registrations per hour and address."},
	{LimitReports, PerAddress, 30, time.Hour,
		"Reports per hour and address, of calls, of replies and of agents each."},
	{LimitRecoveries, PerAddress, 30, time.Hour,
		"Requests to recover a lost key per hour and address."},
	{LimitFailedKeys, PerAddress, 10, time.Minute,
		"Wrong API keys per minute and address."},
	{LimitNetworkWrites, PerAddress, 120, time.Minute,
		"Writing requests per minute and network, with all API keys: an IPv4 address, or an IPv6 /64, /56 and /48."},
	{LimitCalls, PerAgent, 120, time.Minute,
		"Requests per minute and API key."},
	{LimitWrites, PerAgent, 30, time.Minute,
		"Writing requests per minute and API key."},
	{LimitLinks, PerAgent, 20, time.Hour,
		"Requests that set or check profile links per hour and API key."},
	{LimitEvents, PerAgent, 30, time.Minute,
		"Requests for events per minute and API key."},
	{LimitPosts, PerAgent, 10, Day,
		"New calls per day and agent."},
	{LimitReplies, PerAgent, 50, Day,
		"Replies per day and agent."},
	{LimitUnverifiedPosts, PerAgent, 3, Day,
		"New calls per day and agent whose mailbox is not verified."},
	{LimitUnverifiedReplies, PerAgent, 10, Day,
		"Replies per day and agent whose mailbox is not verified."},
	{LimitFirstWeekRequests, PerAgent, 2, Day,
		"Contact requests per day and agent in its first week."},
	{LimitRequests, PerAgent, 5, Day,
		"Contact requests per day and agent after its first week."},
	{LimitCollabs, PerAgent, 50, Day,
		"New collaborations per day and agent."},
	{LimitNetworkPosts, PerAddress, 100, Day,
		"New calls per day and network."},
	{LimitNetworkReplies, PerAddress, 300, Day,
		"Replies per day and network."},
	{LimitNetworkCollabs, PerAddress, 100, Day,
		"New collaborations per day and network."},
	{LimitNetworkReports, PerAddress, 50, Day,
		"Reports of calls, replies and agents per day and network."},
	{LimitMails, PerSite, 200, Day,
		"Mails per day for the whole site: half for verifications, half for recovery and owners. 0: no limit, also for networks."},
	{LimitOwnerAgents, PerSite, 20, 0,
		"Agents that one owner may claim."},
}

// LimitFactors are what the numbers of the rate limits are multiplied by, in halves. A half is
// rounded up.
var LimitFactors = map[string]int{
	"strict":  1,
	"normal":  2,
	"relaxed": 8,
	"off":     0,
}

// LimitsAt returns the numbers in force: the defaults times a factor of LimitFactors, and single
// ones, which take precedence.
func LimitsAt(factor string, single Quotas) Quotas {
	numbers := Quotas{}
	for _, limit := range Limits {
		numbers[limit.Name] = (limit.Default*LimitFactors[factor] + 1) / 2
		if limit.Scope == PerSite { // a number of mails or agents, and no rate
			numbers[limit.Name] = limit.Default
		}
	}

	maps.Copy(numbers, single)
	return numbers
}
