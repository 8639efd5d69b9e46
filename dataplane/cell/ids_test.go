package cell

import (
	"bytes"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// TestIDsOfOneEnqueueSort checks that the ids of one enqueue sort like its jobs, queue by queue, and are
// valid ids of their queues.
func TestIDsOfOneEnqueueSort(t *testing.T) {
	t.Parallel()
	var jobs []*op.NewJob
	for range 100 {
		jobs = append(jobs, &op.NewJob{Queue: "a"}, &op.NewJob{Queue: "b"})
	}
	earliest := time.Now().UnixMilli()
	ids := new(Cell).NewIDs(jobs)
	if len(ids) != len(jobs) {
		t.Fatalf("%d ids for %d jobs", len(ids), len(jobs))
	}
	for i, id := range ids {
		if id.Slot() != job.SlotOf(jobs[i].Queue) || id.UnixMs() < earliest || id.UnixMs() > time.Now().UnixMilli() {
			t.Errorf("id %d, %s, is of slot %d and was made at %d ms", i, id, id.Slot(), id.UnixMs())
		}
		if i > 1 && bytes.Compare(ids[i-2][:], id[:]) >= 0 {
			t.Errorf("id %d, %s, is not behind that of the job before in its queue, %s", i, id, ids[i-2])
		}
	}
	seen := map[[8]byte]bool{} // the random half of the ids
	for _, id := range append(ids, new(Cell).NewIDs(jobs[:1])...) {
		if half := [8]byte(id[8:]); seen[half] || half == ([8]byte{}) {
			t.Errorf("%s is not random", id)
		} else {
			seen[half] = true
		}
	}
}
