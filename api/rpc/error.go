package rpc

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/corvo/corvo/api"
)

// Prefix is the beginning of the paths of all procedures.
const Prefix = "/corvo.v1.WorkerService/"

const (
	// CodeHeader carries the api.Code of an error for clients that do not read the details of an error.
	// It is a header, or a trailer if the response had begun.
	CodeHeader = "Corvo-Code"
	// Domain is the domain of the ErrorInfo of an error. Its reason is the api.Code.
	Domain = "corvo"
	// detailsKey is the key of an ErrorInfo's metadata that holds the details of the error, as JSON.
	detailsKey = "details"
	// maxDetails limits the details, because they travel in a header. Larger details are left out.
	maxDetails = 4 << 10 // bytes
	// defaultRetry is the RetryInfo of a retryable error without a RetryAfter.
	defaultRetry = time.Second
)

// codes maps every api.Code. If no Connect code has the meaning of an api.Code, the behaviour of clients
// decides: they retry only resource_exhausted and unavailable.
var codes = map[api.Code]connect.Code{
	api.ValidationError:     connect.CodeInvalidArgument,
	api.ParseError:          connect.CodeInvalidArgument,
	api.PayloadTooLarge:     connect.CodeInvalidArgument,
	api.InvalidFilter:       connect.CodeInvalidArgument,
	api.InvalidCron:         connect.CodeInvalidArgument,
	api.CrossShard:          connect.CodeInvalidArgument,
	api.Unauthorized:        connect.CodeUnauthenticated,
	api.Forbidden:           connect.CodePermissionDenied,
	api.NotFound:            connect.CodeNotFound,
	api.MethodNotAllowed:    connect.CodeUnimplemented,
	api.Unsupported:         connect.CodeUnimplemented,
	api.Conflict:            connect.CodeFailedPrecondition,
	api.LeaseLost:           connect.CodeFailedPrecondition,
	api.StateConflict:       connect.CodeFailedPrecondition,
	api.IdempotencyMismatch: connect.CodeFailedPrecondition,
	api.PreconditionFailed:  connect.CodeFailedPrecondition,
	api.ResultMismatch:      connect.CodeFailedPrecondition,
	api.RateLimited:         connect.CodeResourceExhausted,
	api.Overloaded:          connect.CodeResourceExhausted,
	api.QueueFull:           connect.CodeResourceExhausted,
	api.BudgetExceeded:      connect.CodeResourceExhausted,
	api.Internal:            connect.CodeInternal,
	api.LeaderUnavailable:   connect.CodeUnavailable,
	api.ViewBehind:          connect.CodeUnavailable,
	api.Suspended:           connect.CodeUnavailable,
	api.Unhealthy:           connect.CodeUnavailable,
}

// Error converts an error to the form that RPC clients receive. A code that is not in codes becomes internal.
func Error(e *api.Error) *connect.Error {
	code, known := codes[e.Code]
	if !known {
		code = connect.CodeInternal
	}
	out := connect.NewError(code, errors.New(e.Message))
	out.Meta().Set(CodeHeader, string(e.Code))
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: Domain}
	if text, err := json.Marshal(e.Details); err == nil && len(e.Details) > 0 && len(text) <= maxDetails {
		info.Metadata = map[string]string{detailsKey: string(text)}
	}
	add(out, info)
	if e.Code.Retryable() {
		wait := e.RetryAfter
		if wait <= 0 {
			wait = defaultRetry
		}
		add(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return out
}

func add(to *connect.Error, m proto.Message) {
	if detail, err := connect.NewErrorDetail(m); err == nil { // messages of our own always encode
		to.AddDetail(detail)
	}
}

// FromError converts an error of a Connect client back to an *api.Error. An error that did not come from
// Corvo, but from a proxy or the connection, gets the nearest code. FromError returns nil if err is no
// *connect.Error.
func FromError(err error) *api.Error {
	var answered *connect.Error
	if !errors.As(err, &answered) {
		return nil
	}
	e := api.Errorf(nearest(answered.Code()), "%s", answered.Message())
	for _, detail := range answered.Details() {
		m, err := detail.Value()
		if err != nil {
			continue
		}
		switch m := m.(type) {
		case *errdetails.ErrorInfo:
			if m.Domain != Domain {
				continue
			}
			e.Code = api.Code(m.Reason)
			if text, ok := m.Metadata[detailsKey]; ok {
				_ = json.Unmarshal([]byte(text), &e.Details) // without details the code still counts
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = m.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// nearest returns the api.Code for a response without one.
func nearest(code connect.Code) api.Code {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return api.ValidationError
	case connect.CodeUnauthenticated:
		return api.Unauthorized
	case connect.CodePermissionDenied:
		return api.Forbidden
	case connect.CodeNotFound:
		return api.NotFound
	case connect.CodeFailedPrecondition, connect.CodeAborted, connect.CodeAlreadyExists:
		return api.Conflict
	case connect.CodeResourceExhausted:
		return api.Overloaded
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return api.LeaderUnavailable
	case connect.CodeUnimplemented:
		return api.Unsupported
	}
	return api.Internal
}

var writer = connect.NewErrorWriter()

// Refuse writes an error as the response, in the protocol of the request. Nothing may have been written
// before.
func Refuse(w http.ResponseWriter, r *http.Request, e *api.Error) {
	w.Header().Set(CodeHeader, string(e.Code))
	if e.Code == api.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if v := r.Header.Get(versionHeader); v != "" && v != version {
		r = r.Clone(r.Context()) // the writer does not recognise another version of Connect, although its clients understand our error
		r.Header.Del(versionHeader)
	}
	out := Error(e)
	out.Meta().Del(CodeHeader)  // the header already has it, where gateways read it in every protocol
	_ = writer.Write(w, r, out) // an error means that the client is gone
}

// Is reports whether a request is a call of the Worker RPC.
func Is(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, Prefix) }
