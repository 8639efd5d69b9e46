package replica

import (
	"slices"

	"github.com/hashicorp/raft"
)

// admitCandidate lets raft compare the log of a candidate that is a learner in the newest configuration of this member.
//
// A leader may give a learner its vote and die before another voter has that configuration. The other voter cannot win,
// because it lacks the entry, and the new voter may need its vote. Raft would refuse it without a look at the logs,
// because it wants a candidate to have a vote in the configuration of the member that it asks. Raft's proof of safety
// needs no such rule (D. Ongaro, "Consensus: Bridging Theory and Practice", section 4.1): a member grants its vote to a
// candidate whose log is not behind its own. A member that has lost its vote gains nothing, because its log lacks the
// entry that took the vote.
//
// admitCandidate writes the ID of a voter into the request, because raft uses the ID of a request for this rule alone,
// and counts and records votes by address.
func admitCandidate(command any, members func() []Peer) {
	var from *raft.RPCHeader
	switch m := command.(type) {
	case *raft.RequestVoteRequest:
		from = &m.RPCHeader
	case *raft.RequestPreVoteRequest:
		from = &m.RPCHeader
	default:
		return
	}
	known := members()
	voter := slices.IndexFunc(known, func(p Peer) bool { return p.Voter })
	if voter >= 0 && slices.ContainsFunc(known, func(p Peer) bool { return p.ID == string(from.ID) && !p.Voter }) {
		from.ID = []byte(known[voter].ID)
	}
}
