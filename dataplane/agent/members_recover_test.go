package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// recovered returns a document of the groups that were refounded after those of doc.
func (c *crew) recovered(generation int64, members ...string) fleet.Doc {
	d := c.doc(generation, members...)
	d.Earlier, d.Incarnations = d.Incarnations, []entry.Incarnation{{3}, {4}}
	return d
}

// aside returns the number of copies that a host has set aside.
func (c *crew) aside(store string) int {
	c.t.Helper()
	all, err := filepath.Glob(filepath.Join(c.hosts[store].dir, "aside", "ns_a.*"))
	c.must(err)
	return len(all)
}

// Two of three hosts are lost. The third refounds the groups from its copy, which has every acknowledged job, and takes
// writes. It does so once. The lost hosts return with their data, which cannot come back: they keep it aside, join empty
// and delete the old data when the groups have all their members.
func TestALostQuorumIsRecoveredFromOneCopy(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	c.tell(c.doc(1, "join:a", "join:b", "join:c"), "a", "b", "c")
	ids := c.enqueue(20, "a", "b", "c")
	c.has("a", ids) // an entry that only b and c have would be lost
	c.stop("b")
	c.stop("c")
	c.tell(c.recovered(2, "recover:a"), "a")
	c.settled(2, "a")
	add := func(more [2][]job.ID) {
		for shard := range ids {
			ids[shard] = append(ids[shard], more[shard]...)
		}
	}
	c.has("a", ids)
	add(c.enqueue(10, "a"))
	c.stop("a")
	c.start("a")
	three := []string{"recover:a", "join:b", "join:c"}
	c.tell(c.recovered(3, "recover:a"), "a") // the same again refounds nothing
	c.settled(3, "a")
	c.has("a", ids)

	c.start("b")
	c.start("c")
	c.tell(c.recovered(4, three...), "a", "b", "c")
	c.settled(4, "a", "b", "c")
	add(c.enqueue(10, "b", "c"))
	for _, store := range []string{"a", "b", "c"} {
		c.has(store, ids)
		if at := c.reports(store, fleet.Opened, 4); !slices.Equal(at.Incarnations, []entry.Incarnation{{3}, {4}}) || at.Groups[0].Last == 0 || at.Groups[0].Term == 0 {
			t.Errorf("%s: %+v", store, at)
		}
	}
	if c.aside("a") != 0 || c.aside("b") != 1 || c.aside("c") != 1 {
		t.Errorf("a, b and c keep %d, %d and %d copies aside", c.aside("a"), c.aside("b"), c.aside("c"))
	}
	whole := c.doc(4, "join:a", "join:b", "join:c")
	whole.Incarnations = []entry.Incarnation{{3}, {4}}
	c.tell(whole, "a", "b", "c")
	eventually(t, "the old copies are deleted", func() bool { return c.aside("b")+c.aside("c") == 0 }, func() any { return c.aside("b") })
	c.has("b", ids)
}

// Two lost hosts return without a control plane, and lead the earlier groups. They can neither reach nor disturb the
// refounded ones, which go on alone. When the hosts hear of the recovery, they give up the earlier groups with all that
// these have acknowledged since.
func TestAReturnedMajorityDoesNotReachTheRefoundedGroups(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	ids := c.enqueue(10, "a", "b", "c")
	c.has("a", ids)
	c.stop("b")
	c.stop("c")
	c.tell(c.recovered(2, "recover:a"), "a")
	c.settled(2, "a")
	c.start("b")
	c.start("c")
	c.tell(c.doc(1, "join:a", "join:b", "join:c"), "b", "c")
	stray := c.enqueue(4, "b", "c")
	for shard, more := range c.enqueue(4, "a") {
		ids[shard] = append(ids[shard], more...)
	}
	at := c.reports("a", fleet.Opened, 2)
	for shard, g := range at.Groups {
		if g.Role != fleet.Leading || !slices.Equal(g.Voters, []string{"a"}) {
			t.Errorf("shard %d of a: %+v", shard, g)
		}
	}
	c.tell(c.recovered(3, "recover:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(3, "a", "b", "c")
	for _, store := range []string{"a", "b", "c"} {
		c.has(store, ids)
		cells, err := c.hosts[store].host.Cells("ns_a")
		c.must(err)
		for shard, of := range stray {
			for _, id := range of {
				if j, err := cells[shard].State().Job(id); err != nil || j != nil {
					t.Errorf("%s has job %s of the earlier groups: %v", store, id, err)
				}
			}
		}
	}
	if c.aside("b") != 1 || c.aside("c") != 1 {
		t.Errorf("b and c keep %d and %d copies aside", c.aside("b"), c.aside("c"))
	}
}

// A copy of a history other than the one that is refounded is refused and kept, and so is a directory without data.
func TestOnlyTheNamedCopyIsRefounded(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b")
	c.tell(c.doc(1, "found:a"), "a")
	c.settled(1, "a")
	other := c.recovered(2, "recover:a")
	other.Earlier = []entry.Incarnation{{8}, {9}}
	c.tell(other, "a")
	if at := c.reports("a", fleet.Failed, 2); !strings.Contains(at.Error, "is not refounded") || !c.onDisk("a") {
		t.Errorf("%+v", at)
	}
	c.tell(c.recovered(2, "recover:b"), "b")
	c.reports("b", fleet.Failed, 2)
	if _, err := os.Stat(filepath.Join(c.hosts["b"].dir, "ns", "ns_a")); err == nil {
		t.Error("b founded groups without a copy")
	}
}
