package server

import (
	"time"
)

const (
	limitReads         Class = "reads"         // for an address: public reads
	limitRegistrations Class = "registrations" // for an address
	limitReports       Class = "reports"       // for an address: reports of calls
	limitRecoveries    Class = "recoveries"    // for an address: codes for lost keys asked for or tried
	limitFailedKeys    Class = "failed_keys"   // for an address: wrong API keys
	limitCalls         Class = "calls"         // for a key: all calls
	limitWrites        Class = "writes"        // for a key: the calls that write
	limitLinks         Class = "links"         // for a key: looks at profile links
	limitEvents        Class = "events"        // for a key: calls for events, which count as no others
	limitLooks         Class = "looks"         // for an address that looks at profile links go to
)

// DefaultLimits are the contract's.
var DefaultLimits = Limits{
	limitReads:         {600, time.Minute},
	limitRegistrations: {10, time.Hour},
	limitReports:       {30, time.Hour},
	limitRecoveries:    {30, time.Hour},
	limitFailedKeys:    {10, time.Minute},
	limitCalls:         {120, time.Minute},
	limitWrites:        {30, time.Minute},
	limitLinks:         {20, time.Hour},
	limitEvents:        {30, time.Minute},
}

// keyLimits returns the limits of a keyed operation, the widest first. Calls that wait
// have an allowance of their own.
func keyLimits(class Class) []Class {
	switch class {
	case limitCalls, limitEvents:
		return []Class{class}
	case limitWrites:
		return []Class{limitCalls, limitWrites}
	}
	return []Class{limitCalls, limitWrites, class}
}
