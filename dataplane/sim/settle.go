package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// ending describes how a job ends.
type ending struct {
	result *job.Blob // the result of a completed job, or nil
	exit   bool      // the worker has asked to exit the chain
	err    string
}

// settle settles a job that has not settled, and then does everything that depends on it. The order of these
// effects matters, because jobs get their numbers when they are created.
func (m *model) settle(j *modelJob, to job.State, how ending) {
	q := m.queue(j.queue)
	// The attempt releases its reservation.
	m.giveUp(j, true, to == job.Completed)
	switch j.state = to; to {
	case job.Completed:
		q.completed++
		m.meter(j.queue, modelMeters{completed: 1})
	case job.Dead:
		q.buried++
	case job.Cancelled:
		q.cancelled++
	}
	j.cancelling, j.blocked = false, 0
	j.settledNs = m.clockNs
	// Its batch, its chain and the jobs that wait for it learn the outcome.
	m.countMember(j)
	m.goOn(j, how)
	if j.awaited {
		j.awaited = false
		m.waiters[j.id].settle(to, m.clockNs)
	}
	m.put(j)
	if j.doomed {
		m.remove(j)
	}
}

// retentionOver reports whether a settled job's retention is over, by the current settings of its queue and
// the namespace. A job that holds its unique key for the whole period is kept.
func (m *model) retentionOver(j *modelJob) bool {
	if j.live() || j.settledNs == 0 || j.uniqueWhole && j.uniqueEndNs > 0 {
		return false
	}
	until := m.keptUntil(j.state, m.queue(j.queue).retention, j.settledNs)
	return until > 0 && until <= m.clockNs
}

// keptUntil returns the time at which a record that ended at endNs is removed; 0 means never.
func (m *model) keptUntil(s job.State, own *job.Retention, endNs int64) int64 {
	kept := int64(0)
	for _, r := range []*job.Retention{m.settings.GetRetention(), own} {
		said := map[job.State]int64{job.Completed: r.GetCompletedMs(), job.Dead: r.GetDeadMs(), job.Cancelled: r.GetCancelledMs()}[s]
		if said != 0 {
			kept = said
		}
	}
	switch {
	case kept == 0:
		kept = job.DefaultRetentionTime.Milliseconds()
	case kept < 0:
		return 0
	}
	return endNs + kept*1e6
}

// remove removes a settled job for good.
func (m *model) remove(j *modelJob) {
	m.dequeue(j)
	delete(m.jobs, j.id)
	m.ledger.removed(j)
}

// live reports whether a job has not settled.
func (j *modelJob) live() bool {
	return j.state != job.Completed && j.state != job.Dead && j.state != job.Cancelled
}

// over reports whether a live job's lifetime is over.
func (j *modelJob) over(nowNs int64) bool { return j.live() && j.endNs > 0 && j.endNs <= nowNs }

// keepError keeps the error of the running attempt. If the job waits, it keeps the error under the number of
// the attempt that the job no longer gets. If job.MaxErrorsKept errors are kept already, it replaces the
// newest.
func (j *modelJob) keepError() {
	attempt := j.attempt
	if j.state != job.Active {
		attempt++
	}
	if j.errors == nil {
		j.errors = map[uint32]bool{}
	}
	if !j.errors[attempt] && len(j.errors) == job.MaxErrorsKept {
		delete(j.errors, slices.Max(slices.Collect(maps.Keys(j.errors))))
	}
	j.errors[attempt] = true
}

// bury settles a job as dead for another reason than running out of attempts.
func (m *model) bury(j *modelJob, why string) {
	j.keepError()
	m.settle(j, job.Dead, ending{err: why})
}

// expireJob settles a job whose lifetime is over.
func (m *model) expireJob(j *modelJob) {
	if j.state == job.Active {
		j.leaseExpired, j.endedBy = true, ""
	}
	if j.cancelling {
		j.keepError()
		m.settle(j, job.Cancelled, ending{})
		return
	}
	m.bury(j, "expired")
}

// newID returns the id of a job that the entry creates, by the documented formula.
func (m *model) newID(queue string) job.ID {
	material := binary.BigEndian.AppendUint64(m.seed[:], m.born)
	m.born++
	sum := sha256.Sum256(material)
	return job.NewID(m.clockNs/1e6, queue, job.Entropy(sum[:9]))
}

// modelLink is a job's place in a chain.
type modelLink struct {
	chain job.ID
	step  int
	ended bool
	of    *job.Chain
}

// goOn creates the jobs that follow a settled job in its chain, the first time that it settles.
func (m *model) goOn(j *modelJob, how ending) {
	if j.chain == nil || j.chain.ended {
		return
	}
	j.chain.ended = true
	c := j.chain.of
	last := j.chain.step+1 == len(c.GetSteps())
	origin := func(kind job.OriginKind) *job.Origin {
		return &job.Origin{Kind: kind, JobId: j.id[:], Queue: j.queue}
	}
	// Either the next step follows, or the chain ends with an outcome.
	outcome := ""
	switch {
	case j.state == job.Completed && how.exit:
		outcome = "exited"
	case j.state == job.Completed && last:
		outcome = "completed"
	case j.state == job.Cancelled:
		outcome = "cancelled"
	case j.state == job.Completed, c.GetOnFailure() == job.OnFailure_ON_FAILURE_CONTINUE && !last:
		link := &job.ChainLink{ChainId: j.chain.chain[:], Step: uint32(j.chain.step) + 1}
		m.follow(j, c.GetSteps()[link.Step], &op.NewJob{
			Chain: c, Link: link, Previous: how.result, Origin: origin(job.OriginKind_ORIGIN_KIND_STEP),
		})
	default:
		outcome = "failed"
	}
	// A chain that has ended runs its failure job and its exit job.
	if outcome == "failed" && c.GetOnFailure() == job.OnFailure_ON_FAILURE_QUEUE {
		o := origin(job.OriginKind_ORIGIN_KIND_FAILURE)
		o.Attempt, o.Error = j.attempt, how.err
		m.follow(j, c.GetFailure(), &op.NewJob{Origin: o})
	}
	if outcome != "" && c.GetExit() != nil {
		o := origin(job.OriginKind_ORIGIN_KIND_EXIT)
		o.Outcome = outcome
		m.follow(j, c.GetExit(), &op.NewJob{Origin: o, Previous: how.result})
	}
}

// follow creates a job that follows another in its chain.
func (m *model) follow(j *modelJob, s *job.Step, n *op.NewJob) {
	n.Queue, n.Payload = s.GetQueue(), s.GetPayload()
	if n.Payload == nil {
		n.Payload = j.chain.of.GetSteps()[0].GetPayload()
	}
	n.Priority, n.Retry, n.Tags, n.Headers = j.priority, j.retry, j.tags, j.headers
	n.FairnessKey, n.FairnessWeight = j.fairnessKey, j.weight
	id := m.newID(n.Queue)
	m.ledger.lives[id] = m.ledger.lives[j.id]
	m.createJob(s.GetShard(), id, n)
}

// createJob creates a job on the shard of its queue.
func (m *model) createJob(shard uint32, id job.ID, n *op.NewJob) {
	m.ledger.promised[id] = true
	m.send(shard, traveller{job: &id, arrive: func(to *model) {
		delete(m.ledger.promised, id)
		if _, known := to.known(id); known {
			return
		}
		to.queue(n.GetQueue())
		if met := to.meet(map[string]job.ID{}, id, n); met.found == op.Found_FOUND_NONE {
			to.make(id, n, nil)
		}
	}})
}
