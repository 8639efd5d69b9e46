package state

import (
	"testing"

	"github.com/corvo/corvo/engine/entry"
)

func putMembers(t *testing.T, s *Store, list *Members) {
	t.Helper()
	update(t, s, func(tx *Tx) { must(t, tx.PutMembers(list)) })
}

// The list of members survives a restart and travels in an image, whose receiver is told of it.
func TestMembersInImages(t *testing.T) {
	t.Parallel()
	from, to := openClosing(t), openClosing(t)
	putMembers(t, from, &Members{Epoch: 1, Generation: 1, Members: []*Member{{Id: "a", Address: "a:1"}}})
	putMembers(t, from, &Members{Epoch: 1, Generation: 2, Members: []*Member{{Id: "b", Address: "b:1"}}})
	told := 0
	to.SetHooks(Hooks{OnMembers: func() { told++ }})
	must(t, to.Restore(copyOf(t, from)))
	if got := to.Members(); got.GetGeneration() != 2 || got.Members[0].Id != "b" || told != 1 {
		t.Errorf("the restored list is %v, its hook was called %d times", got, told)
	}
	putMembers(t, to, &Members{Epoch: 1, Generation: 3, Members: []*Member{{Id: "b", Address: "b:1"}}})
	if told != 2 || to.Members().GetGeneration() != 3 {
		t.Errorf("after another list the hook was called %d times; the list is %v", told, to.Members())
	}
}

// A backup leaves the list out, because a copy that kept it would try to add the members of the original.
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
