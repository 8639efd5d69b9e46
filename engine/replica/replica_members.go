package replica

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
)

// Peer is a member of the group's configuration.
type Peer struct {
	ID      string
	Address string
	Voter   bool
}

// Members returns the newest configuration in the log, committed or not. It is empty until a new member has
// heard of its group.
func (r *Replica) Members() []Peer {
	future := r.raft.GetConfiguration()
	if future.Error() != nil { // never, because raft answers from memory
		return nil
	}
	return peersOf(future.Configuration())
}

// AppliedMembers returns the configuration in the machine and the index of its entry, which Put and Remove
// take as since. Raft's own configuration would not serve, because raft reports its index as 0.
func (r *Replica) AppliedMembers() (members []Peer, index uint64) {
	data, index := r.machine.Configuration()
	c, err := decodeConfiguration(data)
	if err != nil { // a new member has none
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

// Configured reports whether the configuration in the machine contains this member.
func (r *Replica) Configured() bool {
	members, _ := r.AppliedMembers()
	return slices.ContainsFunc(members, func(p Peer) bool { return p.ID == string(r.id) })
}

// vote says whether the configuration of entry index gives this member a vote.
type vote struct {
	index uint64
	has   bool
}

// Voter reports whether the configuration in the machine gives this member a vote. It decodes each configuration once,
// so that every request may ask.
func (r *Replica) Voter() bool {
	_, index := r.machine.Configuration()
	known := r.vote.Load()
	if known == nil || known.index != index {
		members, of := r.AppliedMembers()
		known = &vote{of, slices.ContainsFunc(members, func(p Peer) bool { return p.ID == string(r.id) && p.Voter })}
		r.vote.Store(known)
	}
	return known.has
}

// Leader returns the id and address of the leader that this replica knows, or "" if it knows none.
func (r *Replica) Leader() (id, address string) {
	at, leader := r.raft.LeaderWithID()
	return string(leader), string(at)
}

// Term returns the newest term that this replica knows. A joining member knows the term of its position before raft has
// heard of it.
func (r *Replica) Term() uint64 {
	term := r.raft.CurrentTerm()
	if r.join != nil {
		at, _ := r.join.position()
		term = max(term, at.Term)
	}
	return term
}

// Last returns the index of the newest entry in the log.
func (r *Replica) Last() uint64 { return r.raft.LastIndex() }

// changeTimeout is the longest time that a membership change waits for its start: raft makes one change at a
// time, and none before the term has committed an entry.
const changeTimeout = 5 * time.Second

// Put adds p as a member, gives it its vote, or changes its address. A voter stays a voter. The caller based
// its decision on the configuration of entry since. If the newest configuration is another one, Put returns
// LEADER_UNAVAILABLE with nothing written, so that a member that another caller has just removed does not
// come back; since = 0 skips the check.
func (r *Replica) Put(p Peer, since uint64) error {
	return r.change(func() raft.Future {
		id, address := raft.ServerID(p.ID), raft.ServerAddress(p.Address)
		if p.Voter {
			return r.raft.AddVoter(id, address, since, changeTimeout)
		}
		return r.raft.AddNonvoter(id, address, since, changeTimeout)
	})
}

// Remove removes a member. It checks since as Put does.
func (r *Replica) Remove(id string, since uint64) error {
	return r.change(func() raft.Future { return r.raft.RemoveServer(raft.ServerID(id), since, changeTimeout) })
}

// change starts a membership change and waits until it is applied here.
func (r *Replica) change(begin func() raft.Future) error {
	if err := r.admit(); err != nil {
		return err
	}
	defer r.inflight.leave()
	err := begin().Error()
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), raftChanged):
		return api.Errorf(api.LeaderUnavailable, "the group's membership has changed meanwhile: nothing was written, ask again: %w", err)
	}
	return r.callerError(err)
}

// raftChanged begins the text of raft's error for a change that is not based on the newest configuration. The
// error has no type.
const raftChanged = "configuration changed since"

// Transfer hands leadership to a voter, and returns once this replica no longer leads, or when ctx ends. Raft
// refuses writes in the meantime, and gives up after an election timeout.
func (r *Replica) Transfer(ctx context.Context, to Peer) error {
	if err := r.admit(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer r.inflight.leave()
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
