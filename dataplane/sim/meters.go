package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelMeters are quantities of jobs. Those of a queue are counted at each event and are taken away when a usage row
// gets them.
type modelMeters struct {
	enqueued, completed uint64
	activeNs            int64
}

func (a modelMeters) plus(b modelMeters) modelMeters {
	return modelMeters{a.enqueued + b.enqueued, a.completed + b.completed, a.activeNs + b.activeNs}
}

// meter counts quantities of a queue, if the shard meters.
func (m *model) meter(queue string, n modelMeters) {
	if m.meteredNs == 0 {
		return
	}
	q := m.queue(queue)
	q.unmetered = q.unmetered.plus(n)
	m.happened = m.happened.plus(n)
}

// meterAttempt counts the lease of an attempt that ends. One attempt is counted once, however often giveUp is called.
func (m *model) meterAttempt(j *modelJob, delivered bool) {
	if !j.queued.active || j.meteredLease == j.lease {
		return
	}
	j.meteredLease = j.lease
	if held := min(m.clockNs, j.leaseEndNs) - j.agent.startedNs; delivered && held > 0 {
		m.meter(j.queue, modelMeters{activeNs: held})
	}
}

func (m *model) recordUsage(o *op.RecordUsage) outcome {
	done := outcome{result: &op.RecordUsageResult{}}
	if m.meteredNs == 0 {
		m.meteredNs = m.clockNs
		return done
	}
	row := &state.ShardMeters{}
	for _, name := range o.GetQueues() {
		if q := m.queues[name]; q != nil {
			row.Queues = append(row.Queues, m.takeMeters(name, q)...)
		}
	}
	if from := max(m.meteredNs, m.termStartedNs); m.clockNs-from >= int64(2*time.Hour) {
		m.meteredNs = m.clockNs
	} else {
		row.OpenSeconds = uint64(m.clockNs-from) / 1e9
		row.StoredByteSeconds = o.GetStoredBytes() * row.OpenSeconds
		m.meteredNs = from + int64(row.OpenSeconds)*1e9
	}
	m.addMeters(row)
	return done
}

// takeMeters returns the quantities of a queue in whole units, if there are any, and takes them from the queue.
func (m *model) takeMeters(name string, q *modelQueue) []*state.QueueMeters {
	n := &state.QueueMeters{Queue: name, JobsEnqueued: q.unmetered.enqueued, JobsCompleted: q.unmetered.completed, ActiveSeconds: uint64(q.unmetered.activeNs / 1e9)}
	if n.JobsEnqueued+n.JobsCompleted+n.ActiveSeconds == 0 {
		return nil
	}
	q.unmetered = modelMeters{activeNs: q.unmetered.activeNs % 1e9}
	return []*state.QueueMeters{n}
}

func (m *model) addMeters(row *state.ShardMeters) {
	if len(row.Queues) == 0 && row.OpenSeconds == 0 {
		return
	}
	m.usage = append(m.usage, modelUsage{atNs: m.clockNs, meters: metersText(row)})
	for _, q := range row.Queues {
		m.recorded = m.recorded.plus(modelMeters{q.JobsEnqueued, q.JobsCompleted, int64(q.ActiveSeconds) * 1e9})
	}
}

// dropQueue deletes a queue. A usage row gets its quantities; less than a second of active time is lost.
func (m *model) dropQueue(name string) {
	q := m.queues[name]
	m.addMeters(&state.ShardMeters{Queues: m.takeMeters(name, q)})
	m.droppedNs += q.unmetered.activeNs
	delete(m.queues, name)
}

// metersText returns the quantities of a usage row in a form that can be compared, or "".
func metersText(row *state.ShardMeters) string {
	if row == nil {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "open %d s, stored %d", row.OpenSeconds, row.StoredByteSeconds)
	for _, q := range row.Queues {
		fmt.Fprintf(&text, ", %s %d enqueued %d completed %d s active", q.Queue, q.JobsEnqueued, q.JobsCompleted, q.ActiveSeconds)
	}
	return text.String()
}

// compareMetered compares what the usage rows lack of a queue.
func (m *model) compareMetered(q *state.Queue, want modelMeters) error {
	if m.meteredNs == 0 {
		return nil
	}
	is := modelMeters{q.GetEnqueued() - q.GetMetered().GetEnqueued(), q.GetCompleted() - q.GetMetered().GetCompleted(), int64(q.GetMetered().GetActiveNs())}
	if is != want {
		return fmt.Errorf("queue %s has %+v that no usage row has in the store, %+v in the model", q.GetName(), is, want)
	}
	return nil
}

// balanceMeters checks that everything that happened is in one usage row, or in a queue's counters and in no row.
func (m *model) balanceMeters() error {
	all := m.recorded.plus(modelMeters{activeNs: m.droppedNs})
	for _, q := range m.queues {
		all = all.plus(q.unmetered)
	}
	if all != m.happened {
		return fmt.Errorf("shard %d: %+v happened, usage rows and queues have %+v", m.number, m.happened, all)
	}
	return nil
}

// recordUsage draws queues, some of which have nothing to record. It raises the level first, because a proposer refuses
// the op below it.
func (w *workload) recordUsage() op.Op {
	if since := op.KindFor(&op.RecordUsage{}).Since; w.m.level < since {
		return &op.RaiseLevel{Meta: duty(), Level: since}
	}
	o := &op.RecordUsage{Meta: duty(), StoredBytes: w.rng.Uint64N(job.MaxStoredBytes + 1)}
	for _, queue := range slices.Concat(w.queues, w.idle) {
		if w.chance(2) {
			o.Queues = append(o.Queues, queue)
		}
	}
	if w.chance(9) {
		o.Queues = append(o.Queues, o.Queues...) // the second time, a queue has nothing left
	}
	return o
}
