//go:build unix

package progress

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time that the program has used. A test replaces it.
var processorTime = func() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
