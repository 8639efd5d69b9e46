package sinks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		w.close()
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestUsageArrivesOnceAndExactly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(10) // from before the sink ran
		stop := w.run()
		defer stop()
		synctest.Wait()
		w.exact()
		for range 5 {
			w.report(10)
			pass(batchDelay / 10)
		}
		if n := w.receiver.sent(); n != 1 {
			t.Errorf("%d frames were sent before rows could gather", n)
		}
		pass(batchDelay)
		w.exact()
		if n := w.receiver.sent(); n > 3 {
			t.Errorf("six reports took %d frames", n)
		}
		if got, last := w.usage.Acked(), w.store.Head().UsageNextSeq-1; got != last {
			t.Errorf("acknowledged to %d of %d", got, last)
		}
		calls := w.receiver.asked + w.receiver.sent()
		pass(24 * time.Hour)
		if now := w.receiver.asked + w.receiver.sent(); now != calls {
			t.Errorf("%d calls in an idle day", now-calls)
		}
	})
}

// TestFramesAreSummedByTheHour checks that rows are summed by hour, queue, model and provider.
func TestFramesAreSummedByTheHour(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(6)
		pass(30 * time.Minute)
		w.report(3)
		pass(31 * time.Minute)
		w.report(3)
		stop := w.run()
		defer stop()
		synctest.Wait()
		w.exact()
		frame := w.receiver.frames[0]
		var reports []billing.Row
		for _, row := range frame.Rows {
			if row.Meter == billing.Reports {
				reports = append(reports, row)
			}
		}
		if frame.From != 1 || frame.To != 12 || len(reports) != 6 {
			t.Fatalf("a frame [%d,%d] with %d rows of reports", frame.From, frame.To, len(reports))
		}
		for i, row := range reports {
			if row.HourNs%int64(time.Hour) != 0 || row.Queue != "q" || row.Quantity != []int64{3, 3, 3, 1, 1, 1}[i] {
				t.Errorf("row %d is %+v", i, row)
			}
		}
		if first, second := reports[0].HourNs, reports[3].HourNs; second-first != int64(time.Hour) {
			t.Errorf("the hours are %d and %d", first, second)
		}
	})
}

// TestLostCallsAndAnswers loses about half of all calls and answers. No row may be counted twice or be
// missing.
func TestLostCallsAndAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(1, 2))
		lose := func() error {
			if rng.IntN(4) == 0 {
				return api.Errorf(api.LeaderUnavailable, "lost")
			}
			return nil
		}
		w.receiver.before, w.receiver.after = lose, lose
		stop := w.run()
		for range 50 {
			w.report(7)
			pass(batchDelay)
		}
		pass(time.Hour)
		stop()
		w.exact()
		if w.usage.Err() != nil {
			t.Errorf("losses are no disagreement: %v", w.usage.Err())
		}
		if text := w.logged.String(); !strings.Contains(text, "the leader tries again") || !strings.Contains(text, "delivered again") {
			t.Errorf("the log says %s", text)
		}
	})
}

// TestCrashesBetweenAnyTwoEffects stops the process before and after every ask, frame and trim. The
// receiver's sums must be exact in the end.
func TestCrashesBetweenAnyTwoEffects(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		died := false
		synctest.Test(t, func(t *testing.T) { died = crashAt(t, at) })
		if t.Failed() || !died {
			if at < 12 {
				t.Errorf("there were only %d effects to die at", at-1)
			}
			return
		}
	}
}

var errDead = errors.New("the process is dead")

// crashAt plays a history in which the process stops at the n-th effect, is started again, and stops again
// after as many effects. It reports whether it stopped at all.
func crashAt(t *testing.T, n int) (died bool) {
	w := newWorld(t)
	dead, effects := make(chan struct{}), 0
	effect := func() error {
		select {
		case <-dead:
			return errDead
		default:
		}
		if effects++; effects == n {
			died = true
			close(dead)
			return errDead
		}
		return nil
	}
	w.receiver.before, w.receiver.after = effect, effect
	w.onAcked = func() { // does the work of the duty, which keeps no rows
		first := w.usage.Acked() + 1
		if first <= w.store.Head().UsageFirstSeq || effect() != nil {
			return
		}
		w.mustApply(&op.TrimUsage{FirstSeq: first})
		_ = effect() // stopped or not, the trim is in the log
	}
	stop := w.run()
	for round := range 6 {
		w.report(5)
		if round%2 == 0 {
			must(t, w.store.Flush())
		}
		pass(2 * batchDelay)
		select {
		case <-dead:
			stop()
			w.crash()
			dead, effects = make(chan struct{}), 0
			stop = w.run()
			pass(batchDelay)
		default:
		}
	}
	// From here on the process keeps running.
	n = -1
	select {
	case <-dead:
		stop()
		w.crash()
		dead = make(chan struct{})
		stop = w.run()
	default:
	}
	pass(2 * maxBackoff)
	stop()
	w.exact()
	if head := w.store.Head(); head.UsageFirstSeq != head.UsageNextSeq || w.usage.Acked() != 30 {
		t.Errorf("rows [%d,%d) are left, %d are acknowledged", head.UsageFirstSeq, head.UsageNextSeq, w.usage.Acked())
	}
	w.close()
	return died
}

