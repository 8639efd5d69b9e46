package host

import (
	"context"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// measure returns the value of an alert rule over all shards of the namespace. It reads every shard in this
// process, because each has a member here. The value is a moment late if another member leads.
func (t *tenant) measure(ctx context.Context, shards *shardProposers, r *state.AlertRule) (value float64, err error) {
	cells := make([]*cell.Cell, len(shards.cells))
	for i := range cells {
		if cells[i] = shards.cells[i].Load(); cells[i] == nil {
			return 0, notOpen()
		}
	}
	if r.When == state.AlertSubject_ALERT_SUBJECT_WORKERS {
		return t.countWorkers(ctx, cells, r.Target)
	}
	nowNs := cells[homeShard].NowNs()
	for _, c := range cells {
		part, err := measureCell(c, r, nowNs)
		if err != nil {
			return 0, err
		}
		switch r.When {
		case state.AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH, state.AlertSubject_ALERT_SUBJECT_DEAD:
			value += part
		default:
			value = max(value, part)
		}
	}
	return value, nil
}

// measureCell returns the value of an alert rule on one shard. The value is 0 if the shard does not have the
// rule's queue or budget.
func measureCell(c *cell.Cell, r *state.AlertRule, nowNs int64) (float64, error) {
	v := c.State().Snapshot()
	defer v.Close()
	if r.When == state.AlertSubject_ALERT_SUBJECT_BUDGET {
		budget := c.State().ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, r.Target)
		if budget == nil {
			return 0, nil
		}
		a, err := v.Account([16]byte(budget.Id))
		return spentPercent(budget.Budget, a, nowNs), err
	}
	if r.Target != "" {
		q, err := v.Queue(r.Target)
		if q == nil {
			return 0, err
		}
		return measureQueue(v, q, r.When, nowNs)
	}
	value := 0.0
	for q, err := range v.Queues() {
		if err != nil {
			return 0, err
		}
		part, err := measureQueue(v, q, r.When, nowNs)
		if err != nil {
			return 0, err
		}
		if r.When == state.AlertSubject_ALERT_SUBJECT_OLDEST_PENDING {
			value = max(value, part)
		} else {
			value += part
		}
	}
	return value, nil
}

// measureQueue returns the value of an alert rule for one queue.
func measureQueue(v *state.Snapshot, q *state.Queue, when state.AlertSubject, nowNs int64) (float64, error) {
	switch when {
	case state.AlertSubject_ALERT_SUBJECT_DEAD:
		return inState(q, job.Dead), nil
	case state.AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH:
		return inState(q, job.Pending), nil
	}
	if inState(q, job.Pending) == 0 {
		return 0, nil
	}
	sinceNs, err := v.OldestReady(q.Name)
	if sinceNs == 0 || err != nil {
		return 0, err
	}
	return time.Duration(max(0, nowNs-sinceNs)).Seconds(), nil
}

func inState(q *state.Queue, s job.State) float64 {
	if int(s) >= len(q.InState) {
		return 0
	}
	return float64(q.InState[s])
}

// spentPercent returns the spent part of the fullest limit of a budget, in percent.
func spentPercent(b *state.Budget, a *state.Account, nowNs int64) (most float64) {
	for _, l := range b.GetLimits() {
		limit := b.Limit(l.LimitNanoUsd, nowNs)
		for _, s := range a.GetSpent() {
			if s.Window == l.Window && limit > 0 {
				most = max(most, 100*float64(s.Sums(nowNs).Spent())/float64(limit))
			}
		}
	}
	return most
}

// countWorkers counts the workers of a queue: those that this node has seen lately and that fetched from the
// queue here, and those that hold jobs of the queue, on whichever node they fetched them. An empty name
// stands for all queues.
func (t *tenant) countWorkers(ctx context.Context, cells []*cell.Cell, queue string) (float64, error) {
	ids := map[string]bool{}
	for _, w := range t.workers.List(time.Now().UnixNano()) {
		for _, name := range w.Queues {
			if queue == "" || name == queue {
				ids[w.ID] = true
			}
		}
	}
	for _, c := range cells {
		held, err := c.View().Holdings(ctx)
		if err != nil {
			return 0, err
		}
		for _, h := range held {
			if queue == "" || h.Queue == queue {
				ids[h.WorkerID] = true
			}
		}
	}
	return float64(len(ids)), nil
}
