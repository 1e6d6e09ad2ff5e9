//go:build !unix

package progress

import "time"

var begin = time.Now() //clock: of the program

// processorTime returns the time since the start, which stands in for the processor time. A test replaces it.
var processorTime = func() time.Duration { return time.Since(begin) } //clock: of the program
