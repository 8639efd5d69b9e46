package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// pair is a group of two voters, in virtual time: after a synctest.Wait the follower
// has what the leader has written, and does not know for another commitTimeout that
// it is committed, which it was by the follower's own word.
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

// unaware writes, and returns what the follower has and does not know to be
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

func TestHastenTellsOfACommit(t *testing.T) {
	pair(t, func(t *testing.T, leader, follower *Replica) {
		begun := time.Now()
		for range 3 {
			at := unaware(t, leader, follower)
			follower.Hasten(t.Context(), "one", at)
			if err := follower.Await(t.Context(), at.Index); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("three entries took %v", took)
		}
	})
}

// What is not the leader's word of this term changes nothing.
func TestHastenTellsNothingElse(t *testing.T) {
	pair(t, func(t *testing.T, leader, follower *Replica) {
		at := unaware(t, leader, follower)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		term := follower.Term()
		follower.Hasten(t.Context(), "three", at)
		follower.Hasten(t.Context(), "", at)
		follower.Hasten(t.Context(), "one", entry.Position{Index: at.Index, Term: at.Term + 1})
		follower.Hasten(t.Context(), "one", entry.Position{Index: at.Index, Term: at.Term - 1})
		follower.Hasten(ended, "one", entry.Position{Index: at.Index + 1, Term: at.Term})
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
		if n := follower.awaiting.count.Load(); n != 0 || len(follower.awaiting.waiters) != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}

// A change that rests on a configuration which is no longer the newest is refused:
// it would bring back who was removed meanwhile.
func TestChangeOfAnOldConfigurationIsRefused(t *testing.T) {
	pair(t, func(t *testing.T, leader, _ *Replica) {
		members, since := leader.Settled()
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
