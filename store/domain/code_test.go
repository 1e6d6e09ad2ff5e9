package domain

import (
	"crypto/rand"
	"io"
	"regexp"
	"testing"
)

func TestNewCode_IsRandom(t *testing.T) {
	shape := regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$`)
	counts := map[rune]int{}
	seen := map[string]bool{}
	const n = 20_000
	for range n {
		code, err := NewCode(rand.Reader)
		if err != nil || !shape.MatchString(code) {
			t.Fatalf("%q, %v", code, err)
		}
		seen[code] = true
		for _, r := range code {
			counts[r]++
		}
	}
	// Two of 20,000 codes of 40 bits are the same once in 5,000 runs of this test.
	if len(seen) < n-2 {
		t.Errorf("%d different codes of %d", len(seen), n)
	}
	// 5,000 of each character are expected, give or take 70.
	for _, r := range codeAlphabet {
		if counts[r] < 4400 || counts[r] > 5600 {
			t.Errorf("%c occurs %d times, want about 5000", r, counts[r])
		}
	}
	if _, err := NewCode(io.LimitReader(rand.Reader, 4)); err == nil {
		t.Error("a code was made without randomness")
	}
}
