package sim

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math/big"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// model is what a namespace should do, written for clarity alone: plain maps,
// whole scans, no indexes, no store. It shares with the real thing the messages
// and nothing else.
type model struct {
	clockNs       int64
	termStartedNs int64
	nextNumber    uint64
	jobs          map[job.ID]*modelJob
	queues        map[string]*modelQueue
	keys          map[string][]byte // id -> hash
	secured       bool
	remembered    map[string]remembered // by principal and key
	usage         []modelUsage          // row i has number i+1, those trimmed too
	usageFirst    uint64                // the first row kept
}

// modelUsage is one accepted report.
type modelUsage struct {
	job             job.ID
	attempt         uint32
	queue           string
	model, provider string
	atNs            int64
	tokens          [4]int64 // input, output, cache creation, cache read
	costNano        int64
}

type modelJob struct {
	id           job.ID
	number       uint64
	queue        string
	priority     uint32
	state, born  job.State
	attempt      uint32
	retry        *job.Retry
	dueNs        int64 // scheduled and retrying
	token        []byte
	worker       string
	leaseEndNs   int64
	leaseMs      int64
	leaseExpired bool
	costNano     int64
	tokens       [4]int64
	model        string // as last named
	provider     string
	errors       int
}

type modelQueue struct {
	paused                              bool
	max                                 int
	enqueued, completed, failed, buried uint64
}

type remembered struct {
	hash     []byte
	op       op.Op
	outcome  outcome
	expireNs int64
}

// outcome is what the model expects of one op: a result or a refusal.
type outcome struct {
	refused api.Code
	result  any
}

func newModel(clockNs int64) *model {
	return &model{
		clockNs:    clockNs,
		nextNumber: 1, // 0 is no job
		jobs:       map[job.ID]*modelJob{},
		queues:     map[string]*modelQueue{},
		keys:       map[string][]byte{},
		remembered: map[string]remembered{},
		usageFirst: 1,
	}
}

// apply plays one entry. got are the real results: the model takes from them
// what it cannot know (lease tokens), after the caller has seen that the rest
// agrees.
func (m *model) apply(clockNs int64, o op.Op) outcome {
	m.clockNs = max(m.clockNs, clockNs)
	meta := o.GetMeta()
	idem := meta.GetIdempotency()
	if idem == nil {
		return m.dispatch(o)
	}
	key := meta.GetPrincipal() + "\x00" + idem.GetKey()
	if old, ok := m.remembered[key]; ok && old.expireNs > m.clockNs {
		if !bytes.Equal(old.hash, idem.GetRequestHash()) || old.op.Number() != o.Number() {
			return outcome{refused: api.IdempotencyMismatch}
		}
		return old.outcome
	}
	out := m.dispatch(o)
	fetched, isFetch := out.result.(*op.FetchResult)
	if out.refused == "" && !(isFetch && len(fetched.Jobs) == 0) {
		m.remembered[key] = remembered{idem.GetRequestHash(), o, out, m.clockNs + int64(job.IdempotencyPeriod)}
	}
	return out
}

func (m *model) dispatch(o op.Op) outcome {
	switch o := o.(type) {
	case *op.Enqueue:
		return m.enqueue(o)
	case *op.Fetch:
		return m.fetch(o)
	case *op.Ack:
		return m.ack(o)
	case *op.Fail:
		return m.fail(o)
	case *op.Heartbeat:
		return m.heartbeat(o)
	case *op.SetQueue:
		return m.setQueue(o)
	case *op.Promote:
		return m.promote(o)
	case *op.Reclaim:
		return m.reclaim(o)
	case *op.Expire:
		return m.expire(o)
	case *op.StartTerm:
		m.termStartedNs = m.clockNs
		return outcome{result: &op.StartTermResult{}}
	case *op.TrimFeed:
		return outcome{result: &op.TrimFeedResult{}}
	case *op.CreateKey:
		return m.createKey(o)
	case *op.RevokeKey:
		if m.keys[o.GetId()] == nil {
			return outcome{refused: api.NotFound}
		}
		delete(m.keys, o.GetId())
		return outcome{result: &op.RevokeKeyResult{}}
	case *op.TrimUsage:
		if o.GetFirstSeq() < m.usageFirst || o.GetFirstSeq() > uint64(len(m.usage))+1 {
			return outcome{refused: api.StateConflict}
		}
		m.usageFirst = o.GetFirstSeq()
		return outcome{result: &op.TrimUsageResult{}}
	case *op.DeleteQueue:
		return m.deleteQueue(o)
	}
	panic("the model does not know this op")
}

