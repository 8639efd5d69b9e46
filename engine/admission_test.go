package engine_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/transport"
)

// known holds the ids, one letter each, of the nodes that Config.Peers of every member knows.
type known struct{ ids atomic.Pointer[string] }

func newKnown(ids string) *known {
	k := &known{}
	k.set(ids)
	return k
}

func (k *known) set(ids string) { k.ids.Store(&ids) }

func (k *known) tune(c *engine.Config) {
	c.Peers = func(id string) bool { return strings.Contains(*k.ids.Load(), id) }
}

// stranger opens the group's end on a node that the members' identities trust and that is no member.
func (c *cluster) stranger() *transport.Group {
	c.t.Helper()
	s := c.add()
	listener, dial, err := c.listen(s)
	c.must(err)
	t, err := transport.Open(transport.Config{
		NodeID: s.id, Listener: listener, Identity: c.trust.identity(s.id), Dial: dial, Logger: quiet(),
	})
	c.must(err)
	c.t.Cleanup(func() { c.must(t.Close()) })
	g, err := t.Group("test/0", *c.history)
	c.must(err)
	return g
}

// messages returns one of each kind of message from g to a member, by name.
func messages(t testing.TB, g *transport.Group, to *member) map[string]error {
	id, at := raft.ServerID(to.id), raft.ServerAddress(to.address)
	of, _, _ := strings.Cut(string(g.LocalAddr()), ":")
	own := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(of), Addr: []byte(g.LocalAddr())}
	const term = 1000
	empty := noParts{bytes.NewReader(nil)}
	sent := map[string]error{
		"entries": g.AppendEntries(id, at, &raft.AppendEntriesRequest{
			RPCHeader: own, Term: term, PrevLogEntry: 1, PrevLogTerm: 1, Entries: []*raft.Log{{Index: 2, Term: term}},
		}, &raft.AppendEntriesResponse{}),
		"heartbeat":   g.AppendEntries(id, at, &raft.AppendEntriesRequest{RPCHeader: own, Term: term}, &raft.AppendEntriesResponse{}),
		"vote":        g.RequestVote(id, at, &raft.RequestVoteRequest{RPCHeader: own, Term: term, LeadershipTransfer: true}, &raft.RequestVoteResponse{}),
		"pre-vote":    g.RequestPreVote(id, at, &raft.RequestPreVoteRequest{RPCHeader: own, Term: term}, &raft.RequestPreVoteResponse{}),
		"timeout-now": g.TimeoutNow(id, at, &raft.TimeoutNowRequest{RPCHeader: own}, &raft.TimeoutNowResponse{}),
		"snapshot":    g.InstallSnapshot(id, at, &raft.InstallSnapshotRequest{RPCHeader: own, Term: term}, &raft.InstallSnapshotResponse{}, empty),
	}
	for kind, name := range map[transport.Kind]string{1: "proposal", 2: "read index", 3: "progress", 4: "change of membership", 5: "notice of removal"} {
		_, sent[name] = g.Call(soon(t), transport.Peer{ID: to.id, Address: to.address}, kind, nil)
	}
	return sent
}

// noParts is a snapshot without parts.
type noParts struct{ *bytes.Reader }

func (noParts) Parts() []image.Part                { return nil }
func (noParts) Open(string) (io.ReadCloser, error) { return nil, errors.New("there is none") }

// TestANodeThatIsNoMemberIsRefused lets a node that every member's identity trusts, but that is no member, send each
// kind of message to the leader and to a follower. Each must be refused, and the group must not notice.
func TestANodeThatIsNoMemberIsRefused(t *testing.T) {
	k := newKnown("abc")
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		before, err := leader.Status()
		c.must(err)
		members := c.others(nil)
		x := c.stranger()
		for _, m := range members {
			for name, err := range messages(t, x, m) {
				if err == nil || !strings.Contains(err.Error(), "may not speak") {
					t.Errorf("%s to %s (leader %s): %v", name, m.id, leader.id, err)
				}
			}
		}
		after, err := leader.Status()
		c.must(err)
		if after.Term != before.Term || !leader.Leader() {
			t.Errorf("the group went from term %d to term %d", before.Term, after.Term)
		}
		for _, m := range members {
			if s, err := m.Status(); err != nil || s.State == "Removed" {
				t.Errorf("%s believes that it was removed: %v", m.id, err)
			}
		}
	}, k.tune)
}

