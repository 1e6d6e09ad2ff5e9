package api

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCached_IsCompressedOnce: the compressed body is stored, unless it is not shorter.
func TestCached_IsCompressedOnce(t *testing.T) {
	text := NewCached(strings.Repeat("harbour pilot ", 500))
	if z := text.gzip(); len(z) == 0 || &z[0] != &text.gzip()[0] {
		t.Error("a text is compressed each time, or not at all")
	}
	noise := make([]byte, 4000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	if z := NewCached(string(noise)).gzip(); len(z) > 0 {
		t.Errorf("noise of 4000 bytes is stored as %d compressed bytes", len(z))
	}
}
