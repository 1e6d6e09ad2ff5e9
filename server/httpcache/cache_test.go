package httpcache

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// add caches a value that was made now, with tags.
func add(c *Cache[string, int], key string, value int, tags ...string) {
	_, version, _ := c.Get(key, start)
	c.Add(key, Item[string, int]{Value: value, Size: 10, Tags: tags, Added: start}, version)
}

func TestCache_IsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		maxBytes, size, added int
		min, max              int // entries that are left
	}{
		"by count":                  {1 << 30, 1, maxEntries + 100, maxEntries, maxEntries},
		"by bytes":                  {1 << 20, 3000, 1000, 340, 349},
		"one that caches nothing":   {0, 10, 100, 0, 0},
		"a value larger than it is": {1000, 1001, 10, 0, 0},
		"a value that is too large": {1 << 30, maxSize + 1, 10, 0, 0},
	} {
		c := New[string, int](tt.maxBytes)
		for i := range tt.added {
			c.Add(fmt.Sprint(i), Item[string, int]{Value: i, Size: tt.size, Tags: []string{"all", fmt.Sprint(i)}, Added: start}, 0)
		}
		add(c, strings.Repeat("x", maxKey+1), 1) // a key that is too long
		if n := c.entries.Len(); n < tt.min || n > tt.max || c.Bytes() > tt.maxBytes || len(c.byTag["all"]) != n {
			t.Errorf("%s: %d entries of %d bytes, %d tagged; want %d to %d of %d bytes", name, n, c.Bytes(), len(c.byTag["all"]), tt.min, tt.max, tt.maxBytes)
		}
		if _, _, ok := c.Get(fmt.Sprint(tt.added-1), start); ok != (tt.max > 0) {
			t.Errorf("%s: the newest entry is cached: %t", name, ok)
		}
		c.Clear()
		if c.entries.Len() != 0 || c.Bytes() != 0 || len(c.byTag) != 0 {
			t.Errorf("%s: %d entries of %d bytes with %d tags are left", name, c.entries.Len(), c.Bytes(), len(c.byTag))
		}
	}
}

func TestCache_ReplacesAValue(t *testing.T) {
	c := New[string, int](1 << 20)
	add(c, "key", 1, "old")
	add(c, "other", 2)
	c.Add("key", Item[string, int]{Value: 3, Size: 20, Tags: []string{"new"}, Added: start}, 0)
	if v, _, ok := c.Get("key", start); !ok || v != 3 || c.Bytes() != len("key")+20+len("other")+10 || len(c.byTag) != 1 {
		t.Errorf("value %d, %t, %d bytes, tags %v", v, ok, c.Bytes(), c.byTag)
	}
}

func TestCache_ForgetsByTime(t *testing.T) {
	c := New[string, int](1 << 20)
	c.Add("key", Item[string, int]{Value: 1, Added: start, Expires: start.Add(time.Minute)}, 0)
	for age, want := range map[time.Duration]bool{-time.Nanosecond: false, 0: true, time.Minute - 1: true, time.Minute: false} {
		if _, _, ok := c.Get("key", start.Add(age)); ok != want {
			t.Errorf("after %v it is returned: %t", age, ok)
		}
	}
}

func TestCache_InvalidatesByTag(t *testing.T) {
	c := New[string, int](1 << 20)
	add(c, "both", 1, "a", "b")
	add(c, "a", 2, "a")
	add(c, "b", 3, "b")
	add(c, "none", 4)
	c.Invalidate("a", "unknown")
	for key, want := range map[string]bool{"both": false, "a": false, "b": true, "none": true} {
		if _, _, ok := c.Get(key, start); ok != want {
			t.Errorf("%s is cached: %t", key, ok)
		}
	}
}

// TestCache_RejectsWhatWasReadBeforeAChange: the value may be made from old data.
func TestCache_RejectsWhatWasReadBeforeAChange(t *testing.T) {
	for name, change := range map[string]func(*Cache[string, int]){
		"its tag": func(c *Cache[string, int]) { c.Invalidate("a") }, "another tag": func(c *Cache[string, int]) { c.Invalidate("b") },
		"everything": (*Cache[string, int]).Clear,
	} {
		c := New[string, int](1 << 20)
		_, version, _ := c.Get("key", start)
		change(c)
		c.Add("key", Item[string, int]{Value: 1, Tags: []string{"a"}, Added: start}, version)
		if _, _, ok := c.Get("key", start); ok {
			t.Errorf("cached though a commit changed %s meanwhile", name)
		}
	}
}
