package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
)

// open opens a namespace with the given number of shards.
func open(t *testing.T, shards int) Shards {
	t.Helper()
	h, err := host.Open(host.Config{DataDir: t.TempDir(), NodeID: "n1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(h.Add(ctx, "a", host.Spec{Shards: shards}), h.Ready(ctx, "a")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(h, "a")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSlotsAreDealtEvenly expects that neighbouring slots have the same or the next shard and that the shares
// of two shards differ by at most one slot.
func TestSlotsAreDealtEvenly(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 3, 4, 7, host.MaxShards} {
		count := make([]int, shards)
		last := 0
		for slot := range uint16(job.Slots) {
			at := ShardOf(slot, shards)
			if at < last || at > last+1 || at >= shards {
				t.Fatalf("of %d shards slot %d is on %d, the one before on %d", shards, slot, at, last)
			}
			last = at
			count[at]++
		}
		if slices.Max(count)-slices.Min(count) > 1 {
			t.Errorf("%d shards have %v slots", shards, count)
		}
	}
}

// TestAJobIsOnTheShardOfItsQueue expects the id of a job to lead to the shard of the queue in which it was
// enqueued.
func TestAJobIsOnTheShardOfItsQueue(t *testing.T) {
	t.Parallel()
	s := open(t, 4)
	seen := map[uint32]bool{}
	for i := range 100 {
		queue := fmt.Sprintf("q%d", i)
		of := s.Of(queue)
		at, err := s.OfJob(of.NewID(queue))
		if err != nil || at != of {
			t.Fatalf("the job of a queue on shard %d is on %v, %v", of.Shard(), at, err)
		}
		seen[of.Shard()] = true
	}
	if len(seen) != 4 || s.Home().Shard() != 0 {
		t.Errorf("100 queues are on shards %v", seen)
	}
}

// TestRunsKeepTheOrder expects the runs to contain the queues in their order, and neighbouring runs to have
// different shards.
func TestRunsKeepTheOrder(t *testing.T) {
	t.Parallel()
	s := open(t, 2)
	var queues []string
	for i := range 50 {
		queues = append(queues, fmt.Sprintf("q%d", i))
	}
	var joined []string
	var before *cell.Cell
	for _, run := range s.Runs(queues) {
		if run.Cell == before {
			t.Errorf("two runs of shard %d follow each other", before.Shard())
		}
		before = run.Cell
		for _, q := range run.Items {
			if s.Of(q) != run.Cell {
				t.Errorf("%s is not on shard %d", q, run.Cell.Shard())
			}
		}
		joined = append(joined, run.Items...)
	}
	if !slices.Equal(joined, queues) {
		t.Errorf("the runs of %v are %v", queues, joined)
	}
	if got := s.Runs(nil); got != nil {
		t.Errorf("the runs of nothing are %v", got)
	}
}

func TestSplitKeepsPositions(t *testing.T) {
	t.Parallel()
	s := open(t, 2)
	on := []int{1, 0, 1, 1, 0}
	parts := Split(len(on), func(i int) *cell.Cell { return s.All()[on[i]] })
	if len(parts) != 2 || parts[0].Cell != s.All()[1] {
		t.Fatalf("%v is split into %v", on, parts)
	}
	if diff := cmp.Diff([][]int{{0, 2, 3}, {1, 4}}, [][]int{parts[0].At, parts[1].At}); diff != "" {
		t.Errorf("the positions of %v (-want +got):\n%s", on, diff)
	}
}

// TestScatter expects every call to be made, at most MaxScatter at once, and the error of the first failed
// call in order of position, not of time.
func TestScatter(t *testing.T) {
	t.Parallel()
	const n = 5 * MaxScatter
	var at, most, done atomic.Int64
	full := make(chan struct{})
	first := errors.New("first")
	err := Scatter(n, func(i int) error {
		now := at.Add(1)
		defer at.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if now == MaxScatter {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		<-full // until MaxScatter calls run
		done.Add(1)
		switch i {
		case 3:
			return first
		case n - 1:
			return errors.New("another")
		}
		return nil
	})
	if !errors.Is(err, first) || done.Load() != n || most.Load() != MaxScatter {
		t.Errorf("%d of %d are done, %d at once: %v", done.Load(), n, most.Load(), err)
	}
}
