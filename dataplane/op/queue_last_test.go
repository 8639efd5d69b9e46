package op_test

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// An enqueue that drops a job also causes the jobs that follow the dropped one, in queues that admit them always.
// They may take the place of the last queue, to which the enqueue itself was admitted.
func TestEnqueueIntoTheLastQueueDropsAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(&op.SetQueue{Queue: "full", MaxLength: ptr(uint64(1)), Overflow: ptr(job.Overflow_OVERFLOW_DROP_OLDEST)})
	chained := w.newJobs("full", 1)
	chained.Jobs[0].Chain = &job.Chain{Steps: []*job.Step{{Queue: "full"}}, Exit: &job.Step{Queue: "exit"}}
	w.apply(chained)
	for from := 1; from < job.MaxQueues-1; from += job.MaxEnqueueJobs {
		o := &op.Enqueue{Meta: &op.Meta{}}
		for i := range min(job.MaxEnqueueJobs, job.MaxQueues-1-from) {
			one := w.newJobs(fmt.Sprintf("q%d", from+i), 1)
			o.Meta.Ids, o.Jobs = append(o.Meta.Ids, one.Meta.Ids...), append(o.Jobs, one.Jobs...)
		}
		one[*op.EnqueueResult](w, o)
	}
	if n := w.store.Head().QueueRecords; n != job.MaxQueues-1 {
		t.Fatalf("there are %d queues", n)
	}
	o, fresh := w.newJobs("full", 1), w.newJobs("last", 1)
	o.Meta.Ids, o.Jobs = append(o.Meta.Ids, fresh.Meta.Ids...), append(o.Jobs, fresh.Jobs...)
	one[*op.EnqueueResult](w, o)
	for _, name := range []string{"last", "exit"} {
		if q := queueRecord(w, name); q.GetInState()[job.Pending] != 1 {
			t.Errorf("queue %s is %v", name, q)
		}
	}
	w.check()
}
