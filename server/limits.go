package server

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

const (
	limitReads         ratelimit.Class = "reads"          // for an address: public reads
	limitRegistrations ratelimit.Class = "registrations"  // for an address
	limitReports       ratelimit.Class = "reports"        // for an address: reports of calls
	limitReplyReports  ratelimit.Class = "reports:reply"  // for an address: reports of replies
	limitAgentReports  ratelimit.Class = "reports:agent"  // for an address: reports of cards
	limitRecoveries    ratelimit.Class = "recoveries"     // for an address: requests for recovery codes, and attempts to use one
	limitFailedKeys    ratelimit.Class = "failed_keys"    // for an address: wrong API keys
	limitNetworkWrites ratelimit.Class = "network_writes" // for a network: writes with all its keys
	limitCalls         ratelimit.Class = "calls"          // for a key: all requests
	limitWrites        ratelimit.Class = "writes"         // for a key: requests that write
	limitLinks         ratelimit.Class = "links"          // for a key: checks of profile links
	limitEvents        ratelimit.Class = "events"         // for a key: requests for events, which count against no other limit
)

// DefaultLimits are the documented defaults.
var DefaultLimits = ratelimit.Limits{
	limitReads:         {Requests: 600, Period: time.Minute},
	limitRegistrations: {Requests: 10, Period: time.Hour},
	limitReports:       {Requests: 30, Period: time.Hour},
	limitRecoveries:    {Requests: 30, Period: time.Hour},
	limitFailedKeys:    {Requests: 10, Period: time.Minute},
	limitNetworkWrites: {Requests: 120, Period: time.Minute},
	limitCalls:         {Requests: 120, Period: time.Minute},
	limitWrites:        {Requests: 30, Period: time.Minute},
	limitLinks:         {Requests: 20, Period: time.Hour},
	limitEvents:        {Requests: 30, Period: time.Minute},
}

// keyLimits returns the limits of a keyed operation, the widest first. Requests that wait for
// events have a limit of their own.
func keyLimits(class ratelimit.Class) []ratelimit.Class {
	switch class {
	case limitCalls, limitEvents:
		return []ratelimit.Class{class}
	case limitWrites:
		return []ratelimit.Class{limitCalls, limitWrites}
	}
	return []ratelimit.Class{limitCalls, limitWrites, class}
}

// checkNetwork returns forbidden for a client in a network that the operator blocks, with the address to object at.
func (s *Server) checkNetwork(client netip.Addr) error {
	if !s.store.Lists.NetworkBlocked(client) {
		return nil
	}
	o := s.options
	address := cmp.Or(strings.TrimPrefix(o.Contact, "mailto:"), o.Operator.Legal, o.BaseURL+"/#operator")
	return &domain.Error{Code: domain.CodeForbidden, Topic: domain.TopicNetwork, Names: []any{address}}
}
