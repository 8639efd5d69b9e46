package state

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// A deleted queue is gone from the store and from memory, and a later queue of its name has nothing of it.
func TestADeletedQueueLeavesNothing(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) {
		q := tx.EnsureQueue("q")
		q.Paused, q.MaxConcurrency = true, 3
		tx.PutQueue(q, EventType_EVENT_QUEUE_CHANGED)
	})
	update(t, s, func(tx *Tx) {
		// An earlier change of the queue in the same entry must not bring it back at Commit.
		tx.PutQueue(tx.EnsureQueue("q"), EventType_EVENT_QUEUE_CHANGED)
		must(t, tx.DeleteQueue("q"))
		if tx.Queue("q") != nil {
			t.Error("the entry still sees the queue")
		}
	})
	check(t, s)
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	check(t, s)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	check(t, s)
	v := s.Snapshot()
	defer v.Close()
	q, err := v.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	if q.Paused || q.MaxConcurrency != 0 || q.Enqueued != 1 {
		t.Errorf("the new queue is %v", q)
	}
	if n := s.Fetchable("q"); n != 1 {
		t.Errorf("%d jobs are fetchable", n)
	}
}

// TestAQueueWithAnUnreachableName checks that a store creates the queues "." and "..", because the ops accept these names: a job
// of another shard may have one, and a replica would stop at its entry.
func TestAQueueWithAnUnreachableName(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		create(t, tx, 1, ".")
		tx.EnsureQueue("..")
		tx.AdmitQueue("...")
	})
	check(t, s)
	if n := s.Fetchable("."); n != 1 {
		t.Errorf("%d jobs are fetchable", n)
	}
}

// The store wakes the fetches of a queue that takes a deleted queue's name within one entry.
func TestADeletedQueuesNameBecomesReady(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	ready := ""
	s.SetHooks(Hooks{OnReady: func(queue string, n int) { ready += fmt.Sprint(queue, n) }})
	update(t, s, func(tx *Tx) {
		tx.EnsureQueue("q")
		must(t, tx.DeleteQueue("q"))
		create(t, tx, 1, "q")
	})
	if ready != "q1" || s.Fetchable("q") != 1 {
		t.Errorf("the hook heard %q; %d fetchable", ready, s.Fetchable("q"))
	}
}

func TestADeletedQueueMakesRoom(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		for i := range job.MaxQueues {
			tx.EnsureQueue(fmt.Sprint("q", i))
		}
		if tx.CanAddQueues(1) {
			t.Error("there is room beyond the bound")
		}
		must(t, tx.DeleteQueue("q7"))
		if !tx.CanAddQueues(1) || tx.CanAddQueues(2) {
			t.Error("the deleted queue did not make room for one")
		}
	})
}

func TestQueuesThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tx *Tx) error{
		"unknown":       func(tx *Tx) error { return tx.DeleteQueue("nobody") },
		"with jobs":     func(tx *Tx) error { return tx.DeleteQueue("q") },
		"deleted twice": func(tx *Tx) error { _ = tx.DeleteQueue("empty"); return tx.DeleteQueue("empty") },
		"put after": func(tx *Tx) error {
			rec := tx.EnsureQueue("empty")
			_ = tx.DeleteQueue("empty")
			tx.PutQueue(rec)
			return tx.err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, vfs.NewMem())
			defer s.Close()
			update(t, s, func(tx *Tx) {
				create(t, tx, 1, "q")
				tx.EnsureQueue("empty")
			})
			tx := begin(s)
			if err := change(tx); err == nil {
				t.Error("it was deleted")
			}
			if err := tx.Commit(); err == nil {
				t.Error("the entry was committed")
			}
		})
	}
}
