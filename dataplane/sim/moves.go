package sim

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

func (m *model) moveJobs(o *op.MoveJobs) outcome {
	if q := m.queues[o.GetQueue()]; o.GetShard() == m.number && q != nil && q.deleting {
		return outcome{refused: api.Conflict}
	}
	result := &op.MoveJobsResult{}
	for _, b := range o.GetJobIds() {
		result.Items = append(result.Items, refusal(m.move(job.ID(b), o)))
	}
	return outcome{result: result}
}

// usualPriority returns the priority that a queue gives to jobs that set none.
func (m *model) usualPriority(queue string) uint32 {
	if d := m.defaultsOf(queue); d != nil && d.Priority != nil {
		return d.GetPriority()
	}
	return job.Normal
}

// move moves one job to a queue, which may be on another shard.
func (m *model) move(id job.ID, o *op.MoveJobs) api.Code {
	j, shard, queue := m.jobs[id], o.GetShard(), o.GetQueue()
	renew := func() {
		if o.GetResetAttempts() {
			j.attempt = max(j.attempt, j.lastError())
			j.base, j.endedBy = j.attempt, "" // as after a requeue
		}
	}
	here := shard == m.number
	// Refuse, do nothing, or move within the shard.
	switch f, left := m.forwards[id]; {
	case j == nil && left && f.shard == shard && f.queue == queue:
		return ""
	case j == nil:
		return api.NotFound
	case here && j.queue == queue:
		return ""
	case j.state == job.Active, j.state == job.Cancelled:
		return api.StateConflict
	case here:
		m.dequeue(j)
		delete(m.jobs, id)
		j.queue = queue
		if renew(); o.GetDropPriority() {
			j.priority = m.usualPriority(queue)
		}
		m.comeIn(j)
		return ""
	case j.blocked > 0, j.awaited, len(j.agent.kept) > 0, len(j.agent.scores) > 0:
		return api.StateConflict
	}
	m.dequeue(j)
	delete(m.jobs, id)
	renew()
	j.moves++
	j.queue = queue
	m.forwards[id] = forward{shard, queue, j.createdNs}
	m.send(shard, traveller{job: &id, arrive: func(to *model) {
		j.number = to.nextNumber
		to.nextNumber++
		delete(to.forwards, id)
		if o.GetDropPriority() {
			j.priority = to.usualPriority(queue)
		}
		to.comeIn(j)
	}})
	return ""
}

// comeIn puts a job into its queue, where it gives up keys that other jobs hold.
func (m *model) comeIn(j *modelJob) {
	if j.uniqueEndNs > 0 && (j.uniqueWhole || j.live()) && m.holder(j.queue, j.unique) != nil {
		j.uniqueEndNs = 0
	}
	if j.state == job.Scheduled && j.debounce != "" && m.debounced(j.queue, j.debounce) != nil {
		j.debounce = ""
	}
	m.jobs[j.id] = j
	j.gate = modelGate{} // the gate may be open in its new queue, or another may keep it
	m.queue(j.queue).enqueued++
	m.put(j)
}

// deliver applies the ops that another shard's model has sent. The real ops in the entry must have the same
// effects.
func (m *model) deliver(o *op.Deliver) outcome {
	from := m.shards[o.GetFrom()]
	if o.GetFirstSeq() > m.inbox[from.number]+1 {
		return outcome{refused: api.StateConflict}
	}
	for i := range o.GetItems() {
		seq := o.GetFirstSeq() + uint64(i)
		if seq <= m.inbox[from.number] {
			continue
		}
		m.inbox[from.number] = seq
		from.sent[m.number][seq-1].arrive(m)
	}
	return outcome{result: &op.DeliverResult{LastSeq: m.inbox[from.number]}}
}

func (m *model) trimOutbox(o *op.TrimOutbox) outcome {
	if o.GetUpTo() > uint64(len(m.sent[o.GetShard()])) {
		return outcome{refused: api.StateConflict}
	}
	m.trimmed[o.GetShard()] = max(m.trimmed[o.GetShard()], o.GetUpTo())
	return outcome{result: &op.TrimOutboxResult{}}
}

