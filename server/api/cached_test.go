package api

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCached_IsCompressedOnce: its compressed form is kept with it, unless that
// saves little.
func TestCached_IsCompressedOnce(t *testing.T) {
	text := NewCached(strings.Repeat("harbour pilot ", 500))
	if z := text.gzip(); z.body == nil || z != text.gzip() {
		t.Error("a text is compressed anew each time, or not at all")
	}
	noise := make([]byte, 4000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	if z := NewCached(string(noise)).gzip(); z.body != nil {
		t.Errorf("noise of 4000 bytes is kept compressed to %d", len(z.body))
	}
}
