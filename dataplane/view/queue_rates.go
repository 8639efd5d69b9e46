package view

import (
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// ratePeriod is the number of seconds over which rates are counted.
const ratePeriod = api.ThroughputSeconds

// rates counts events per queue and second for the last minute. It counts them as the view reads the feed,
// and only in memory, so that a node that has just started has counted nothing yet. Counting in the store was
// rejected, because it would cost every job a write for a figure that is out of date within a second.
type rates struct {
	mu     sync.Mutex
	queues map[string]*minute
	swept  int64 // the second up to which queues without events were removed
}

// minute holds the counts of one queue. The counts of a second lie at the index second modulo the period.
type minute [ratePeriod]struct {
	second int64
	count  api.Rates
}

// queueSecond identifies one queue and one second.
type queueSecond struct {
	queue  string
	second int64
}

// countEvent counts an event of an entry.
func countEvent(counts map[queueSecond]api.Rates, e *state.Event, clockNs int64) {
	var one api.Rates
	switch e.Type {
	case state.EventType_EVENT_ENQUEUED, state.EventType_EVENT_SCHEDULED:
		one.Enqueued = 1
	case state.EventType_EVENT_COMPLETED:
		one.Completed = 1
	case state.EventType_EVENT_FAILED, state.EventType_EVENT_RECLAIMED:
		one.Failed = 1
	default:
		return
	}
	at := queueSecond{e.Queue, clockNs / int64(time.Second)}
	counts[at] = counts[at].Plus(one)
}

// add adds the counts of a flush.
func (r *rates) add(counts map[queueSecond]api.Rates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := int64(0)
	for at, count := range counts {
		newest = max(newest, at.second)
		m := r.queues[at.queue]
		if m == nil {
			if r.queues == nil {
				r.queues = map[string]*minute{}
			}
			m = new(minute)
			r.queues[at.queue] = m
		}
		slot := &m[at.second%ratePeriod]
		switch {
		case slot.second == at.second:
			slot.count = slot.count.Plus(count)
		case slot.second < at.second: // replaces a count of over a minute ago; a count that comes so late is dropped
			slot.second, slot.count = at.second, count
		}
	}
	if newest >= r.swept+ratePeriod { // because queues are created and deleted
		r.swept = newest
		for queue, m := range r.queues {
			if m.since(newest) == (api.Rates{}) {
				delete(r.queues, queue)
			}
		}
	}
}

// since returns the sum of the counts in the minute that ends with the given second.
func (m *minute) since(second int64) (sum api.Rates) {
	for i := range m {
		if age := second - m[i].second; age >= 0 && age < ratePeriod {
			sum = sum.Plus(m[i].count)
		}
	}
	return sum
}

// of returns a queue's counts in the last minute.
func (r *rates) of(queue string, now time.Time) api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.queues[queue]; m != nil {
		return m.since(now.Unix())
	}
	return api.Rates{}
}

// seenUntil returns the time up to which the view has read the feed. Rates cover the minute before that time,
// because the view has counted nothing later.
func (v *View) seenUntil(now time.Time) time.Time {
	_, age := v.Lag()
	return now.Add(-age)
}

// Rates returns the counts of the last minute that the view has read, for each queue with any events. They
// cover only the events that this node has read since it started.
func (v *View) Rates(now time.Time) map[string]api.Rates {
	now = v.seenUntil(now)
	v.rates.mu.Lock()
	defer v.rates.mu.Unlock()
	all := map[string]api.Rates{}
	for queue, m := range v.rates.queues {
		if sum := m.since(now.Unix()); sum != (api.Rates{}) {
			all[queue] = sum
		}
	}
	return all
}
