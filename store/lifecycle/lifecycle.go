// Package lifecycle changes and ends records: it accepts, declines and expires contact requests, ends
// verifications and owner claims, and deletes replies, posts and agents with all that depends on them. Its
// functions run in the transaction of a use case of the agent, its owner or the operator, or of a job. They
// do not check that the caller may act: the use case does.
package lifecycle

// Batch is how many records one transaction of a job handles, so that requests do not wait for long.
const Batch = 250
