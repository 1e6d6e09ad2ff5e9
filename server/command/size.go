package command

import (
	"fmt"
	"strconv"
	"strings"
)

// size is a number of bytes, written as 10GB or 512MiB; 0 is none.
type size int64

// units are the names of sizes, the longer ones first.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads a size, its unit in any case.
func (s *size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if at := len(number) - len(u.name); at > 0 && strings.EqualFold(number[at:], u.name) {
			number, unit = strings.TrimSpace(number[:at]), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return fmt.Errorf("%q is no size, such as 10GB or 512MiB", text)
	}
	*s = size(n * unit)
	return nil
}

// leastSize is the least that --max-size may be: a new database takes a part of it.
const leastSize = 10_000_000

func (s size) check() error {
	if s != 0 && s < leastSize {
		return fmt.Errorf("--max-size is at least %d MB, or 0 for no limit", int64(leastSize/1e6))
	}
	return nil
}
