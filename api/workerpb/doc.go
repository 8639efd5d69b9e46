// Package workerpb is the worker's side of Corvo as RPC: worker.proto, and the Go
// generated from it. It owns the messages and their numbers and nothing of what they
// mean, which dataplane/server says; workerpbconnect beside it has clients and handlers
// for Connect, gRPC and gRPC-Web. It imports no package of ours.
package workerpb
