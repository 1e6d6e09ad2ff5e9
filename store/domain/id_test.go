package domain

import (
	"crypto/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestKey_IsUniqueAndWellFormed(t *testing.T) {
	shape := regexp.MustCompile(`^cq_[0-9A-Za-z]{49}$`)
	const n = 100_000
	seen := make(map[string]bool, n)
	counts := map[byte]int{}
	for range n {
		key, err := NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !shape.MatchString(key) || !WellFormedKey(key) {
			t.Fatal("a new key is malformed")
		}
		seen[key] = true
		for i := len(KeyPrefix); i < len(KeyPrefix)+keyRandom; i++ {
			counts[key[i]]++
		}
	}
	if len(seen) != n {
		t.Errorf("%d different keys of %d", len(seen), n)
	}
	// Each of the 62 characters is as likely as any other: 69355 times, give or
	// take 261. Eight times that is never met by chance.
	const want = n * keyRandom / 62
	for _, c := range []byte(Base62) {
		if got := counts[c]; got < want-2100 || got > want+2100 {
			t.Errorf("%c occurs %d times, want about %d", c, got, want)
		}
	}
}

func TestKey_RejectsEveryTypo(t *testing.T) {
	for range 20 {
		key, err := NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for i := range key {
			for _, c := range []byte(Base62 + "_-= \x00\xff") {
				mistyped := []byte(key)
				mistyped[i] = c
				if c != key[i] && WellFormedKey(string(mistyped)) {
					t.Fatalf("accepted with another character at %d", i)
				}
			}
			if WellFormedKey(key[:i] + key[i+1:]) {
				t.Fatalf("accepted without the character at %d", i)
			}
			if i > 0 && key[i] != key[i-1] {
				swapped := []byte(key)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				if WellFormedKey(string(swapped)) {
					t.Fatalf("accepted with %d and %d swapped", i-1, i)
				}
			}
		}
		for _, s := range []string{"", key + "0", key + " ", " " + key, strings.ToUpper(key), strings.TrimPrefix(key, KeyPrefix)} {
			if WellFormedKey(s) {
				t.Errorf("accepted %d characters", len(s))
			}
		}
	}
}

// A key made once: its checksum is a promise to those who scan for leaked keys.
func TestKey_Checksum(t *testing.T) {
	const random = "cq_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
	const want = random + "0QsRn3"
	if got := string(appendCheck([]byte(random))); got != want || !WellFormedKey(got) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestKey_UsesAllRandomness(t *testing.T) {
	// Bytes above 247 would favour some characters: they are passed over.
	source := strings.NewReader(strings.Repeat("\xff", 64) + strings.Repeat("\x00\xf8\x3d", 64))
	key, err := NewKey(source)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := key[len(KeyPrefix):][:keyRandom], strings.Repeat("0z", keyRandom)[:keyRandom]; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := NewKey(strings.NewReader("short")); err == nil {
		t.Error("a key was made without randomness")
	}
	if _, err := NewID(IDPost, 1, strings.NewReader("short")); err == nil {
		t.Error("an id was made without randomness")
	}
}

func TestID_SortsByTime(t *testing.T) {
	shape := regexp.MustCompile(`^pst_[0-9a-v]{26}$`)
	var ids []string
	for _, now := range []Time{0, 1, 31, 32, 1 << 20, 1795167000000, 1795167000001, 4102444800000, 253402300799999} {
		for range 100 {
			id, err := NewID(IDPost, now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if !shape.MatchString(id) {
				t.Fatalf("%s is malformed", id)
			}
			ids = append(ids, id)
		}
	}
	for i := 100; i < len(ids); i++ {
		if earlier := ids[i-i%100-1]; earlier >= ids[i] {
			t.Fatalf("%s was made before %s", earlier, ids[i])
		}
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 900 {
		t.Errorf("%d different ids of 900", n)
	}
}
