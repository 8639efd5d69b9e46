package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/tenancy"
)

const (
	corvoInside = "Corvo, in process"
	bareRaft    = "bare raft, same log and bytes"
)

// openInside opens a node's host in this process, without HTTP.
func openInside(ctx context.Context, dir string) (map[row]measure, func() error, error) {
	h, err := host.Open(host.Config{DataDir: dir, NodeID: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	stop := func() error { return h.Close(context.WithoutCancel(ctx)) }
	err = h.Add(ctx, tenancy.Default, host.Spec{})
	if err == nil {
		err = h.Ready(ctx, tenancy.Default)
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	cells, err := h.Cells(tenancy.Default)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return map[row]measure{inProcess512: func(ctx context.Context, d time.Duration) (outcome, error) {
		return drive(ctx, callers, d, func(ctx context.Context, i int) (int, error) { return 1, lifecycle(ctx, cells[0], i) })
	}}, stop, nil
}

func enqueueOp(id job.ID, queue string) *op.Enqueue {
	return &op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{{
		Queue: queue, Payload: &job.Blob{Data: payload(0)}, Priority: job.Normal,
		Retry: &job.Retry{MaxAttempts: 3, Backoff: job.BackoffExponential, BaseDelayMs: 5000, MaxDelayMs: 600000},
	}}}
}

func fetchOp(seed []byte, queue string) *op.Fetch {
	return &op.Fetch{Meta: &op.Meta{LeaseSeed: seed}, Queues: []string{queue}, Count: 1, WorkerId: "worker", LeaseMs: 60_000}
}

func ackOp(l *op.Leased) *op.Ack {
	return &op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{
		Proof: &op.LeaseProof{Id: l.GetId(), Token: l.GetLeaseToken()}, Result: &job.Blob{Data: []byte(`{"ok":true}`)},
	}}}
}

// lifecycle enqueues a job, then fetches and acknowledges a job of its queue.
func lifecycle(ctx context.Context, c *cell.Cell, caller int) error {
	queue := fmt.Sprintf("bench-%d", caller%8)
	if _, _, err := cell.Propose[*op.EnqueueResult](ctx, c, enqueueOp(c.NewID(queue), queue)); err != nil {
		return err
	}
	fetched, _, err := cell.Propose[*op.FetchResult](ctx, c, fetchOp(c.LeaseSeed(), queue))
	if err != nil {
		return err
	}
	if len(fetched.GetJobs()) != 1 {
		return fmt.Errorf("fetched %d jobs", len(fetched.GetJobs()))
	}
	_, _, err = cell.Propose[*op.AckResult](ctx, c, ackOp(fetched.GetJobs()[0]))
	return err
}

// openRaft opens raft with the log store of a node and an empty state machine. It commits
// the bytes of a lifecycle's three ops.
func openRaft(_ context.Context, dir string) (map[row]measure, func() error, error) {
	ops, err := lifecycleBytes()
	if err != nil {
		return nil, nil, err
	}
	log, err := (&raftlog.Factory{Logger: hclog.NewNullLogger()}).Open(dir, raftlog.WAL)
	if err != nil {
		return nil, nil, err
	}
	address, transport := raft.NewInmemTransport("a")
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger, cfg.NoLegacyTelemetry = "a", hclog.NewNullLogger(), true
	cfg.SnapshotInterval, cfg.SnapshotThreshold = time.Hour, math.MaxUint64
	cfg.BatchApplyCh = true // callers do not wait for each other: the reference is raft at its best
	snapshots := raft.NewDiscardSnapshotStore()
	members := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: address}}}
	if err := raft.BootstrapCluster(cfg, log, log, snapshots, transport, members); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	r, err := raft.NewRaft(cfg, nullFSM{}, log, log, snapshots, transport)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	stop := func() error { return errors.Join(r.Shutdown().Error(), log.Close()) }
	if err := eventually(func() error { return r.Barrier(time.Second).Error() }); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return map[row]measure{inProcess512: func(ctx context.Context, d time.Duration) (outcome, error) {
		return drive(ctx, callers, d, func(context.Context, int) (int, error) {
			for _, data := range ops {
				if err := r.Apply(data, 0).Error(); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
	}}, stop, nil
}

func lifecycleBytes() (all [][]byte, err error) {
	id := job.NewID(time.Now().UnixMilli(), "bench-0", job.Entropy{})
	for _, o := range []interface{ MarshalVT() ([]byte, error) }{
		enqueueOp(id, "bench-0"), fetchOp(make([]byte, 16), "bench-0"), ackOp(&op.Leased{Id: id[:], LeaseToken: make([]byte, 16)}),
	} {
		data, err := o.MarshalVT()
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// nullFSM applies nothing.
type nullFSM struct{}

func (nullFSM) Apply(*raft.Log) any                 { return nil }
func (nullFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.ErrUnexpectedEOF }
func (nullFSM) Restore(io.ReadCloser) error         { return io.ErrUnexpectedEOF }
