package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// Messages of the RPC are converted to the same requests as HTTP bodies. The requests share the memory of the
// messages' strings, so the bytes of a document must not be changed.

// rawText converts a document that came as a string. It returns nil if the document is absent or faulty.
func rawText(f *Faults, field, s string) json.RawMessage {
	return rawWithin(f, field, s, job.MaxNesting)
}

// rawWithin converts JSON that came as a string and limits its nesting. It returns nil if the JSON is absent
// or faulty. It removes the white space around the JSON, as decoding a body does.
func rawWithin(f *Faults, field, s string, most int) json.RawMessage {
	if s == "" {
		return nil
	}
	trimmed := strings.Trim(s, " \t\r\n")
	raw := unsafe.Slice(unsafe.StringData(trimmed), len(trimmed))
	if err := text.CheckNesting(raw, most); err != nil {
		f.Invalid(field, "is %v", err)
		return nil
	}
	if !validJSON(s) {
		f.Invalid(field, "is not JSON: %s", text.Quote(s))
		return nil
	}
	return raw
}

// unicodeText returns s and refuses a string that is not UTF-8, because the decoder of the messages does not
// check that and later encoders require UTF-8.
func unicodeText(f *Faults, field, s string) string {
	if err := job.CheckUTF8(s); err != nil {
		f.Invalid(field, "%v", err)
	}
	return s
}

// FromRPCEnqueue converts a job to enqueue into b and drops b's old content. options_json is decoded as the
// body of POST /enqueue. A field that is both in the message and in options_json is refused, because neither
// takes precedence. After an error b is incomplete.
func FromRPCEnqueue(r *http.Request, m *workerpb.EnqueueRequest, b *EnqueueBody) error {
	*b = EnqueueBody{}
	var f Faults
	if m.OptionsJson != "" {
		raw := rawWithin(&f, "options_json", m.OptionsJson, maxNesting) // Decode limits the nesting of the documents in it
		if raw == nil {
			return f.Err()
		}
		// Decode would refuse such a value too, but its error would blame the body of the request.
		if c := raw[0]; c != '{' && c != 'n' {
			f.Invalid("options_json", "is not a JSON object: %s", text.Quote(m.OptionsJson))
			return f.Err()
		}
		if err := serve.Decode(r, bytes.Clone(raw), b); err != nil {
			return err
		}
	}
	twice := func(field string, here, there bool) {
		if here && there {
			f.Invalid("options_json."+field, "is a field of its own as well: give it once")
		}
	}
	twice("queue", m.Queue != "", b.Queue != "")
	twice("payload", m.PayloadJson != "", b.Payload != nil)
	twice("agent", m.Agent != nil, b.Agent != nil)
	if m.Queue != "" {
		b.Queue = m.Queue
	}
	if payload := rawText(&f, "payload_json", m.PayloadJson); payload != nil {
		b.Payload = payload
	}
	if a := m.Agent; a != nil {
		b.Agent = &api.Agent{
			MaxIterations: int(a.MaxIterations), MaxCostUSD: costOf(&f, "agent.max_cost_usd", a.MaxCostUsd),
			IterationTimeout: api.Duration(unicodeText(&f, "agent.iteration_timeout", a.IterationTimeout)),
		}
	}
	return f.Err()
}

// FromRPCEnqueues converts a list of jobs, like that of a batch request over HTTP. At the first job that
// FromRPCEnqueue refuses, it returns that error, which does not name the job, and sets at to the job's index.
// In every other case at is negative, and an error names the fields of all faulty jobs. The caller adds the
// shards that FromEnqueue leaves to its caller.
func FromRPCEnqueues(r *http.Request, list []*workerpb.EnqueueRequest, nowNs int64, maxPayload int) (jobs []*op.NewJob, at int, err error) {
	var f Faults
	if !f.batchOf("enqueues", len(list)) {
		return nil, -1, f.Err()
	}
	var b EnqueueBody
	jobs, all := make([]*op.NewJob, len(list)), make([]newJob, len(list))
	for i, m := range list {
		if err := FromRPCEnqueue(r, m, &b); err != nil {
			return nil, i, err
		}
		f.scope = scope{list: "enqueues", index: i}
		jobs[i] = all[i].read(&f, &b, nowNs, maxPayload)
	}
	return jobs, -1, f.Err()
}

// ToRPCEnqueued returns the ids of the jobs of an enqueue. The texts of the ids share one allocation.
func ToRPCEnqueued(jobs []*op.Enqueued) ([]string, error) {
	ids, text := make([]string, len(jobs)), make([]byte, 0, len(jobs)*job.IDTextSize)
	for i, e := range jobs {
		id, err := job.IDFromBytes(e.Id)
		if err != nil {
			return nil, fmt.Errorf("result of an enqueue: %w", err)
		}
		text = id.Append(text)
		ids[i] = unsafe.String(&text[i*job.IDTextSize], job.IDTextSize) // nothing changes these bytes any more
	}
	return ids, nil
}

