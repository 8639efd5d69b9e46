package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// member is one shard: a real store with a log, so that the store can crash.
type member struct {
	t       testing.TB
	number  uint32
	disk    *vfs.MemFS
	store   *state.Store
	machine *op.Machine
	log     [][]byte
	onSent  func() // the store's hook
}

func (m *member) open() {
	m.t.Helper()
	var err error
	m.store, err = state.Open("store", state.Options{FS: m.disk})
	must(m.t, err)
	m.machine = op.NewMachine(m.store)
	m.store.SetHooks(state.Hooks{OnOutbox: func() {
		if m.onSent != nil {
			m.onSent()
		}
	}})
	for i := m.store.Applied().Index; i < uint64(len(m.log)); i++ {
		_, err := m.replay(i + 1)
		must(m.t, err)
	}
}

// crash drops everything that was not flushed and replays it from the log.
func (m *member) crash() {
	m.t.Helper()
	disk := m.disk.CrashClone(vfs.CrashCloneCfg{})
	must(m.t, m.store.Close())
	m.disk = disk
	m.open()
}

func (m *member) replay(index uint64) ([]any, error) {
	e, err := entry.Decode(m.log[index-1])
	if err != nil {
		return nil, err
	}
	return m.machine.Apply(entry.Applied{Group: fmt.Sprintf("ns/%d", m.number), Incarnation: e.Incarnation, Index: index, Term: 1}, e)
}

func (m *member) apply(o op.Op) (op.Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var b entry.Builder
	p := op.Proposal(o)
	if err := b.Add(p.Number(), p.SizeVT(), p); err != nil {
		return nil, err
	}
	m.log = append(m.log, b.Finish(entry.Header{Level: 1, Incarnation: entry.Incarnation{0xa0 + byte(m.number)}, ClockNs: time.Now().UnixNano()}))
	results, err := m.replay(uint64(len(m.log)))
	if err != nil {
		m.t.Errorf("shard %d stopped: %v", m.number, err)
		return nil, err
	}
	if refused, ok := results[0].(error); ok {
		return nil, refused
	}
	return results[0].(op.Result), nil
}

// cluster is the shards of a namespace and the network between them. before and after inject errors: an error
// of after is a lost answer.
type cluster struct {
	t             testing.TB
	mu            sync.Mutex // held while an op is applied; guards the fields below
	members       []*member
	proposed      []op.Op // ops that sinks proposed
	before, after func(shard uint32, o op.Op) error
	minted        byte
	logged        *syncBuffer
}

func newCluster(t testing.TB, shards int) *cluster {
	c := &cluster{t: t, logged: &syncBuffer{}}
	for i := range shards {
		m := &member{t: t, number: uint32(i), disk: vfs.NewCrashableMem()}
		m.open()
		c.members = append(c.members, m)
		t.Cleanup(func() {
			snap := m.store.Snapshot()
			must(t, snap.Check())
			must(t, snap.Close())
			must(t, m.store.Close())
		})
	}
	return c
}

func (c *cluster) Propose(ctx context.Context, shard uint32, o op.Op) (op.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.proposed = append(c.proposed, o)
	if c.before != nil {
		if err := c.before(shard, o); err != nil {
			return nil, err
		}
	}
	result, err := c.members[shard].apply(o)
	if err == nil && c.after != nil {
		if lost := c.after(shard, o); lost != nil {
			return nil, lost
		}
	}
	return result, err
}

// locked calls f while no op is applied.
func (c *cluster) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) must(shard uint32, o op.Op) op.Result {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	result, err := c.members[shard].apply(o)
	must(c.t, err)
	return result
}

// send moves n new jobs of the given size from shard 0 to another.
func (c *cluster) send(to uint32, n, size int) (ids []job.ID) {
	c.t.Helper()
	for len(ids) < n {
		o, move := &op.Enqueue{Meta: &op.Meta{}}, &op.MoveJobs{Queue: "far", Shard: to}
		for range min(n-len(ids), job.MaxEnqueueJobs) {
			c.minted++
			id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{0, c.minted, byte(len(ids) >> 8), byte(len(ids))})
			ids = append(ids, id)
			o.Meta.Ids = append(o.Meta.Ids, id[:])
			o.Jobs = append(o.Jobs, &op.NewJob{Queue: "q", Payload: &job.Blob{Data: make([]byte, size)}, Retry: job.NewRetry()})
		}
		move.JobIds = o.Meta.Ids
		c.must(0, o)
		for _, refused := range c.must(0, move).(*op.MoveJobsResult).Items {
			must(c.t, refused.Err())
		}
	}
	return ids
}

