package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// pair runs f on a group of two voters, in virtual time. After a synctest.Wait, the follower holds the
// entries that the leader has written. It has acknowledged them, so they are committed, but it learns of that
// only after commitTimeout.
func pair(t *testing.T, f func(t *testing.T, leader, follower *Replica)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork()
		leader := leaderOfCutLog(t, net, new(tape))
		follower := net.member(t, t.TempDir(), "two", new(tape), newMemory(), true)
		if err := leader.Put(Peer{ID: "two", Address: "two", Voter: true}, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the follower", func() bool { return follower.Applied().Index == leader.Applied().Index })
		f(t, leader, follower)
	})
}

// unaware writes an entry and returns its position. The follower holds the entry and does not know that it is
// committed.
func unaware(t *testing.T, leader, follower *Replica) entry.Position {
	t.Helper()
	write(t, leader, "word")
	synctest.Wait()
	at := leader.Applied().Position()
	if follower.Last() != at.Index || follower.Applied().Index >= at.Index {
		t.Fatalf("the follower has %d and applied %d, the entry is %d", follower.Last(), follower.Applied().Index, at.Index)
	}
	return at
}

func TestAdvanceCommit(t *testing.T) {
	pair(t, func(t *testing.T, leader, follower *Replica) {
		begun := time.Now()
		for range 3 {
			at := unaware(t, leader, follower)
			follower.AdvanceCommit(t.Context(), "one", at)
			if err := follower.Await(t.Context(), at.Index); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("three entries took %v", took)
		}
	})
}

// TestAdvanceCommitIgnoresOthers checks that only the present leader in the present term can advance the
// commit.
func TestAdvanceCommitIgnoresOthers(t *testing.T) {
	pair(t, func(t *testing.T, leader, follower *Replica) {
		at := unaware(t, leader, follower)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		term := follower.Term()
		follower.AdvanceCommit(t.Context(), "three", at)
		follower.AdvanceCommit(t.Context(), "", at)
		follower.AdvanceCommit(t.Context(), "one", entry.Position{Index: at.Index, Term: at.Term + 1})
		follower.AdvanceCommit(t.Context(), "one", entry.Position{Index: at.Index, Term: at.Term - 1})
		follower.AdvanceCommit(ended, "one", entry.Position{Index: at.Index + 1, Term: at.Term})
		synctest.Wait()
		if got := follower.Applied().Index; got >= at.Index || follower.Term() != term {
			t.Errorf("entry %d of %d is applied, the term is %d of %d", got, at.Index, follower.Term(), term)
		}
	})
}

func TestAwait(t *testing.T) {
	pair(t, func(t *testing.T, leader, follower *Replica) {
		at := unaware(t, leader, follower)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := follower.Await(short, at.Index); err == nil {
			t.Error("an entry that is not applied has arrived")
		}
		done := make(chan error, 3)
		for i := range uint64(3) {
			go func() { done <- follower.Await(t.Context(), at.Index+i) }()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		write(t, leader, "one more")
		if err := <-done; err != nil {
			t.Error(err)
		}
		go func() { _ = follower.Close() }()
		if err := <-done; err == nil {
			t.Error("an entry that never comes has arrived")
		}
		if n := follower.applyWaiters.count.Load(); n != 0 || len(follower.applyWaiters.waiters) != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}

// TestAChangeThatDidNotStartWroteNothing checks the error of a change that waited in vain for another change to
// end.
func TestAChangeThatDidNotStartWroteNothing(t *testing.T) {
	pair(t, func(t *testing.T, leader, _ *Replica) {
		err := leader.callerError(raft.ErrEnqueueTimeout)
		if api.CodeOf(err) != api.LeaderUnavailable || errors.Is(err, ErrUnknown) || !errors.Is(err, raft.ErrEnqueueTimeout) {
			t.Error(err)
		}
	})
}

// TestChangeOfAnOldConfigurationIsRefused checks that a change is refused if it is based on an older
// configuration, because it would bring back a removed member.
func TestChangeOfAnOldConfigurationIsRefused(t *testing.T) {
	pair(t, func(t *testing.T, leader, _ *Replica) {
		members, since := leader.AppliedMembers()
		if len(members) != 2 || since == 0 {
			t.Fatalf("members %v of entry %d", members, since)
		}
		if err := leader.Remove("two", since); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"vote":    leader.Put(Peer{ID: "two", Address: "two", Voter: true}, since),
			"address": leader.Put(Peer{ID: "two", Address: "elsewhere"}, since),
			"removal": leader.Remove("two", since),
		} {
			if api.CodeOf(err) != api.LeaderUnavailable || errors.Is(err, ErrUnknown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got := leader.Members(); len(got) != 1 {
			t.Errorf("members %v", got)
		}
	})
}
