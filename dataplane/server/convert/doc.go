// Package convert converts API types to ops and records, and back; the API form of a job comes from package
// view. The conversions fill in defaults once, on the server that receives the request, and collect all
// faults of a request. The package reads no bodies from the network, writes no responses and knows no cell:
// the caller adds ids and shards, and passes a state.Reader if a conversion needs a job's documents. Ops
// share the bytes of the request's documents, so the caller must not change those bytes. The package may
// import all packages that dataplane/cell may import.
package convert
