package client

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// Job is a job that a handler runs. The next heartbeat sends progress, checkpoint and usage. If the attempt
// ends sooner, its end sends checkpoint and usage, and the progress may be lost. The other values are sent
// with the ack, after the handler has returned nil. A value that cannot be encoded as JSON fails the attempt.
// The goroutines of a handler may use its Job concurrently.
type Job struct {
	api.FetchedJob

	run    *run
	ctx    context.Context
	cancel context.CancelCauseFunc

	// reporting is held during each call to the server about the job, because the server recognises a
	// repeated report of usage only if no other report came in between.
	reporting chan struct{}
	settled   chan struct{} // closed after the last call about the job

	mu      sync.Mutex
	until   time.Time // end of the lease, unless a heartbeat renews it
	expiry  *time.Timer
	slot    bool // it holds one of the slots of the run
	lost    bool // the lease is over, or another attempt of the job has started
	taken   bool // settling has started
	over    bool // it has cost more than its budgets allow
	fault   error
	outcome api.AckRequest // without the values in report
	report  report         // not sent yet
}

// report is the part of a heartbeat about one job.
type report struct {
	progress, checkpoint json.RawMessage
	usage                []api.ReportedUsage // a heartbeat sends the first one
	// id is the report id of the heartbeat that may have delivered the first usage; "" if none has. Only a
	// heartbeat with this id can repeat that usage, because under another id the server would count it again.
	id string
}

func (r report) empty() bool { return r.progress == nil && r.checkpoint == nil && len(r.usage) == 0 }

// size returns the length of its JSON documents.
func (r report) size() int { return len(r.progress) + len(r.checkpoint) }

// Decode decodes the payload.
func (j *Job) Decode(payload any) error {
	if err := json.Unmarshal(j.Payload, payload); err != nil {
		return fmt.Errorf("payload of job %s: %w", j.JobID, err)
	}
	return nil
}

// Resume decodes the checkpoint that the attempt starts with, such as one that an earlier attempt saved. It
// returns false if there is none.
func (j *Job) Resume(checkpoint any) (bool, error) {
	if len(j.Checkpoint) == 0 || string(j.Checkpoint) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(j.Checkpoint, checkpoint); err != nil {
		return false, fmt.Errorf("checkpoint of job %s: %w", j.JobID, err)
	}
	return true, nil
}

// set encodes a value and stores it with put.
func (j *Job) set(name string, value any, put func(json.RawMessage)) {
	text, err := json.Marshal(value)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		put(text)
	} else if j.fault == nil {
		j.fault = fmt.Errorf("%s of job %s: %w", name, j.JobID, err)
	}
}

// SetResult sets the result of the job.
func (j *Job) SetResult(result any) {
	j.set("result", result, func(text json.RawMessage) { j.outcome.Result = text })
}

// SetCheckpoint sets the state from which the next attempt can continue. The next heartbeat saves it, or the end
// of the attempt if that is sooner. Save saves it at once.
func (j *Job) SetCheckpoint(checkpoint any) {
	j.set("checkpoint", checkpoint, func(text json.RawMessage) { j.report.checkpoint = text })
}

// SetProgress sets the progress that people see.
func (j *Job) SetProgress(progress any) {
	j.set("progress", progress, func(text json.RawMessage) { j.report.progress = text })
}

// SetTrace sets a JSON document that is stored with the present iteration of an agent's job.
func (j *Job) SetTrace(trace any) {
	j.set("trace", trace, func(text json.RawMessage) { j.outcome.Trace = text })
}

// AddUsage reports the usage of one call of a model. The reports of a job are summed.
func (j *Job) AddUsage(u api.ReportedUsage) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.report.usage)
	delivered := n == 1 && j.report.id != "" // perhaps, and then the repeat must be the same
	if n > 0 && !delivered && merge(&j.report.usage[n-1], u) {
		return
	}
	j.report.usage = append(j.report.usage, u)
}

// merge adds u to sum if one report can stand for both.
func merge(sum *api.ReportedUsage, u api.ReportedUsage) bool {
	if sum.Model != u.Model || sum.Provider != u.Provider || (sum.CostUSD == nil) != (u.CostUSD == nil) {
		return false
	}
	if !withinLimits(*sum) || !withinLimits(u) {
		return false // the report beyond the limits is set aside, and the other must count
	}
	both := *sum
	if u.CostUSD != nil {
		both.CostUSD = new(*sum.CostUSD + *u.CostUSD)
	}
	both.InputTokens += u.InputTokens
	both.OutputTokens += u.OutputTokens
	both.CacheCreationTokens += u.CacheCreationTokens
	both.CacheReadTokens += u.CacheReadTokens
	if !withinLimits(both) {
		return false
	}
	*sum = both
	return true
}

