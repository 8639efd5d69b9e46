// Package router finds the shard of a queue or a job, and sends requests to several shards at once. A queue
// belongs to the shard of its hash slot for ever. A job belongs to the shard on which it was enqueued, unless
// it has been moved. The package decides nothing about jobs, and may import host and every package that host
// may import.
package router

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// ShardOf returns the shard of a hash slot, given the number of shards. The numbers of slots of two shards
// differ by at most one.
func ShardOf(slot uint16, shards int) int { return int(slot) * shards / job.Slots }

// Shards has the open cells of a namespace, one per shard.
type Shards struct {
	cells []*cell.Cell
}

// Open returns the shards of a namespace. The error is LEADER_UNAVAILABLE if the host has not opened it.
func Open(h *host.Host, ns tenancy.NamespaceID) (Shards, error) {
	cells, err := h.Cells(ns)
	return Shards{cells}, err
}

// Count returns the number of shards, at least one.
func (s Shards) Count() int { return len(s.cells) }

// All returns the cells by shard. The caller must not change the slice.
func (s Shards) All() []*cell.Cell { return s.cells }

// Home returns the first shard, which keeps the records of the whole namespace, such as its API keys.
func (s Shards) Home() *cell.Cell { return s.cells[0] }

// Of returns the shard of a queue.
func (s Shards) Of(queue string) *cell.Cell {
	if len(s.cells) == 1 {
		return s.cells[0]
	}
	return s.cells[ShardOf(job.SlotOf(queue), len(s.cells))]
}

// Birth returns the shard that a job was enqueued on.
func (s Shards) Birth(id job.ID) *cell.Cell {
	if len(s.cells) == 1 {
		return s.cells[0]
	}
	return s.cells[ShardOf(id.Slot(), len(s.cells))]
}

// OfJob returns the shard that has a job, or that the job is moving to, as far as this node knows. For an
// unknown id it returns the shard of the id's hash slot.
//
// The shards on this node may lag by different times: a shard that lags may still forward a job that has
// returned. OfJob therefore follows a forward only if its move is later than the one before.
func (s Shards) OfJob(id job.ID) (*cell.Cell, error) {
	at, _, err := s.Follow(id)
	return at, err
}

// Passage is the last move of a job between shards.
type Passage struct {
	From  *cell.Cell // the shard that the job left
	Queue string     // the queue that the job was moved to
	to    *cell.Cell
}

// Follow returns the shard of OfJob and the job's last move. The move is nil if the shard on which the job
// was enqueued does not forward it, because it never left or has returned.
func (s Shards) Follow(id job.ID) (at *cell.Cell, by *Passage, err error) {
	at = s.Birth(id)
	if len(s.cells) == 1 {
		return at, nil, nil
	}
	for move := uint32(0); ; {
		to, err := at.State().Forwarded(id)
		if err != nil {
			return nil, nil, err
		}
		if to == nil || to.Move <= move {
			return at, by, nil
		}
		if int(to.Shard) >= len(s.cells) {
			return nil, nil, api.Errorf(api.Internal, "job %s has gone to shard %d, of %d", id, to.Shard, len(s.cells))
		}
		by = &Passage{From: at, Queue: to.Queue, to: s.cells[to.Shard]}
		at, move = by.to, to.Move
	}
}

// Over reports whether the job has certainly arrived, even if it was changed or removed since. Messages
// between two shards are delivered in order, so the job has arrived if no message waits. While one waits,
// Over returns false.
func (p *Passage) Over() bool {
	for _, box := range p.From.State().Outboxes() {
		if box.Shard == p.to.Shard() {
			return box.Ops() == 0
		}
	}
	return true
}

// OnItsWay returns the error VIEW_BEHIND for a request about a job that has left a shard and has not been seen
// on the next one.
func OnItsWay(id job.ID) *api.Error {
	err := api.Errorf(api.ViewBehind, "job %s is being moved to another shard: try again in a moment", id)
	err.RetryAfter = retryMove
	return err
}
