package state

import (
	"cmp"
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

// Attempted is what has come of the webhook with the id; nil when nothing has. The op may
// change it in place and must then call PutAttempted.
func (tx *Tx) Attempted(webhookID [16]byte) (*Attempted, error) {
	return tx.attempted.get(tx, &attemptedKind, webhookID)
}

// PutAttempted stores what has come of the webhook with the id; nil removes it.
func (tx *Tx) PutAttempted(webhookID [16]byte, a *Attempted, events ...EventType) error {
	for _, event := range events {
		tx.recordEvent(event, "", webhookID)
	}
	return tx.attempted.put(tx, &attemptedKind, webhookID, a)
}

// Attempted is what has come of a webhook; nil when nothing has.
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
	slices.SortFunc(last, func(a, b *Delivery) int { return cmp.Compare(b.Number, a.Number) })
	return last, nil
}

// OldestLooks is how many jobs of a queue OldestReady looks at besides the first of
// each priority and fairness key. Behind more that became ready late one may hide that
// has been ready longer.
const OldestLooks = 1000

// OldestReady is when the job of a queue that has been ready longest could first have
// been fetched: when it was made, or when its time had come; 0 where none is ready.
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

// oldest is what OldestReady has found so far.
type oldest struct {
	v     *Snapshot
	queue string
	looks int   // that are left
	ns    int64 // 0: none is ready
}

// look looks at the jobs with one fairness key.
func (o *oldest) look(key string) error {
	for priority := range uint8(job.Priorities) {
		if err := o.lookAt(key, priority); err != nil {
			return err
		}
	}
	return nil
}

// lookAt looks at those of one priority. They lie in the order in which they came to
// the queue: from one on that was made later than another became ready, none is older,
// but for jobs that were moved here.
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
