package op_test

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// A queue that is being deleted refuses moved jobs, because they would be removed with the queue although the
// mover was told that they are safe.
func TestAQueueBeingDeletedTakesNoMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.newJobs("old", 1))
	o := w.newJobs("q", 1)
	w.apply(o)
	one[*op.DeleteQueueResult](w, &op.DeleteQueue{Queue: "old"})
	w.refused(&op.MoveJobs{JobIds: o.Meta.Ids, Queue: "old"}, api.Conflict, "is being deleted")
	if j := w.job(o.Meta.Ids[0]); j.Queue != "q" || j.State != job.Pending {
		t.Errorf("the job is %s in %s", j.State.Word(), j.Queue)
	}
	w.check()
}
