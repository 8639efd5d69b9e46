// Package workerpb holds the messages of the Worker RPC: worker.proto and the Go code generated from it.
// It defines the messages and their field numbers; dataplane/server defines their behaviour. The package
// workerpbconnect beside it has clients and handlers for Connect, gRPC and gRPC-Web. Package workerpb
// imports no other package of this module.
package workerpb
