package sim

import (
	"bytes"
	"math/big"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// delayMs is the wait after a job's attempt, by the documented formulas.
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

// lose ends an active job's attempt as a failure.
func (m *model) lose(j *modelJob) *op.Failed {
	j.errors++
	m.queue(j.queue).failed++
	if j.attempt >= j.retry.GetMaxAttempts() {
		j.state = job.Dead
		m.queue(j.queue).buried++
		return &op.Failed{State: job.Dead, Attempt: j.attempt}
	}
	delayNs := delayMs(j.retry, j.attempt) * 1e6
	j.state, j.dueNs = job.Retrying, m.clockNs+delayNs
	if delayNs == 0 {
		j.state = job.Pending
	}
	return &op.Failed{State: job.Retrying, Attempt: j.attempt, NextAttemptNs: j.dueNs, AttemptsRemaining: j.retry.GetMaxAttempts() - j.attempt}
}

func (m *model) fail(o *op.Fail) outcome {
	result := &op.FailResult{}
	request := string(o.GetMeta().GetRequestId())
	for _, item := range o.GetItems() {
		proof := item.GetProof()
		if j := m.jobs[job.ID(proof.GetId())]; j != nil && j.state != job.Active && request != "" &&
			j.endedBy == request && len(proof.GetToken()) > 0 && bytes.Equal(proof.GetToken(), j.token) {
			result.Items = append(result.Items, proto.Clone(j.ended).(*op.Failed))
			continue
		}
		j, code := m.holds(proof)
		var answer *op.Failed
		switch {
		case code != "":
			result.Items = append(result.Items, &op.Failed{Refusal: refusal(code)})
			continue
		case item.GetReason() == op.FailReason_FAIL_REASON_UNDELIVERED:
			j.state = job.Pending
			j.attempt--
			answer = &op.Failed{State: job.Pending, Attempt: j.attempt, AttemptsRemaining: j.retry.GetMaxAttempts() - j.attempt}
		default:
			m.report(j, item.GetUsage())
			answer = m.lose(j)
		}
		j.endedBy, j.ended = request, answer
		result.Items = append(result.Items, proto.Clone(answer).(*op.Failed))
	}
	return outcome{result: result}
}

func (m *model) heartbeat(o *op.Heartbeat) outcome {
	result := &op.HeartbeatResult{}
	request := string(o.GetMeta().GetRequestId())
	for _, item := range o.GetItems() {
		j, code := m.holds(item.GetProof())
		if code == api.StateConflict {
			code = api.LeaseLost // a heartbeat is told to stop, whatever became of the job
		}
		if code == "" {
			length := j.leaseMs
			if item.GetLeaseMs() > 0 {
				length = item.GetLeaseMs()
			}
			j.leaseEndNs = m.clockNs + length*1e6
			if again := request != "" && request == j.reported; item.GetUsage() != nil && !again {
				m.report(j, item.GetUsage())
				if request != "" {
					j.reported = request
				}
			}
		}
		result.Items = append(result.Items, refusal(code))
	}
	return outcome{result: result}
}
