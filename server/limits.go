package server

import (
	"time"
)

const (
	limitReads         limitClass = "reads"         // for an address: public reads
	limitRegistrations limitClass = "registrations" // for an address
	limitReports       limitClass = "reports"       // for an address: reports of calls
	limitRecoveries    limitClass = "recoveries"    // for an address: codes for lost keys asked for or tried
	limitFailedKeys    limitClass = "failed_keys"   // for an address: wrong API keys
	limitCalls         limitClass = "calls"         // for a key: all calls
	limitWrites        limitClass = "writes"        // for a key: the calls that write
	limitLinks         limitClass = "links"         // for a key: looks at profile links
	limitEvents        limitClass = "events"        // for a key: calls for events, which count as no others
	limitLooks         limitClass = "looks"         // for an address that looks at profile links go to
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
func keyLimits(class limitClass) []limitClass {
	switch class {
	case limitCalls, limitEvents:
		return []limitClass{class}
	case limitWrites:
		return []limitClass{limitCalls, limitWrites}
	}
	return []limitClass{limitCalls, limitWrites, class}
}