// TestAConflictAsksAgain lets a presumed dead leader deliver rows. The new leader's frame must be refused,
// and it must ask again.
func TestAConflictAsksAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.run()
		defer stop()
		synctest.Wait()
		w.report(4)
		frame, _, err := frameOf(w.store, w.part(), 1)
		must(t, err)
		w.receiver.mu.Lock()
		must(t, w.receiver.apply(frame))
		w.receiver.mu.Unlock()
		w.report(4)
		pass(batchDelay + maxBackoff)
		w.exact()
		if w.receiver.asked != 2 {
			t.Errorf("asked %d times", w.receiver.asked)
		}
	})
}

// TestDisagreementsAreAnAlarm gives the receiver more rows than the store has, or fewer than the store still
// has. No retry resolves that, so nothing may be sent and Err must report it, until the receiver is
// corrected.
func TestDisagreementsAreAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		last, trimmed uint64
		want          string
	}{
		"ahead":   {11, 1, "up to row 11 of incarnation ab000000000000000000000000000000, the store's last is 10"},
		"trimmed": {3, 5, "up to row 3 of incarnation ab000000000000000000000000000000, the store's first is 5"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.report(10)
				w.mustApply(&op.TrimUsage{FirstSeq: c.trimmed})
				w.receiver.last[w.source()] = c.last
				stop := w.run()
				defer stop()
				pass(time.Hour)
				w.report(1)
				if w.receiver.sent() != 0 || w.usage.Acked() != 0 {
					t.Errorf("%d frames were sent, %d rows count as acknowledged", w.receiver.sent(), w.usage.Acked())
				}
				if err := w.usage.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the sink's error is %v, want %q", err, c.want)
				}
				if n := strings.Count(w.logged.String(), "level=ERROR"); n != 1 {
					t.Errorf("it was logged %d times", n)
				}
				w.receiver.mu.Lock()
				w.receiver.last[w.source()] = c.trimmed - 1
				w.receiver.mu.Unlock()
				pass(maxBackoff)
				if w.usage.Err() != nil || w.usage.Acked() != 11 {
					t.Errorf("after it was put right: %v, acknowledged to %d", w.usage.Err(), w.usage.Acked())
				}
			})
		})
	}
}

// TestARefusedFrameIsAnAlarm checks that Err reports a refused frame with its code and rows, and that the
// frame is not retried silently.
func TestARefusedFrameIsAnAlarm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refuses := func(err error) {
			w.receiver.mu.Lock()
			defer w.receiver.mu.Unlock()
			w.receiver.before = func() error { return err }
		}
		refuses(api.Errorf(api.ValidationError, "rows[0].queue is no text"))
		w.report(3)
		w.receiver.asks = true
		stop := w.run()
		defer stop()
		pass(time.Hour)
		if err := w.usage.Err(); err == nil || !strings.Contains(err.Error(), "the usage rows from 1 to 3: VALIDATION_ERROR: rows[0].queue is no text") {
			t.Errorf("the sink's error is %v", err)
		}
		if n := strings.Count(w.logged.String(), "level=ERROR"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		refuses(api.Errorf(api.LeaderUnavailable, "away"))
		pass(maxBackoff)
		refuses(nil)
		pass(maxBackoff)
		if w.usage.Err() != nil || w.usage.Acked() != 3 {
			t.Errorf("after it was put right: %v, acknowledged to %d", w.usage.Err(), w.usage.Acked())
		}
	})
}

