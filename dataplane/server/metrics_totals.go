package server

import (
	"sync"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// totalEvents names the totals, in their order.
var totalEvents = [...]string{"enqueued", "started", "completed", "failed", "dead", "cancelled"}

// totals counts the events of a queue's jobs, in the order of totalEvents.
type totals [len(totalEvents)]uint64

// totalsOf returns a queue's totals since its creation.
func totalsOf(q *state.Queue) totals {
	return totals{q.Enqueued, q.Started, q.Completed, q.Failed, q.Dead, q.Cancelled}
}

func writeTotals(to *telemetry.Scrape, t totals, queue string) {
	for i, word := range totalEvents {
		to.Counter(telemetry.JobsTotal, float64(t[i]), queue, word)
	}
}

// otherTotals sums, for each namespace, the totals of the queues without series of their own. A plain sum
// would shrink when a queue is deleted or gets a series of its own, and Prometheus would take that for a
// restart and count all jobs of the other queues again. Therefore otherTotals keeps the sum and adds the
// growth of each queue since its last read.
type otherTotals struct {
	mu sync.Mutex
	of map[tenancy.NamespaceID]*otherTotal
}

type otherTotal struct {
	sum  totals
	seen map[string]totals // by queue, as of the last read
}

// add updates a namespace's sum from the present totals of its queues without series of their own. found is
// false if the namespace has had no such queue yet.
func (o *otherTotals) add(ns tenancy.NamespaceID, queues []*state.Queue) (sum totals, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.of[ns]
	if of == nil {
		if len(queues) == 0 {
			return totals{}, false
		}
		of = &otherTotal{}
		if o.of == nil {
			o.of = map[tenancy.NamespaceID]*otherTotal{}
		}
		o.of[ns] = of
	}
	seen := make(map[string]totals, len(queues))
	for _, q := range queues {
		now, before := totalsOf(q), of.seen[q.Name]
		if now[0] < before[0] { // the queue was deleted and created again
			before = totals{}
		}
		for i := range now {
			of.sum[i] += max(now[i], before[i]) - before[i]
		}
		seen[q.Name] = now
	}
	of.seen = seen
	return of.sum, true
}

// keep removes the namespaces that are no longer open.
func (o *otherTotals) keep(open func(tenancy.NamespaceID) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ns := range o.of {
		if !open(ns) {
			delete(o.of, ns)
		}
	}
}
