package state

import (
	"testing"

	"github.com/corvo/corvo/engine/entry"
)

// closed reports whether a channel on which nothing is sent is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func putMembers(t *testing.T, s *Store, list *Members) {
	t.Helper()
	update(t, s, func(tx *Tx) { must(t, tx.PutMembers(list)) })
}

// The list of members travels in an image, and the receiver notifies those who wait for a change of it.
func TestMembersInImages(t *testing.T) {
	t.Parallel()
	from, to := openClosing(t), openClosing(t)
	putMembers(t, from, &Members{Epoch: 1, Generation: 1, Members: []*Member{{Id: "a", Address: "a:1"}}})
	putMembers(t, from, &Members{Epoch: 1, Generation: 2, Members: []*Member{{Id: "b", Address: "b:1"}}})
	changed := to.MembersChanged()
	must(t, to.Restore(copyOf(t, from)))
	if got := to.Members(); got.GetGeneration() != 2 || got.Members[0].Id != "b" || !closed(changed) {
		t.Errorf("the restored list is %v, its readers were notified: %v", got, closed(changed))
	}
	changed = to.MembersChanged()
	update(t, to, func(*Tx) {})
	if closed(changed) {
		t.Error("an entry without a list notified the readers of the list")
	}
	putMembers(t, to, &Members{Epoch: 1, Generation: 3, Members: []*Member{{Id: "b", Address: "b:1"}}})
	if !closed(changed) || to.Members().GetGeneration() != 3 {
		t.Errorf("after another list the readers were notified: %v; the list is %v", closed(changed), to.Members())
	}
}

// TestMembersAreNotExported checks that a backup leaves out the list of members, because a copy with the list
// would try to add the members of the original.
func TestMembersAreNotExported(t *testing.T) {
	t.Parallel()
	from := openClosing(t)
	putMembers(t, from, &Members{Epoch: 1, Generation: 1, Members: []*Member{{Id: "a", Address: "a:1"}}})
	v := from.Snapshot()
	defer v.Close()
	dir := t.TempDir()
	_, err := Import(dir, Options{}, v.Export(), Rebirth{Incarnation: entry.Incarnation{9}})
	must(t, err)
	copied, err := Open(dir, Options{})
	must(t, err)
	defer copied.Close()
	if got := copied.Members(); got != nil {
		t.Errorf("the copy has the members %v", got)
	}
}
