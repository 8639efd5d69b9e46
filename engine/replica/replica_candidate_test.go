package replica

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestAdmitCandidate checks which candidates raft takes for a voter.
func TestAdmitCandidate(t *testing.T) {
	t.Parallel()
	known := []Peer{{ID: "learner"}, {ID: "voter", Voter: true}, {ID: "other", Voter: true}}
	for from, want := range map[string]string{"learner": "voter", "other": "other", "stranger": "stranger", "": ""} {
		header := raft.RPCHeader{ID: []byte(from), Addr: []byte(from + ":1")}
		vote, before := &raft.RequestVoteRequest{RPCHeader: header}, &raft.RequestPreVoteRequest{RPCHeader: header}
		entries := &raft.AppendEntriesRequest{RPCHeader: header}
		for _, m := range []any{vote, before, entries} {
			admitCandidate(m, func() []Peer { return known })
		}
		if string(vote.ID) != want || string(before.ID) != want || string(vote.Addr) != from+":1" || string(entries.ID) != from {
			t.Errorf("%q becomes %q and %q, want %q; a leader becomes %q", from, vote.ID, before.ID, want, entries.ID)
		}
	}
	alone := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte("learner")}}
	admitCandidate(alone, func() []Peer { return known[:1] })
	if string(alone.ID) != "learner" {
		t.Errorf("without a voter, the candidate becomes %q", alone.ID)
	}
}
