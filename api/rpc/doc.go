// Package rpc is what those who serve the Worker RPC, and those who pass it on, share:
// how errors look in Connect, gRPC and gRPC-Web, and how messages are encoded. It knows
// no procedure, and may import api and the messages.
package rpc
