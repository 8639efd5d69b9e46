package host

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// ledger is a receiver that takes usage in order while it can be reached.
type ledger struct {
	mu   sync.Mutex
	away bool
	last uint64
	cost money.Nano

	refuses bool // SendUsage refuses every frame
	aside   []billing.Frame
}

func (l *ledger) LastUsage(context.Context, billing.Source) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return 0, api.Errorf(api.LeaderUnavailable, "the ledger is away")
	}
	return l.last, nil
}

func (l *ledger) SendUsage(_ context.Context, f billing.Frame) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses && !l.away {
		return 0, api.Errorf(api.ValidationError, "rows[0].queue is no text")
	}
	if l.away || f.From != l.last+1 {
		return 0, api.Errorf(api.StateConflict, "the next row is %d", l.last+1)
	}
	for _, r := range f.Rows {
		l.cost += money.Nano(r.Quantities()[billing.Cost])
	}
	l.last = f.To
	return l.last, nil
}

func (l *ledger) SetUsageAside(_ context.Context, f billing.Frame) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return 0, api.Errorf(api.LeaderUnavailable, "the ledger is away")
	}
	l.aside, l.last = append(l.aside, f), f.To
	return l.last, nil
}

func (l *ledger) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// spend completes a job that cost 123 nano-dollars.
func spend(t *testing.T, c *cell.Cell) {
	t.Helper()
	ctx := t.Context()
	if _, err := enqueue(ctx, c); err != nil {
		t.Fatal(err)
	}
	got, _, err := cell.Propose[*op.FetchResult](ctx, c, &op.Fetch{
		Meta: &op.Meta{LeaseSeed: c.LeaseSeed()}, Queues: []string{"q"}, Count: 1, LeaseMs: time.Hour.Milliseconds(),
	})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("fetched %v, %v", got, err)
	}
	_, _, err = cell.Propose[*op.AckResult](ctx, c, &op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{
		Proof: &op.LeaseProof{Id: got.Jobs[0].Id, Token: got.Jobs[0].LeaseToken},
		Usage: &job.Usage{CostNanoUsd: 123, Model: "m"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoveDeliversTheUsageFirst checks that the data of a deleted namespace stays, through restarts too,
// until its usage has reached the ledger, because the customer still pays for it. Meanwhile the namespace is
// closed to its tenants.
func TestRemoveDeliversTheUsageFirst(t *testing.T) {
	t.Parallel()
	to, dir := &ledger{away: true}, t.TempDir()
	h := openHost(t, Config{DataDir: dir, Receiver: to})
	spend(t, add(t, h, "a"))
	for range 2 { // the first call finds the namespace open, the second closed
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := h.Remove(short, "a"); err == nil {
			t.Fatal("a namespace is deleted whose usage nobody has")
		}
		if len(files(t, h, "/a")) == 0 {
			t.Fatal("its data is gone")
		}
		if _, err := cellOf(h, "a"); err == nil {
			t.Fatal("it is still open to its tenants")
		}
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = openHost(t, Config{DataDir: dir, Receiver: to})
	to.set(false)
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if to.cost != 123 {
		t.Errorf("the ledger has %v of 0.000000123", to.cost)
	}
	if left := files(t, h, "/a"); len(left) > 0 {
		t.Errorf("after its deletion there are %q", left)
	}
}

// TestRemoveSetsRefusedUsageAside checks that a namespace can be deleted although the ledger refuses its
// usage, because the ledger sets the usage aside.
func TestRemoveSetsRefusedUsageAside(t *testing.T) {
	t.Parallel()
	to := &ledger{refuses: true}
	h := openHost(t, Config{DataDir: t.TempDir(), Receiver: to})
	spend(t, add(t, h, "a"))
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if len(to.aside) != 1 || to.cost != 0 {
		t.Fatalf("%+v is set aside, the ledger has %v", to.aside, to.cost)
	}
	if f := to.aside[0]; f.From != 1 || !slices.ContainsFunc(f.Rows, func(r billing.Row) bool { return r.Meter == billing.Cost && r.Quantity == 123 }) {
		t.Errorf("%+v is set aside", f)
	}
	if left := files(t, h, "/a"); len(left) > 0 {
		t.Errorf("after its deletion there are %q", left)
	}
}

// TestRemoveOfWhatCannotBeOpened checks that a namespace that cannot be opened can be deleted, because that
// may be the reason for the deletion.
func TestRemoveOfWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	to, dir := &ledger{}, t.TempDir()
	h := openHost(t, Config{DataDir: dir, Receiver: to})
	add(t, h, "a")
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = openHost(t, Config{DataDir: dir, Receiver: to, open: func(cell.Config) (*cell.Cell, error) {
		return nil, api.Errorf(api.Unhealthy, "the log is damaged")
	}})
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if left := files(t, h, "/a"); len(left) > 0 {
		t.Errorf("after its deletion there are %q", left)
	}
}
