package sim

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// each applies an op to its jobs, one after the other.
func (m *model) each(ids [][]byte, do func(j *modelJob) (*op.JobDone, api.Code)) outcome {
	result := &op.JobsResult{}
	for _, b := range ids {
		var done *op.JobDone
		code := api.NotFound
		if j := m.jobs[job.ID(b)]; j != nil {
			done, code = do(j)
		}
		if code != "" {
			done = &op.JobDone{Refusal: refusal(code)}
		}
		result.Items = append(result.Items, done)
	}
	return outcome{result: result}
}

func (m *model) cancelJobs(o *op.CancelJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		switch j.state {
		case job.Completed, job.Dead:
			return nil, api.StateConflict
		case job.Cancelled:
		case job.Active:
			j.cancelling = true
			return &op.JobDone{State: job.Active, Pending: true}, ""
		default:
			m.settle(j, job.Cancelled, ending{})
		}
		return &op.JobDone{State: job.Cancelled}, ""
	})
}

func (m *model) retryJobs(o *op.RetryJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		if j.live() || o.GetRequeue() && j.state != job.Dead {
			return nil, api.StateConflict
		}
		if j.uniqueEndNs <= m.clockNs {
			j.uniqueEndNs = 0
		} else if h := m.holder(j.queue, j.unique); h != nil && h != j {
			if h.uniqueEndNs > m.clockNs {
				return nil, api.Conflict
			}
			h.uniqueEndNs = 0 // its period is over
		}
		if o.GetRequeue() {
			j.attempt = max(j.attempt, j.lastError())
			j.base = j.attempt
		} else {
			j.attempt, j.base, j.errors = 0, 0, nil
			j.startOver()
		}
		j.state, j.dueNs, j.settledNs, j.blocked, j.endedBy = job.Pending, m.clockNs, 0, 0, ""
		if j.endNs = 0; j.lifeMs > 0 {
			j.endNs = m.clockNs + j.lifeMs*1e6
		}
		m.put(j)
		return &op.JobDone{State: job.Pending}, ""
	})
}

// lastError returns the latest attempt whose error is kept, or 0.
func (j *modelJob) lastError() (last uint32) {
	for attempt := range j.errors {
		last = max(last, attempt)
	}
	return last
}

func (m *model) holdJobs(o *op.HoldJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		if !j.live() || j.state == job.Active || j.state == job.Held {
			return nil, api.StateConflict
		}
		m.keep(j, job.Hold_HOLD_REQUEST, "")
		return &op.JobDone{State: job.Held}, ""
	})
}

func (m *model) releaseJobs(o *op.ReleaseJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		return m.release(j, o.GetChanges())
	})
}

func (m *model) rejectJobs(o *op.RejectJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		if j.state != job.Held {
			return nil, api.StateConflict
		}
		why := o.GetReason()
		if why == "" {
			why = "rejected"
		}
		m.bury(j, why)
		return &op.JobDone{State: job.Dead}, ""
	})
}

func (m *model) deleteJobs(o *op.DeleteJobs) outcome {
	return m.each(o.GetJobIds(), func(j *modelJob) (*op.JobDone, api.Code) {
		if m.discard(j) {
			return &op.JobDone{}, ""
		}
		return &op.JobDone{State: job.Active, Pending: true}, ""
	})
}

func (m *model) expireJobs(o *op.ExpireJobs) outcome {
	result := &op.ExpireJobsResult{}
	for _, b := range o.GetJobIds() {
		if j := m.jobs[job.ID(b)]; j != nil && j.over(m.clockNs) {
			m.expireJob(j)
			result.Expired++
		}
	}
	return outcome{result: result}
}

// holder returns the job that holds a unique key of a queue, or nil. The key's period may be over.
func (m *model) holder(queue, key string) *modelJob {
	for _, j := range m.jobs {
		if j.queue == queue && j.unique == key && j.uniqueEndNs > 0 && (j.uniqueWhole || j.live()) {
			return j
		}
	}
	return nil
}

// debounced returns the job that holds a debounce key of a queue, or nil.
func (m *model) debounced(queue, key string) *modelJob {
	for _, j := range m.jobs {
		if j.queue == queue && j.debounce == key && j.state == job.Scheduled {
			return j
		}
	}
	return nil
}

func (m *model) releaseUnique(o *op.ReleaseUnique) outcome {
	result := &op.ReleaseUniqueResult{}
	for _, b := range o.GetJobIds() {
		if j := m.jobs[job.ID(b)]; j != nil && j.uniqueEndNs > 0 && j.uniqueEndNs <= m.clockNs && m.holder(j.queue, j.unique) == j {
			j.uniqueEndNs = 0
			result.Released++
		}
	}
	return outcome{result: result}
}

func (m *model) purgeJobs(o *op.PurgeJobs) outcome {
	result := &op.PurgeJobsResult{}
	for _, b := range o.GetJobIds() {
		if j := m.jobs[job.ID(b)]; j != nil && m.retentionOver(j) {
			m.remove(j)
			result.Purged++
		}
	}
	return outcome{result: result}
}

func (w *workload) byHand(n int, ok func(*modelJob) bool) [][]byte {
	return idBytes(w.some(1+w.rng.IntN(n), func(j *modelJob) bool { return ok(j) || w.chance(15) }))
}

func waits(j *modelJob) bool   { return j.state.Waits() }
func settled(j *modelJob) bool { return !j.live() }
func isHeld(j *modelJob) bool  { return j.state == job.Held }

func (w *workload) cancelJobs() op.Op {
	return &op.CancelJobs{Meta: w.meta(), JobIds: w.byHand(3, (*modelJob).live)}
}

func (w *workload) retryJobs() op.Op {
	return &op.RetryJobs{Meta: w.meta(), Requeue: w.chance(2), JobIds: w.byHand(3, settled)}
}

func (w *workload) holdJobs() op.Op {
	return &op.HoldJobs{Meta: w.meta(), Reason: "look at it", JobIds: w.byHand(3, waits)}
}

func (w *workload) rejectJobs() op.Op {
	return &op.RejectJobs{Meta: w.meta(), Reason: "no", JobIds: w.byHand(2, isHeld)}
}

func (w *workload) deleteJobs() op.Op {
	return &op.DeleteJobs{Meta: w.meta(), JobIds: w.byHand(2, func(*modelJob) bool { return true })}
}

func (w *workload) expireJobs() op.Op {
	return &op.ExpireJobs{Meta: duty(), JobIds: w.byHand(5, func(j *modelJob) bool { return j.endNs > 0 })}
}

func (w *workload) releaseUnique() op.Op {
	return &op.ReleaseUnique{Meta: duty(), JobIds: w.byHand(5, func(j *modelJob) bool { return j.uniqueEndNs > 0 })}
}

func (w *workload) purgeJobs() op.Op {
	return &op.PurgeJobs{Meta: duty(), JobIds: w.byHand(5, settled)}
}

func duty() *op.Meta { return &op.Meta{Principal: "duty"} }