func (m *model) queue(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{}
		m.queues[name] = q
	}
	return q
}

func (m *model) enqueue(o *op.Enqueue) outcome {
	result := &op.EnqueueResult{}
	for i, n := range o.GetJobs() {
		id := job.ID(o.GetMeta().GetIds()[i])
		j := m.jobs[id]
		if j == nil {
			j = &modelJob{id: id, number: m.nextNumber, queue: n.GetQueue(), priority: n.GetPriority(), retry: n.GetRetry(), state: job.Pending}
			if n.GetScheduledNs() > m.clockNs {
				j.state, j.dueNs = job.Scheduled, n.GetScheduledNs()
			}
			j.born = j.state
			m.nextNumber++
			m.jobs[id] = j
			m.queue(j.queue).enqueued++
		}
		result.Jobs = append(result.Jobs, &op.Enqueued{Id: id[:], State: j.born})
	}
	return outcome{result: result}
}

// ready lists the pending jobs of a queue in the order they are served.
func (m *model) ready(queue string) []*modelJob {
	var all []*modelJob
	for _, j := range m.jobs {
		if j.queue == queue && j.state == job.Pending {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.number, b.number))
	})
	return all
}

func (m *model) count(queue string, s job.State) int {
	n := 0
	for _, j := range m.jobs {
		if j.queue == queue && j.state == s {
			n++
		}
	}
	return n
}

func (m *model) fetch(o *op.Fetch) outcome {
	result := &op.FetchResult{}
	for _, name := range o.GetQueues() {
		q := m.queues[name]
		if q == nil || q.paused {
			continue
		}
		for _, j := range m.ready(name) {
			if len(result.Jobs) == int(o.GetCount()) || (q.max > 0 && m.count(name, job.Active) >= q.max) {
				break
			}
			j.state = job.Active
			j.attempt++
			j.worker = o.GetWorkerId()
			j.leaseMs = o.GetLeaseMs()
			j.leaseEndNs = m.clockNs + j.leaseMs*1e6
			j.token = nil // learned from the real result
			result.Jobs = append(result.Jobs, &op.Leased{Id: j.id[:], Attempt: j.attempt, ExpiresNs: j.leaseEndNs})
		}
	}
	return outcome{result: result}
}

// holds says whether a proof gives a worker the right to settle the job, and the
// code of the refusal where it does not.
func (m *model) holds(proof *op.LeaseProof) (*modelJob, api.Code) {
	j := m.jobs[job.ID(proof.GetId())]
	switch {
	case j == nil:
		return nil, api.NotFound
	case j.state != job.Active:
		if len(proof.GetToken()) == 0 && proof.GetWorkerId() == "" && !j.leaseExpired {
			return j, api.StateConflict
		}
		return j, api.LeaseLost
	case len(proof.GetToken()) > 0:
		if !bytes.Equal(proof.GetToken(), j.token) {
			return j, api.LeaseLost
		}
	case proof.GetWorkerId() != "":
		if proof.GetWorkerId() != j.worker {
			return j, api.LeaseLost
		}
	case j.leaseExpired:
		return j, api.LeaseLost
	}
	return j, ""
}

func refusal(code api.Code) *op.Refusal { return &op.Refusal{Code: string(code)} }

func (m *model) ack(o *op.Ack) outcome {
	result := &op.AckResult{}
	for _, item := range o.GetItems() {
		proof := item.GetProof()
		j, code := m.holds(proof)
		repeated := j != nil && j.state == job.Completed && (len(proof.GetToken()) == 0 || bytes.Equal(proof.GetToken(), j.token))
		if code != "" && !repeated {
			result.Items = append(result.Items, refusal(code))
			continue
		}
		if !repeated {
			j.state = job.Completed
			m.report(j, item.GetUsage())
			m.queue(j.queue).completed++
		}
		result.Items = append(result.Items, refusal(""))
	}
	return outcome{result: result}
}

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
	for _, item := range o.GetItems() {
		j, code := m.holds(item.GetProof())
		switch {
		case code != "":
			result.Items = append(result.Items, &op.Failed{Refusal: refusal(code)})
		case item.GetReason() == op.FailReason_FAIL_REASON_UNDELIVERED:
			j.state = job.Pending
			j.attempt--
			result.Items = append(result.Items, &op.Failed{State: job.Pending, Attempt: j.attempt, AttemptsRemaining: j.retry.GetMaxAttempts() - j.attempt})
		default:
			m.report(j, item.GetUsage())
			result.Items = append(result.Items, m.lose(j))
		}
	}
	return outcome{result: result}
}