// TestSettleSetsRefusedFramesAside checks that before a store is deleted the refused frames are set aside and
// the others delivered. A lost answer sets nothing aside twice.
func TestSettleSetsRefusedFramesAside(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refused := func() error { return api.Errorf(api.ValidationError, "rows[0].queue is no text") }
		w.receiver.asks, w.receiver.before = true, refused
		w.report(3)
		w.want = map[meter]*billing.Quantities{} // none of it counts
		stop := w.run()
		defer stop()
		pass(time.Hour)
		if len(w.receiver.aside) != 0 || w.usage.Err() == nil {
			t.Fatalf("a store that stays: %v set aside, alarm %v", w.receiver.aside, w.usage.Err())
		}
		w.receiver.mu.Lock()
		w.receiver.onAside = func() error {
			w.receiver.before = nil // later frames are accepted
			return api.Errorf(api.LeaderUnavailable, "the answer is lost")
		}
		w.receiver.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, w.usage.Settle(ctx))
		if len(w.receiver.aside) != 1 || w.receiver.aside[0].From != 1 || w.receiver.aside[0].To != 3 {
			t.Errorf("set aside %+v", w.receiver.aside)
		}
		if n := w.usage.Owed(); n != 0 {
			t.Errorf("%d rows are owed", n)
		}
		w.report(2)
		must(t, w.usage.Settle(ctx))
		w.exact()
		synctest.Wait()
		if w.usage.Err() != nil {
			t.Errorf("the alarm stays: %v", w.usage.Err())
		}
	})
}

// TestSettleWithoutSettingAside checks that rows stay undelivered if the receiver is away or refuses to set
// usage aside.
func TestSettleWithoutSettingAside(t *testing.T) {
	for code, want := range map[api.Code]string{
		api.LeaderUnavailable: "", api.StateConflict: "", api.Unauthorized: "",
		api.ValidationError: ": the receiver refuses the usage rows from 1 to 3: VALIDATION_ERROR: no; it does not set them aside: OVERLOADED: there is no room",
	} {
		t.Run(string(code), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.receiver.before = func() error { return api.Errorf(code, "no") }
				w.receiver.asks, w.receiver.noAside = true, api.Errorf(api.Overloaded, "there is no room")
				w.report(3)
				stop := w.run()
				defer stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				want := "3 usage rows have not reached their receiver: context deadline exceeded" + want
				if err := w.usage.Settle(ctx); err == nil || err.Error() != want {
					t.Errorf("settled: %v", err)
				}
				if len(w.receiver.aside) != 0 {
					t.Errorf("%+v is set aside", w.receiver.aside)
				}
			})
		})
	}
}

// Settle delivers the rows of a member that does not lead. Members of one group that settle at the same time deliver each
// row once, and one that is behind the receiver has nothing to deliver.
func TestMembersSettleWithoutALeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		behind := NewUsage(w.usage.cfg)
		members := []*Usage{w.usage, NewUsage(w.usage.cfg), NewUsage(w.usage.cfg)}
		errs := make(chan error)
		for _, u := range members {
			go func() { errs <- u.Settle(ctx) }()
		}
		for range members {
			must(t, <-errs)
		}
		w.exact()
		w.receiver.last[w.source()] = 11 // by a member that has one row more
		must(t, behind.Settle(ctx))
		if behind.Owed() != 0 || behind.Err() != nil {
			t.Errorf("a member that is behind owes %d rows: %v", behind.Owed(), behind.Err())
		}
	})
}

// A member whose leadership ends while it settles goes on without it.
func TestSettleGoesOnAfterTheLeadership(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.receiver.before = func() error { return api.Errorf(api.LeaderUnavailable, "away") }
		w.report(3)
		stop := w.run()
		settled := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { settled <- w.usage.Settle(ctx) }()
		pass(time.Second)
		stop()
		w.receiver.mu.Lock()
		w.receiver.before = nil
		w.receiver.mu.Unlock()
		must(t, <-settled)
		w.exact()
	})
}

// TestTheBoundsOfAgreement uses the exact bounds: one row less or more would be a disagreement.
func TestTheBoundsOfAgreement(t *testing.T) {
	for _, last := range []uint64{4, 10} { // just before the first row kept, and the last row
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.report(10)
				w.mustApply(&op.TrimUsage{FirstSeq: 5})
				w.receiver.last[w.source()] = last
				stop := w.run()
				defer stop()
				synctest.Wait()
				if w.usage.Err() != nil || w.usage.Acked() != 10 {
					t.Errorf("%v, acknowledged to %d", w.usage.Err(), w.usage.Acked())
				}
			})
		})
	}
}

// TestACallEnds checks that a blocked receiver does not block the sink for ever.
func TestACallEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(1)
		hangs := &hanging{receiver: w.receiver}
		w.usage.cfg.Receiver = hangs
		stop := w.run()
		defer stop()
		pass(callTimeout + 2*minBackoff)
		w.exact()
	})
}

