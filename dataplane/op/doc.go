// Package op holds every change to a namespace's state: one message and one file
// for each, with Validate and Apply, and the table that gives each its permanent
// number. Machine applies entries of ops to a state.Store; it is the engine's
// replica.Machine. See DESIGN.md.
//
// It owns what ops mean. It does not own keys or indexes (dataplane/state), the
// pure rules of jobs (dataplane/job), or when ops are proposed (dataplane/duties,
// dataplane/server). It imports only those two, api and the engine's contracts,
// reads no clock and no randomness, and never looks into a blob.
package op
