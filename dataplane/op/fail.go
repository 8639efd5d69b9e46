package op

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Fail ends attempts without success, each item on its own. A failed attempt is retried after its backoff
// while attempts are left, else the job is dead. An undelivered attempt is undone: the job is pending again
// at its old place, and only rate limits still count the fetch. An attempt whose worker shuts down is undone
// too, but its reports and its duration count. A job with a pending cancellation is cancelled, however its
// attempt ended. An item is refused
//   - with NOT_FOUND if the job is not on this shard,
//   - with LEASE_LOST if the item names a lease that is over, or names none after a lease of the job has
//     expired,
//   - with STATE_CONFLICT if the item names no lease and the job is not active,
//   - with OVERLOADED if the item does not undo the attempt, the entry is full and the job belongs to a batch
//     or a chain.
//
// A repeat, recognised by its request id (meta.request_id) and its token, does not end another attempt. Until
// the job is fetched again, retried or requeued, the repeat gets the first answer, or the outcome if the job
// has settled since. After that it is refused with LEASE_LOST.

// Validate refuses an op that no state could accept.
func (o *Fail) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("items", len(o.Items), job.MaxAckItems)
	if len(o.Items) <= job.MaxAckItems {
		for i, item := range o.Items {
			item.check(&p, i)
		}
	}
	p.whole(o)
	return p.err()
}

func (i *FailItem) check(p *problems, at int) {
	i.GetProof().check(p, at)
	p.size("items", at, "error", len(i.GetError()), job.MaxErrorText)
	p.item("items", at, "error", job.CheckUTF8(i.GetError()))
	p.size("items", at, "backtrace", len(i.GetBacktrace()), job.MaxBacktrace)
	p.item("items", at, "backtrace", job.CheckUTF8(i.GetBacktrace()))
	p.item("items", at, "usage", job.CheckUsage(i.GetUsage())...)
	switch i.GetReason() {
	case FailReason_FAIL_REASON_FAILED, FailReason_FAIL_REASON_SHUTDOWN:
	case FailReason_FAIL_REASON_UNDELIVERED:
		if i.Error != "" || i.Backtrace != "" || i.Usage != nil {
			p.item("items", at, "reason", errors.New("is undelivered, which has no error and no usage"))
		}
	default:
		p.item("items", at, "reason", fmt.Errorf("%d is unknown", i.Reason))
	}
}

func (o *Fail) Apply(tx *state.Tx) (*FailResult, error) {
	result := &FailResult{Items: make([]*Failed, len(o.Items))}
	for i, item := range o.Items {
		answer, err := item.apply(tx, o.GetMeta().GetRequestId())
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		result.Items[i] = answer
	}
	return result, nil
}

// didNothing reports whether every item was refused with OVERLOADED, so that the client must send them again.
// Such an answer is not remembered under an idempotency key.
func (r *FailResult) didNothing() bool {
	for _, item := range r.Items {
		if api.Code(item.GetRefusal().GetCode()) != api.Overloaded {
			return false
		}
	}
	return true
}

// repeats reports whether a repeat of the op can be recognised, because the op has a request id and each item
// a token. Without them, a repeated item could end a later attempt of its job.
func (o *Fail) repeats() bool {
	for _, item := range o.Items {
		if len(item.GetProof().GetToken()) == 0 {
			return false
		}
	}
	return len(o.GetMeta().GetRequestId()) > 0
}

func (i *FailItem) apply(tx *state.Tx, request []byte) (*Failed, error) {
	j, refused, err := i.GetProof().job(tx)
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return &Failed{Refusal: refused}, nil
	}
	if i.repeated(j, request) {
		return i.answer(j, i.Usage.Fault()), nil
	}
	switch i.GetReason() {
	case FailReason_FAIL_REASON_UNDELIVERED:
		return i.giveBack(tx, j, request)
	case FailReason_FAIL_REASON_SHUTDOWN:
		if j.Cancelling { // the worker ran it, so its last attempt is kept
			return i.fail(tx, j, request)
		}
		return i.giveBack(tx, j, request)
	case FailReason_FAIL_REASON_FAILED:
		return i.fail(tx, j, request)
	default:
		return nil, fmt.Errorf("job %s failed for reason %d, which this binary does not know", job.ID(j.Id), i.Reason)
	}
}

