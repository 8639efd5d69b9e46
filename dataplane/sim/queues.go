package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelQueue is the expected state of a queue.
type modelQueue struct {
	paused, draining, deleting                              bool
	max                                                     int
	enqueued, completed, failed, buried, cancelled, cleared uint64
	clearBelow                                              uint64
	length                                                  uint64
	overflow                                                job.Overflow
	retention                                               *job.Retention
	defaults                                                *state.QueueDefaults

	rateLimit    uint32
	rateWindowMs int64
	rate         *job.RateWindow
	takes        []int64 // exact times of the jobs that the rate limit has let go
	tooMany      error   // the first time that more jobs went in a window than its limit allows

	ageingMs     int64
	provider     string
	lanes        map[string]*modelLane // by key; nil if the queue has no lanes
	servedNs     int64
	expectedNs   int64
	expectedCost int64       // of an attempt
	unmetered    modelMeters // quantities that no usage row has
	stirred      bool        // the entry touched its jobs or its rules
}

func (m *model) queue(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{}
		m.queues[name] = q
	}
	return q
}

// defaultsOf returns a queue's defaults for new jobs, or nil.
func (m *model) defaultsOf(queue string) *state.QueueDefaults {
	if q := m.queues[queue]; q != nil && proto.Size(q.defaults) > 0 {
		return q.defaults
	}
	return nil
}

// waiting returns the number of jobs that wait in a queue.
func (m *model) waiting(queue string) uint64 {
	return uint64(m.count(queue, job.Pending) + m.count(queue, job.Scheduled) + m.count(queue, job.Retrying))
}

// ready returns the ready jobs of a queue by priority and number.
func (m *model) ready(queue string) []*modelJob {
	var all []*modelJob
	for _, j := range m.jobs {
		if j.queue == queue && j.state == job.Pending && j.gate == (modelGate{}) {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.number, b.number))
	})
	return all
}

// nextReady returns the job of a queue that is served next, or nil.
func (m *model) nextReady(queue string) *modelJob {
	all := m.ready(queue)
	if q := m.queues[queue]; q.lanes != nil {
		key, ok := m.nextLane(queue, nil)
		if !ok {
			return nil
		}
		all = ofKey(all, key)
	}
	return mostUrgent(all, m.queues[queue].ageingMs)
}

// nextToDrop returns the oldest ready job of the least urgent priority. In a queue with lanes it considers
// only the jobs of the longest lane.
func (m *model) nextToDrop(queue string) *modelJob {
	all := m.ready(queue)
	if m.queues[queue].lanes != nil {
		all = ofKey(all, m.longestLane(queue))
	}
	last := all[len(all)-1].priority
	return all[slices.IndexFunc(all, func(j *modelJob) bool { return j.priority == last })]
}

// mayFetch reports whether a queue lets one more job go.
func (m *model) mayFetch(name string) bool {
	q := m.queues[name]
	switch {
	case q == nil || q.paused || q.deleting:
		return false
	case q.rateLimit > 0 && q.rate.Free(q.rateLimit, q.rateWindowMs, m.clockNs) == 0:
		return false
	}
	return q.max == 0 || m.count(name, job.Active) < q.max
}

// take counts a job that goes under a rate limit, and counts again all that went in its window.
func (q *modelQueue) take(nowNs int64) {
	if q.rateLimit == 0 {
		return
	}
	if q.rate == nil {
		q.rate = &job.RateWindow{}
	}
	q.rate.Take(q.rateWindowMs, nowNs)
	q.takes = append(q.takes, nowNs)
	if n := q.takenSince(nowNs - q.rateWindowMs*1e6); n > int(q.rateLimit) && q.tooMany == nil {
		q.tooMany = fmt.Errorf("%d jobs were let go in %d ms, at most %d may be", n, q.rateWindowMs, q.rateLimit)
	}
}

func (q *modelQueue) takenSince(ns int64) int {
	q.takes = slices.DeleteFunc(q.takes, func(at int64) bool { return at <= ns })
	return len(q.takes)
}

func (m *model) setQueue(o *op.SetQueue) outcome {
	if q := m.queues[o.GetQueue()]; q != nil && q.deleting {
		return outcome{refused: api.Conflict}
	}
	q := m.queue(o.GetQueue())
	if o.Paused != nil {
		q.paused = o.GetPaused()
	}
	if o.Draining != nil {
		q.draining = o.GetDraining()
		q.paused = q.paused || q.draining
	}
	q.draining = q.draining && q.paused
	if o.MaxConcurrency != nil {
		q.max = int(o.GetMaxConcurrency())
	}
	if o.MaxLength != nil {
		q.length = o.GetMaxLength()
	}
	if o.Overflow != nil {
		q.overflow = o.GetOverflow()
	}
	if o.AgeingMs != nil {
		q.ageingMs = o.GetAgeingMs()
	}
	if o.Provider != nil {
		q.provider = o.GetProvider()
	}
	if o.Retention != nil {
		q.retention = o.GetRetention()
	}
	if o.Defaults != nil {
		q.defaults = o.GetDefaults()
	}
	if o.RateLimit != nil {
		q.setRate(o.GetRateLimit(), o.GetRateWindowMs(), m.clockNs)
	}
	return outcome{result: &op.SetQueueResult{}}
}

// setRate changes a rate limit. Jobs that had left the old window do not count in the new one.
func (q *modelQueue) setRate(limit uint32, windowMs, nowNs int64) {
	q.takenSince(nowNs - q.rateWindowMs*1e6)
	if limit == 0 {
		q.rateLimit, q.rateWindowMs, q.rate, q.takes = 0, 0, nil, nil
		return
	}
	if q.rate != nil {
		q.rate = q.rate.Over(windowMs, nowNs)
	}
	q.rateLimit, q.rateWindowMs = limit, windowMs
}

