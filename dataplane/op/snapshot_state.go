package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SnapshotState is the DecisionState of a snapshot of the committed state, at a fixed time. Its decisions
// bind nobody. It belongs to one goroutine and must not outlive its snapshot.
type SnapshotState struct {
	snapshot  *state.Snapshot
	resources *state.ResourceIndex
	head      *state.Head
	nowNs     int64
	queues    map[string]*state.Queue
	accounts  map[[16]byte]*state.Account
	traffic   map[[16]byte]*state.Traffic
	err       error // of reading a queue, because DecisionState's Queue returns no error
}

// NewSnapshotState makes a DecisionState of a snapshot at nowNs, or at the last entry's time if that is later.
func NewSnapshotState(snapshot *state.Snapshot, resources *state.ResourceIndex, nowNs int64) *SnapshotState {
	head := snapshot.Head()
	return &SnapshotState{
		snapshot: snapshot, resources: resources, head: head, nowNs: max(nowNs, head.ClockNs),
		queues: map[string]*state.Queue{}, accounts: map[[16]byte]*state.Account{}, traffic: map[[16]byte]*state.Traffic{},
	}
}

// ClockNs returns the time of the decisions.
func (g *SnapshotState) ClockNs() int64 { return g.nowNs }

// Head returns the snapshot's head.
func (g *SnapshotState) Head() *state.Head { return g.head }

// ResourceIndex returns the resources.
func (g *SnapshotState) ResourceIndex() *state.ResourceIndex { return g.resources }

// Queue returns a queue's record, or nil if the queue is unknown or cannot be read. Explain, Opens and Reserve
// return the error of a failed read.
func (g *SnapshotState) Queue(name string) *state.Queue {
	q, err := remember(g.queues, name, g.snapshot.Queue)
	if err != nil && g.err == nil {
		g.err = err
	}
	return q
}

// Account returns a budget's account including the jobs that Reserve has counted, or nil if there is none.
func (g *SnapshotState) Account(id [16]byte) (*state.Account, error) {
	return remember(g.accounts, id, g.snapshot.Account)
}

// Traffic returns a provider's traffic including the jobs that Reserve has counted, or nil if there is none.
func (g *SnapshotState) Traffic(id [16]byte) (*state.Traffic, error) {
	return remember(g.traffic, id, g.snapshot.Traffic)
}

func remember[K comparable, R any](known map[K]R, key K, read func(K) (R, error)) (R, error) {
	if rec, ok := known[key]; ok {
		return rec, nil
	}
	rec, err := read(key)
	if err == nil {
		known[key] = rec
	}
	return rec, err
}

// Reserve counts a job with its provider and on this shard's slices of shared budgets, as if the job had been
// fetched. It reserves nothing on other budgets.
func (g *SnapshotState) Reserve(j *job.Job) error {
	if err := g.reserveSlices(j); err != nil {
		return err
	}
	r := providerOf(g, j)
	if r == nil {
		return g.err
	}
	id := [16]byte(r.Id)
	t, err := g.Traffic(id)
	if err != nil {
		return err
	}
	if t == nil {
		t = &state.Traffic{Name: r.Name}
		g.traffic[id] = t
	}
	takeRequest(t, r, g.nowNs)
	return g.err
}

// reserveSlices reserves the job's expected cost on this shard's slices of shared budgets, at most what each
// has free.
func (g *SnapshotState) reserveSlices(j *job.Job) error {
	budgets := budgetsOf(g.resources, j)
	amount := expectedCost(j, budgets, g.Queue(j.Queue).GetExpectedCostNanoUsd())
	for _, r := range budgets {
		if !r.Shared() {
			continue
		}
		a, err := accountOf(g, r)
		if err != nil {
			return err
		}
		a.Slice.Reserve(min(int64(amount), int64(max(a.Slice.Free(), 0))), g.nowNs)
	}
	return nil
}
