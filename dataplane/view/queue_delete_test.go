package view

import (
	"testing"

	"github.com/corvo/corvo/dataplane/state"
)

// TestADeletedQueueIsNotShown deletes queues. The view no longer shows a deleted queue, and shows nothing of
// it in a new queue of the same name, even if it sees both in one flush. It equals a rebuilt view.
func TestADeletedQueueIsNotShown(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.commit(func(tx *state.Tx) {
		for _, name := range []string{"gone", "again", "stays"} {
			q := tx.EnsureQueue(name)
			q.Paused, q.MaxConcurrency = true, 5
			tx.PutQueue(q, evChanged, evPaused)
		}
	})
	h.settle()
	h.commit(func(tx *state.Tx) { must(t, tx.DeleteQueue("gone")) })
	h.settle()
	if q, err := h.view.Queue("gone"); err != nil || q != nil {
		t.Errorf("the deleted queue is shown as %+v, %v", q, err)
	}
	h.reopen(func() { // while the view is closed, another queue takes the name
		h.commit(func(tx *state.Tx) { must(t, tx.DeleteQueue("again")) })
		h.enqueue("again", 1)
	})
	h.settle()
	q, err := h.view.Queue("again")
	must(t, err)
	if q == nil {
		t.Fatal("the new queue is not shown")
	}
	if q.Paused || q.MaxConcurrency != nil {
		t.Errorf("the new queue has settings of the deleted one: %+v", q)
	}
	if q.Enqueued != 1 {
		t.Errorf("the new queue counts %d enqueued jobs, want 1", q.Enqueued)
	}
	names, err := h.view.QueueNames(t.Context())
	if err != nil || len(names) != 2 {
		t.Errorf("the queues are %v, %v", names, err)
	}
	live := h.dump()
	must(t, h.view.Rebuild(t.Context()))
	if rebuilt := h.dump(); rebuilt != live {
		t.Errorf("a rebuilt view differs:\n%s\n%s", live, rebuilt)
	}
}