func (m *model) clearQueue(o *op.ClearQueue) outcome {
	q := m.queues[o.GetQueue()]
	switch {
	case q == nil:
		return outcome{refused: api.NotFound}
	case q.deleting:
		return outcome{refused: api.Conflict}
	case m.waiting(o.GetQueue()) == 0:
		return outcome{result: &op.ClearQueueResult{Cleared: q.cleared}}
	}
	q.clearBelow = m.nextNumber
	return outcome{result: &op.ClearQueueResult{Below: q.clearBelow, Cleared: q.cleared}}
}

// isEmpty reports whether a queue has no job at all.
func (m *model) isEmpty(queue string) bool {
	for _, j := range m.jobs {
		if j.queue == queue {
			return false
		}
	}
	return true
}

// deleteQueue deletes a queue without jobs, or begins to delete one with jobs.
func (m *model) deleteQueue(o *op.DeleteQueue) outcome {
	q := m.queues[o.GetQueue()]
	switch {
	case q == nil:
		return outcome{refused: api.NotFound}
	case o.GetIfSettled() && m.unsettled(o.GetQueue()):
		return outcome{refused: api.StateConflict}
	case m.isEmpty(o.GetQueue()):
		m.dropQueue(o.GetQueue())
		return outcome{result: &op.DeleteQueueResult{}}
	}
	q.deleting = true
	return outcome{result: &op.DeleteQueueResult{Deleting: true}}
}

// unsettled reports whether a job of a queue has not settled.
func (m *model) unsettled(queue string) bool {
	for _, j := range m.jobs {
		if j.queue == queue && j.live() {
			return true
		}
	}
	return false
}

func (m *model) sweepQueue(o *op.SweepQueue) outcome {
	result := &op.SweepQueueResult{}
	q := m.queues[o.GetQueue()]
	if q == nil || !q.deleting && q.clearBelow == 0 {
		return outcome{result: result}
	}
	for _, b := range o.GetJobIds() {
		j := m.jobs[job.ID(b)]
		if j == nil || j.queue != o.GetQueue() || !q.deleting && !(j.state.Waits() && j.number < q.clearBelow) {
			continue
		}
		if m.discard(j) {
			result.Removed++
		}
	}
	if !q.deleting {
		q.cleared += uint64(result.Removed)
	}
	switch {
	case !o.GetLast():
	case q.deleting && o.GetBelow() == 0 && m.isEmpty(o.GetQueue()):
		m.dropQueue(o.GetQueue())
	case !q.deleting && q.clearBelow == o.GetBelow():
		q.clearBelow = 0
	}
	return outcome{result: result}
}

// discard removes a job, or has it removed when its worker ends the attempt.
func (m *model) discard(j *modelJob) (removed bool) {
	switch {
	case j.state == job.Active:
		j.cancelling, j.doomed = true, true
		return false
	case j.live():
		j.doomed = true
		m.settle(j, job.Cancelled, ending{})
	default:
		m.remove(j)
	}
	return true
}

func (m *model) compareQueue(v *state.Snapshot, name string, want *modelQueue) error {
	q, err := v.Queue(name)
	if err != nil {
		return err
	}
	if q == nil {
		return fmt.Errorf("the store has no queue %s", name)
	}
	is := &modelQueue{
		paused: q.GetPaused(), draining: q.GetDraining(), deleting: q.GetDeleting(), max: int(q.GetMaxConcurrency()),
		enqueued: q.GetEnqueued(), completed: q.GetCompleted(), failed: q.GetFailed(), buried: q.GetDead(), cancelled: q.GetCancelled(),
		cleared: q.GetCleared(), clearBelow: q.GetClearBelow(), length: q.GetMaxLength(), overflow: q.GetOverflow(),
		rateLimit: q.GetRateLimit(), rateWindowMs: q.GetRateWindowMs(),
		ageingMs: q.GetAgeingMs(), provider: q.GetProvider(), servedNs: q.GetServedNs(), expectedNs: q.GetExpectedNs(), expectedCost: q.GetExpectedCostNanoUsd(),
	}
	should := *want
	should.lanes, should.stirred, should.unmetered = nil, false, modelMeters{}
	should.rate, should.takes, should.retention, should.defaults, should.tooMany = nil, nil, nil, nil, nil
	same := fmt.Sprint(*is) == fmt.Sprint(should) && proto.Equal(q.GetRate(), want.rate) &&
		proto.Equal(orEmpty(q.GetRetention()), orEmpty(want.retention)) && proto.Equal(orNothing(q.GetDefaults()), orNothing(want.defaults))
	if !same {
		return fmt.Errorf("queue %s is %v in the store, %+v in the model", name, q, want)
	}
	for s := range job.States {
		if got, counted := q.GetInState()[s], m.count(name, job.State(s)); int(got) != counted {
			return fmt.Errorf("queue %s counts %d %s jobs, the model %d", name, got, job.State(s).Word(), counted)
		}
	}
	return errors.Join(want.tooMany, m.compareMetered(q, want.unmetered))
}

// orEmpty and orNothing make a queue that was never set equal to one that was set to nothing.
func orEmpty(r *job.Retention) *job.Retention {
	if r == nil {
		return &job.Retention{}
	}
	return r
}

func orNothing(d *state.QueueDefaults) *state.QueueDefaults {
	if d == nil {
		return &state.QueueDefaults{}
	}
	return d
}
