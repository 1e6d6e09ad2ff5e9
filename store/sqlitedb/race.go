//go:build race

package sqlitedb

// The race detector makes a read ten times slower.
func init() { readTimeout, queryTimeout = 10*readTimeout, 10*queryTimeout }
