package convert

import (
	"bytes"
	"encoding/json"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromToolCalls converts an ack's tool calls to the jobs that they create, and sets id as the parent of these
// jobs. It refuses options that do not go with a tool's job, such as unique_key. The proposer adds the ids
// and shards of the jobs.
func FromToolCalls(f *Faults, id job.ID, calls []api.ToolCall, nowNs int64, maxPayload int) []*op.ToolCall {
	if len(calls) > job.MaxToolCalls {
		f.Invalid("tool_calls", "has %d entries; at most %d are taken", len(calls), job.MaxToolCalls)
		return nil
	}
	var out []*op.ToolCall
	for i := range calls {
		f.scope = scope{list: "tool_calls", index: i}
		out = append(out, toolCall(f, id, &calls[i], nowNs, maxPayload))
	}
	f.scope = scope{}
	return out
}

func toolCall(f *Faults, id job.ID, c *api.ToolCall, nowNs int64, maxPayload int) *op.ToolCall {
	if c.Name == "" {
		f.Invalid("name", "is missing: give an id, which the result repeats")
	} else if err := job.CheckText(c.Name, job.MaxToolName); err != nil {
		f.Invalid("name", "%v", err)
	}
	for _, option := range [...]struct {
		name string
		said bool
	}{
		{"unique_key", c.UniqueKey != ""}, {"debounce_key", c.DebounceKey != ""}, {"chain", c.Chain != nil},
		{"depends_on", len(c.DependsOn) > 0}, {"parent_id", c.ParentID != ""},
	} {
		if option.said {
			f.Invalid(option.name, "does not go with a tool's job; leave it out")
		}
	}
	nj := FromEnqueue(f, &EnqueueBody{EnqueueRequest: c.EnqueueRequest}, nowNs, maxPayload)
	nj.Opt().ParentId = id[:]
	return &op.ToolCall{Name: c.Name, Job: nj}
}

// AppendToolResults adds the results of an iteration's tools to the JSON of a leased job, before its closing
// brace, which must be the last byte of b.
func AppendToolResults(b []byte, results []api.ToolResult) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(results); err != nil {
		return b, err
	}
	b = append(b[:len(b)-1], `,"tool_results":`...)
	return append(append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), '}'), nil
}

// ToToolResult converts the outcome of a tool call, without the result, which the caller adds. j is the
// tool's job, or nil if it no longer exists; errs are its errors, the oldest first.
func ToToolResult(c *job.ToolCall, j *job.Job, errs []*job.AttemptError) api.ToolResult {
	r := api.ToolResult{Name: c.GetName(), JobID: job.ID(c.GetJobId()).String(), Queue: c.GetQueue(), State: api.StateGone}
	if j != nil {
		r.State = j.State.Word()
	}
	if n := len(errs); n > 0 && j.GetState() != job.Completed {
		r.Error = errs[n-1].Error
	}
	return r
}
