// Package convert converts API types to ops and records, and back; the API form of a job comes from package
// view. It fills in defaults once, on the server that receives the request, and collects all faults of a
// request. It reads no bodies from the network and writes no responses. It knows no cell: the caller adds ids
// and shards, and passes a state.Reader if a conversion needs a job's documents. It may import the packages
// below dataplane/cell.
package convert
