package cell

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// receiver stores the usage of one source, each row once. It loses every other answer to a frame.
type receiver struct {
	mu     sync.Mutex
	source billing.Source
	last   uint64
	sum    billing.Quantities
	sent   int
}

func (r *receiver) LastUsage(_ context.Context, of billing.Source) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = of
	return r.last, nil
}

func (r *receiver) SetUsageAside(context.Context, billing.Frame) (uint64, error) {
	return 0, api.Errorf(api.NotFound, "nothing is set aside here")
}

func (r *receiver) SendUsage(_ context.Context, f billing.Frame) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.From != r.last+1 || f.Source != r.source {
		return 0, api.Errorf(api.StateConflict, "the next row is %d", r.last+1)
	}
	for _, row := range f.Rows {
		if err := r.sum.Add(row.Quantities()); err != nil {
			return 0, err
		}
	}
	r.last = f.To
	if r.sent++; r.sent%2 == 1 {
		return 0, api.Errorf(api.LeaderUnavailable, "the answer is lost")
	}
	return r.last, nil
}

func (r *receiver) reports() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum[billing.Reports]
}

// work completes n jobs, each of which costs one nano-dollar.
func work(t *testing.T, c *Cell, n int) {
	t.Helper()
	for range n {
		enqueue(t, c, "q", []byte("{}"), time.Time{})
	}
	for n > 0 {
		o := &op.Ack{Meta: &op.Meta{}}
		for _, leased := range fetch(t, c, "q", time.Hour) {
			o.Items = append(o.Items, &op.AckItem{
				Proof: &op.LeaseProof{Id: leased.Id, Token: leased.LeaseToken}, Usage: &job.Usage{CostNanoUsd: 1, Model: "m"},
			})
		}
		if _, _, err := Propose[*op.AckResult](t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
		n -= len(o.Items)
	}
}

// TestUsageIsShippedAndThenTrimmed checks that usage reaches its receiver while jobs are processed and the
// cell is closed and opened, and that confirmed rows are trimmed.
func TestUsageIsShippedAndThenTrimmed(t *testing.T) {
	t.Parallel()
	const keep = 5
	to, dir := &receiver{}, t.TempDir()
	c := openTest(t, Config{Dir: dir, Receiver: to, UsageKeep: keep})
	work(t, c, 30)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = openTest(t, Config{Dir: dir, Receiver: to, UsageKeep: keep})
	work(t, c, 10)
	eventually(t, "the usage to arrive", func() bool { return to.reports() == 40 })
	eventually(t, "the usage to be trimmed", func() bool {
		s, err := c.Status()
		return err == nil && s.UsageRows <= keep+keep/4 && s.UsageWaiting == 0
	})
	eventually(t, "the leader to claim that the usage is complete", func() bool { return c.UsageClaim() != nil })
	to.mu.Lock()
	defer to.mu.Unlock()
	incarnation := hex.EncodeToString(c.State().Head().GetIncarnation())
	if want := (billing.Source{Namespace: "test", Stream: "shard/0", Incarnation: incarnation}); to.source != want {
		t.Errorf("the source is %+v, want %+v", to.source, want)
	}
	if claim := c.UsageClaim(); claim == nil || time.Since(time.Unix(0, claim.UntilNs)) < claimMargin {
		t.Errorf("the cell claims %+v", claim)
	}
	if to.sum[billing.Cost] != 40 || to.last < 40 || c.Err() != nil {
		t.Errorf("rows up to %d arrived, %+v; the cell says %v", to.last, to.sum, c.Err())
	}
}

// TestMetersOfADeletedShard checks that what a shard has metered in its last minute reaches the receiver before the
// shard's data is deleted.
func TestMetersOfADeletedShard(t *testing.T) {
	t.Parallel()
	to := &receiver{}
	c := openTest(t, Config{Receiver: to})
	eventually(t, "the metering to begin", func() bool { return c.State().Head().GetMeteredNs() != 0 })
	work(t, c, 3)
	if err := c.SettleUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.sum[billing.JobsEnqueued] != 3 || to.sum[billing.JobsCompleted] != 3 || to.sum[billing.Reports] != 3 {
		t.Errorf("the receiver has %+v", to.sum)
	}
}

// TestUsageWithoutAReceiverIsBounded checks that rows up to the bound are kept without a receiver, and the
// older ones removed.
func TestUsageWithoutAReceiverIsBounded(t *testing.T) {
	t.Parallel()
	c := openTest(t, Config{UsageKeep: 8})
	work(t, c, 30)
	eventually(t, "the usage to be trimmed", func() bool {
		s, err := c.Status()
		return err == nil && s.UsageRows <= 8+8/4 && s.UsageWaiting == 0
	})
}

// hanging never answers.
type hanging struct{}

func (hanging) LastUsage(ctx context.Context, _ billing.Source) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hanging) SetUsageAside(ctx context.Context, _ billing.Frame) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hanging) SendUsage(ctx context.Context, _ billing.Frame) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestAReceiverThatHangsHoldsNothingUp checks that an unreachable receiver does not affect the namespace: it
// works, keeps the unconfirmed rows and closes.
func TestAReceiverThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	c := openTest(t, Config{Receiver: hanging{}, UsageKeep: 1})
	work(t, c, 20)
	s, err := c.Status()
	if err != nil || c.Err() != nil {
		t.Errorf("the namespace failed: %v, %v", err, c.Err())
	}
	if s.UsageRows != 20 || s.UsageWaiting != 20 {
		t.Errorf("%d rows are kept, %d wait", s.UsageRows, s.UsageWaiting)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestADisagreementOnUsageIsUnhealthy checks that a receiver that knows more rows than the store makes the
// cell unhealthy, and that the namespace still works.
func TestADisagreementOnUsageIsUnhealthy(t *testing.T) {
	t.Parallel()
	c := openTest(t, Config{Receiver: &receiver{last: 7}})
	eventually(t, "the disagreement", func() bool { return c.Err() != nil })
	if err := c.Err(); !strings.Contains(err.Error(), "up to row 7") || c.Failed() != nil {
		t.Errorf("the cell says %v and has failed with %v", err, c.Failed())
	}
	work(t, c, 1)
}