// costOf converts a number of dollars to an amount of money. It refuses more than nine decimals, amounts out
// of range, NaN and infinities.
func costOf(f *Faults, field string, n float64) money.Nano {
	cost, err := money.FromFloatShortest(n)
	if err != nil {
		f.Invalid(field, "%v", err)
	}
	return cost
}

// fromRPCUsage converts a usage report. cost_usd_exact replaces cost_usd. A cost_usd of 0 counts as absent,
// because the message cannot tell 0 from absent; the price book then decides, and only cost_usd_exact can
// state a cost of 0. A cost that is not a number is refused.
func fromRPCUsage(f *Faults, u *workerpb.UsageReport) *api.ReportedUsage {
	if u == nil {
		return nil
	}
	out := &api.ReportedUsage{
		InputTokens: money.ReportedCount(u.InputTokens), OutputTokens: money.ReportedCount(u.OutputTokens),
		CacheCreationTokens: money.ReportedCount(u.CacheCreationTokens), CacheReadTokens: money.ReportedCount(u.CacheReadTokens),
		Model: u.Model, Provider: u.Provider,
	}
	switch {
	case u.CostUsdExact != "":
		cost, err := money.Round([]byte(u.CostUsdExact))
		if err != nil {
			f.Invalid("usage.cost_usd_exact", "%v", err)
		}
		out.CostUSD = new(money.Reported(cost))
	case u.CostUsd != 0:
		cost, err := money.RoundFloat(u.CostUsd)
		if err != nil {
			f.Invalid("usage.cost_usd", "%v", err)
		}
		out.CostUSD = new(money.Reported(cost))
	}
	return out
}

// FromRPCAck converts an ack without the id of its job, which the caller reads.
func FromRPCAck(m *workerpb.AckRequest) (AckBody, error) {
	var f Faults
	b := AckBody{api.AckRequest{
		Result: rawText(&f, "result_json", m.ResultJson), Checkpoint: rawText(&f, "checkpoint_json", m.CheckpointJson),
		Usage: fromRPCUsage(&f, m.Usage), LeaseToken: m.LeaseToken, WorkerID: m.WorkerId, StepStatus: m.StepStatus,
		AgentStatus: m.AgentStatus, HoldReason: m.HoldReason, Trace: rawText(&f, "trace_json", m.TraceJson),
		ToolCalls: toolCalls(&f, m.ToolCallsJson),
	}}
	return b, f.Err()
}

// FromRPCAckItem converts one of several acks into b. worker is the id of the sender; it proves the lease if
// the item has neither a lease token nor a worker id.
func FromRPCAckItem(m *workerpb.AckBatchItem, worker string, b *AckBatchItem) error {
	if m.WorkerId != "" || m.LeaseToken != "" {
		worker = m.WorkerId
	}
	var f Faults
	*b = AckBatchItem{m.JobId, AckBody{api.AckRequest{
		Result: rawText(&f, "result_json", m.ResultJson), Checkpoint: rawText(&f, "checkpoint_json", m.CheckpointJson),
		Usage: fromRPCUsage(&f, m.Usage), LeaseToken: m.LeaseToken, WorkerID: worker, StepStatus: m.StepStatus,
		AgentStatus: m.AgentStatus, HoldReason: m.HoldReason, Trace: rawText(&f, "trace_json", m.TraceJson),
		ToolCalls: toolCalls(&f, m.ToolCallsJson),
	}}}
	return f.Err()
}

// toolCalls converts the list of tool calls of an ack.
func toolCalls(f *Faults, list string) (calls []api.ToolCall) {
	raw := rawWithin(f, "tool_calls_json", list, job.MaxNesting+2) // a tool call's documents lie two levels deep, in an object of the list
	if raw == nil {
		return nil
	}
	calls, err := decodeToolCalls(bytes.TrimLeft(raw, " \t\r\n"))
	var refused *api.Error
	switch {
	case errors.As(err, &refused): // too large to decode
		f.add(refused.Code, "tool_calls_json", "%s", refused.Message)
		for name, value := range refused.Details {
			f.Detail(name, value)
		}
	case err != nil:
		f.Invalid("tool_calls_json", "does not fit: %v", err)
	}
	return calls
}

