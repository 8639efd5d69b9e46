package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/billing/money"
)

// wireFrame converts a frame to its message.
func wireFrame(f Frame) (*workerpb.StreamLifecycleRequest, error) {
	m := &workerpb.StreamLifecycleRequest{}
	if f.Fetch != nil {
		m.Queues, m.WorkerId, m.Hostname = f.Fetch.Queues, f.Fetch.WorkerID, f.Fetch.Hostname
		m.Concurrency = int32(f.Fetch.Concurrency)
		m.LeaseDuration, m.FetchCount = int32(f.Fetch.LeaseDuration), int32(max(f.Count, 1))
	}
	acks := make([]workerpb.AckBatchItem, len(f.Acks))
	m.Acks = make([]*workerpb.AckBatchItem, len(f.Acks))
	for i := range f.Acks {
		if err := wireAck(&f.Acks[i], &acks[i]); err != nil {
			return nil, fmt.Errorf("stream: ack of job %s: %w", f.Acks[i].JobID, err)
		}
		m.Acks[i] = &acks[i]
	}
	enqueues := make([]workerpb.EnqueueRequest, len(f.Enqueues))
	m.Enqueues = make([]*workerpb.EnqueueRequest, len(f.Enqueues))
	for i := range f.Enqueues {
		if err := wireEnqueue(f.Enqueues[i], &enqueues[i]); err != nil {
			return nil, fmt.Errorf("stream: enqueues[%d]: %w", i, err)
		}
		m.Enqueues[i] = &enqueues[i]
	}
	return m, nil
}

func wireEnqueue(req api.EnqueueRequest, out *workerpb.EnqueueRequest) error {
	out.Queue, out.PayloadJson = req.Queue, string(req.Payload)
	req.Queue, req.Payload = "", nil
	if reflect.ValueOf(&req).Elem().IsZero() { // most have no options
		return nil
	}
	options, err := json.Marshal(req)
	// The queue has a field of its own and must not be repeated in the options.
	if text := strings.TrimPrefix(string(options), `{"queue":""`); text != "}" {
		out.OptionsJson = "{" + strings.TrimPrefix(text, ",")
	}
	return err
}

func wireAck(a *api.AckItem, out *workerpb.AckBatchItem) error {
	out.JobId, out.LeaseToken, out.WorkerId, out.StepStatus = a.JobID, a.LeaseToken, a.WorkerID, a.StepStatus
	out.AgentStatus, out.HoldReason = a.AgentStatus, a.HoldReason
	out.ResultJson, out.CheckpointJson, out.TraceJson = string(a.Result), string(a.Checkpoint), string(a.Trace)
	if len(a.ToolCalls) > 0 {
		calls, err := json.Marshal(a.ToolCalls)
		if err != nil {
			return err
		}
		out.ToolCallsJson = string(calls)
	}
	if u := a.Usage; u != nil {
		out.Usage = &workerpb.UsageReport{
			InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), Model: u.Model, Provider: u.Provider,
			CacheCreationTokens: int64(u.CacheCreationTokens), CacheReadTokens: int64(u.CacheReadTokens),
		}
		if u.CostUSD != nil {
			out.Usage.CostUsdExact = u.CostUSD.String()
		}
	}
	return nil
}

// readFrame converts a response. unread[i] is the job of JobErrors[i], which cannot be decoded.
func readFrame(m *workerpb.StreamLifecycleResponse) (out FrameResult, unread []api.FetchedJob, err error) {
	out = FrameResult{Acked: int(m.Acked), JobIDs: m.EnqueuedJobIds, Jobs: make([]api.FetchedJob, len(m.Jobs))}
	for _, e := range m.AckErrors {
		out.AckErrors = append(out.AckErrors, api.ItemError{JobID: e.JobId, Code: api.Code(e.Code), Error: e.Error})
	}
	read := 0
	for _, j := range m.Jobs {
		if err := readJob(j, &out.Jobs[read]); err != nil {
			unread = append(unread, out.Jobs[read])
			out.JobErrors = append(out.JobErrors, api.ItemError{JobID: j.JobId, Code: api.ParseError, Error: "the worker cannot read the job: " + err.Error()})
			continue
		}
		read++
	}
	out.Jobs = out.Jobs[:read]
	if m.Error == "" {
		return out, unread, nil
	}
	e, ok := errorOf(m.Error)
	if !ok {
		e = &api.Error{Code: api.LeaderUnavailable, Message: m.Error} // NOT_LEADER without an address
	}
	e.RetryAfter = time.Duration(m.RetryAfterMs) * time.Millisecond
	return out, unread, e
}

// errorOf parses an error in the form "CODE: message".
func errorOf(text string) (*api.Error, bool) {
	code, message, ok := strings.Cut(text, ": ")
	if !ok || strings.ToUpper(code) != code || strings.Contains(code, " ") {
		return nil, false
	}
	return &api.Error{Code: api.Code(code), Message: message}, true
}

// readJob decodes a job. The strings of a message share its memory, which a job that runs for hours would
// keep alive, so readJob copies the strings that the job keeps.
func readJob(m *workerpb.FetchBatchJob, j *api.FetchedJob) error {
	*j = api.FetchedJob{
		JobID: strings.Clone(m.JobId), Queue: strings.Clone(m.Queue), Payload: raw(m.PayloadJson), Attempt: int(m.Attempt), MaxRetries: int(m.MaxRetries),
		LeaseDuration: int(m.LeaseDuration), LeaseToken: strings.Clone(m.LeaseToken), Checkpoint: raw(m.CheckpointJson),
	}
	err := cmp.Or(field("tags", m.TagsJson, &j.Tags), field("headers", m.HeadersJson, &j.Headers), field("tool_results", m.ToolResultsJson, &j.ToolResults))
	if a := m.Agent; a != nil {
		most, err1 := money.FromFloatShortest(a.MaxCostUsd)
		total, err2 := money.FromFloatShortest(a.TotalCostUsd)
		err = cmp.Or(err, named("agent.max_cost_usd", err1), named("agent.total_cost_usd", err2))
		j.Agent = &api.FetchedAgent{
			MaxIterations: int(a.MaxIterations), MaxCostUSD: most, TotalCostUSD: total,
			IterationTimeout: api.Duration(strings.Clone(a.IterationTimeout)), Iteration: int(a.Iteration),
		}
	}
	return err
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// field decodes an optional field.
func field(name, text string, into any) error {
	if text == "" {
		return nil
	}
	return named(name, json.Unmarshal([]byte(text), into))
}

// named adds the name of a field to an error.
func named(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
