package sim

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// setMembers draws a list of members that is often not newer than the stored one. It raises the level first,
// because a proposer refuses the op below it.
func (w *workload) setMembers() op.Op {
	if since := op.KindFor(&op.SetMembers{}).Since; w.m.level < since {
		return &op.RaiseLevel{Meta: &op.Meta{Principal: "engine"}, Level: since}
	}
	o := &op.SetMembers{Meta: &op.Meta{Principal: "host"}, Epoch: 1 + w.rng.Uint64N(3), Generation: 1 + w.rng.Uint64N(9)}
	for i := range pick(w, []int{1, 3, 5}) {
		o.Members = append(o.Members, &state.Member{Id: fmt.Sprintf("m%d", i), Address: fmt.Sprintf("host-%d:7000", w.rng.IntN(9)*10+i)})
	}
	return o
}

func (m *model) setMembers(o *op.SetMembers) outcome {
	if old := m.members; old != nil && (o.GetEpoch() < old.GetEpoch() || o.GetEpoch() == old.GetEpoch() && o.GetGeneration() <= old.GetGeneration()) {
		return outcome{refused: api.StateConflict}
	}
	m.members = o
	return outcome{result: &op.SetMembersResult{}}
}

func (m *model) compareMembers(v *state.Snapshot) error {
	got, err := v.Members()
	if err != nil {
		return err
	}
	want := m.members
	same := got.GetEpoch() == want.GetEpoch() && got.GetGeneration() == want.GetGeneration() && len(got.GetMembers()) == len(want.GetMembers())
	for i := 0; same && i < len(got.GetMembers()); i++ {
		a, b := got.GetMembers()[i], want.GetMembers()[i]
		same = a.GetId() == b.GetId() && a.GetAddress() == b.GetAddress()
	}
	if !same {
		return fmt.Errorf("the store has the members %v, the model %v", got, want)
	}
	return nil
}