// run runs a sink of shard 0 until stop is called.
func (c *cluster) run() (box *Outbox, stop func()) {
	m := c.members[0]
	box = NewOutbox(OutboxConfig{Store: m.store, Namespace: "ns", Shards: c, Logger: slog.New(slog.NewTextHandler(c.logged, nil))})
	c.locked(func() { m.onSent = box.OnOutbox })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { box.Run(ctx); close(ended) }()
	return box, func() {
		cancel()
		<-ended
		c.locked(func() { m.onSent = nil })
	}
}

// settled waits until no op waits for the shards.
func (c *cluster) settled(shards ...uint32) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("nothing waits for %v", shards), func() bool {
		for _, shard := range shards {
			if c.waits(shard) > 0 {
				return false
			}
		}
		return true
	})
}

// waits returns the number of ops that wait for a shard.
func (c *cluster) waits(shard uint32) (ops uint64) {
	c.locked(func() {
		for _, box := range c.members[0].store.Outboxes() {
			if box.Shard == shard {
				ops = box.Ops()
			}
		}
	})
	return ops
}

// arrived checks that exactly these jobs are on a shard, numbered in their order.
func (c *cluster) arrived(shard uint32, ids ...job.ID) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		j, err := c.members[shard].store.Job(id)
		if err != nil || j == nil {
			c.t.Fatalf("job %d of shard %d is %v, %v", i+1, shard, j, err)
		}
		if j.Number != uint64(i+1) || j.Queue != "far" {
			c.t.Fatalf("job %d of shard %d has the number %d in %q", i+1, shard, j.Number, j.Queue)
		}
	}
	if next := c.members[shard].store.Head().NextJobNumber; next != uint64(len(ids)+1) {
		c.t.Errorf("shard %d has numbered %d jobs, %d were sent", shard, next-1, len(ids))
	}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// syncBuffer collects a log.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestOutboxDelivers checks that ops arrive in order on each shard, including those sent before the sink
// started, and that nothing is proposed afterwards.
func TestOutboxDelivers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	one := c.send(1, 3, 0)
	box, stop := c.run()
	defer stop()
	two := c.send(2, 5, 0)
	one = append(one, c.send(1, 2, 0)...)
	c.settled(1, 2)
	c.arrived(1, one...)
	c.arrived(2, two...)
	must(t, box.Err())
	n := 0
	c.locked(func() { n = len(c.proposed) })
	box.OnOutbox() // a signal without new ops
	one = append(one, c.send(1, 1, 0)...)
	c.settled(1)
	c.arrived(1, one...)
	c.locked(func() {
		if got := len(c.proposed); got != n+2 {
			t.Errorf("one more job took %d proposals, not a delivery and a trim", got-n)
		}
	})
}

// TestDeliveriesAreBounded checks that deliveries are bounded in ops and bytes, and that a backlog is trimmed
// as it is delivered.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	many := c.send(1, trimOps+1, 0)
	large := c.send(2, 9, 1<<20)
	_, stop := c.run()
	defer stop()
	c.settled(1, 2)
	c.arrived(1, many...)
	c.arrived(2, large...)
	c.mu.Lock()
	defer c.mu.Unlock()
	deliveries, trims := map[uint32]int{}, map[uint32]int{}
	for _, o := range c.proposed {
		switch o := o.(type) {
		case *op.TrimOutbox:
			trims[o.Shard]++
		case *op.Deliver:
			to := uint32(1)
			if len(o.Items[0].Op) > 1<<20 {
				to = 2
			}
			deliveries[to]++
			if len(o.Items) > op.MaxDeliverItems || o.SizeVT() > deliveryBytes+1<<10 {
				t.Errorf("a delivery has %d ops and %d bytes", len(o.Items), o.SizeVT())
			}
		}
	}
	for what, counts := range map[string]struct{ got, want map[uint32]int }{
		"deliveries": {deliveries, map[uint32]int{1: 5, 2: 3}},
		"trims":      {trims, map[uint32]int{1: 2, 2: 1}},
	} {
		if diff := cmp.Diff(counts.want, counts.got); diff != "" {
			t.Errorf("%s by shard (-want +got):\n%s", what, diff)
		}
	}
}