// withinLimits reports whether a report is within the limits of one report. They are so low that the sum
// of two such reports cannot overflow.
func withinLimits(u api.ReportedUsage) bool {
	if u.CostUSD != nil && (*u.CostUSD < 0 || money.Nano(*u.CostUSD) > billing.MaxReportCost) {
		return false
	}
	left := money.ReportedCount(billing.MaxReportTokens)
	for _, n := range [...]money.ReportedCount{u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens} {
		if n < 0 || n > left {
			return false
		}
		left -= n
	}
	return true
}

// Save sends the progress, checkpoint and usage that were set, and returns when the server has stored them,
// so that a crash of the worker loses none of them. It returns ErrCancelled if the server says to stop. If a
// value is faulty or refused, Save returns the reason, and the attempt fails.
func (j *Job) Save(ctx context.Context) error {
	if err := j.acquire(ctx); err != nil {
		return err
	}
	defer j.release()
	j.mu.Lock()
	fault := j.fault
	j.mu.Unlock()
	if fault != nil {
		return fault
	}
	return j.run.flush(ctx, j)
}

// Continue makes an agent's job continue: when the handler returns nil, the job's next iteration starts once
// the jobs of calls have settled.
func (j *Job) Continue(calls ...api.ToolCall) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.AgentStatus, j.outcome.HoldReason, j.outcome.ToolCalls = api.AgentContinue, "", calls
}

// Hold makes the server hold the job when the handler returns nil, until a person approves or rejects it.
// reason has at most 1 KiB. Of several calls of Continue and Hold the last one counts.
func (j *Job) Hold(reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.AgentStatus, j.outcome.HoldReason, j.outcome.ToolCalls = api.AgentHold, reason, nil
}

// ExitChain skips the remaining steps of the chain if the handler returns nil.
func (j *Job) ExitChain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.StepStatus = "exit"
}

// BudgetExceeded reports whether the last heartbeat found that the job has cost more than its budgets or its
// agent's max_cost_usd allow. The handler should then finish.
func (j *Job) BudgetExceeded() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// Draining returns a channel that is closed when the worker starts to drain. A handler with much work
// left may set a checkpoint and return ErrShutdown, instead of running until its context ends.
func (j *Job) Draining() <-chan struct{} { return j.run.draining }

// acquire waits until no other call about the job is under way.
func (j *Job) acquire(ctx context.Context) error {
	select {
	case j.reporting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryAcquire is acquire without waiting.
func (j *Job) tryAcquire() bool {
	select {
	case j.reporting <- struct{}{}:
		return true
	default:
		return false
	}
}

func (j *Job) release() { <-j.reporting }

// takeSlot takes the slot of the job, and reports whether it had one.
func (j *Job) takeSlot() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	had := j.slot
	j.slot = false
	return had
}

// startSettling reports whether the caller is the first to settle the job.
func (j *Job) startSettling() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.taken
	j.taken = true
	return first
}

// lose ends the context of the handler, because the job is no longer leased to the worker.
func (j *Job) lose() {
	j.mu.Lock()
	j.lost = true
	j.mu.Unlock()
	j.cancel(ErrLeaseLost)
}

// isLost reports whether the lease is over.
func (j *Job) isLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// leaseEnd returns the end of the lease as the worker knows it.
func (j *Job) leaseEnd() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.until
}

// renewed extends the lease to until, unless it is over or already longer, and stores whether the job is over
// its budgets.
func (j *Job) renewed(until time.Time, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = over
	if until.After(j.until) && !j.lost {
		j.until = until
		j.expiry.Reset(time.Until(until))
	}
}

// takeReport removes and returns the values to send, with at most one report of usage.
func (j *Job) takeReport() report {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.report
	j.report = report{}
	if len(now.usage) > 1 {
		j.report.usage = append(j.report.usage, now.usage[1:]...)
		now.usage = now.usage[:1]
	}
	return now
}

// restoreReport puts back a report that may not have reached the server. Newer progress and a newer
// checkpoint win. Usage keeps its report id.
func (j *Job) restoreReport(r report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.report.progress == nil {
		j.report.progress = r.progress
	}
	if j.report.checkpoint == nil {
		j.report.checkpoint = r.checkpoint
	}
	j.report.usage = append(r.usage, j.report.usage...)
	j.report.id = r.id
}
