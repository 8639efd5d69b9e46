// Package rpc is shared by the servers of the Worker RPC and the gateway that forwards it: the form of
// errors in Connect, gRPC and gRPC-Web, the codecs of messages, and checks of calls before they are
// decoded. It knows no procedure, and may import api and the messages.
package rpc
