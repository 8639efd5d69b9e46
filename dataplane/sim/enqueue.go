package sim

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// forward records where a job went when it last left.
type forward struct {
	shard     uint32
	queue     string
	createdNs int64
}

// known reports whether a job is on this shard or has gone to another, and when it was created.
func (m *model) known(id job.ID) (createdNs int64, known bool) {
	if j := m.jobs[id]; j != nil {
		return j.createdNs, true
	}
	f, left := m.forwards[id]
	return f.createdNs, left
}

func (m *model) enqueue(o *op.Enqueue) outcome {
	// A repeat gets the earlier answer.
	if result := m.earlier(o); result != nil {
		return outcome{result: result}
	}
	// Dependencies on this shard must exist.
	for _, n := range o.GetJobs() {
		for _, d := range n.GetDependsOn() {
			if _, known := m.known(job.ID(d.GetJobId())); d.GetShard() == m.number && !known {
				return outcome{refused: api.NotFound}
			}
		}
	}
	// Find the jobs whose keys others hold.
	met, made, keys := make([]meeting, len(o.GetJobs())), 0, map[string]job.ID{}
	for i, n := range o.GetJobs() {
		if met[i] = m.meet(keys, job.ID(o.GetMeta().GetIds()[i]), n); met[i].found == op.Found_FOUND_NONE {
			made++
		}
	}
	// The queues and the batch must accept the jobs.
	drops, code := m.admit(o, met)
	if code == "" {
		code = m.admitBatch(o)
	}
	if code != "" {
		return outcome{refused: code}
	}
	// Apply: join the batch, make room in full queues, create the jobs.
	member := m.joinBatch(o, made)
	for _, queue := range drops {
		m.bury(m.nextToDrop(queue), "dropped: queue full")
	}
	result := &op.EnqueueResult{BatchId: batchOf(o)}
	for i, n := range o.GetJobs() {
		id := job.ID(o.GetMeta().GetIds()[i])
		j := m.jobs[met[i].holder]
		switch met[i].found {
		case op.Found_FOUND_NONE:
			j = m.make(id, n, member)
		case op.Found_FOUND_DEBOUNCED:
			j.dueNs, j.payload, j.tags, j.headers = m.clockNs+n.GetOptions().GetDebounceMs()*1e6, n.GetPayload(), n.GetTags(), n.GetHeaders()
			j.priority, _, _ = m.terms(n)
		}
		result.Jobs = append(result.Jobs, &op.Enqueued{Id: j.id[:], State: j.state, Found: met[i].found})
	}
	return outcome{result: result}
}

// batchOf returns the batch that an op's jobs join, or nil.
func batchOf(o *op.Enqueue) []byte {
	if ids := o.GetMeta().GetIds(); o.GetBatch() != nil {
		return ids[len(ids)-1]
	}
	return o.GetBatchId()
}

// earlier returns the answer of an op that was applied before, or nil if no record of it is left.
func (m *model) earlier(o *op.Enqueue) *op.EnqueueResult {
	createdNs, known := int64(0), false
	for _, id := range o.GetMeta().GetIds() {
		if createdNs, known = m.known(job.ID(id)); known {
			break
		}
	}
	if !known && o.GetBatch() != nil {
		if b := m.batches[job.ID(batchOf(o))]; b != nil {
			createdNs, known = b.CreatedNs, true
		}
	}
	if !known {
		return nil
	}
	result := &op.EnqueueResult{BatchId: batchOf(o)}
	for i, n := range o.GetJobs() {
		id := job.ID(o.GetMeta().GetIds()[i])
		e := &op.Enqueued{Id: id[:], State: firstState(n, createdNs)}
		if _, made := m.known(id); !made {
			if h := m.holder(n.GetQueue(), n.GetOptions().GetUniqueKey()); n.GetOptions().GetUniqueKey() != "" && h != nil {
				e = &op.Enqueued{Id: h.id[:], State: h.state, Found: op.Found_FOUND_DUPLICATE}
			}
			if h := m.debounced(n.GetQueue(), n.GetOptions().GetDebounceKey()); n.GetOptions().GetDebounceKey() != "" && h != nil {
				e = &op.Enqueued{Id: h.id[:], State: h.state, Found: op.Found_FOUND_DEBOUNCED}
			}
		}
		result.Jobs = append(result.Jobs, e)
	}
	return result
}

