// Package convert is the only code that converts API types to ops and records, and back. It fills in defaults
// once, on the server that receives the request, and collects all faults of a request. It reads no requests
// and writes no responses. It knows no cell. It imports api, tenancy, dataplane/job, op and state.
package convert
