// Package server serves the HTTP API and the Worker RPC of a node: it authenticates requests, proposes ops
// and writes answers. It owns the table of routes (routes.go), authentication (auth.go), the handlers, one
// file per noun, and the wait for work (fetch.go). Its subpackage convert turns requests into ops and results
// into answers. Each op decides about its jobs while it is applied. Only whether a result matches its job's
// schema is decided here (result_check.go). Package server may import every package of the data plane except
// those that wire it.
package server
