package state

import (
	"cmp"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// The words for the subjects and comparisons of alert rules. Clients write them and webhook payloads contain
// them.
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

// Word returns the subject as clients write it.
func (s AlertSubject) Word() string { return subjectWords[s] }

// Word returns the comparison as clients write it.
func (c Comparison) Word() string { return comparisonWords[c] }

// ParseAlertSubject returns the subject that clients write as word, or false if there is none.
func ParseAlertSubject(word string) (AlertSubject, bool) { return keyOf(subjectWords, word) }

// ParseComparison returns the comparison that clients write as word, or false if there is none.
func ParseComparison(word string) (Comparison, bool) { return keyOf(comparisonWords, word) }

func keyOf[K comparable](words map[K]string, word string) (none K, ok bool) {
	for k, w := range words {
		if w == word {
			return k, true
		}
	}
	return none, false
}

// Holds reports whether a value meets the rule's condition.
func (r *AlertRule) Holds(value float64) bool {
	if r.GetComparison() == Comparison_COMPARISON_UNDER {
		return value < r.GetThreshold()
	}
	return value > r.GetThreshold()
}

var attemptedKind = rowKind[*Attempted]{name: "attempted", prefix: prefixAttempted}

// Attempted returns the delivery record of the webhook with the id, or nil before its first delivery was
// queued or dropped. The op may change it in place and must then call PutAttempted.
func (tx *Tx) Attempted(webhookID [16]byte) (*Attempted, error) {
	return tx.attempted.get(tx, &attemptedKind, webhookID)
}

// PutAttempted stores the delivery record of a webhook; nil removes it. It adds the events to the feed.
func (tx *Tx) PutAttempted(webhookID [16]byte, a *Attempted, events ...EventType) error {
	for _, event := range events {
		tx.recordEvent(event, "", webhookID)
	}
	return tx.attempted.put(tx, &attemptedKind, webhookID, a)
}

// Attempted returns the delivery record of a webhook as of the last commit, or nil before its first delivery
// was queued or dropped.
func (s *Store) Attempted(webhookID [16]byte) (*Attempted, error) {
	return committed(s, func(r source) (*Attempted, error) { return readRow[Attempted](r, &attemptedKind, webhookID) })
}

// DeliveriesTo returns at most `most` deliveries to the webhook with the name, the newest first. It reads all
// stored deliveries.
func (v *Snapshot) DeliveriesTo(webhook string, most int) ([]*Delivery, error) {
	var last []*Delivery
	for d, err := range v.Deliveries() {
		switch {
		case err != nil:
			return nil, err
		case d.Webhook != webhook:
			continue
		case len(last) >= 2*most: // drop the older half at once, so that each delivery is moved at most once
			last = last[:copy(last, last[len(last)-most:])]
		}
		last = append(last, d)
	}
	last = last[max(0, len(last)-most):]
	slices.SortFunc(last, func(a, b *Delivery) int { return cmp.Compare(b.Number, a.Number) })
	return last, nil
}

// OldestLooks bounds the jobs of a queue that OldestReady reads besides the first of each priority and
// fairness key. If more than OldestLooks jobs with lower numbers became ready later than the longest-ready
// job, OldestReady may miss that job.
const OldestLooks = 1000

// OldestReady returns when the longest-ready job of a queue became ready, in Unix nanoseconds: its creation
// or its scheduled time, whichever is later. It returns 0 if no job is ready.
func (v *Snapshot) OldestReady(queue string) (ns int64, err error) {
	o := oldest{v: v, queue: queue, looks: OldestLooks}
	if err := o.look(""); err != nil {
		return 0, err
	}
	lanes, err := v.lanesOf(queue)
	if err != nil {
		return 0, err
	}
	for _, l := range lanes {
		if l.Key == "" || l.Pending == 0 {
			continue
		}
		if err := o.look(l.Key); err != nil {
			return 0, err
		}
	}
	return o.ns, nil
}

// oldest holds the progress of OldestReady.
type oldest struct {
	v     *Snapshot
	queue string
	looks int   // jobs that may still be read
	ns    int64 // 0: no ready job found yet
}

// look reads the ready jobs of one fairness key.
func (o *oldest) look(key string) error {
	for priority := range uint8(job.Priorities) {
		if err := o.lookAt(key, priority); err != nil {
			return err
		}
	}
	return nil
}

// lookAt reads the ready jobs of one priority in the order of their numbers, which is mostly the order of
// their creation. It stops at a job that was created at or after the oldest ready time found so far, because
// no job created later can have been ready earlier. It may miss a job that came from another shard, because
// the number of that job is high for its age.
func (o *oldest) lookAt(key string, priority uint8) error {
	from := appendReadyOf(nil, o.queue, key, priority, 0)
	to := appendReadyOf(nil, o.queue, key, priority+1, 0)
	first := true
	for kv, err := range scanPairs(o.v.snap, from, to) {
		if err != nil {
			return err
		}
		id, err := job.IDFromBytes(kv.Value)
		if err != nil {
			return err
		}
		j, err := o.v.Job(id)
		if err != nil {
			return err
		}
		if since := max(j.GetCreatedNs(), j.GetScheduledNs()); j != nil && (o.ns == 0 || since < o.ns) {
			o.ns = since
		}
		if !first {
			o.looks--
		}
		if o.looks == 0 || o.ns != 0 && j.GetCreatedNs() >= o.ns {
			return nil
		}
		first = false
	}
	return nil
}
