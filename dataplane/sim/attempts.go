package sim

import (
	"bytes"
	"math/big"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// delayMs returns the wait after a job's attempt, by the documented formulas.
func delayMs(r *job.Retry, attempt uint32) int64 {
	base, n := big.NewInt(r.GetBaseDelayMs()), big.NewInt(int64(attempt))
	d := new(big.Int)
	switch r.GetBackoff() {
	case job.BackoffNone:
	case job.BackoffFixed:
		d.Set(base)
	case job.BackoffLinear:
		d.Mul(base, n)
	case job.BackoffExponential:
		d.Lsh(base, uint(attempt-1))
	}
	if limit := big.NewInt(r.GetMaxDelayMs()); d.Cmp(limit) > 0 {
		d = limit
	}
	return d.Int64()
}

// backoffNs returns the wait after a job's last attempt failed.
func (j *modelJob) backoffNs() int64 {
	made := j.attempt - j.base
	if j.retry.GetJitterPercent() > 0 {
		return j.retry.VariedDelayMs(j.id, made) * 1e6
	}
	return delayMs(j.retry, made) * 1e6
}

// lose ends an active job's attempt without success. The next attempt may begin after waitNs.
func (m *model) lose(j *modelJob, why string, waitNs int64) {
	j.keepError()
	if j.cancelling {
		m.settle(j, job.Cancelled, ending{})
		return
	}
	m.queue(j.queue).failed++
	m.giveUp(j, true, false)
	if j.attempt-j.base >= j.retry.GetMaxAttempts() {
		m.settle(j, job.Dead, ending{err: why})
		return
	}
	j.state, j.dueNs = job.Retrying, m.clockNs+waitNs
	if waitNs == 0 {
		j.state = job.Pending
	}
	m.put(j)
}

// giveBack ends an active job's attempt and does not count it.
func (m *model) giveBack(j *modelJob, delivered bool) {
	m.giveUp(j, delivered, false)
	j.attempt--
	if j.cancelling {
		m.settle(j, job.Cancelled, ending{})
		return
	}
	j.state = job.Pending
	m.put(j)
}

func (m *model) fail(o *op.Fail) outcome {
	result := &op.FailResult{}
	request := string(o.GetMeta().GetRequestId())
	for _, item := range o.GetItems() {
		proof, reason := item.GetProof(), item.GetReason()
		j := m.jobs[job.ID(proof.GetId())]
		again := j != nil && j.state != job.Active && request != "" && j.endedBy == request &&
			len(proof.GetToken()) > 0 && bytes.Equal(proof.GetToken(), j.token)
		rejected := faultOf(item.GetUsage())
		if !again {
			var code api.Code
			if j, code = m.holds(proof); code != "" {
				result.Items = append(result.Items, &op.Failed{Refusal: refusal(code)})
				continue
			}
			rejected = m.report(j, item.GetUsage(), state.UsagePhase_USAGE_PHASE_FAIL)
			j.endedBy = request
			switch {
			case reason == op.FailReason_FAIL_REASON_UNDELIVERED, reason == op.FailReason_FAIL_REASON_SHUTDOWN && !j.cancelling:
				m.giveBack(j, reason != op.FailReason_FAIL_REASON_UNDELIVERED)
			default:
				m.lose(j, item.GetError(), j.backoffNs())
			}
			if reason == op.FailReason_FAIL_REASON_SHUTDOWN && j.state == job.Pending {
				j.dueNs = m.clockNs
			}
		}
		answer := j.failed(reason)
		if rejected != "" {
			answer.Refusal = doneWith(rejected)
		}
		result.Items = append(result.Items, answer)
	}
	return outcome{result: result}
}

// failed returns the answer to a worker that ends an attempt. A repeat gets the same answer, unless the job
// has changed since.
func (j *modelJob) failed(reason op.FailReason) *op.Failed {
	left := j.retry.GetMaxAttempts() - min(j.attempt-j.base, j.retry.GetMaxAttempts())
	switch {
	case j.state == job.Cancelled:
		return &op.Failed{State: job.Cancelled, Attempt: j.attempt}
	case reason == op.FailReason_FAIL_REASON_UNDELIVERED:
		return &op.Failed{State: job.Pending, Attempt: j.attempt, AttemptsRemaining: left}
	case j.state == job.Dead:
		return &op.Failed{State: job.Dead, Attempt: j.attempt, AttemptsRemaining: left}
	}
	return &op.Failed{State: job.Retrying, Attempt: j.attempt, NextAttemptNs: j.dueNs, AttemptsRemaining: left}
}

func (m *model) heartbeat(o *op.Heartbeat) outcome {
	result := &op.HeartbeatResult{}
	request := string(o.GetMeta().GetRequestId())
	for i, item := range o.GetItems() {
		j, code := m.holds(item.GetProof())
		if code == api.StateConflict {
			code = api.LeaseLost // a heartbeat learns only that it must stop, whatever the job's state
		}
		rejected := ""
		if code == "" {
			rejected = faultOf(item.GetUsage())
			length := j.leaseMs
			if item.GetLeaseMs() > 0 {
				length = item.GetLeaseMs()
			}
			j.leaseEndNs = j.agent.untilNs(m.clockNs + length*1e6)
			if item.GetCheckpoint() != nil {
				j.agent.leave(item.GetCheckpoint())
			}
			reports := item.GetUsage() != nil && (request == "" || request != j.reported)
			if reports {
				rejected = m.report(j, item.GetUsage(), state.UsagePhase_USAGE_PHASE_HEARTBEAT)
				if request != "" {
					j.reported = request
				}
			}
			short := m.topUp(j)
			if short && reports {
				m.noticed[notice{state.EventType_EVENT_BUDGET_EXCEEDED, j.id}]++
			}
			if j.cancelling {
				result.Cancel = append(result.Cancel, uint32(i))
			}
			if short || j.overBudget() {
				result.OverBudget = append(result.OverBudget, uint32(i))
			}
		}
		answer := refusal(code)
		if code == "" {
			answer = doneWith(rejected)
		}
		result.Items = append(result.Items, answer)
	}
	return outcome{result: result}
}
