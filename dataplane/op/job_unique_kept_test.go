package op_test

import (
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// A key that is held for its whole period keeps its job for that time, even if the queue's retention is shorter,
// because the job holds the key and answers duplicates.
func TestAJobIsKeptAsLongAsItsKey(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		w := newWorld(t)
		w.apply(&op.SetQueue{Queue: "q", Retention: &job.Retention{CompletedMs: 1000}})
		o := w.newJobs("q", 1)
		o.Jobs[0].Opt().UniqueKey, o.Jobs[0].Opt().UniquePeriodMs, o.Jobs[0].Opt().UniqueWholePeriod = "k", 60_000, whole
		w.apply(o)
		w.apply(ack(one[*op.FetchResult](w, w.fetch("q", 1)).Jobs...))

		purge := func(at time.Duration) uint32 {
			t.Helper()
			w.clockNs = epochNs + at.Nanoseconds()
			return one[*op.PurgeJobsResult](w, &op.PurgeJobs{JobIds: o.Meta.Ids}).Purged
		}
		if n := purge(time.Second); (n == 1) == whole {
			t.Errorf("whole period %v: %d are removed when the queue's time for them is over", whole, n)
		}
		if !whole {
			continue
		}
		if n := purge(time.Minute - 1); n != 0 {
			t.Error("it is removed before its key is free")
		}
		if due, _, err := w.store.RetentionDue(w.clockNs, 1); len(due) != 0 || err != nil {
			t.Errorf("it is due before its key is free: %v, %v", due, err)
		}
		w.clockNs = epochNs + time.Minute.Nanoseconds()
		w.apply(&op.ReleaseUnique{JobIds: o.Meta.Ids})
		if due, _, err := w.store.RetentionDue(w.clockNs, 1); len(due) != 1 || err != nil {
			t.Errorf("it is not due when its key is free: %v, %v", due, err)
		}
		if n := purge(time.Minute); n != 1 {
			t.Error("it is not removed when its key is free")
		}
		w.check()
	}
}
