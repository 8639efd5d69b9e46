package state

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/engine/entry"
)

// The set of queues with something to record follows from the records, so that it is the same after a restart.
func TestUnmeteredQueuesAfterARestart(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "old") })
	first := 0
	s.SetHooks(Hooks{OnMeters: func() { first++ }})
	update(t, s, func(tx *Tx) { must(t, tx.RecordMeters(nil, 0)) })
	if n, _ := s.Unmetered(); n != 0 {
		t.Errorf("%d queues have something to record when the metering begins", n)
	}
	for i, queue := range []string{"b", "a", "b"} {
		update(t, s, func(tx *Tx) { create(t, tx, 2+i, queue) })
	}
	if got := s.UnmeteredQueues(); !slices.Equal(got, []string{"a", "b"}) || first != 1 {
		t.Errorf("%q have something to record, the hook was called %d times", got, first)
	}
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	if got := s.UnmeteredQueues(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after a restart %q have something to record", got)
	}
	update(t, s, func(tx *Tx) { must(t, tx.RecordMeters([]string{"a", "b"}, 0)) })
	if n, _ := s.Unmetered(); n != 0 {
		t.Errorf("%d queues have something to record after the recording", n)
	}
	check(t, s)
}

// A refounded store does not record what its earlier history may have recorded.
func TestARefoundedStoreMetersAnew(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) { must(t, tx.RecordMeters(nil, 0)) })
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	must(t, s.refound(entry.Incarnation{9}, nil))
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	if n, _ := s.Unmetered(); n != 0 || s.Head().MeteredNs != 0 {
		t.Errorf("%d queues have something to record, metered to %d", n, s.Head().MeteredNs)
	}
}

// The deletion of a queue with something to record does not delay the recording of the others.
func TestUnmeteredSinceBeforeADeletion(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	defer s.Close()
	update(t, s, func(tx *Tx) { must(t, tx.RecordMeters(nil, 0)) })
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	begun := s.Head().ClockNs
	update(t, s, func(tx *Tx) { create(t, tx, 2, "gone") })
	update(t, s, func(tx *Tx) {
		j, err := tx.Job(idOf(2))
		must(t, err)
		must(t, tx.MoveJob(j, "q"))
	})
	update(t, s, func(tx *Tx) { must(t, tx.DeleteQueue("gone")) })
	if n, since := s.Unmetered(); n != 1 || since != begun {
		t.Errorf("%d queues have something to record since %d, want 1 since %d", n, since, begun)
	}
	if head := s.Head(); head.UsageNextSeq != 2 {
		t.Errorf("the next usage row is %d, the deleted queue has one", head.UsageNextSeq)
	}
	check(t, s)
}
