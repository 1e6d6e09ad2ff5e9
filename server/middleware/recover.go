package middleware

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// handlePanic responds for a handler that has panicked, unless the header has been sent.
func (o *Observer) handlePanic(v any, rec *responseRecorder, r *http.Request) {
	// The handler wants the connection to be closed, which http.Server does.
	if v == http.ErrAbortHandler {
		panic(v)
	}

	rec.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	// Once a part is sent, the response cannot be replaced.
	if !rec.sent {
		rec.status = 0
		o.OnPanic(rec, r, rec.err)
	}
}
