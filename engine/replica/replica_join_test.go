package replica

import (
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// TestJoinGate checks which messages reach the raft of a member that joins with an empty directory: none before it knows
// the position of a leader, then those of leaders since the position's term, and in the end all.
func TestJoinGate(t *testing.T) {
	t.Parallel()
	var asked []Peer
	g := &joinGate{ask: func(p Peer) { asked = append(asked, p) }, known: make(chan struct{})}
	from := raft.RPCHeader{ID: []byte("one"), Addr: []byte("one:1")}
	messages := map[string]any{
		"append 6":   &raft.AppendEntriesRequest{RPCHeader: from, Term: 6},
		"append 7":   &raft.AppendEntriesRequest{RPCHeader: from, Term: 7},
		"snapshot 6": &raft.InstallSnapshotRequest{RPCHeader: from, Term: 6},
		"snapshot 8": &raft.InstallSnapshotRequest{RPCHeader: from, Term: 8},
		"vote":       &raft.RequestVoteRequest{RPCHeader: from, Term: 9},
		"pre-vote":   &raft.RequestPreVoteRequest{RPCHeader: from, Term: 9},
		"timeout":    &raft.TimeoutNowRequest{RPCHeader: from},
	}
	pass := func(when string, want ...string) {
		t.Helper()
		wanted := map[string]bool{}
		for _, name := range want {
			wanted[name] = true
		}
		for name, m := range messages {
			if err := g.refuse(m); (err == nil) != wanted[name] {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	pass("no position")
	if len(asked) != 4 || asked[0] != (Peer{ID: "one", Address: "one:1"}) {
		t.Errorf("asked %v", asked)
	}
	g.open(entry.Position{Index: 100, Term: 7})
	g.open(entry.Position{Index: 1, Term: 1}) // too late
	pass("behind the position", "append 7", "snapshot 8")
	g.votes.Store(true)
	pass("at the position", "append 6", "append 7", "snapshot 6", "snapshot 8", "vote", "pre-vote", "timeout")
	if len(asked) != 4 {
		t.Errorf("asked %v", asked)
	}
}

// TestAJoiningMemberAsksItsLeader adds a member with limits to a group. It must follow the leader only once it knows the
// position, take part in elections only once it has reached it, although the entries come in a snapshot, and be limited
// anew after a restart in between.
func TestAJoiningMemberAsksItsLeader(t *testing.T) {
	t.Parallel()
	net := newNetwork()
	leader := leaderOfCutLog(t, net, new(tape))
	dir, m, log := t.TempDir(), new(tape), newMemory()
	asked := make(chan Peer, 1)
	open := func(at entry.Position) *Replica {
		t.Helper()
		r, err := Open(Config{
			Dir: dir, Group: ours.Group, Incarnation: ours.Incarnation, ID: "two", Machine: m, Log: log, Joining: true,
			Join: &Join{At: at, Ask: func(p Peer) {
				select {
				case asked <- p:
				default:
				}
			}},
			Transport: net.link("two"), TrailingBytes: -1, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		net.stage("two", r.Staging())
		t.Cleanup(func() { _ = r.Close() }) // idempotent
		return r
	}
	joining := open(entry.Position{})
	if err := leader.Put(Peer{ID: "two", Address: "two"}, 0); err != nil {
		t.Fatal(err)
	}
	if p := <-asked; p.ID != "one" {
		t.Errorf("it asks %v", p)
	}
	if !joining.Waits() || joining.Votes() || joining.Last() != 0 {
		t.Errorf("waits %v, votes %v, %d entries", joining.Waits(), joining.Votes(), joining.Last())
	}
	later := entry.Position{Index: leader.Last() + 1, Term: leader.Term() + 1} // of a leader that is gone
	joining.Join(later)
	if joining.Waits() || joining.Votes() || joining.Term() != later.Term {
		t.Errorf("waits %v, votes %v, term %d", joining.Waits(), joining.Votes(), joining.Term())
	}
	if err := joining.Close(); err != nil {
		t.Fatal(err)
	}
	at := leader.Applied().Position()
	joining = open(later)
	if joining.Waits() || joining.Votes() {
		t.Errorf("after a restart: waits %v, votes %v", joining.Waits(), joining.Votes())
	}
	if err := joining.Close(); err != nil {
		t.Fatal(err)
	}
	joining = open(at)
	eventually(t, "the member votes", joining.Votes)
	if joining.Last() < at.Index {
		t.Errorf("it votes with %d of %d entries", joining.Last(), at.Index)
	}
	if err := joining.Close(); err != nil {
		t.Fatal(err)
	}
	if joining = open(at); !joining.Votes() {
		t.Error("it is limited again")
	}
}
