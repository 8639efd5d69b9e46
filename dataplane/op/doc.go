// Package op holds every change to a namespace's state. Each op has one message, one file with its Validate
// and Apply, and a row in the table that gives its permanent number. Machine applies entries of ops to a
// state.Store and implements the engine's replica.Machine. See DESIGN.md.
//
// The package owns the meaning of ops. It does not own store keys and indexes (dataplane/state), the pure
// rules of jobs (dataplane/job), or the times at which ops are proposed (dataplane/duties, dataplane/server).
// It imports only dataplane/state, dataplane/job, billing, tenancy, api and the engine's contracts and op
// table. It reads no clock and no randomness, and never looks into a client's document.
package op