// decodeToolCalls refuses a list of more than job.MaxToolCalls calls without decoding those beyond the limit.
// A message may have many such lists, and their items decode to a hundred times their size.
func decodeToolCalls(raw json.RawMessage) (calls []api.ToolCall, err error) {
	if err := serve.Weigh(raw, &calls); err != nil {
		return nil, err
	}
	if raw[0] != '[' { // null, or JSON that is refused as not a list
		return nil, json.Unmarshal(raw, &calls)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		if len(calls) == job.MaxToolCalls {
			return nil, fmt.Errorf("it has more than %d entries", job.MaxToolCalls)
		}
		calls = append(calls, api.ToolCall{})
		if err := d.Decode(&calls[len(calls)-1]); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// FromRPCFail converts the report of a failed attempt without the id of its job, which the caller reads.
func FromRPCFail(m *workerpb.FailRequest) (*api.FailRequest, error) {
	var f Faults
	b := &api.FailRequest{
		Error: unicodeText(&f, "error", m.Error), Backtrace: unicodeText(&f, "backtrace", m.Backtrace),
		Usage: fromRPCUsage(&f, m.Usage), LeaseToken: m.LeaseToken, WorkerID: m.WorkerId,
	}
	return b, f.Err()
}

// ToRPCFailed converts the outcome of a failed attempt.
func ToRPCFailed(r api.FailResponse) *workerpb.FailResponse {
	out := &workerpb.FailResponse{Status: r.Status, Attempt: int32(r.Attempt), AttemptsRemaining: int32(r.AttemptsRemaining), UsageRejected: r.UsageRejected}
	if at, ok, err := r.NextAttemptAt.Parse(); err == nil && ok {
		out.NextAttemptAt = timestamppb.New(at)
	}
	return out
}

// FromRPCHeartbeat converts a heartbeat. A model's partial output becomes the job's progress, as
// {"stream_delta": ...}, if the heartbeat sets no progress.
func FromRPCHeartbeat(m *workerpb.HeartbeatRequest) (*api.HeartbeatRequest, error) {
	var f Faults
	b := &api.HeartbeatRequest{
		Jobs:     make(map[string]*api.HeartbeatJob, len(m.Jobs)),
		WorkerID: m.WorkerId, Concurrency: int(m.Concurrency), Draining: m.Draining,
	}
	for name, j := range m.Jobs {
		f.scope = scope{list: "jobs", name: text.Quote(name)}
		progress := rawText(&f, "progress_json", j.GetProgressJson())
		if delta := j.GetStreamDelta(); progress == nil && delta != "" {
			progress, _ = json.Marshal(map[string]string{"stream_delta": unicodeText(&f, "stream_delta", delta)}) // a map of strings always encodes
		}
		b.Jobs[name] = &api.HeartbeatJob{
			Progress: progress, Checkpoint: rawText(&f, "checkpoint_json", j.GetCheckpointJson()),
			Usage: fromRPCUsage(&f, j.GetUsage()), LeaseToken: j.GetLeaseToken(), WorkerID: j.GetWorkerId(), LeaseDuration: int(j.GetLeaseDuration()),
		}
	}
	f.scope = scope{}
	return b, f.Err()
}

// ToRPCHeartbeat converts the answer to a heartbeat.
func ToRPCHeartbeat(r api.HeartbeatResponse) *workerpb.HeartbeatResponse {
	out := &workerpb.HeartbeatResponse{Jobs: make(map[string]*workerpb.HeartbeatStatus, len(r.Jobs))}
	for name, s := range r.Jobs {
		out.Jobs[name] = &workerpb.HeartbeatStatus{Status: s.Status, BudgetExceeded: s.BudgetExceeded, UsageRejected: s.UsageRejected}
	}
	return out
}

// ToRPCAcked converts the outcomes of several acks.
func ToRPCAcked(r *api.AckBatchResponse) (acked int32, errs []*workerpb.ItemError, rejected []*workerpb.UsageRejection) {
	for _, e := range r.Errors {
		errs = append(errs, &workerpb.ItemError{JobId: e.JobID, Code: string(e.Code), Error: e.Error})
	}
	for _, u := range r.UsageRejected {
		rejected = append(rejected, &workerpb.UsageRejection{JobId: u.JobID, Reason: u.Reason})
	}
	return int32(r.Acked), errs, rejected
}

// int32Of converts a count to the type of the messages; a larger count becomes math.MaxInt32.
func int32Of(n uint32) int32 { return int32(min(n, math.MaxInt32)) }

// ToRPCEvent converts an event. id is the cursor after the event.
func ToRPCEvent(e *api.Event, id string) *workerpb.SubscribeResponse {
	return &workerpb.SubscribeResponse{Seq: e.Seq, Type: e.Type, JobId: e.JobID, Queue: e.Queue, AtNs: uint64(max(e.AtNs, 0)), DataJson: string(e.Data), Cursor: id}
}
