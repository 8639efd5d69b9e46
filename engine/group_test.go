package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

func TestProposeAnswersItsOwnResult(t *testing.T) {
	t.Parallel()
	n := openNode(t, t.TempDir())
	for want := range int64(3) {
		got, at := n.add(t, "a")
		if got != want+1 {
			t.Fatalf("add answered %d, want %d", got, want+1)
		}
		if applied := n.Applied(); applied.Position() != at || applied.Group != "test/0" || applied.Incarnation == (entry.Incarnation{}) {
			t.Fatalf("machine at %+v after a change at %+v", applied, at)
		}
	}
	_, at, err := engine.Propose[int64](t.Context(), n.Group, op{number: opRefuse, key: "x"})
	wantCode(t, err, api.NotFound)
	if at.Index == 0 {
		t.Error("a refusal by the machine has a position")
	}
	_, _, err = engine.Propose[int64](t.Context(), n.Group, op{number: opAdd, key: "x", invalid: true})
	wantCode(t, err, api.ValidationError)
	_, _, err = engine.Propose[int64](t.Context(), n.Group, op{number: opNilResult})
	wantCode(t, err, api.Internal)
	_, _, err = engine.Propose[string](t.Context(), n.Group, add("a"))
	wantCode(t, err, api.Internal)
	_, _, err = engine.Propose[int64](t.Context(), n.Group, op{number: opAdd, key: strings.Repeat("k", pipeline.MaxOpBytes+1)})
	wantCode(t, err, api.PayloadTooLarge)
	n.shut(t)
	_, _, err = engine.Propose[int64](t.Context(), n.Group, add("a"))
	wantCode(t, err, api.LeaderUnavailable)
}

