package replica

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
)

// Peer is a member as the group's configuration has it.
type Peer struct {
	ID      string
	Address string
	Voter   bool
}

// Members is the newest configuration this replica has in its log, committed or
// not; empty until a new member has heard of its group.
func (r *Replica) Members() []Peer {
	future := r.raft.GetConfiguration()
	if future.Error() != nil { // never: it answers from memory
		return nil
	}
	return peersOf(future.Configuration())
}

// Settled is the configuration in the machine and the entry it comes from: what a
// change is based on. What raft's future says of its own index is always 0.
func (r *Replica) Settled() (members []Peer, index uint64) {
	data, index := r.machine.Configuration()
	c, err := decodeConfiguration(data)
	if err != nil { // a new member's is empty
		return nil, index
	}
	return peersOf(c), index
}

func peersOf(c raft.Configuration) []Peer {
	peers := make([]Peer, len(c.Servers))
	for i, s := range c.Servers {
		peers[i] = Peer{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter}
	}
	return peers
}

// Configured says whether the machine holds a configuration with this member in
// it.
func (r *Replica) Configured() bool {
	members, _ := r.Settled()
	return slices.ContainsFunc(members, func(p Peer) bool { return p.ID == string(r.id) })
}

// Leader is the member this replica takes for the leader, and where it is; ""
// for none.
func (r *Replica) Leader() (id, address string) {
	at, leader := r.raft.LeaderWithID()
	return string(leader), string(at)
}

// Term is the newest term this replica knows of.
func (r *Replica) Term() uint64 { return r.raft.CurrentTerm() }

// Last is the newest entry in the log.
func (r *Replica) Last() uint64 { return r.raft.LastIndex() }

// changeTimeout is how long a change of membership may wait for its turn: raft
// makes one at a time, and none before the term has committed an entry.
const changeTimeout = 5 * time.Second

// Put makes p a member, gives it its vote, or its new address. A voter stays
// one. It is refused, with nothing written, when the newest configuration is not
// the one of entry since, on which whoever asks has decided: a member that another
// has removed meanwhile would come back.
func (r *Replica) Put(p Peer, since uint64) error {
	return r.change(func() raft.Future {
		id, address := raft.ServerID(p.ID), raft.ServerAddress(p.Address)
		if p.Voter {
			return r.raft.AddVoter(id, address, since, changeTimeout)
		}
		return r.raft.AddNonvoter(id, address, since, changeTimeout)
	})
}

// Remove ends a membership, unless the configuration has changed: see Put.
func (r *Replica) Remove(id string, since uint64) error {
	return r.change(func() raft.Future { return r.raft.RemoveServer(raft.ServerID(id), since, changeTimeout) })
}

// change waits until a change is committed.
func (r *Replica) change(begin func() raft.Future) error {
	if err := r.admit(); err != nil {
		return err
	}
	defer r.flying.leave()
	err := begin().Error()
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), raftChanged):
		return api.Errorf(api.LeaderUnavailable, "the group's membership has changed meanwhile: nothing was written, ask again: %w", err)
	}
	return r.answer(err)
}

// raftChanged begins the text of raft's refusal of a change based on another
// configuration than the newest; the error has no type.
const raftChanged = "configuration changed since"

// Transfer hands leadership to a voter, and returns when this replica has ceased
// to lead. Nothing can be written until then; raft gives up after an election
// timeout.
func (r *Replica) Transfer(ctx context.Context, to Peer) error {
	if err := r.admit(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer r.flying.leave()
		done <- r.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address)).Error()
	}()
	select {
	case err := <-done:
		if err != nil {
			return api.Errorf(api.LeaderUnavailable, "leadership could not be handed to %s: %w", to.ID, err)
		}
		return nil
	case <-ctx.Done():
		return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "the request ended before leadership had been handed over: it may still be")
	}
}