// meeting is the existing job that holds a new job's key.
type meeting struct {
	found  op.Found
	holder job.ID
}

// meet finds the job that holds a new job's key: an existing job, or one of the op itself, which keys
// contains. It ignores a unique key whose period is over.
func (m *model) meet(keys map[string]job.ID, id job.ID, n *op.NewJob) meeting {
	key, found := "unique\x00"+n.GetOptions().GetUniqueKey(), op.Found_FOUND_DUPLICATE
	h := m.holder(n.GetQueue(), n.GetOptions().GetUniqueKey())
	if h != nil && h.uniqueEndNs <= m.clockNs {
		h = nil
	}
	switch {
	case n.GetOptions().GetUniqueKey() != "":
	case n.GetOptions().GetDebounceKey() != "":
		key, found, h = "debounce\x00"+n.GetOptions().GetDebounceKey(), op.Found_FOUND_DEBOUNCED, m.debounced(n.GetQueue(), n.GetOptions().GetDebounceKey())
	default:
		return meeting{}
	}
	key = n.GetQueue() + "\x00" + key
	if h != nil {
		return meeting{found, h.id}
	}
	if other, taken := keys[key]; taken {
		return meeting{found, other}
	}
	keys[key] = id
	return meeting{}
}

// admit returns the code with which the queues refuse an op's jobs. If they accept the jobs, it returns the
// queues that must drop a job, once for each job to drop.
func (m *model) admit(o *op.Enqueue, met []meeting) (drops []string, refused api.Code) {
	var queues []string // those with a maximum length, in order
	more := map[string]uint64{}
	for i, n := range o.GetJobs() {
		q := m.queues[n.GetQueue()]
		switch {
		case q == nil:
		case q.deleting:
			return nil, api.Conflict
		case q.length > 0 && met[i].found == op.Found_FOUND_NONE:
			if more[n.GetQueue()] == 0 {
				queues = append(queues, n.GetQueue())
			}
			more[n.GetQueue()]++
		}
	}
	for _, name := range queues {
		q, after := m.queues[name], m.waiting(name)+more[name]
		excess := min(after-min(q.length, after), more[name])
		if excess > 0 && more[name] > q.length {
			return nil, api.Conflict
		}
		if q.overflow == job.Overflow_OVERFLOW_REJECT && excess > 0 || len(m.ready(name)) < int(excess) {
			return nil, api.QueueFull
		}
		for range excess {
			drops = append(drops, name)
		}
	}
	return drops, ""
}

// due returns the time at which a job that is created now is due.
func due(n *op.NewJob, nowNs int64) int64 {
	if n.GetOptions().GetDebounceKey() != "" {
		return nowNs + n.GetOptions().GetDebounceMs()*1e6
	}
	return n.GetScheduledNs()
}

func firstState(n *op.NewJob, nowNs int64) job.State {
	if due(n, nowNs) > nowNs || len(n.GetDependsOn()) > 0 {
		return job.Scheduled
	}
	return job.Pending
}

