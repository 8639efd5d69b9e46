package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
)

// tampered changes a header or the body of its client's calls.
type tampered struct {
	http.RoundTripper
	header, value string
	body          string // "": the client's
}

func (t tampered) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if t.header != "" {
		r.Header.Set(t.header, t.value)
	}
	if t.body != "" {
		r.Body.Close()
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(t.body)), int64(len(t.body)), nil
	}
	return t.RoundTripper.RoundTrip(r)
}

// A violation of the protocol itself is refused with a code of this API, in each protocol and kind of
// procedure.
func TestBrokenProtocolHasACode(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	const message = "\x00\x00\x00\x00\x03\x0a\x01q"
	type tamper struct {
		header, value, body string
		code                api.Code
		says                string
	}
	deadlines := func(header string, values ...string) (all []tamper) {
		for _, value := range values {
			all = append(all, tamper{header, value, "", api.ValidationError, header + " is "})
		}
		return all
	}
	envelopes := []tamper{
		{"", "", "\x00\x00", api.ParseError, "cut short"},
		{"", "", "\x00\x00\x00\x00\x05\x0a\x01q", api.ParseError, "cut short"},
		{"", "", "\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00", api.ParseError, "cut short"},
		{"", "", "\x01" + message[1:], api.Unsupported, "compressed"},
		{"", "", "\x40" + message[1:], api.ParseError, "flags 0x40"},
	}
	one := []tamper{
		envelopes[0], envelopes[1], envelopes[3], envelopes[4],
		{"", "", message + message, api.Unsupported, "more than one message"},
		{"", "", message + "\x00", api.Unsupported, "more than one message"},
	}
	connectHeaders := append(deadlines("Connect-Timeout-Ms", "x", "-1", "5S", "12345678901"), deadlines("Connect-Protocol-Version", "2")...)
	grpcHeaders := append(deadlines("Grpc-Timeout", "x", "S", "5", "-1S", "123456789S"), tamper{"Grpc-Encoding", "gzip", "", api.Unsupported, "not compressed"})
	streams := []tamper{{"Connect-Content-Encoding", "gzip", "", api.Unsupported, "not compressed"}}
	for name, c := range map[string]struct {
		protocol              connect.ClientOption
		unary, single, stream []tamper
	}{
		"connect": {
			connect.WithClientOptions(), slices.Concat(connectHeaders, []tamper{{"Content-Encoding", "br", "", api.Unsupported, "not compressed"}}),
			slices.Concat(one, connectHeaders, streams), slices.Concat(envelopes, connectHeaders, streams),
		},
		"gRPC":     {connect.WithGRPC(), slices.Concat(one, grpcHeaders), slices.Concat(one, grpcHeaders), slices.Concat(envelopes, grpcHeaders)},
		"gRPC-Web": {connect.WithGRPCWeb(), slices.Concat(one, grpcHeaders), slices.Concat(one, grpcHeaders), slices.Concat(envelopes, grpcHeaders)},
	} {
		check := func(procedure string, by tamper, err error) {
			t.Helper()
			what := fmt.Sprintf("%s, %s with %s %q %q", name, procedure, by.header, by.value, by.body)
			wantRPCError(t, what, err, by.code, by.says)
			told := new(connect.Error)
			if !errors.As(err, &told) {
				t.Fatalf("%s: %v", what, err)
			}
			equal(t, what+": header", told.Meta().Get(rpc.CodeHeader), string(by.code))
			if len(told.Details()) == 0 {
				t.Errorf("%s: the error has no details", what)
			}
		}
		client := func(by tamper) (*http.Client, connect.ClientOption) {
			return &http.Client{Transport: tampered{h2c(t).Transport, by.header, by.value, by.body}}, c.protocol
		}
		for _, by := range c.unary {
			h, protocol := client(by)
			_, err := rpcClient(t, h, url, n.admin, protocol).Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q"}))
			check("Enqueue", by, err)
		}
		for _, by := range c.single {
			h, protocol := client(by)
			events, err := rpcClient(t, h, url, n.admin, protocol).Subscribe(t.Context(), rpcOf(&workerpb.SubscribeRequest{}))
			if err == nil {
				events.Receive()
				err = events.Err()
			}
			check("Subscribe", by, err)
		}
		for _, by := range c.stream {
			h, protocol := client(by)
			stream := rpcClient(t, h, url, n.admin, protocol).StreamLifecycle(t.Context())
			err := stream.Send(nil)
			for err == nil || errors.Is(err, io.EOF) {
				_, err = stream.Receive()
			}
			check("StreamLifecycle", by, err)
		}
	}
	eventually(t, "nothing is in hand", func() bool { return n.server.BodyBytes() == 0 })
}
