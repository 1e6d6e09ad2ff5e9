//go:build race

package store

// raceDetector says that the tests run under the race detector, which slows them
// down tenfold.
const raceDetector = true
