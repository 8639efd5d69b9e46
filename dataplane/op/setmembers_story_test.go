package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
)

func init() {
	builders["set-members"] = func(s *story, items []item) op.Op {
		i := items[0]
		o := &op.SetMembers{Meta: s.meta(i), Epoch: uint64(i.number(s.t, "epoch", 1)), Generation: uint64(i.number(s.t, "generation", 0))}
		for _, word := range i.words {
			id, address, _ := strings.Cut(word, "@")
			o.Members = append(o.Members, &state.Member{Id: id, Address: address})
		}
		return o
	}
	moreValid = append(moreValid, func(*world) op.Op {
		return &op.SetMembers{Epoch: 1, Generation: 1, Members: []*state.Member{{Id: "a", Address: "a:1"}}}
	})
	bounds = append(bounds,
		bound{"set-members", "members[0].id", job.MaxMemberID, api.ValidationError, func(o op.Op, n int) { o.(*op.SetMembers).Members[0].Id = long(n) }},
		bound{"set-members", "members[0].address", job.MaxMemberAddress, api.ValidationError, func(o op.Op, n int) { o.(*op.SetMembers).Members[0].Address = long(n) }},
	)
}

// printMembers prints the stored list.
func (s *story) printMembers() {
	list := s.store.Members()
	if list == nil {
		fmt.Fprintf(&s.out, "members: none\n")
		return
	}
	fmt.Fprintf(&s.out, "members: epoch %d generation %d", list.Epoch, list.Generation)
	for _, m := range list.Members {
		fmt.Fprintf(&s.out, " %s@%s", m.Id, m.Address)
	}
	fmt.Fprintf(&s.out, "\n")
}

// A list has 1, 3 or 5 members.
func TestNumberOfMembers(t *testing.T) {
	t.Parallel()
	for n := range job.MaxMembers + 3 {
		o := &op.SetMembers{Epoch: 1, Generation: 1}
		for i := range n {
			o.Members = append(o.Members, &state.Member{Id: fmt.Sprint(i), Address: fmt.Sprintf("%d:1", i)})
		}
		err := o.Validate()
		if allowed := n == 1 || n == 3 || n == 5; (err == nil) != allowed || !allowed && api.CodeOf(err) != api.ValidationError {
			t.Errorf("%d members: %v", n, err)
		}
	}
	if job.MaxMemberID != engine.MaxGroupName {
		t.Errorf("an id may have %d bytes here and %d in the engine", job.MaxMemberID, engine.MaxGroupName)
	}
}

// A refused list names the stored pair, so that the proposer can tell what it lacks.
func TestOldMembersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := func(epoch, generation uint64, id string) error {
		o := &op.SetMembers{Epoch: epoch, Generation: generation, Members: []*state.Member{{Id: id, Address: id + ":1"}}}
		err, _ := w.apply(o)[0].(error)
		return err
	}
	for _, step := range []struct {
		epoch, generation uint64
		refused           bool
	}{{2, 5, false}, {2, 5, true}, {2, 4, true}, {1, 9, true}, {2, 6, false}, {3, 1, false}, {2, 7, true}} {
		before := w.store.Members()
		err := set(step.epoch, step.generation, "a")
		if (err != nil) != step.refused {
			t.Fatalf("(%d, %d) after %v: %v", step.epoch, step.generation, before, err)
		}
		if !step.refused {
			continue
		}
		e, ok := err.(*api.Error)
		if !ok || e.Code != api.StateConflict || e.Details["epoch"] != before.Epoch || e.Details["generation"] != before.Generation {
			t.Errorf("(%d, %d) after %v: %+v", step.epoch, step.generation, before, err)
		}
	}
	w.restart()
	if got := w.store.Members(); got.GetEpoch() != 3 || got.GetGeneration() != 1 || len(got.GetMembers()) != 1 || got.Members[0].Address != "a:1" {
		t.Errorf("after a restart the list is %v", got)
	}
	w.check()
}
