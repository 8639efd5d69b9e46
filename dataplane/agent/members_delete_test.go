package agent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/tenancy"
)

// ledger takes each row of a source once and in order, while it can be reached.
type ledger struct {
	mu   sync.Mutex
	away bool
	last map[billing.Source]uint64
	cost money.Nano
}

func (l *ledger) LastUsage(_ context.Context, of billing.Source) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return 0, api.Errorf(api.LeaderUnavailable, "the ledger is away")
	}
	return l.last[of], nil
}

func (l *ledger) SendUsage(_ context.Context, f billing.Frame) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.away:
		return 0, api.Errorf(api.LeaderUnavailable, "the ledger is away")
	case f.From != l.last[f.Source]+1:
		return 0, api.Errorf(api.StateConflict, "the next row is %d", l.last[f.Source]+1)
	}
	for _, r := range f.Rows {
		l.cost += money.Nano(r.Quantities()[billing.Cost])
	}
	l.last[f.Source] = f.To
	return f.To, nil
}

func (l *ledger) SetUsageAside(context.Context, billing.Frame) (uint64, error) {
	return 0, api.Errorf(api.Internal, "nothing is set aside")
}

func (l *ledger) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *ledger) sum() money.Nano {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cost
}

// spend fetches a job of each shard on a host, and completes it with a cost of 100 nano-dollars.
func (c *crew) spend(store string) {
	c.t.Helper()
	cells, err := c.hosts[store].host.Cells("ns_a")
	c.must(err)
	ctx, cancel := context.WithTimeout(c.t.Context(), conditionTimeout)
	defer cancel()
	for _, at := range cells {
		got, _, err := cell.Propose[*op.FetchResult](ctx, at, &op.Fetch{
			Meta: &op.Meta{LeaseSeed: at.LeaseSeed()}, Queues: []string{"q"}, Count: 1, LeaseMs: time.Hour.Milliseconds(),
		})
		c.must(err)
		_, _, err = cell.Propose[*op.AckResult](ctx, at, &op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{
			Proof: &op.LeaseProof{Id: got.Jobs[0].Id, Token: got.Jobs[0].LeaseToken},
			Usage: &job.Usage{CostNanoUsd: 100, Model: "m"},
		}}})
		c.must(err)
	}
}

// All members of a deleted namespace deliver its usage and delete their copies at the same time, so that most have no
// leader in the end. The usage arrives once. A member that was away deletes its copy later, alone.
func TestAllMembersDeleteANamespace(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	to := &ledger{away: true, last: map[billing.Source]uint64{}}
	for _, store := range []string{"a", "b", "c"} {
		c.stop(store)
	}
	c.receiver = to
	for _, store := range []string{"a", "b", "c"} {
		c.start(store)
	}
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	ids := c.enqueue(4, "a")
	c.spend("a")
	c.has("b", ids)
	c.has("c", ids)
	c.stop("c")
	absent := c.doc(2)
	absent.Desired = fleet.Absent
	c.tell(absent, "a", "b")
	for _, store := range []string{"a", "b"} {
		eventually(t, store+" has closed the namespace", func() bool { return len(c.hosts[store].host.Namespaces()) == 0 }, func() any { return c.hosts[store].cell() })
		if !c.onDisk(store) {
			t.Errorf("%s has deleted the namespace while the ledger is away", store)
		}
	}
	to.set(false)
	for _, store := range []string{"a", "b"} {
		c.reports(store, fleet.Gone, 2)
	}
	if got := to.sum(); got != 200 {
		t.Errorf("the ledger has %d of 200", got)
	}
	c.start("c")
	c.tell(absent, "c")
	c.reports("c", fleet.Gone, 2)
	for _, m := range c.hosts {
		if left, err := os.ReadDir(m.dir + "/ns"); err != nil || len(left) > 0 {
			t.Errorf("left are %v (%v)", left, err)
		}
	}
	if got := to.sum(); got != 200 {
		t.Errorf("the ledger has %d of 200 in the end", got)
	}
}

// The last member of a deleted namespace delivers what the ledger lacks, although the others are gone for good.
func TestTheLastMemberDeliversTheUsage(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	to := &ledger{away: true, last: map[billing.Source]uint64{}}
	c.stop("c")
	c.receiver = to
	c.start("c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	c.enqueue(4, "a")
	c.spend("a")
	c.has("c", c.enqueue(2, "a"))
	c.stop("a")
	c.stop("b")
	absent := c.doc(2)
	absent.Desired = fleet.Absent
	c.tell(absent, "c")
	c.stop("c") // the next start finds it closed and without a leader
	c.start("c")
	to.set(false)
	c.tell(absent, "c")
	c.reports("c", fleet.Gone, 2)
	if got := to.sum(); got != 200 {
		t.Errorf("the ledger has %d of 200", got)
	}
}

// A host that closes hands the leadership of all its groups over at the same time, and ends their waiting fetches.
func TestAClosingHostHandsItsGroupsOver(t *testing.T) {
	t.Parallel()
	const namespaces = 4
	c := newCrew(t, "a", "b", "c")
	of := func(i int) tenancy.NamespaceID { return tenancy.NamespaceID(fmt.Sprintf("ns_%d", i)) }
	for i := range namespaces {
		d := c.doc(1, "found:a", "join:b", "join:c")
		d.Namespace = string(of(i))
		c.tell(d, "a", "b", "c")
	}
	leads := func(store string) (n int) {
		for _, r := range c.hosts[store].report().Cells {
			for _, g := range r.Groups {
				if g.Role == fleet.Leading && len(g.Voters) == 3 && len(g.Learners) == 0 {
					n++
				}
			}
		}
		return n
	}
	all := func() int { return leads("a") + leads("b") + leads("c") }
	eventually(t, "all groups have three members", func() bool { return all() == 2*namespaces }, func() any { return all() })
	for i := range namespaces {
		cells, err := c.hosts["a"].host.Cells(of(i))
		c.must(err)
		for _, at := range cells {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_ = at.Engine().Transfer(ctx, "a") // on a busy machine another one may lead
			cancel()
		}
	}
	ended := make(chan error)
	for i := range namespaces {
		go func() {
			ended <- c.hosts["a"].host.Park(context.Background(), of(i), []string{"q"}, func() error { return nil })
		}()
		eventually(t, "the fetch waits", func() bool {
			p, err := c.hosts["a"].host.Polls(of(i))
			return err == nil && p.Parked == 1
		}, func() any { return i })
	}
	began := time.Now()
	c.stop("a")
	t.Logf("the host closed after %v", time.Since(began))
	for range namespaces {
		if err := <-ended; api.CodeOf(err) != api.LeaderUnavailable {
			t.Errorf("a waiting fetch ended with %v", err)
		}
	}
	eventually(t, "the others lead all groups", func() bool { return leads("b")+leads("c") == 2*namespaces }, func() any { return []int{leads("b"), leads("c")} })
	t.Logf("the others led after %v", time.Since(began))
}
