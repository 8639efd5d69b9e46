package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/tenancy"
)

// sends is a client's codec that encodes every message to the same bytes.
type sends struct {
	connect.Codec
	name, data string
}

func (s sends) Name() string                { return s.name }
func (s sends) Marshal(any) ([]byte, error) { return []byte(s.data), nil }

// TestUndecodedInEveryProtocol checks that a message that cannot be decoded gets the same error as a message
// with invalid fields, in each protocol and kind of procedure.
func TestUndecodedInEveryProtocol(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		for _, c := range []struct {
			codec string
			data  string
			code  api.Code
			says  string
		}{
			{"json", `{"queue":`, api.ParseError, "not JSON at byte 9"},
			{"json", `{"queues":5,"queue":5}`, api.ValidationError, "(line 1:"},
			{"json", `{"queues":["\ud800"],"queue":"\ud800"}`, api.ValidationError, "half of a surrogate pair at byte"},
			{"proto", "\x0a\x05q", api.ParseError, "not protobuf at byte 0"},
		} {
			client := rpcClient(t, h2c(t), url, n.admin, protocol, connect.WithCodec(sends{rpc.Codec{}, c.codec, c.data}))
			check := func(procedure string, err error) {
				t.Helper()
				what := fmt.Sprintf("%s, %s of %s", name, procedure, c.data)
				e := wantRPCError(t, what, err, c.code, c.says)
				if strings.Contains(e.Message, "proto:") {
					t.Errorf("%s: the error %q names the decoder", what, e.Message)
				}
				if told := new(connect.Error); !errors.As(err, &told) || told.Code() != connect.CodeInvalidArgument || told.Meta().Get(rpc.CodeHeader) != string(c.code) {
					t.Errorf("%s, %s of %s: %v with %v", name, procedure, c.data, told, told.Meta())
				}
			}
			_, err := client.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{}))
			check("Enqueue", err)
			events, err := client.Subscribe(t.Context(), rpcOf(&workerpb.SubscribeRequest{}))
			if err == nil {
				events.Receive()
				err = events.Err()
			}
			check("Subscribe", err)
			stream := client.StreamLifecycle(t.Context())
			if err := stream.Send(&workerpb.StreamLifecycleRequest{}); err != nil {
				t.Fatal(err)
			}
			_, err = stream.Receive()
			check("StreamLifecycle", err)
		}
	}
	eventually(t, "nothing is in hand", func() bool { return n.server.BodyBytes() == 0 })
}

// An unknown procedure is refused in the protocol of the call, with a code.
func TestUnknownProcedure(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "connect, JSON": connect.WithProtoJSON(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		client := connect.NewClient[workerpb.AckRequest, workerpb.AckResponse](h2c(t), url+rpc.Prefix+"Nope", protocol)
		_, unary := client.CallUnary(t.Context(), rpcOf(&workerpb.AckRequest{}))
		stream := client.CallBidiStream(t.Context())
		if err := stream.Send(nil); err != nil {
			t.Fatal(err)
		}
		_, streamed := stream.Receive()
		for _, err := range []error{unary, streamed} {
			if e := rpc.FromError(err); connect.CodeOf(err) != connect.CodeUnimplemented || e.Code != api.Unsupported || !strings.Contains(e.Message, "no procedure Nope") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Options that are not an object are a fault of their field.
func TestOptionsThatAreNoObject(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	client := rpcClient(t, h2c(t), n.rpcFront(), n.admin)
	for options, fits := range map[string]bool{`[]`: false, ` "x"`: false, `5`: false, `true`: false, ` null`: true, "\n{}": true} {
		_, err := client.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q", OptionsJson: options}))
		if fits {
			if err != nil {
				t.Errorf("%s: %v", options, err)
			}
			continue
		}
		if e := rpc.FromError(err); e == nil || e.Code != api.ValidationError || !strings.HasPrefix(e.Message, "options_json is not a JSON object") {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// An error has its code once, and no header of the answer is empty, at every place that refuses a call, in
// each protocol and kind of procedure.
func TestErrorsSayTheirCodeOnce(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}, QueueScope: []tenancy.Glob{"mine"}})
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine"}})
	check := func(what string, err error, want api.Code) {
		t.Helper()
		told := new(connect.Error)
		if !errors.As(err, &told) || len(told.Meta().Values(rpc.CodeHeader)) != 1 || told.Meta().Get(rpc.CodeHeader) != string(want) {
			t.Errorf("%s: %v with %v, want %s", what, err, told.Meta(), want)
		}
		for name, values := range told.Meta() {
			if strings.Join(values, "") == "" {
				t.Errorf("%s: the header %s is empty", what, name)
			}
		}
	}
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		for _, c := range []struct {
			key  string
			code api.Code
		}{{"", api.Unauthorized}, {reader, api.Forbidden}, {scoped, api.Forbidden}} { // the handler refuses the last
			client := rpcClient(t, h2c(t), url, c.key, protocol)
			_, err := client.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "theirs"}))
			check(name+" Enqueue", err, c.code)
			events, err := client.Subscribe(t.Context(), rpcOf(&workerpb.SubscribeRequest{Queues: []string{"theirs"}}))
			if err == nil {
				events.Receive()
				err = events.Err()
				events.Close()
			}
			check(name+" Subscribe", err, c.code)
		}
		made, err := rpcClient(t, h2c(t), url, n.admin, protocol).Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q"}))
		if err != nil {
			t.Fatal(err)
		}
		for header, values := range made.Header() {
			if strings.Join(values, "") == "" {
				t.Errorf("%s: the header %s of an answer is empty", name, header)
			}
		}
	}
}
