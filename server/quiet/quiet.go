// Package quiet discards what libraries log while packages are initialized. The metrics library logs a line on hosts
// without pressure stall information, before the program has set up its log, so that not every line would be an event.
//
// Packages are initialized in the order of their import paths (Go specification, Program initialization), which puts
// this one before those of other modules. The commands that log take the standard log over.
package quiet

import (
	"io"
	"log"
)

func init() { log.SetOutput(io.Discard) }
