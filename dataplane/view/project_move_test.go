package view

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// move and leave change a job as the ops of these names do.
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

// arrive admits a dead job from another shard with one attempt, a checkpoint and an error.
func (h *shard) arrive(tx *state.Tx, id job.ID, queue string) {
	h.t.Helper()
	j := &job.Job{Id: id[:], Queue: queue, State: job.Dead, Attempt: 1, Retry: job.NewRetry(), CreatedNs: tx.ClockNs()}
	must(h.t, tx.PutBlob(j, job.Payload, payload(`{"arrived":true}`)))
	must(h.t, tx.PutBlob(j, job.Checkpoint, payload(`"cp"`)))
	must(h.t, tx.PutError(j, &job.AttemptError{Attempt: 1, Error: "elsewhere", CreatedNs: tx.ClockNs()}))
	must(h.t, tx.AdmitJob(j))
}

// same checks that a rebuilt view equals the view that has followed the feed.
func (h *shard) same() {
	h.t.Helper()
	live := h.dump()
	must(h.t, h.view.Rebuild(h.t.Context()))
	if rebuilt := h.dump(); rebuilt != live {
		h.t.Errorf("a rebuilt view differs:\n%s\n%s", live, rebuilt)
	}
}

// shows checks that a search of the queue finds these jobs, newest first, and that the queue's counters
// agree.
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

// TestAMovedJobIsShownWhereItIs checks that a search finds a moved job in its current queue only, and that
// the counters of both queues are right.
func TestAMovedJobIsShownWhereItIs(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 4)
	h.enqueue("r", 1)
	h.shows("q", ids[3], ids[2], ids[1], ids[0])
	h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "p") })
	h.shows("q", ids[3], ids[2], ids[0])
	h.shows("p", ids[1])
	h.reopen(func() { // ids[1] passes through r, where no flush sees it
		h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "r"); h.move(tx, ids[2], "p") })
		h.commit(func(tx *state.Tx) { h.move(tx, ids[1], "q") })
	})
	h.shows("q", ids[3], ids[1], ids[0])
	h.shows("p", ids[2])
	h.same()
}

// TestAMovedJobIsShownWithoutItsKey moves a job into a queue where another job has its debounce key, so that
// the moved job gives up the key.
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

// TestAJobThatGoesOnIsShownWithoutItsKey checks a job that gives up its debounce key because it has run and
// waits to continue, as a job does whose iteration called tools.
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

// TestJobsComeAndGo checks that the view drops all rows of a job that left for another shard, and shows
// everything that an arriving job brings.
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

// TestAJobThatComesBackIsShownOnce checks that the view shows a returning job once although it has a new
// number, whether the view flushed in its absence or not.
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