// repeated reports whether this same request has already ended j's last attempt.
func (i *FailItem) repeated(j *job.Job, request []byte) bool {
	token := i.GetProof().GetToken()
	return len(request) > 0 && len(token) > 0 && j.State != job.Active &&
		bytes.Equal(j.Lease.GetLastRequest(), request) && bytes.Equal(j.Lease.GetToken(), token)
}

// answer describes the job after the item has ended its attempt. rejected is the reason why the item's usage
// report was rejected, empty if it was not.
func (i *FailItem) answer(j *job.Job, rejected string) *Failed {
	answer := &Failed{Refusal: &Refusal{UsageRejected: rejected}, State: job.Retrying, Attempt: j.Attempt, AttemptsRemaining: attemptsLeft(j)}
	switch {
	case j.State == job.Cancelled:
		answer.State, answer.AttemptsRemaining = job.Cancelled, 0
	case i.GetReason() == FailReason_FAIL_REASON_UNDELIVERED:
		answer.State = job.Pending
	case j.State == job.Dead:
		answer.State = job.Dead
	default: // also if its next attempt is due at once
		answer.NextAttemptNs = j.ScheduledNs
	}
	return answer
}

func (i *FailItem) fail(tx *state.Tx, j *job.Job, request []byte) (*Failed, error) {
	if _, refused := i.GetProof().transition(j, job.OnRetry); refused != nil {
		return &Failed{Refusal: refused}, nil
	}
	if refused := crowded(tx, j); refused != nil {
		return &Failed{Refusal: refused}, nil
	}
	usage := rate(tx, j, i.Usage)
	if err := report(tx, j, usage, state.UsagePhase_USAGE_PHASE_FAIL); err != nil {
		return nil, err
	}
	if j.Lease != nil {
		j.Lease.LastRequest = request
	}
	if err := endAttempt(tx, j, failed, &job.AttemptError{Error: i.Error, Backtrace: i.Backtrace}); err != nil {
		return nil, err
	}
	return i.answer(j, usage.rejected()), nil
}

// giveBack undoes the fetch, except for the attempt's reports and its counts towards the rate limits of the
// queue, the fairness key and the provider. The job's number, and so its place among its queue's jobs, never
// changed. giveBack keeps only the part of the lease that identifies a repeat.
func (i *FailItem) giveBack(tx *state.Tx, j *job.Job, request []byte) (*Failed, error) {
	to, refused := i.GetProof().transition(j, job.OnReturn)
	if refused != nil {
		return &Failed{Refusal: refused}, nil
	}
	if attemptsMade(j) == 0 {
		return nil, fmt.Errorf("job %s is %s without an attempt", job.ID(j.Id), j.State.Word())
	}
	usage := rate(tx, j, i.Usage)
	if err := report(tx, j, usage, state.UsagePhase_USAGE_PHASE_FAIL); err != nil {
		return nil, err
	}
	if i.Reason == FailReason_FAIL_REASON_UNDELIVERED {
		tx.EndService(j, false)
		tx.SetUndelivered(j)
	}
	if err := releaseReservation(tx, j); err != nil {
		return nil, err
	}
	j.Attempt--
	j.Lease = remains(j.Lease, request)
	if j.Attempt == 0 {
		j.StartedNs = 0
	}
	if j.Cancelling {
		err := cancelled(tx, j, state.EventType_EVENT_RETURNED)
		return i.answer(j, usage.rejected()), err
	}
	j.State = to
	if i.Reason == FailReason_FAIL_REASON_SHUTDOWN {
		j.ScheduledNs = tx.ClockNs() // the due time in the answer to the worker
	}
	return i.answer(j, usage.rejected()), tx.PutJob(j, state.EventType_EVENT_RETURNED)
}

// remains returns the part of a returned lease that is kept, or nil if the request has no id.
func remains(l *job.Lease, request []byte) *job.Lease {
	if len(request) == 0 {
		return nil
	}
	return &job.Lease{Token: l.GetToken(), LastRequest: request}
}