// TestManyCallers lets each caller add to its own key and check each value, so that a result that went to
// another caller, was lost, or applied twice is noticed.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	const callers, each = 512, 8
	dir := t.TempDir()
	n := openNode(t, dir)
	var running sync.WaitGroup
	failed := make(chan error, callers)
	for c := range callers {
		running.Go(func() {
			for want := int64(1); want <= each; want++ {
				got, _, err := engine.Propose[int64](t.Context(), n.Group, add(fmt.Sprint(c)))
				if err == nil && got != want {
					err = fmt.Errorf("caller %d got %d, want %d", c, got, want)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	running.Wait()
	close(failed)
	for err := range failed {
		t.Fatal(err)
	}
	n.crash(t)
	again := openNode(t, dir)
	for c := range callers {
		if got := again.machine.counter(fmt.Sprint(c)); got != each {
			t.Fatalf("counter %d is %d after a crash, want %d", c, got, each)
		}
	}
}

func TestStartTermGoesFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ops [][]entry.Number
	for range 3 {
		var mu sync.Mutex
		n := openNode(t, dir, func(c *engine.Config) {
			c.Machine.(*machine).onApply = func(e entry.Entry) {
				mu.Lock()
				defer mu.Unlock()
				var numbers []entry.Number
				for _, o := range e.Ops {
					numbers = append(numbers, o.Number)
				}
				ops = append(ops, numbers)
			}
		})
		n.add(t, "a")
		n.shut(t)
	}
	want := "[[1] [2] [1] [2] [1] [2]]"
	if got := fmt.Sprint(ops); got != want {
		t.Errorf("entries applied: %s, want %s", got, want)
	}
}

func TestIdleLeaderWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	before, err := n.Status()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := n.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after, err := n.Status()
	if err != nil {
		t.Fatal(err)
	}
	// The log holds the configuration, raft's no-op of the term, and StartTerm.
	if before.Last != 3 || after.Last != 3 {
		t.Errorf("log ended at %d, then %d", before.Last, after.Last)
	}
	if after.State != "Leader" || !n.Leader() {
		t.Errorf("state %s, leads %v", after.State, n.Leader())
	}
}

func TestVerifyIsShared(t *testing.T) {
	t.Parallel()
	n := openNode(t, t.TempDir())
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			if err := n.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	n.shut(t)
	wantCode(t, n.Verify(t.Context()), api.LeaderUnavailable)
}

func TestBrokenMachineStopsTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	n.add(t, "a")
	_, _, err := engine.Propose[any](t.Context(), n.Group, op{number: opBreak})
	wantCode(t, err, api.Unhealthy)
	if !strings.Contains(err.Error(), "key broken") {
		t.Errorf("the error does not name the key: %v", err)
	}
	<-n.Failed()
	wantCode(t, n.Err(), api.Unhealthy)
	before := n.Applied()
	_, _, err = engine.Propose[int64](t.Context(), n.Group, add("a"))
	wantCode(t, err, api.Unhealthy)
	wantCode(t, n.Verify(t.Context()), api.Unhealthy)
	wantCode(t, n.Ready(t.Context()), api.Unhealthy)
	wantCode(t, n.Snapshot(), api.Unhealthy)
	if after := n.Applied(); after != before || n.machine.counter("a") != 1 {
		t.Errorf("a stopped replica went from %+v to %+v", before, after)
	}
	n.shut(t)
}

// TestBrokenMachineAnswersAllWhoWait checks that a failure in one entry answers the proposals queued after
// it.
func TestBrokenMachineAnswersAllWhoWait(t *testing.T) {
	t.Parallel()
	n := openNode(t, t.TempDir())
	var running sync.WaitGroup
	for c := range 64 {
		running.Go(func() {
			for {
				o := add("k")
				if c == 0 {
					o = op{number: opBreak}
				}
				if _, _, err := engine.Propose[any](t.Context(), n.Group, o); err != nil {
					if api.CodeOf(err) != api.Unhealthy {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	running.Wait()
}

func TestCloseAnswersWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	var running sync.WaitGroup
	var mu sync.Mutex
	acknowledged := int64(0)
	for range 32 {
		running.Go(func() {
			for {
				_, _, err := engine.Propose[int64](t.Context(), n.Group, add("k"))
				if err != nil {
					if api.CodeOf(err) != api.LeaderUnavailable {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged++
				mu.Unlock()
			}
		})
	}
	for n.machine.counter("k") < 100 {
		n.add(t, "other")
	}
	n.shut(t)
	running.Wait()
	if got := openNode(t, dir).machine.counter("k"); got != acknowledged {
		t.Errorf("%d changes acknowledged, %d found", acknowledged, got)
	}
}

func TestOpenRefusesABadConfig(t *testing.T) {
	t.Parallel()
	_, err := engine.Open(engine.Config{Tuning: engine.Tuning{SnapshotBytes: -1, CommitTimeout: time.Millisecond - 1}})
	wantCode(t, err, api.ValidationError)
	for _, field := range []string{"Dir", "Group", "Machine", "StartTerm", "SnapshotBytes", "CommitTimeout"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func TestDirectoryBelongsToOneGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	if _, err := tryOpenNode(t, dir); api.CodeOf(err) != api.Conflict {
		t.Errorf("opened twice: %v", err)
	}
	n.shut(t)
	_, err := tryOpenNode(t, dir, func(c *engine.Config) { c.Group = "other/0" })
	wantCode(t, err, api.Conflict)
	_, err = tryOpenNode(t, dir, func(c *engine.Config) { c.NodeID = "other" })
	wantCode(t, err, api.Conflict)
	_, err = tryOpenNode(t, dir, func(c *engine.Config) { c.LogKind = "paper" })
	wantCode(t, err, api.Unsupported)
}

func TestCancelledCallerIsToldWhatIsKnown(t *testing.T) {
	t.Parallel()
	n := openNode(t, t.TempDir())
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.machine.mu.Lock()
	n.machine.onApply = func(entry.Entry) {
		once.Do(func() { close(entered) })
		<-release
	}
	n.machine.mu.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan error)
	go func() {
		_, _, err := engine.Propose[int64](ctx, n.Group, add("a"))
		answer <- err
	}()
	<-entered
	gone := errors.New("the client has gone")
	cancel(gone)
	err := <-answer
	close(release)
	wantCode(t, err, api.LeaderUnavailable)
	if !strings.Contains(err.Error(), "outcome is unknown") || !errors.Is(err, gone) {
		t.Errorf("cancelled in flight: %v", err)
	}
	if got, _ := n.add(t, "a"); got != 2 {
		t.Errorf("the change in flight was applied %d times", got-1)
	}
}
