package op_test

import (
	"testing"

	"github.com/corvo/corvo/dataplane/op"
)

// A run by hand that made no job, since another had its unique key, is not remembered
// under its idempotency key: asked for again, it makes one.
func TestARunThatMadeNothingIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newSchedule("s")
	s.UniqueKey = "u"
	w.apply(&op.PutSchedule{Schedule: s, Create: true})
	run := func() int {
		t.Helper()
		o := &op.RunSchedules{Meta: idempotent("", "k", "run"), Runs: []*op.Run{{Id: s.Id, ByHand: true}}}
		return len(one[*op.RunSchedulesResult](w, o).JobIds)
	}
	holder := one[*op.RunSchedulesResult](w, &op.RunSchedules{Runs: []*op.Run{{Id: s.Id, ByHand: true}}}).JobIds
	if n := run(); n != 0 {
		t.Fatalf("%d jobs were made while another has the key", n)
	}
	w.apply(&op.CancelJobs{JobIds: holder})
	for range 2 { // the second is answered from memory
		if n := run(); n != 1 {
			t.Errorf("%d jobs were made when the key was free", n)
		}
	}
	if q := queueRecord(w, "q"); q.Enqueued != 2 {
		t.Errorf("%d jobs were made in all", q.Enqueued)
	}
	w.check()
}
