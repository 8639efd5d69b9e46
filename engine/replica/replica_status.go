package replica

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// Status describes a replica.
type Status struct {
	Term     uint64
	State    string // Follower, Candidate, Leader, Removed or Shutdown
	Voter    bool   // this member has a vote
	Last     uint64 // index of the newest entry in the log
	Commit   uint64 // index of the newest entry known to be committed
	Applied  entry.Applied
	Snapshot uint64 // index of the newest snapshot, 0 if there is none
	LogBytes int64  // disk space of the log, preallocated bytes included
	// These fields count since the replica was opened: appends to the log, each with one sync; the entries in
	// them, and their bytes; the snapshots that this replica took, or received and installed.
	Appends, Entries, EntryBytes, Snapshots uint64
}

// Status returns the replica's present status. It reads the fields one after another, so they may be of
// slightly different moments.
func (r *Replica) Status() (Status, error) {
	size, err := r.journal.Size()
	if err != nil {
		return Status{}, fmt.Errorf("size of the log: %w", err)
	}
	s := Status{
		Term:     r.raft.CurrentTerm(),
		State:    r.raft.State().String(),
		Last:     r.raft.LastIndex(),
		Commit:   r.raft.CommitIndex(),
		Applied:  r.machine.Applied(),
		Snapshot: r.snapshots.newest.Load(),
		LogBytes: size,

		Appends: r.journal.written.appends.Load(), Entries: r.journal.written.entries.Load(), EntryBytes: r.journal.written.bytes.Load(),
		Snapshots: r.snapshots.made.Load(),
	}
	members := r.Members()
	own := slices.IndexFunc(members, func(p Peer) bool { return p.ID == string(r.id) })
	switch {
	case own >= 0:
		s.Voter = members[own].Voter
	case len(members) > 0 && s.State == raft.Follower.String():
		// A member without a place in the configuration neither votes nor stands for election. A member that
		// was removed while it was away does not know, and the others refuse it.
		s.State = Removed
	}
	return s, nil
}

// Removed is the state of a replica that is not in its group's newest configuration.
const Removed = "Removed"

// Leads reports whether raft takes this replica for the leader.
func (r *Replica) Leads() bool { return r.raft.State() == raft.Leader }

// Applied returns the last entry that the machine has applied.
func (r *Replica) Applied() entry.Applied { return r.machine.Applied() }

// Verify delivers nil if this replica still led the group at some moment after the call. Calls that arrive
// during a round share the next round. Raft counts the answers of members without a vote too, so the result
// is reliable only in a group with one voter.
func (r *Replica) Verify() <-chan error {
	answer := make(chan error, 1)
	if err := r.admit(); err != nil {
		answer <- err
		return answer
	}
	v := &r.verifying
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting = append(v.waiting, answer)
	if len(v.waiting) == 1 && !v.busy {
		v.busy = true
		go r.verify()
	}
	return answer
}

// verifier coalesces concurrent calls of Verify into one round to the group.
type verifier struct {
	mu      sync.Mutex
	waiting []chan<- error
	busy    bool // a goroutine is in verify
}

func (r *Replica) verify() {
	v := &r.verifying
	for {
		v.mu.Lock()
		asking := v.waiting
		v.waiting = nil
		v.busy = len(asking) > 0
		v.mu.Unlock()
		if len(asking) == 0 {
			return
		}
		err := r.raft.VerifyLeader().Error()
		if err != nil {
			err = r.readError(err)
		}
		for _, answer := range asking {
			r.inflight.leave()
			answer <- err
		}
	}
}

func (r *Replica) readError(err error) error {
	if r.Err() != nil {
		return r.Unhealthy()
	}
	return api.Wrap(err, api.LeaderUnavailable, "this replica does not lead the group: ask the leader")
}
