//go:build race

package sqlitedb

// The race detector makes a read ten times slower. This is for the processes of package
// systemtest, which have the defaults; other tests set timeouts of their own.
func init() { readTimeout, queryTimeout = 10*readTimeout, 10*queryTimeout }
