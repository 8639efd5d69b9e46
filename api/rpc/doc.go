// Package rpc has the parts that the servers of the Worker RPC share with the gateway that forwards it: the
// form of errors in Connect, gRPC and gRPC-Web, the codecs of messages, and checks of calls before they are
// decoded. It knows no procedure, and may import api, api/text and the messages.
package rpc