// TestMembersNeedNoPeers checks that the configuration alone admits the members: a group whose members' Peers know
// nobody goes on, and replaces a lost leader.
func TestMembersNeedNoPeers(t *testing.T) {
	k := newKnown("abc")
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k.set("")
		leader := c.leader()
		rest := c.others(leader)
		_, _, err := rest[0].propose(once("k", "1"))
		c.must(err)
		leader.kill()
		next := c.leaderOf(rest...)
		_, _, err = next.propose(once("k", "2"))
		c.must(err)
		leader.start()
		c.must(leader.Verify(soon(t)))
		if got := leader.machine.counter("k"); got != 2 {
			t.Errorf("the member that came back has %d of 2 changes", got)
		}
	}, k.tune)
}

// TestPeersAndTheListAdmit checks that a follower also answers a node that Peers knows or that the list of members
// names, and that such a node still gets no vote.
func TestPeersAndTheListAdmit(t *testing.T) {
	k, l := newKnown("abc"), newLists()
	virtual(t, 3, func(t *testing.T, c *cluster) {
		a, follower := c.members[0], c.members[1]
		c.must(a.Transfer(soon(t), a.id))
		x := c.stranger()
		admitted := func(what string, want bool) {
			t.Helper()
			_, err := x.Call(soon(t), transport.Peer{ID: follower.id, Address: follower.address}, 3, nil)
			if got := err == nil; got != want {
				t.Errorf("%s: %v", what, err)
			}
		}
		admitted("nobody knows it", false)
		k.set("abcd")
		admitted("Peers knows it", true)
		vote := raft.RequestVoteResponse{}
		c.must(x.RequestVote(raft.ServerID(follower.id), raft.ServerAddress(follower.address), &raft.RequestVoteRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("d"), Addr: []byte(x.LocalAddr())}, Term: 1000, LastLogIndex: 1000, LastLogTerm: 1000, LeadershipTransfer: true,
		}, &vote))
		if vote.Granted {
			t.Error("it got a vote")
		}
		k.set("")
		admitted("Peers has forgotten it", false)
		l.set(c.members...) // the stranger is the last of them
		admitted("the list names it", true)
	}, k.tune, func(c *engine.Config) {
		if c.Transport.ID() != "a" { // a leads, and would add the node to the configuration
			l.tune(c)
		}
	})
}

// TestAFutureMemberFollowsNobodyUnconfirmed lets a node that leads nothing send each kind of message to a member that has
// joined with an empty directory. None may reach raft, because the member may have been a voter before, and the sender an
// old leader. After the member was added, raft decides.
func TestAFutureMemberFollowsNobodyUnconfirmed(t *testing.T) {
	k := newKnown("abcde")
	inList(t, func(c *cluster, l *lists) {
		future, x := c.members[1], c.stranger()
		for name, err := range messages(c.t, x, future) {
			switch name {
			case "entries", "heartbeat", "snapshot", "vote", "pre-vote", "timeout-now", "progress":
				if err == nil || !strings.Contains(err.Error(), "joins the group") {
					c.t.Errorf("%s: %v", name, err)
				}
			}
		}
		if s, err := future.Status(); err != nil || s.Term != 0 || s.Last != 0 {
			c.t.Errorf("the future member is in term %d and has %d entries (%v)", s.Term, s.Last, err)
		}
		l.set(c.members[0], future)
		c.until("the member is added", func() bool { return shape(c.members[0]) == "AB" })
		own := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("e"), Addr: []byte(x.LocalAddr())}
		var vote raft.RequestPreVoteResponse
		c.must(x.RequestPreVote(raft.ServerID(future.id), raft.ServerAddress(future.address), &raft.RequestPreVoteRequest{RPCHeader: own, Term: 1000, LastLogIndex: 1000, LastLogTerm: 1000}, &vote))
		if vote.Granted {
			c.t.Error("a node that is no member got a vote")
		}
	}, k.tune)
}