// compareOutboxes compares the ops that wait for other shards with the model's.
func (sh *shard) compareOutboxes() error {
	waiting := map[uint32][2]uint64{}
	for _, o := range sh.steady.store.Outboxes() {
		waiting[o.Shard] = [2]uint64{o.First, o.Next}
	}
	for to, sent := range sh.model.sent {
		want := [2]uint64{sh.model.trimmed[to] + 1, uint64(len(sent)) + 1}
		if waiting[to] != want {
			return fmt.Errorf("the ops %v wait for shard %d, in the model %v", waiting[to], to, want)
		}
		delete(waiting, to)
	}
	if len(waiting) > 0 {
		return fmt.Errorf("ops wait for other shards that the model has not sent: %v", waiting)
	}
	return nil
}

// nextDelivery returns the next ops that another shard has sent and this one has not applied, at most 20, or
// nil.
func (sh *shard) nextDelivery(from *shard) (op.Op, error) {
	return sh.delivery(from, sh.model.inbox[from.number]+1, 20)
}

// delivery returns ops that another shard has sent, from a number on, or nil if there are none.
func (sh *shard) delivery(from *shard, first uint64, most int) (op.Op, error) {
	rows, err := from.steady.store.Outgoing(sh.number, first, most, 1<<20)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	incarnation := from.incarnation()
	o := &op.Deliver{Meta: &op.Meta{Principal: "duty"}, From: from.number, Incarnation: incarnation[:], FirstSeq: rows[0].Seq}
	for _, row := range rows {
		o.Items = append(o.Items, &op.Sent{Number: row.Op.GetNumber(), Op: row.Op.GetOp()})
	}
	return o, nil
}

// anyShard draws a shard, mostly the workload's own.
func (w *workload) anyShard() *shard {
	if w.chance(2) {
		return w.sh
	}
	return pick(w, w.sh.shards)
}

// other draws another shard, or returns nil in a history with one shard.
func (w *workload) other() *shard {
	if len(w.sh.shards) == 1 {
		return nil
	}
	for {
		if to := pick(w, w.sh.shards); to != w.sh {
			return to
		}
	}
}

func (w *workload) moveJobs() op.Op {
	to := w.sh
	if other := w.other(); other != nil && !w.chance(3) {
		to = other
	}
	return &op.MoveJobs{Meta: w.meta(), Queue: to.work.jobQueue(), Shard: to.number, ResetAttempts: w.chance(4), DropPriority: w.chance(4), JobIds: idBytes(w.some(4, func(j *modelJob) bool {
		return j.state != job.Active || w.chance(10)
	}))}
}

// deliver draws ops from another shard: mostly the next ones, sometimes earlier ones, and sometimes later
// ones, which must wait for those before them.
func (w *workload) deliver() op.Op {
	from := w.other()
	if from == nil {
		return w.moveJobs()
	}
	first := w.m.inbox[from.number] + 1
	switch w.rng.IntN(5) {
	case 0:
		first -= min(first-1, w.rng.Uint64N(5))
	case 1:
		first += w.rng.Uint64N(3)
	}
	o, err := w.sh.delivery(from, first, 1+w.rng.IntN(10))
	if err != nil {
		panic(err) // a store in memory cannot be read
	}
	if o == nil {
		return w.moveJobs()
	}
	return o
}

// trimOutbox draws a trim up to the last op that has arrived, or up to ops that were never sent.
func (w *workload) trimOutbox() op.Op {
	to := w.other()
	if to == nil {
		return w.moveJobs()
	}
	upTo := to.model.inbox[w.sh.number]
	if upTo == 0 || w.chance(8) {
		upTo = 1_000_000
	}
	return &op.TrimOutbox{Meta: &op.Meta{Principal: "duty"}, Shard: to.number, UpTo: upTo}
}
