package op_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/entry"
)

// member is a replica run by a binary of some level.
type member struct {
	*world
	most uint32
}

func newMember(t *testing.T, most uint32) *member {
	m := &member{newWorld(t), most}
	m.machine.MaxLevel = most
	return m
}

// become restarts the member as a binary of another level.
func (m *member) become(most uint32) error {
	m.restart()
	m.most, m.machine.MaxLevel = most, most
	return m.machine.CheckLevel()
}

// follow applies an entry of the group's log.
func (m *member) follow(data []byte) error {
	m.t.Helper()
	_, err := m.try(data)
	return err
}

// Three members of one log are upgraded one after the other, while entries go on.
// The level rises once all know it; from then on entries are written at it, and a
// binary from before can neither go on nor begin.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	members := []*member{newMember(t, 1), newMember(t, 1), newMember(t, 1)}
	leader := members[0]
	send := func(o op.Op) {
		t.Helper()
		data := leader.encode(leader.machine.Level(), o)
		for i, m := range members {
			if err := m.follow(data); err != nil {
				t.Fatalf("member %d: %v", i, err)
			}
		}
	}
	send(leader.newJobs("q", 1))
	for i, m := range members {
		if err := m.become(2); err != nil {
			t.Fatalf("member %d after its upgrade: %v", i, err)
		}
		send(leader.newJobs("q", 1))
		if got := leader.machine.Level(); got != 1 {
			t.Fatalf("the level is %d before it was raised", got)
		}
	}
	send(&op.RaiseLevel{Level: 2})
	for i, m := range members {
		if got := m.machine.Level(); got != 2 {
			t.Errorf("member %d is at level %d", i, got)
		}
	}
	send(leader.newJobs("q", 1))
	if got := members[2].machine.Applied().Index; got != 6 {
		t.Errorf("the third member applied %d entries", got)
	}
	if err := members[1].become(1); err == nil || !strings.Contains(err.Error(), "the store has feature level 2, this binary knows 1") {
		t.Errorf("the binary from before opened the store: %v", err)
	}
	if err := members[1].become(2); err != nil {
		t.Errorf("the new binary did not: %v", err)
	}
}

// A member that was left behind stops where the level rises, as it stood.
func TestLevelStopsOldMember(t *testing.T) {
	t.Parallel()
	m := newMember(t, 1)
	raise := m.encode(1, m.newJobs("q", 1), &op.RaiseLevel{Level: 2})
	if err := m.follow(raise); err == nil || !strings.Contains(err.Error(), "entry 1, op 2 of 2: the feature level rises to 2, this binary knows 1: upgrade it") {
		t.Errorf("%v", err)
	}
	if got := m.machine.Applied(); got != (entry.Applied{}) {
		t.Errorf("it applied %+v", got)
	}
	if err := m.become(2); err != nil {
		t.Fatal(err)
	}
	m.index = 0
	if err := m.follow(raise); err != nil {
		t.Errorf("after its upgrade: %v", err)
	}
}

func TestLevelNeverFalls(t *testing.T) {
	t.Parallel()
	m := newMember(t, 4)
	for _, step := range []struct {
		level, after uint32
		refused      api.Code
	}{{1, 1, ""}, {3, 3, ""}, {2, 3, api.StateConflict}, {1, 3, api.StateConflict}, {3, 3, ""}, {4, 4, ""}} {
		err, _ := m.apply(&op.RaiseLevel{Level: step.level})[0].(error)
		if api.CodeOf(err) != step.refused || m.machine.Level() != step.after {
			t.Errorf("raised to %d: level %d, %v", step.level, m.machine.Level(), err)
		}
	}
	m.checkReplica()
}

// A store of a higher level is not taken from another member either.
func TestLevelOfImage(t *testing.T) {
	t.Parallel()
	ahead, behind := newMember(t, 2), newMember(t, 1)
	ahead.apply(&op.RaiseLevel{Level: 2})
	image, err := ahead.machine.Image()
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	if err := behind.machine.Restore(image); err == nil || !strings.Contains(err.Error(), "the store has feature level 2, this binary knows 1") {
		t.Errorf("restored: %v", err)
	}
}
