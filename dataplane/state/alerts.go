package state

import (
	"iter"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// The words of what an alert rule watches, and of how it compares, as clients write
// them and as they stand in what webhooks are sent.
var (
	subjectWords = map[AlertSubject]string{
		AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH:    "queue_depth",
		AlertSubject_ALERT_SUBJECT_DEAD:           "dead",
		AlertSubject_ALERT_SUBJECT_WORKERS:        "workers",
		AlertSubject_ALERT_SUBJECT_OLDEST_PENDING: "oldest_pending",
		AlertSubject_ALERT_SUBJECT_BUDGET:         "budget",
	}
	comparisonWords = map[Comparison]string{
		Comparison_COMPARISON_OVER:  ">",
		Comparison_COMPARISON_UNDER: "<",
	}
)

// Word is what clients call it.
func (s AlertSubject) Word() string { return subjectWords[s] }

// Word is what clients call it.
func (c Comparison) Word() string { return comparisonWords[c] }

// ParseAlertSubject reads what Word wrote.
func ParseAlertSubject(word string) (AlertSubject, bool) { return keyOf(subjectWords, word) }

// ParseComparison reads what Word wrote.
func ParseComparison(word string) (Comparison, bool) { return keyOf(comparisonWords, word) }

func keyOf[K comparable](words map[K]string, word string) (none K, ok bool) {
	for k, w := range words {
		if w == word {
			return k, true
		}
	}
	return none, false
}

// Holds says whether the rule's condition holds for a value.
func (r *AlertRule) Holds(value float64) bool {
	if r.GetComparison() == Comparison_COMPARISON_UNDER {
		return value < r.GetThreshold()
	}
	return value > r.GetThreshold()
}

var attemptedKind = rowKind[*Attempted]{name: "attempted", prefix: prefixAttempted}

// PutAttempted stores how the last attempt to reach the webhook with the id ended;
// nil removes it.
func (tx *Tx) PutAttempted(webhookID [16]byte, a *Attempted) error {
	return tx.attempted.put(tx, &attemptedKind, webhookID, a)
}

// Attempted is how the last attempt to reach a webhook ended; nil before the first.
func (s *Store) Attempted(webhookID [16]byte) (*Attempted, error) {
	return committed(s, func(r source) (*Attempted, error) { return readRow[Attempted](r, &attemptedKind, webhookID) })
}

// DeliveriesTo are the newest deliveries to a webhook, up to most of them, the newest
// first.
func (v *Snapshot) DeliveriesTo(webhook string, most int) ([]*Delivery, error) {
	var last []*Delivery
	for d, err := range v.Deliveries() {
		switch {
		case err != nil:
			return nil, err
		case d.Webhook != webhook:
			continue
		case len(last) >= 2*most: // the older half goes at once: each is moved once
			last = last[:copy(last, last[len(last)-most:])]
		}
		last = append(last, d)
	}
	last = last[max(0, len(last)-most):]
	slices.Reverse(last)
	return last, nil
}

// OldestReady is when the job of a queue that has been ready longest could first have
// been fetched: when it was made, or when its time had come; 0 where none is ready.
// The first of a priority has been ready longest of it.
func (v *Snapshot) OldestReady(queue string) (ns int64, err error) {
	if ns, err = v.oldestOf(queue, ""); err != nil {
		return 0, err
	}
	for l, err := range v.lanesOf(queue) {
		if err != nil {
			return 0, err
		}
		if l.Key == "" || l.Pending == 0 {
			continue
		}
		since, err := v.oldestOf(queue, l.Key)
		if err != nil {
			return 0, err
		}
		if since != 0 && (ns == 0 || since < ns) {
			ns = since
		}
	}
	return ns, nil
}

// lanesOf yields the lanes of a queue by key; none where no job has had one.
func (v *Snapshot) lanesOf(queue string) iter.Seq2[*Lane, error] {
	from := appendLaneKey(nil, queue, "")
	to := append(from[:len(from)-1:len(from)-1], 1)
	return scanRange(v.snap, from, to, func() *Lane { return &Lane{} })
}

// oldestOf is OldestReady of the jobs with one fairness key.
func (v *Snapshot) oldestOf(queue, key string) (ns int64, err error) {
	for priority := range uint8(job.Priorities) {
		from := appendReadyOf(nil, queue, key, priority, 0)
		to := appendReadyOf(nil, queue, key, priority+1, 0)
		for kv, err := range scanPairs(v.snap, from, to) {
			if err != nil {
				return 0, err
			}
			id, err := job.IDFromBytes(kv.Value)
			if err != nil {
				return 0, err
			}
			j, err := v.Job(id)
			if err != nil {
				return 0, err
			}
			if since := max(j.GetCreatedNs(), j.GetScheduledNs()); j != nil && (ns == 0 || since < ns) {
				ns = since
			}
			break
		}
	}
	return ns, nil
}
