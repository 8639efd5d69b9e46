package view

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// move and leave are what the ops of these names do to a job.
func (h *shard) move(tx *state.Tx, id job.ID, queue string) {
	h.t.Helper()
	j, err := tx.Job(id)
	must(h.t, err)
	must(h.t, tx.MoveJob(j, queue))
}

func (h *shard) leave(tx *state.Tx, id job.ID) {
	h.t.Helper()
	j, err := tx.Job(id)
	must(h.t, err)
	must(h.t, tx.ForwardJob(j, 3, "far"))
}

// arrive has a job come that has been tried once.
func (h *shard) arrive(tx *state.Tx, id job.ID, queue string) {
	h.t.Helper()
	j := &job.Job{Id: id[:], Queue: queue, State: job.Dead, Attempt: 1, Retry: job.NewRetry(), CreatedNs: tx.ClockNs()}
	must(h.t, tx.PutBlob(j, job.Payload, payload(`{"arrived":true}`)))
	must(h.t, tx.PutBlob(j, job.Checkpoint, payload(`"cp"`)))
	must(h.t, tx.PutError(j, &job.AttemptError{Attempt: 1, Error: "elsewhere", CreatedNs: tx.ClockNs()}))
	must(h.t, tx.AdmitJob(j))
}

// same wants a rebuilt view to be what the live one is.
func (h *shard) same() {
	h.t.Helper()
	live := h.dump()
	must(h.t, h.view.Rebuild(h.t.Context()))
	if rebuilt := h.dump(); rebuilt != live {
		h.t.Errorf("a rebuilt view differs:\n%s\n%s", live, rebuilt)
	}
}

// shows wants these jobs in a queue, newest first, and its counters to agree.
func (h *shard) shows(queue string, want ...job.ID) {
	h.t.Helper()
	h.settle()
	got, total := pages(h.t, h, Query{Queue: queue, Limit: 100})
	wanted := make([]string, len(want))
	for i, id := range want {
		wanted[i] = id.String()
	}
	if !slices.Equal(got, wanted) || total != int64(len(want)) {
		h.t.Errorf("queue %s shows %d jobs, %v; want %v", queue, total, got, wanted)
	}
}

// A job is shown in the queue it is in now, and both queues count right.
func TestAMovedJobIsShownWhereItIs(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 4)
	h.enqueue("r", 1)
	h.shows("q", ids[3], ids[2], ids[1], ids[0])
	h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "p") })
	h.shows("q", ids[3], ids[2], ids[0])
	h.shows("p", ids[1])
	h.reopen(func() { // on its way through a queue that a flush never saw it in
		h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "r"); h.move(tx, ids[2], "p") })
		h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "q") })
	})
	h.shows("q", ids[3], ids[1], ids[0])
	h.shows("p", ids[2])
	h.same()
}

// A job that comes into a queue gives up a debounce key that another has there.
func TestAMovedJobIsShownWithoutItsKey(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var ids []job.ID
	h.commit(func(tx *state.Tx) {
		for _, queue := range []string{"q", "r"} {
			tx.EnsureQueue(queue)
			j := h.newJob(tx, queue)
			j.State, j.ScheduledNs = job.Scheduled, tx.ClockNs()
			j.Opt().DebounceKey, j.Opt().DebounceMs = "one", 1000
			must(t, tx.CreateJob(j, evScheduled))
			ids = append(ids, job.ID(j.Id))
		}
	})
	h.settle()
	h.commit(func(tx *state.Tx) { h.move(tx, ids[0], "r") })
	h.shows("r", ids[1], ids[0])
	sameRecords(h)
	h.same()
}

// A job that has run gives its debounce key up when it waits to go on, as one whose
// iteration called for tools does.
func TestAJobThatGoesOnIsShownWithoutItsKey(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var id job.ID
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("q")
		j := h.newJob(tx, "q")
		id = job.ID(j.Id)
		j.State, j.ScheduledNs = job.Scheduled, tx.ClockNs()
		j.Opt().DebounceKey, j.Opt().DebounceMs = "one", 1000
		must(t, tx.CreateJob(j, evScheduled))
	})
	h.change(id, func(_ *state.Tx, j *job.Job) { j.State = job.Pending }, evPromoted)
	h.fetch(id, "w")
	h.settle()
	h.change(id, func(_ *state.Tx, j *job.Job) {
		j.State, j.BlockedBy, j.Options = job.Scheduled, 1, j.Options.Copy()
		j.Options.DebounceKey = ""
	}, state.EventType_EVENT_CONTINUED)
	h.shows("q", id)
	sameRecords(h)
	h.same()
}

// A job that left for another shard is gone with all that was shown of it; one
// that comes is shown with all it brings.
func TestJobsComeAndGo(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 3)
	h.fetch(ids[0], "w")
	h.fail(ids[0], job.Dead, "boom")
	h.shows("q", ids[2], ids[1], ids[0])
	other := h.newID()
	h.commit(func(tx *state.Tx) { h.leave(tx, ids[0]); h.arrive(tx, other, "q") })
	h.shows("q", other, ids[2], ids[1])
	page, err := h.view.Search(t.Context(), Query{Queue: "q", Limit: 1})
	must(t, err)
	if j := page.Jobs[0]; j.ID != other.String() || string(j.Payload) != `{"arrived":true}` {
		t.Errorf("what arrived is shown as %+v", j)
	}
	h.same()
	h.commit(func(tx *state.Tx) { h.leave(tx, other); h.leave(tx, ids[1]) })
	h.shows("q", ids[2])
	h.same()
}

// A job that comes back has another number. It is shown once, whether the view saw
// it away or not.
func TestAJobThatComesBackIsShownOnce(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 3)
	h.shows("q", ids[2], ids[1], ids[0])
	h.commit(func(tx *state.Tx) { h.leave(tx, ids[0]) })
	h.shows("q", ids[2], ids[1])
	h.commit(func(tx *state.Tx) { h.arrive(tx, ids[0], "q") })
	h.shows("q", ids[0], ids[2], ids[1])
	h.reopen(func() {
		h.fetch(ids[1], "w")
		h.fail(ids[1], job.Retrying, "boom")
		h.commit(func(tx *state.Tx) { h.leave(tx, ids[1]) })
		h.commit(func(tx *state.Tx) { h.arrive(tx, ids[1], "q") })
		h.commit(func(tx *state.Tx) { h.leave(tx, ids[0]); h.arrive(tx, ids[0], "p") })
	})
	h.shows("q", ids[1], ids[2])
	h.shows("p", ids[0])
	if n := h.logged.rebuilt(""); n > 0 {
		t.Errorf("the view was built again instead of following:\n%s", h.logged)
	}
	h.same()
}
