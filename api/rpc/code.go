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

// Prefix is what the paths of all procedures begin with.
const Prefix = "/corvo.v1.WorkerService/"

const (
	// CodeHeader is where an error has its api.Code, for those who do not read details:
	// a header, or a trailer where the answer had begun.
	CodeHeader = "Corvo-Code"
	// Domain is that of the ErrorInfo an error carries, whose reason is its api.Code.
	Domain = "corvo"
	// detailsKey is the metadata of an ErrorInfo that has the error's details, as JSON.
	detailsKey = "details"
	// maxDetails bounds them: they travel in a header.
	maxDetails = 4 << 10 // bytes
	// defaultRetry is when it is worth trying again where nobody has said.
	defaultRetry = time.Second
)

// codes has every api.Code. Of those that say nothing of the code's own kind the
// question is what a client does: it tries resource_exhausted and unavailable again.
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

// Error is an error as clients of the RPC see it.
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

// FromError is the error that a client was answered; an answer of somebody else, such as
// a proxy, has the nearest code. It is nil where err is no answer.
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
				_ = json.Unmarshal([]byte(text), &e.Details) // without them the code still counts
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = m.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// nearest is the code for an answer that names none.
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

// Refuse answers a request of whichever protocol with an error. Nothing may have been
// written before.
func Refuse(w http.ResponseWriter, r *http.Request, e *api.Error) {
	w.Header().Set(CodeHeader, string(e.Code))
	if e.Code == api.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if v := r.Header.Get(versionHeader); v != "" && v != version {
		r = r.Clone(r.Context()) // whoever sends a stream of another version reads the end of ours
		r.Header.Del(versionHeader)
	}
	out := Error(e)
	out.Meta().Del(CodeHeader)  // it is in the header, where gateways read it in every protocol
	_ = writer.Write(w, r, out) // an error means that the client is gone
}

// Is says whether a request is one of the RPC.
func Is(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, Prefix) }
