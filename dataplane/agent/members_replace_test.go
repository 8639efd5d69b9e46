package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/entry"
)

// The hosts of future members discard their empty copies when the founder's groups were replaced before any entry came.
// An older document that comes afterwards changes nothing.
func TestFutureMembersFollowAReplacedFounder(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c", "d")
	old := c.tell(c.doc(1, "found:a", "join:b", "join:c"), "b", "c")
	for _, store := range []string{"b", "c"} {
		c.reports(store, fleet.Opened, 1)
	}
	c.stop("c")
	c.start("c")
	replaced := func(members ...string) fleet.Doc {
		d := c.doc(2, members...)
		d.Incarnations = []entry.Incarnation{{3}, {4}}
		return d
	}
	c.tell(replaced("found:b", "join:c", "join:d"), "b", "c", "d")
	c.settled(2, "b", "c", "d")
	c.tell(replaced("join:b", "join:c", "join:d"), "b", "c", "d")
	ids := c.enqueue(10, "b", "c", "d")
	old.Number = c.number + 1
	c.tell(old, "b", "c")
	for _, store := range []string{"b", "c", "d"} {
		if at := c.reports(store, fleet.Opened, 2); !slices.Equal(at.Incarnations, []entry.Incarnation{{3}, {4}}) {
			t.Errorf("%s has the groups %v", store, at.Incarnations)
		}
		c.has(store, ids)
	}
}

// A member that has entries of a replaced founder's groups keeps them, because they may be the only copy.
func TestAMemberKeepsEntriesOfAReplacedFounder(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c", "d")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	ids := c.enqueue(4, "a", "b", "c")
	d := c.doc(2, "found:d", "join:b", "join:c")
	d.Incarnations = []entry.Incarnation{{3}, {4}}
	c.tell(d, "b")
	if at := c.reports("b", fleet.Failed, 2); !strings.Contains(at.Error, "holds history") {
		t.Errorf("%+v", at)
	}
	c.stop("b")
	c.start("b")
	c.must(c.hosts["b"].host.Add(t.Context(), "ns_a", host.Spec{}))
	c.has("b", ids)
}
