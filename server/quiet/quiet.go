// Package quiet discards the log of libraries while packages are initialized. The metrics library logs a line on hosts
// without pressure stall information before the program sets up its log, and that line would not be an event.
//
// Packages are initialized in the order of their import paths (Go specification, Program initialization), which puts
// this one before those of other modules. Commands that log redirect the standard log later.
package quiet

import (
	"io"
	"log"
)

func init() { log.SetOutput(io.Discard) }
