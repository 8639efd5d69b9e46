package sinks

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
)

// claiming makes the sink claim by the clock of the test, less a minute, and not while clock returns an error.
func (w *world) claiming(clock func() error) {
	w.usage.cfg.Clock = func(context.Context) (int64, error) {
		return time.Now().Add(-time.Minute).UnixNano(), fault(clock)
	}
}

// age returns the age of the newest claim, and the last row that it is about.
func (w *world) age() (time.Duration, uint64) {
	w.t.Helper()
	if c := w.usage.Claim(); c != nil {
		return time.Since(time.Unix(0, c.UntilNs)), c.Last
	}
	w.t.Fatal("there is no claim")
	return 0, 0
}

// TestAnIdleShardClaims checks that the claim of an idle shard moves, without a call of the receiver, and that a shard with
// rows claims no less often.
func TestAnIdleShardClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.claiming(nil)
		stop := w.run()
		defer stop()
		synctest.Wait()
		if age, last := w.age(); age != time.Minute || last != 0 {
			t.Errorf("the first claim is %s old and about row %d", age, last)
		}
		calls := w.receiver.asked
		for range 100 {
			pass(time.Hour)
			if age, last := w.age(); age > time.Minute+billing.ClaimEvery || last != 0 {
				t.Fatalf("the claim of an idle shard is %s old and about row %d", age, last)
			}
		}
		if w.receiver.asked != calls {
			t.Errorf("%d calls for claims", w.receiver.asked-calls)
		}
		for range 1000 {
			w.report(3)
			pass(batchDelay)
		}
		if age, last := w.age(); age > time.Minute+billing.ClaimEvery || last == 0 {
			t.Errorf("the claim of a busy shard is %s old and about row %d", age, last)
		}
	})
}

// TestNoClaimBeforeItsRows checks that the shard claims nothing while rows are not delivered, or while nothing confirms that
// it leads, and that it claims afterwards.
func TestNoClaimBeforeItsRows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var away, deposed atomic.Bool
		failing := func(is *atomic.Bool) func() error {
			return func() error {
				if is.Load() {
					return api.Errorf(api.LeaderUnavailable, "not now")
				}
				return nil
			}
		}
		away.Store(true)
		deposed.Store(true)
		w.receiver.before = failing(&away)
		w.claiming(failing(&deposed))
		w.report(3)
		stop := w.run()
		defer stop()
		pass(time.Hour)
		deposed.Store(false)
		pass(time.Hour)
		if c := w.usage.Claim(); c != nil {
			t.Fatalf("rows wait, and the shard claims %+v", c)
		}
		away.Store(false)
		pass(time.Hour)
		if age, last := w.age(); age > time.Minute+billing.ClaimEvery || last != 3 {
			t.Errorf("the claim is %s old and about row %d", age, last)
		}
		deposed.Store(true)
		pass(time.Hour)
		if age, _ := w.age(); age < time.Hour-billing.ClaimEvery {
			t.Errorf("a shard that may not lead has a claim that is %s old", age)
		}
	})
}

// TestAClaimOutlivesALostAnswer checks that a claim is made as soon as its rows are delivered, at whichever try.
func TestAClaimOutlivesALostAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lost := 0
		w.receiver.after = func() error {
			if lost++; lost <= 2 {
				return api.Errorf(api.LeaderUnavailable, "lost")
			}
			return nil
		}
		w.claiming(nil)
		w.report(3)
		stop := w.run()
		defer stop()
		pass(time.Second)
		if age, last := w.age(); age != time.Minute+time.Second || last != 3 {
			t.Errorf("the claim is %s old and about row %d", age, last)
		}
	})
}

// TestARefoundedShardClaims checks that the claim counts the rows of the newest part.
func TestARefoundedShardClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(3)
		stop := w.run()
		synctest.Wait()
		stop()
		w.refound([16]byte{0xcd})
		w.report(2)
		w.claiming(nil)
		stop = w.run()
		defer stop()
		pass(time.Minute)
		if _, last := w.age(); last != 2 {
			t.Errorf("the claim is about row %d", last)
		}
	})
}
