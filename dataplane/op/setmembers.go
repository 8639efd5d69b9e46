package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SetMembers replaces the group's list of members. The op only records the list; the leader then changes the
// Raft configuration step by step (engine/membership). Any host may propose the newest list that it knows,
// because Apply refuses each list that is not newer than the stored one, so that the list never goes back.

// Validate refuses an op that no state could accept.
func (o *SetMembers) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.Epoch == 0 {
		p.add("epoch", errors.New("is missing; epochs start at 1"))
	}
	if o.Generation == 0 {
		p.add("generation", errors.New("is missing; generations start at 1"))
	}
	switch n := len(o.Members); {
	case n == 0 || n > job.MaxMembers:
		p.length("members", n, job.MaxMembers)
	case n%2 == 0:
		p.add("members", fmt.Errorf("has %d elements; give an odd number, because another voter would add no tolerance of failures", n))
	}
	ids, addresses := map[string]bool{}, map[string]bool{}
	for i, m := range o.Members {
		p.item("members", i, "id", checkOnce(m.GetId(), job.MaxMemberID, ids))
		p.item("members", i, "address", checkOnce(m.GetAddress(), job.MaxMemberAddress, addresses))
	}
	return p.err()
}

// checkOnce checks a text that must not be empty or in seen, and adds it to seen.
func checkOnce(s string, most int, seen map[string]bool) error {
	switch {
	case s == "":
		return errors.New("is missing")
	case seen[s]:
		return errors.New("is in the list twice")
	}
	seen[s] = true
	return job.CheckText(s, most)
}

// Apply replaces the list. It refuses a list that is not newer with STATE_CONFLICT, and with the stored epoch
// and generation in the details.
func (o *SetMembers) Apply(tx *state.Tx) (*SetMembersResult, error) {
	list := &state.Members{Epoch: o.Epoch, Generation: o.Generation, Members: o.Members}
	if old := tx.Members(); !list.Newer(old) {
		refused := api.Errorf(api.StateConflict, "the group has the members of epoch %d, generation %d, and epoch %d, generation %d is not newer: propose the newest list", old.Epoch, old.Generation, o.Epoch, o.Generation)
		refused.Details = map[string]any{"epoch": old.Epoch, "generation": old.Generation}
		return nil, refused
	}
	if err := tx.PutMembers(list); err != nil {
		return nil, err
	}
	return &SetMembersResult{}, nil
}
