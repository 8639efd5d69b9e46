package cell

import (
	"testing"

	"github.com/corvo/corvo/dataplane/op"
)

const laterLevel = op.FeatureLevel + 1

// TestTheLevelRisesWithTheLowestMember upgrades the members of a group one by one to a binary that knows a later feature
// level. The level rises only after the last one, on every member.
func TestTheLevelRisesWithTheLowestMember(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c"}
	f := newFleet(t, nil, ids...)
	f.must(f.setMembers("a", 1, ids...))
	for _, id := range ids {
		leader := f.becomes(ids...)
		eventually(t, "the leader knows the level of the lowest member", func() bool {
			level, ok := f.nodes[leader].Engine().MembersLevel()
			if !ok {
				leader = f.becomes(ids...)
			}
			return ok && level == op.FeatureLevel
		})
		for _, of := range ids {
			if got := f.nodes[of].machine.Level(); got > op.FeatureLevel {
				t.Fatalf("the level of %s is %d before %s is upgraded", of, got, id)
			}
		}
		f.stop(id)
		f.nodes[id].maxLevel = laterLevel
		f.start(id)
	}
	for _, id := range ids {
		eventually(t, "the level has risen", func() bool { return f.nodes[id].machine.Level() == laterLevel })
	}
	w := f.write(ids...)
	w.more(t, 5)
	w.finish(f, "a")
}
