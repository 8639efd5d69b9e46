// Package corvo holds the tests of the source tree: arch_test.go has its rules,
// ARCHITECTURE.md its map.
//
// Three packages are stable API for other modules: api, the types of requests
// and answers; api/client, the Go SDK; and api/workerpb, the messages of the
// Worker RPC. Every other package may change without notice.
package corvo
