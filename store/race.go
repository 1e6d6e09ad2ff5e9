//go:build race

package store

// The race detector makes a read ten times slower.
func init() { readTimeout *= 10 }
