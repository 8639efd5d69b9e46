package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

func TestACompleteBatchIsRemovedWhenItsTimeIsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("days of ticks, one after the other: the race detector has nothing to see")
	}
	inShard(t, 1<<40, func(s *shard) {
		id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{8: 1})
		batch := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{8: 2})
		s.mustApply(&op.Enqueue{
			Meta: &op.Meta{Ids: [][]byte{id[:], batch[:]}}, Batch: &op.NewBatch{},
			Jobs: []*op.NewJob{{Queue: "q", Payload: &job.Blob{Data: []byte("{}")}, Retry: job.NewRetry()}},
		})
		s.mustApply(&op.Fetch{Meta: &op.Meta{LeaseSeed: make([]byte, 16)}, Queues: []string{"q"}, Count: 1, WorkerId: "w", LeaseMs: 1000})
		s.mustApply(&op.Ack{Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: id[:], WorkerId: "w"}}}})
		there := func(want bool) {
			t.Helper()
			synctest.Wait()
			if b, err := s.store.Batch(batch); err != nil || (b != nil) != want {
				t.Errorf("the batch is %v, %v; there: want %v", b, err, want)
			}
		}
		time.Sleep(job.DefaultRetentionTime - time.Nanosecond)
		there(true)
		time.Sleep(time.Nanosecond)
		there(false)
	})
}
