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

// Job is a job that a handler does. What is set of it goes to the server with the next
// heartbeat or with the job's end, whichever comes first; a value that is no JSON fails
// the attempt. It is safe for the goroutines of its handler.
type Job struct {
	api.FetchedJob

	run    *run
	ctx    context.Context
	cancel context.CancelCauseFunc

	// speaks is taken while the server is told of the job: it hears of one thing after
	// another, or it could not tell a repeat from a new report of usage.
	speaks  chan struct{}
	settled chan struct{} // closed when nothing more will be said of the job

	mu      sync.Mutex
	until   time.Time // when the lease ends, if no heartbeat renews it
	expiry  *time.Timer
	slot    bool // it has one of the run's
	lost    bool // the lease is over, or another attempt of the job has come
	taken   bool // its end is being told
	over    bool // it has cost more than its budgets have room for
	fault   error
	outcome api.AckRequest // but for what is reported
	report  report         // not told yet
}

// report is what a heartbeat tells of a job.
type report struct {
	progress, checkpoint json.RawMessage
	usage                []api.ReportedUsage // a heartbeat tells the first one
}

func (r report) empty() bool { return r.progress == nil && r.checkpoint == nil && len(r.usage) == 0 }

// size is the length of its documents.
func (r report) size() int { return len(r.progress) + len(r.checkpoint) }

// Decode reads the payload.
func (j *Job) Decode(payload any) error {
	if err := json.Unmarshal(j.Payload, payload); err != nil {
		return fmt.Errorf("payload of job %s: %w", j.JobID, err)
	}
	return nil
}

// Resume reads the checkpoint that an earlier attempt left; false where there is none.
func (j *Job) Resume(checkpoint any) (bool, error) {
	if len(j.Checkpoint) == 0 || string(j.Checkpoint) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(j.Checkpoint, checkpoint); err != nil {
		return false, fmt.Errorf("checkpoint of job %s: %w", j.JobID, err)
	}
	return true, nil
}

// set encodes a value and hands it to the job's fields.
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

// SetResult says what the job has come to.
func (j *Job) SetResult(result any) {
	j.set("result", result, func(text json.RawMessage) { j.outcome.Result = text })
}

// SetCheckpoint says where another attempt is to go on. It is saved within seconds, and
// before the attempt ends, however it does; Save has it saved now.
func (j *Job) SetCheckpoint(checkpoint any) {
	j.set("checkpoint", checkpoint, func(text json.RawMessage) { j.report.checkpoint = text })
}

// SetProgress shows people how far the job is.
func (j *Job) SetProgress(progress any) {
	j.set("progress", progress, func(text json.RawMessage) { j.report.progress = text })
}

// SetTrace keeps a document with the iteration of an agent's job that ends.
func (j *Job) SetTrace(trace any) {
	j.set("trace", trace, func(text json.RawMessage) { j.outcome.Trace = text })
}

// AddUsage reports what a call of a model used. All reports of a job are summed.
func (j *Job) AddUsage(u api.ReportedUsage) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.report.usage); n > 0 && merge(&j.report.usage[n-1], u) {
		return
	}
	j.report.usage = append(j.report.usage, u)
}

// merge adds u to sum, where one report says as much as both.
func merge(sum *api.ReportedUsage, u api.ReportedUsage) bool {
	if sum.Model != u.Model || sum.Provider != u.Provider || (sum.CostUSD == nil) != (u.CostUSD == nil) {
		return false
	}
	if !withinLimits(*sum) || !withinLimits(u) {
		return false // one of them is kept aside, and the other must not be because of it
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

// withinLimits says whether a report is within what one report may say. The limits are far below
// what the sum of two such reports would overflow at.
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

// Save sends what has been set, and returns when the server has it: a worker that
// crashes from then on loses nothing of it.
func (j *Job) Save(ctx context.Context) error {
	if err := j.take(ctx); err != nil {
		return err
	}
	defer j.leave()
	j.mu.Lock()
	fault := j.fault
	j.mu.Unlock()
	if fault != nil {
		return fault
	}
	return j.run.flush(ctx, j)
}

// Continue says that an agent's job goes on: when the handler returns nil its next
// iteration is due, once the jobs of the calls have settled.
func (j *Job) Continue(calls ...api.ToolCall) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.AgentStatus, j.outcome.HoldReason, j.outcome.ToolCalls = api.AgentContinue, "", calls
}

// Hold says that a person decides whether the job goes on, when the handler returns nil.
func (j *Job) Hold(reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.AgentStatus, j.outcome.HoldReason, j.outcome.ToolCalls = api.AgentHold, reason, nil
}

// ExitChain says that no more steps of the job's chain follow, when the handler returns nil.
func (j *Job) ExitChain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome.StepStatus = "exit"
}

// BudgetExceeded says whether the job has cost more than its budgets have room for: its
// handler should come to an end.
func (j *Job) BudgetExceeded() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// Draining is closed when the worker is about to stop: a handler that would take long
// may set a checkpoint and return ErrShutdown, rather than run until its context ends.
func (j *Job) Draining() <-chan struct{} { return j.run.draining }

// take waits until nothing else is being said of the job.
func (j *Job) take(ctx context.Context) error {
	select {
	case j.speaks <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryTake is take without waiting.
func (j *Job) tryTake() bool {
	select {
	case j.speaks <- struct{}{}:
		return true
	default:
		return false
	}
}

func (j *Job) leave() { <-j.speaks }

// giveSlot says whether the caller has the job's slot from now on.
func (j *Job) giveSlot() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	had := j.slot
	j.slot = false
	return had
}

// claim says whether the caller is the one to tell the job's end.
func (j *Job) claim() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.taken
	j.taken = true
	return first
}

// lose ends the handler's context: the job is not the worker's any more.
func (j *Job) lose() {
	j.mu.Lock()
	j.lost = true
	j.mu.Unlock()
	j.cancel(ErrLeaseLost)
}

// isLost says whether the lease is over.
func (j *Job) isLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// leaseEnd is when the lease ends, as far as is known here.
func (j *Job) leaseEnd() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.until
}

// renewed puts the end of the lease off.
func (j *Job) renewed(until time.Time, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = over
	if until.After(j.until) && !j.lost {
		j.until = until
		j.expiry.Reset(time.Until(until))
	}
}

// told takes what is to be told now out of the job's report: one report of usage.
func (j *Job) told() report {
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

// untold puts back what the server did not take, unless there is newer already.
func (j *Job) untold(r report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.report.progress == nil {
		j.report.progress = r.progress
	}
	if j.report.checkpoint == nil {
		j.report.checkpoint = r.checkpoint
	}
	j.report.usage = append(r.usage, j.report.usage...)
}
