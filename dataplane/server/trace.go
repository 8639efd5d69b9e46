package server

import (
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/telemetry"
)

// span is the span of the work on jobs within a request's span. It is nil if the request's span is not
// recorded; its own methods then do nothing and return false.
type span struct {
	trace.Span
	name  string // without a queue
	links int
	kept  bool // spans of log entries may be its children
}

// beginSpan starts a span with a name and an operation type: a producer's span if the operation sends, a
// consumer's span if it receives or settles. The work inside the span uses the returned request.
func (q *request) beginSpan(r *http.Request, name, operation string) (*http.Request, *span) {
	if !telemetry.Sampled(r.Context()) {
		return r, nil
	}
	kind := trace.SpanKindConsumer
	if operation == telemetry.OperationSend {
		kind = trace.SpanKindProducer
	}
	ctx, s := telemetry.Begin(r.Context(), name, trace.WithSpanKind(kind), trace.WithAttributes(
		telemetry.AttrMessagingSystem.String(telemetry.MessagingSystem),
		telemetry.AttrOperationName.String(name),
		telemetry.AttrOperationType.String(operation),
		telemetry.AttrNamespace.String(string(q.who.Namespace)),
	))
	return r.WithContext(ctx), &span{Span: s, name: name}
}

// queue sets the queue, also in the span's name. A span for several queues has none.
func (s *span) queue(name string) {
	if s == nil {
		return
	}
	s.SetName(s.name + " " + name)
	s.SetAttributes(telemetry.AttrDestination.String(name))
}

// message sets the job and the attempt. It leaves out an attempt of 0, which has not begun or is not known.
func (s *span) message(id string, attempt uint32) {
	if s == nil {
		return
	}
	s.SetAttributes(telemetry.AttrMessageID.String(id))
	if attempt > 0 {
		s.SetAttributes(telemetry.AttrJobAttempt.Int64(int64(attempt)))
	}
}

// batch sets the number of jobs of a batch request.
func (s *span) batch(jobs int) {
	if s == nil {
		return
	}
	s.SetAttributes(telemetry.AttrBatchMessageCount.Int(jobs))
}

// linkable reports whether the span takes one more link, so that it is worthwhile to read a job for it.
func (s *span) linkable() bool { return s != nil && s.links < telemetry.MaxLinks }

// link links the span to the span of the job's enqueue. It does nothing if the job's headers name no such
// span, or if the span has telemetry.MaxLinks links already.
func (s *span) link(j *job.Job) {
	if j == nil || !s.linkable() {
		return
	}
	if from := convert.StoredSpan(j.Headers); from.IsValid() {
		s.AddLink(trace.Link{SpanContext: from})
		s.links++
	}
}

// usage sets the usage that the worker reports.
func (s *span) usage(u *job.Usage) {
	if s == nil || u == nil {
		return
	}
	attributes := []attribute.KeyValue{
		telemetry.AttrGenAIInputTokens.Int64(u.InputTokens),
		telemetry.AttrGenAIOutputTokens.Int64(u.OutputTokens),
		telemetry.AttrCostNanoUSD.Int64(u.CostNanoUsd),
	}
	for _, optional := range [...]struct {
		key   attribute.Key
		value int64
	}{{telemetry.AttrGenAICacheMadeTokens, u.CacheCreationTokens}, {telemetry.AttrGenAICacheReadTokens, u.CacheReadTokens}} {
		if optional.value > 0 {
			attributes = append(attributes, optional.key.Int64(optional.value))
		}
	}
	if u.Model != "" {
		attributes = append(attributes, telemetry.AttrGenAIModel.String(u.Model))
	}
	if u.Provider != "" {
		attributes = append(attributes, telemetry.AttrGenAIProvider.String(u.Provider))
	}
	s.SetAttributes(attributes...)
}

// usages sets the total usage of a batch request. It sets the model if all reports have the same model, and
// the provider if all have the same provider.
func (s *span) usages(items []*op.AckItem) {
	if s == nil {
		return
	}
	var sum *job.Usage
	model, provider := true, true
	for _, item := range items {
		if item.Usage == nil {
			continue
		}
		if sum != nil {
			model = model && sum.Model == item.Usage.Model
			provider = provider && sum.Provider == item.Usage.Provider
		}
		var err error
		if sum, err = sum.Add(item.Usage); err != nil {
			return // a sum out of range is left out
		}
	}
	if sum == nil {
		return
	}
	if !model {
		sum.Model = ""
	}
	if !provider {
		sum.Provider = ""
	}
	s.usage(sum)
}

// became sets the state that the job reached.
func (s *span) became(state string) {
	if s == nil {
		return
	}
	s.SetAttributes(telemetry.AttrJobState.String(state))
}

// keep marks a span that must be sent because its children are sent.
func (s *span) keep() {
	if s != nil {
		s.kept = true
	}
}

// end ends the span with the result of its operation. An error that is no *api.Error counts as INTERNAL,
// without its text.
func (s *span) end(err error) {
	if s == nil {
		return
	}
	if err != nil {
		kind, text := api.Internal, ""
		var e *api.Error
		if errors.As(err, &e) {
			kind, text = e.Code, e.Message
		}
		telemetry.Fault(s, string(kind), text)
	}
	s.End()
}

// wanted reports whether the span of an operation that found nothing is sent: it is if the client traces the
// request, or if spans of log entries may be its children.
func (s *span) wanted(r *http.Request) bool {
	return s != nil && (s.kept || telemetry.ParseTraceparent(telemetry.ClientTraceparent(r.Header)).IsValid())
}
