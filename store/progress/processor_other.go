//go:build !unix

package progress

import "time"

var started = time.Now() //clock: of the program

// processorTime returns the time since the start, which stands in for the processor time. A test replaces it.
var processorTime = func() time.Duration { return time.Since(started) } //clock: of the program
