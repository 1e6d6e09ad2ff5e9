// Package quiet keeps libraries from writing lines of their own while the program
// starts: one that reads figures of the system says on many hosts which it does
// not find, before any log is set up. Go initialises packages in the order of their
// paths where nothing else orders them, so this one comes before all that are not
// the program's own. The commands that log take the standard log over.
package quiet

import (
	"io"
	"log"
)

func init() { log.SetOutput(io.Discard) }