// make creates a job.
func (m *model) make(id job.ID, n *op.NewJob, member *modelMember) *modelJob {
	j := &modelJob{
		id: id, number: m.nextNumber, queue: n.GetQueue(), state: firstState(n, m.clockNs), createdNs: m.clockNs, dueNs: due(n, m.clockNs),
		payload: n.GetPayload(), previous: n.GetPrevious(), tags: n.GetTags(), headers: n.GetHeaders(), parent: n.GetOptions().GetParentId(),
		origin: n.GetOrigin(), schedule: n.GetOptions().GetScheduleId(), debounce: n.GetOptions().GetDebounceKey(),
		options: n.GetOptions(), fairnessKey: n.GetFairnessKey(), weight: n.GetFairnessWeight(), blocked: len(n.GetDependsOn()), policy: n.GetOptions().GetDependencyPolicy(),
	}
	// Its terms and its lifetime.
	j.priority, j.retry, j.lifeMs = m.terms(n)
	if j.lifeMs > 0 {
		j.endNs = m.clockNs + j.lifeMs*1e6
	}
	if member != nil {
		j.batch = &modelMember{batch: member.batch, shard: member.shard}
	}
	// Its unique key; the period of a former holder is over.
	if n.GetOptions().GetUniqueKey() != "" {
		if h := m.holder(j.queue, n.GetOptions().GetUniqueKey()); h != nil {
			h.uniqueEndNs = 0 // its period is over
		}
		j.unique, j.uniqueWhole, j.uniqueEndNs = n.GetOptions().GetUniqueKey(), n.GetOptions().GetUniqueWholePeriod(), m.clockNs+n.GetOptions().GetUniquePeriodMs()*1e6
	}
	// It is a step of a chain, or begins one.
	if c := n.GetChain(); c != nil && n.GetLink() != nil {
		j.chain = &modelLink{chain: job.ID(n.GetLink().GetChainId()), step: int(n.GetLink().GetStep()), of: c}
	} else if c != nil {
		begun := &job.Chain{OnFailure: c.GetOnFailure(), Failure: c.GetFailure(), Exit: c.GetExit()}
		begun.Steps = append(begun.Steps, &job.Step{Queue: j.queue, Shard: m.number, Payload: n.GetPayload()})
		begun.Steps = append(begun.Steps, c.GetSteps()[1:]...)
		j.chain = &modelLink{chain: id, of: begun}
	}
	// Number it and put it into its queue, and ask for the outcomes of its dependencies.
	j.agent.born(n)
	m.nextNumber++
	m.jobs[id] = j
	m.queue(j.queue).enqueued++
	m.meter(j.queue, modelMeters{enqueued: 1})
	m.ledger.made(j)
	m.put(j)
	for _, d := range n.GetDependsOn() {
		of, here := job.ID(d.GetJobId()), m.number
		m.send(d.GetShard(), traveller{about: &id, arrive: func(to *model) { to.watch(of, id, here) }})
	}
	return j
}

// terms returns a job's priority, retry settings and lifetime. A value of the client takes precedence over
// the queue's default. The client's message also holds the built-in defaults, for values that neither sets.
func (m *model) terms(n *op.NewJob) (priority uint32, retry *job.Retry, lifeMs int64) {
	d := m.defaultsOf(n.GetQueue())
	open := func(bit uint32) bool { return n.GetDefaults()&bit != 0 && d != nil }
	priority, lifeMs = n.GetPriority(), n.GetOptions().GetExpireAfterMs()
	r := n.GetRetry()
	retry = &job.Retry{
		MaxAttempts: r.GetMaxAttempts(), Backoff: r.GetBackoff(), JitterPercent: r.GetJitterPercent(),
		BaseDelayMs: r.GetBaseDelayMs(), MaxDelayMs: r.GetMaxDelayMs(),
	}
	// Where the client left a value open, take the queue's default.
	if open(job.DefaultsPriority) && d.Priority != nil {
		priority = d.GetPriority()
	}
	if open(job.DefaultsExpireAfter) && d.ExpireAfterMs != nil {
		lifeMs = d.GetExpireAfterMs()
	}
	if open(job.DefaultsMaxAttempts) && d.MaxAttempts != nil {
		retry.MaxAttempts = d.GetMaxAttempts()
	}
	if open(job.DefaultsBackoff) && d.Backoff != nil {
		retry.Backoff = d.GetBackoff()
	}
	if open(job.DefaultsJitter) && d.JitterPercent != nil {
		retry.JitterPercent = d.GetJitterPercent()
	}
	// said returns the origin of a delay as a weight: 0 built in, 1 the queue, 2 the client.
	said := func(bit uint32, queues *int64, value *int64) int {
		switch {
		case n.GetDefaults()&bit == 0:
			return 2
		case d == nil || queues == nil:
			return 0
		}
		*value = *queues
		return 1
	}
	if d == nil || n.GetDefaults() == 0 {
		return priority, retry, lifeMs // the delays in the client's message are not checked again
	}
	// If the two delays contradict each other, the one with the greater weight wins.
	base := said(job.DefaultsBaseDelay, d.BaseDelayMs, &retry.BaseDelayMs)
	most := said(job.DefaultsMaxDelay, d.MaxDelayMs, &retry.MaxDelayMs)
	switch contradict := retry.BaseDelayMs > retry.MaxDelayMs; {
	case contradict && most > base:
		retry.BaseDelayMs = retry.MaxDelayMs
	case contradict: // of two with the same weight, the bound yields
		retry.MaxDelayMs = retry.BaseDelayMs
	}
	return priority, retry, lifeMs
}