// TestOutboxOverBreaks checks that each op is applied once, wherever a call or an answer is lost.
func TestOutboxOverBreaks(t *testing.T) {
	t.Parallel()
	unreachable := api.Errorf(api.LeaderUnavailable, "no leader")
	isTrim := func(o op.Op) bool { _, ok := o.(*op.TrimOutbox); return ok }
	for name, c := range map[string]struct {
		before, after func(shard uint32, o op.Op) error // at the first call
	}{
		"before it is sent":    {before: func(_ uint32, o op.Op) error { return unreachable }},
		"the answer is lost":   {after: func(_ uint32, o op.Op) error { return errors.New("connection reset") }},
		"busy":                 {before: func(_ uint32, o op.Op) error { return api.Errorf(api.Overloaded, "busy") }},
		"before it is trimmed": {before: func(_ uint32, o op.Op) error { return failing(isTrim(o), unreachable) }},
		"the trim's answer":    {after: func(_ uint32, o op.Op) error { return failing(isTrim(o), unreachable) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCluster(t, 2)
			broke := false
			once := func(f func(uint32, op.Op) error) func(uint32, op.Op) error {
				return func(shard uint32, o op.Op) (err error) {
					if f != nil && !broke {
						err = f(shard, o)
						broke = err != nil
					}
					return err
				}
			}
			k.before, k.after = once(c.before), once(c.after)
			ids := k.send(1, 3, 0)
			_, stop := k.run()
			defer stop()
			k.settled(1)
			k.arrived(1, ids...)
			k.locked(func() {
				if !broke {
					t.Error("it did not break")
				}
			})
			ids = append(ids, k.send(1, 2, 0)...)
			k.settled(1)
			k.arrived(1, ids...)
			eventually(t, "the log says that it works again", func() bool { return strings.Contains(k.logged.String(), "are delivered to the other shard again") })
		})
	}
}

func failing(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

// TestOutboxOverCrashes changes leaders and crashes shards between delivery and trim. The next sink sends the
// untrimmed ops again, and each must be applied once.
func TestOutboxOverCrashes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	var ids []job.ID
	for round := range 6 {
		reached := make(chan struct{})
		var once sync.Once
		c.locked(func() {
			c.before = func(_ uint32, o op.Op) error {
				if _, trim := o.(*op.TrimOutbox); trim {
					once.Do(func() { close(reached) })
					return api.Errorf(api.LeaderUnavailable, "no leader")
				}
				return nil
			}
		})
		ids = append(ids, c.send(1, 2, 0)...)
		_, stop := c.run()
		<-reached
		stop()
		switch round % 3 {
		case 0:
			c.members[0].crash()
		case 1:
			c.members[1].crash()
		}
		c.arrived(1, ids...)
	}
	c.locked(func() { c.before = nil })
	_, stop := c.run()
	defer stop()
	c.settled(1)
	c.arrived(1, ids...)
}

// TestAnUnreachableShardDelaysNoOther checks that an unreachable shard delays only its own ops.
func TestAnUnreachableShardDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.before = func(shard uint32, _ op.Op) error {
		return failing(shard == 1, api.Errorf(api.LeaderUnavailable, "no leader"))
	}
	late := c.send(1, 2, 0)
	box, stop := c.run()
	defer stop()
	ids := c.send(2, 2, 0)
	c.settled(2)
	c.arrived(2, ids...)
	if n := c.waits(1); n != 2 || box.Err() != nil {
		t.Errorf("%d ops wait for the unreachable shard, %v", n, box.Err())
	}
	// The other shard may have been quicker than the first attempt on this one.
	eventually(t, "the shard has been tried", func() bool { return strings.Contains(c.logged.String(), "could not be delivered") })
	c.locked(func() { c.before = nil })
	c.settled(1)
	c.arrived(1, late...)
	if n := strings.Count(c.logged.String(), "could not be delivered"); n != 1 {
		t.Errorf("the log says %d times that it could not be delivered:\n%s", n, c.logged)
	}
}

// TestOutboxDisagreement checks that if one of the two shards has lost data, the sink reports it and nothing
// is trimmed.
func TestOutboxDisagreement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(c *cluster)
		want string
	}{
		"the receiver has lost its tail": {func(c *cluster) {
			m := c.members[1]
			must(t, m.store.Close())
			m.disk, m.log = vfs.NewCrashableMem(), nil
			m.open()
		}, "the next op of shard 0 has number 1, not 4"},
		"the sender has lost its tail": {func(c *cluster) {
			m := c.members[0]
			must(t, m.store.Close())
			m.disk, m.log = vfs.NewCrashableMem(), nil
			m.open()
		}, "has this store lost its tail?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCluster(t, 2)
			k.send(1, 3, 0)
			_, stop := k.run()
			k.settled(1)
			stop()
			k.locked(func() { c.lose(k) })
			k.send(1, 1, 0)
			box, stop := k.run()
			defer stop()
			eventually(t, "the disagreement is said", func() bool { return box.Err() != nil })
			if err := box.Err(); !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			if n := k.waits(1); n != 1 {
				t.Errorf("%d ops wait", n)
			}
		})
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want time.Duration
	}{
		{errors.New("x"), 0},
		{fmt.Errorf("deliver: %w", &api.Error{Code: api.Overloaded, RetryAfter: 5 * time.Second}), 5 * time.Second},
		{&api.Error{Code: api.Overloaded, RetryAfter: time.Hour}, maxBackoff},
	} {
		if got := retryAfter(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