func (m *model) heartbeat(o *op.Heartbeat) outcome {
	result := &op.HeartbeatResult{}
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
			m.report(j, item.GetUsage())
		}
		result.Items = append(result.Items, refusal(code))
	}
	return outcome{result: result}
}

func (m *model) setQueue(o *op.SetQueue) outcome {
	q := m.queue(o.GetQueue())
	if o.Paused != nil {
		q.paused = o.GetPaused()
	}
	if o.MaxConcurrency != nil {
		q.max = int(o.GetMaxConcurrency())
	}
	return outcome{result: &op.SetQueueResult{}}
}

// deleteQueue removes a queue in which there is no job at all.
func (m *model) deleteQueue(o *op.DeleteQueue) outcome {
	if m.queues[o.GetQueue()] == nil {
		return outcome{refused: api.NotFound}
	}
	for _, j := range m.jobs {
		if j.queue == o.GetQueue() {
			return outcome{refused: api.StateConflict}
		}
	}
	delete(m.queues, o.GetQueue())
	return outcome{result: &op.DeleteQueueResult{}}
}

// report counts what a worker says its job has used: in the job, and as a row.
func (m *model) report(j *modelJob, u *job.Usage) {
	if u == nil {
		return
	}
	row := modelUsage{
		job: j.id, attempt: j.attempt, queue: j.queue, atNs: m.clockNs, costNano: u.GetCostNanoUsd(),
		tokens: [4]int64{u.GetInputTokens(), u.GetOutputTokens(), u.GetCacheCreationTokens(), u.GetCacheReadTokens()},
	}
	if u.GetModel() != "" {
		j.model = u.GetModel()
	}
	if u.GetProvider() != "" {
		j.provider = u.GetProvider()
	}
	row.model, row.provider = j.model, j.provider
	j.costNano += row.costNano
	for i, n := range row.tokens {
		j.tokens[i] += n
	}
	m.usage = append(m.usage, row)
}

func (m *model) promote(o *op.Promote) outcome {
	result := &op.PromoteResult{}
	for _, id := range o.GetJobIds() {
		j := m.jobs[job.ID(id)]
		if j != nil && (j.state == job.Scheduled || j.state == job.Retrying) && j.dueNs <= m.clockNs {
			j.state = job.Pending
			result.Promoted++
		}
	}
	return outcome{result: result}
}

func (m *model) reclaim(o *op.Reclaim) outcome {
	result := &op.ReclaimResult{}
	for _, id := range o.GetJobIds() {
		j := m.jobs[job.ID(id)]
		if j == nil || j.state != job.Active {
			continue
		}
		grace := min(j.leaseMs*1e6, int64(job.ReclaimGrace))
		if max(j.leaseEndNs, m.termStartedNs+grace) > m.clockNs {
			continue
		}
		j.leaseExpired = true
		m.lose(j)
		result.Reclaimed++
	}
	return outcome{result: result}
}

// recordID is what an idempotency record is kept under.
func recordID(principal, key string) []byte {
	sum := sha256.Sum256([]byte(principal + "\x00" + key))
	return sum[:16]
}

func (m *model) expire(o *op.Expire) outcome {
	result := &op.ExpireResult{}
	for _, id := range o.GetRecordIds() {
		for key, r := range m.remembered {
			meta := r.op.GetMeta()
			if bytes.Equal(recordID(meta.GetPrincipal(), meta.GetIdempotency().GetKey()), id) && r.expireNs <= m.clockNs {
				delete(m.remembered, key)
				result.Expired++
			}
		}
	}
	return outcome{result: result}
}

func (m *model) createKey(o *op.CreateKey) outcome {
	id := o.GetKey().GetId()
	if hash := m.keys[id]; !bytes.Equal(hash, o.GetKey().GetHash()) { // else it is this op's own earlier effect
		if hash != nil || (o.GetFirst() && m.secured) {
			return outcome{refused: api.Conflict}
		}
	}
	m.keys[id], m.secured = o.GetKey().GetHash(), true
	return outcome{result: &op.CreateKeyResult{}}
}
