package server

import (
	"cmp"
	"net/netip"
	"strings"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// The limits of requests, which package domain describes. Reports of replies and of agents are
// counted apart.
const (
	limitReads         = ratelimit.Class(domain.LimitReads)
	limitRegistrations = ratelimit.Class(domain.LimitRegistrations)
	limitReports       = ratelimit.Class(domain.LimitReports)
	limitReplyReports  = limitReports + ":reply"
	limitAgentReports  = limitReports + ":agent"
	limitRecoveries    = ratelimit.Class(domain.LimitRecoveries)
	limitFailedKeys    = ratelimit.Class(domain.LimitFailedKeys)
	limitNetworkWrites = ratelimit.Class(domain.LimitNetworkWrites)
	limitCalls         = ratelimit.Class(domain.LimitCalls)
	limitWrites        = ratelimit.Class(domain.LimitWrites)
	limitLinks         = ratelimit.Class(domain.LimitLinks)
	limitEvents        = ratelimit.Class(domain.LimitEvents)
)

// DefaultLimits are the documented defaults.
var DefaultLimits = LimitsOf(domain.DefaultQuotas)

// LimitsOf returns those of the numbers that limit requests. The store reads the others.
func LimitsOf(numbers domain.Quotas) ratelimit.Limits {
	limits := ratelimit.Limits{}
	for _, l := range domain.Limits {
		if l.Scope != domain.PerSite && l.Period < domain.Day {
			limits[ratelimit.Class(l.Name)] = ratelimit.Limit{
				Requests: numbers[l.Name],
				Period:   l.Period,
			}
		}
	}
	return limits
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

// checkNetwork returns forbidden for a client in a network that the operator blocks, with the
// address to object at.
func (s *Server) checkNetwork(client netip.Addr) error {
	if !s.store.Lists.NetworkBlocked(client) {
		return nil
	}

	// Whoever is blocked by mistake needs an address that works without the API.
	o := s.options
	address := cmp.Or(
		strings.TrimPrefix(o.Contact, "mailto:"),
		o.Operator.Legal,
		o.BaseURL+"/#operator",
	)

	return &domain.Error{
		Code:  domain.CodeForbidden,
		Topic: domain.TopicNetwork,
		Names: []any{address},
	}
}
