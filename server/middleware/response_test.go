package middleware

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestResponse_ClientHasToMakeProgress: a client gets a long response as long as it takes 64 KB in
// ten seconds.
// It holds promise 1 of SECURITY.md.
func TestResponse_ClientHasToMakeProgress(t *testing.T) {
	const size = 1 << 20
	for name, tt := range map[string]struct {
		pause time.Duration // before each 64 KB
		want  int           // bytes that arrive
		after time.Duration // when the server gives up; 0: it does not
	}{
		"nothing": {time.Hour, 0, partTimeout},
		"slow":    {9 * time.Second, size, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObserver(new(bytes.Buffer))
				var took time.Duration
				var writeErr error
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					begun := time.Now() //clock: the bubble's
					_, writeErr = io.WriteString(w, strings.Repeat("a", size))
					took = time.Since(begun) //clock: the bubble's
				})
				h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.Observe(handler, w, r) })}
				client, conn := net.Pipe() // time passes as in a bubble
				_ = h.Serve(&queue{conns: []net.Conn{conn}})
				if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				got := 0
				for tt.want > 0 {
					time.Sleep(tt.pause)                // of the bubble
					part := make([]byte, writePart+512) // with the header
					n, err := io.ReadFull(client, part)
					got += n
					if err != nil {
						break
					}
				}
				synctest.Wait()
				if tt.after > 0 {
					time.Sleep(tt.after)
					synctest.Wait()
				}
				if tt.after > 0 && (writeErr == nil || took != tt.after) || tt.after == 0 && (writeErr != nil || got < tt.want) {
					t.Errorf("%d bytes arrive, the handler fails after %s: %v", got, took, writeErr)
				}
				if o.Memory.Used() != 0 {
					t.Errorf("%d bytes are counted after the response", o.Memory.Used())
				}
				_ = client.Close()
				_ = h.Close()
			})
		})
	}
}
