package server

import (
	"context"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// addTools adds to an ack the jobs of its tool calls, each with an id of its queue's shard. The caller needs
// the right to enqueue these jobs. The ack must have the agent_status continue.
func (s *Server) addTools(q *request, item *op.AckItem, calls []api.ToolCall) error {
	if len(calls) == 0 {
		return nil
	}
	var f convert.Faults
	item.ToolCalls = convert.FromToolCalls(&f, job.ID(item.Proof.Id), calls, q.shards.Home().NowNs(), s.maxPayload)
	if item.AgentStatus != job.Continue {
		f.Invalid("tool_calls", "needs agent_status %q: without it no later iteration receives the results", "continue")
	}
	if err := f.Err(); err != nil {
		return err
	}
	for _, c := range item.ToolCalls {
		if err := q.allow(tenancy.JobEnqueue, c.Job.Queue); err != nil {
			return err
		}
		at := q.shards.Of(c.Job.Queue)
		id := at.NewID(c.Job.Queue)
		c.Shard, c.Id = at.Shard(), id[:]
	}
	return nil
}

// appendToolResults adds to the job in an answer the results of the tools that the job's last iteration
// called.
func (q *request) appendToolResults(ctx context.Context, b []byte, from *cell.Cell, id job.ID, j *job.Job) ([]byte, error) {
	results, err := q.toolResults(ctx, from, id, j)
	if err != nil || len(results) == 0 {
		return b, err
	}
	return convert.AppendToolResults(b, results)
}

// toolResults returns the results of the tools that a job's last iteration called. It leaves out a result
// that would bring the total size above job.MaxToolResults bytes, and marks the tool's result as too large.
func (q *request) toolResults(ctx context.Context, from *cell.Cell, id job.ID, j *job.Job) ([]api.ToolResult, error) {
	it, err := from.State().Iteration(id, j.GetDetail())
	if err != nil || len(it.GetToolCalls()) == 0 {
		return nil, err
	}
	results, size := make([]api.ToolResult, len(it.ToolCalls)), 0
	for i, c := range it.ToolCalls {
		if results[i], err = q.toolResult(ctx, c); err != nil {
			return nil, fmt.Errorf("tool %q: %w", c.GetName(), err)
		}
		if size += len(results[i].Result); size > job.MaxToolResults {
			size -= len(results[i].Result)
			results[i].Result, results[i].TooLarge = nil, true
		}
	}
	return results, nil
}

// toolResult returns the result of one tool, from the present shard of its job.
func (q *request) toolResult(ctx context.Context, c *job.ToolCall) (api.ToolResult, error) {
	id, err := job.IDFromBytes(c.GetJobId())
	if err != nil {
		return api.ToolResult{}, err
	}
	at, err := q.shards.OfJob(id)
	if err != nil {
		return api.ToolResult{}, err
	}
	j, err := at.State().Job(id)
	if err == nil && !j.GetState().Settled() && !at.Leader() {
		// This node may not know yet that the tool's job settled, although the waiting job became ready.
		if err := at.Verify(ctx); err != nil {
			return api.ToolResult{}, again(err)
		}
		j, err = at.State().Job(id)
	}
	if err != nil {
		return api.ToolResult{}, err
	}
	return outcomeOf(at.State(), id, c, j)
}

// outcomeOf reads the result of a tool.
func outcomeOf(from state.Reader, id job.ID, c *job.ToolCall, j *job.Job) (api.ToolResult, error) {
	var errs []*job.AttemptError
	if j.GetErrors() > 0 {
		var err error
		if errs, err = from.Errors(id); err != nil {
			return api.ToolResult{}, err
		}
	}
	r := convert.ToToolResult(c, j, errs)
	if j.GetState() != job.Completed || j.GetBlobs()&(1<<job.Result) == 0 {
		return r, nil
	}
	b, err := from.Blob(id, job.Result)
	switch {
	case err != nil:
		return r, err
	case b.GetKeyId() != "":
		return r, fmt.Errorf("the result of %s is sealed with key %q, which this node does not have", id, b.KeyId)
	}
	r.Result = b.GetData()
	return r, nil
}