// hanging does not answer its first call.
type hanging struct {
	*receiver
	called bool
}

func (h *hanging) LastUsage(ctx context.Context, of billing.Source) (uint64, error) {
	if !h.called {
		h.called = true
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return h.receiver.LastUsage(ctx, of)
}

// many writes usage rows directly into the store.
func (w *world) many(n int, report func(i int) *job.Usage) {
	w.t.Helper()
	at := w.store.Applied()
	at.Index++
	tx := w.store.Begin(at, entry.Header{Incarnation: at.Incarnation, ClockNs: time.Now().UnixNano()})
	for i := range n {
		u := report(i)
		w.expect("r", u)
		must(w.t, tx.AddUsage(&job.Job{Id: w.job.Id, Queue: "r", Attempt: 1, Usage: u}, &state.Usage{Report: u}))
	}
	must(w.t, tx.Commit())
}

func TestFramesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		n      int
		report func(i int) *job.Usage
		ends   []uint64
	}{
		// Each record has two rows: of the reports and of the cost.
		"rows at the bound": {billing.MaxFrameRows / 2, func(i int) *job.Usage {
			return &job.Usage{Model: fmt.Sprint(i), CostNanoUsd: 1}
		}, []uint64{billing.MaxFrameRows / 2}},
		"rows over the bound": {billing.MaxFrameRows/2 + 1, func(i int) *job.Usage {
			return &job.Usage{Model: fmt.Sprint(i), CostNanoUsd: 1}
		}, []uint64{billing.MaxFrameRows / 2, billing.MaxFrameRows/2 + 1}},
		"records at the bound": {maxFrameRecords, func(i int) *job.Usage { return &job.Usage{InputTokens: 1} }, []uint64{maxFrameRecords}},
		"one record more":      {maxFrameRecords + 1, func(i int) *job.Usage { return &job.Usage{InputTokens: 1} }, []uint64{maxFrameRecords, maxFrameRecords + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.many(c.n, c.report)
				stop := w.run()
				defer stop()
				synctest.Wait()
				w.exact()
				var ends []uint64
				for _, f := range w.receiver.frames {
					ends = append(ends, f.To)
				}
				if fmt.Sprint(ends) != fmt.Sprint(c.ends) {
					t.Errorf("frames end at %v, want %v", ends, c.ends)
				}
			})
		})
	}
}

// TestASumThatDoesNotFitBeginsAFrame checks that a sum out of range starts a new frame, so that no money is
// truncated.
func TestASumThatDoesNotFitBeginsAFrame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.want = nil
		at := w.store.Applied()
		at.Index++
		tx := w.store.Begin(at, entry.Header{Incarnation: at.Incarnation, ClockNs: time.Now().UnixNano()})
		for _, n := range []int64{math.MaxInt64 - 1, 1, 1, math.MaxInt64} {
			must(t, tx.AddUsage(&job.Job{Id: w.job.Id, Queue: "r"}, &state.Usage{Report: &job.Usage{CostNanoUsd: n}}))
		}
		must(t, tx.Commit())
		for _, want := range []struct {
			to   uint64
			cost int64
			more bool
		}{{2, math.MaxInt64, true}, {3, 1, true}, {4, math.MaxInt64, false}} {
			from := want.to
			if want.to == 2 {
				from = 1
			}
			f, more, err := frameOf(w.store, w.part(), from)
			if err != nil || len(f.Rows) != 2 {
				t.Fatalf("from %d: %+v, %v", from, f, err)
			}
			if f.To != want.to || more != want.more || f.Rows[1].Quantity != want.cost {
				t.Errorf("from %d: %+v, more %v; want %+v", from, f, more, want)
			}
		}
	})
}

// TestAMissingRowIsNotSkipped checks that the sink does not deliver the rows after a gap.
func TestAMissingRowIsNotSkipped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.report(3)
		w.mustApply(&op.TrimUsage{FirstSeq: 3})
		if _, _, err := frameOf(w.store, w.part(), 2); err == nil || !strings.Contains(err.Error(), "row 2 is missing") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestHours(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour)
	for ns, want := range map[int64]int64{0: 0, 1: 0, hour - 1: 0, hour: hour, -1: -hour, -hour: -hour} {
		if got := hourOf(ns); got != want {
			t.Errorf("hour of %d is %d, want %d", ns, got, want)
		}
	}
	if p := appendParts(nil, &state.Usage{Queue: "q"}); len(p) != 1 || p[0].Dimensions != (billing.Dimensions{Queue: "q"}) {
		t.Errorf("a record without a report is %+v", p)
	}
}
