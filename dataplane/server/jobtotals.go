package server

import (
	"sync"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// totalEvents are the words of totals, in their order.
var totalEvents = [...]string{"enqueued", "started", "completed", "failed", "dead", "cancelled"}

// totals are what happened to the jobs of queues, by totalEvents.
type totals [len(totalEvents)]uint64

// totalsOf are a queue's totals since it exists.
func totalsOf(q *state.Queue) totals {
	return totals{q.Enqueued, q.Started, q.Completed, q.Failed, q.Dead, q.Cancelled}
}

func tellTotals(to *telemetry.Scrape, t totals, queue string) {
	for i, word := range totalEvents {
		to.Counter(telemetry.JobsTotal, float64(t[i]), queue, word)
	}
}

// otherTotals sum the totals of the queues that have no series of their own. A plain sum
// would shrink when a queue is deleted or gets a series of its own, and Prometheus would
// take that for a restart and count all jobs of the others again. So the sum is kept, and
// grows by what each queue has grown since it was last read.
type otherTotals struct {
	mu sync.Mutex
	of map[tenancy.NamespaceID]*otherTotal
}

type otherTotal struct {
	sum  totals
	seen map[string]totals // by queue, as they were last read
}

// add brings the sum up to the queues as they are; tell is false if there never was one.
func (o *otherTotals) add(ns tenancy.NamespaceID, queues []*state.Queue) (sum totals, tell bool) {
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
		if now[0] < before[0] { // it was deleted and is there again
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

// keep forgets the namespaces that are not open any more.
func (o *otherTotals) keep(open func(tenancy.NamespaceID) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ns := range o.of {
		if !open(ns) {
			delete(o.of, ns)
		}
	}
}
