package rpc

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
)

// Every code maps to the Connect code of the contract, and a client reads the error that the server
// wrote.
func TestEveryCodeIsMapped(t *testing.T) {
	t.Parallel()
	contract := map[api.Code]connect.Code{
		api.Overloaded: connect.CodeResourceExhausted, api.RateLimited: connect.CodeResourceExhausted,
		api.QueueFull: connect.CodeResourceExhausted, api.BudgetExceeded: connect.CodeResourceExhausted,
		api.Unauthorized: connect.CodeUnauthenticated, api.Forbidden: connect.CodePermissionDenied, api.NotFound: connect.CodeNotFound,
		api.LeaseLost: connect.CodeFailedPrecondition, api.StateConflict: connect.CodeFailedPrecondition,
		api.ValidationError: connect.CodeInvalidArgument, api.LeaderUnavailable: connect.CodeUnavailable,
	}
	for _, code := range api.Codes() {
		if _, ok := codes[code]; !ok {
			t.Errorf("%s is not mapped", code)
		}
		e := api.Errorf(code, "why")
		e.Details = map[string]any{"field": "f"}
		if code.Retryable() {
			e.RetryAfter = 1500 * time.Millisecond
		}
		out := Error(e)
		if want, ok := contract[code]; ok && out.Code() != want {
			t.Errorf("%s is %v, want %v", code, out.Code(), want)
		}
		if out.Code() == connect.CodeResourceExhausted && !code.Retryable() || out.Meta().Get(CodeHeader) != string(code) {
			t.Errorf("%s: %v, %v", code, out.Code(), out.Meta())
		}
		back := FromError(out)
		if diff := cmp.Diff(e, back, cmpopts.IgnoreUnexported(api.Error{})); diff != "" {
			t.Errorf("%s comes back changed (-want +got):\n%s", code, diff)
		}
	}
	if len(codes) != len(api.Codes()) {
		t.Errorf("%d codes are mapped, there are %d", len(codes), len(api.Codes()))
	}
}

// Every retryable error says when to retry.
func TestRetryInfoIsAlwaysThere(t *testing.T) {
	t.Parallel()
	for _, detail := range Error(api.Errorf(api.QueueFull, "full")).Details() {
		if m, _ := detail.Value(); m != nil {
			if retry, ok := m.(*errdetails.RetryInfo); ok && retry.RetryDelay.AsDuration() == defaultRetry {
				return
			}
		}
	}
	t.Error("there is no RetryInfo")
}

// Details too large for a header are left out; the code is kept.
func TestDetailsAtTheBound(t *testing.T) {
	t.Parallel()
	for extra, told := range []bool{true, false} {
		e := api.Errorf(api.ValidationError, "no")
		e.Details = map[string]any{"x": strings.Repeat("x", maxDetails-len(`{"x":""}`)+extra)}
		if back := FromError(Error(e)); back.Code != api.ValidationError || (back.Details != nil) != told {
			t.Errorf("details of %d bytes: %v", maxDetails+extra, back.Code)
		}
	}
}

// A request that is refused before its message is read gets a response in its own protocol.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for kind, check := range map[string]func(*http.Response) bool{
		"application/json":         func(r *http.Response) bool { return r.StatusCode == 401 },
		"application/grpc":         func(r *http.Response) bool { return r.StatusCode == 200 && r.Trailer.Get("Grpc-Status") == "16" },
		"application/grpc-web":     func(r *http.Response) bool { return r.StatusCode == 200 && r.Header.Get("Grpc-Status") == "16" },
		"application/connect+json": func(r *http.Response) bool { return r.StatusCode == 200 },
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", Prefix+"Fetch", nil)
		r.Header.Set("Content-Type", kind)
		Refuse(w, r, api.Errorf(api.Unauthorized, "no key"))
		out := w.Result()
		if !check(out) || !Is(r) {
			t.Errorf("%s: %d %v %v", kind, out.StatusCode, out.Header, out.Trailer)
		}
		if codes, trailer := out.Header.Values(CodeHeader), out.Trailer.Get(CodeHeader); !slices.Equal(codes, []string{"UNAUTHORIZED"}) || trailer != "" {
			t.Errorf("%s: the code is %v in the header and %q in the trailer, want it once, in the header", kind, codes, trailer)
		}
	}
}

// The generated code and the library can read each other's messages, and the generated code does not keep
// the caller's buffer.
func TestCodec(t *testing.T) {
	t.Parallel()
	m := &workerpb.StreamLifecycleRequest{
		RequestId: 7, Queues: []string{"q"}, Acks: []*workerpb.AckBatchItem{{JobId: "job_1", ResultJson: `{"a":1}`, Usage: &workerpb.UsageReport{CostUsd: 0.5}}},
	}
	data, err := Codec{}.MarshalAppend([]byte("before"), m)
	if err != nil || string(data[:6]) != "before" {
		t.Fatal(err)
	}
	plain, read := &workerpb.StreamLifecycleRequest{}, &workerpb.StreamLifecycleRequest{}
	if err := proto.Unmarshal(data[6:], plain); err != nil || !proto.Equal(plain, m) {
		t.Errorf("%v, %v", plain, err)
	}
	if err := (Codec{}).Unmarshal(data[6:], read); err != nil {
		t.Fatal(err)
	}
	clear(data)
	if !proto.Equal(read, m) {
		t.Errorf("read %v", read)
	}
	if _, err := (Codec{}).Marshal("text"); err == nil {
		t.Error("a string is a message")
	}
}
