// Package router finds the shard of a namespace that a queue or a job lies on, and
// asks several at once. A queue lies on the shard of its slot, for ever; a job
// where it was born, unless it has been moved. It decides nothing about jobs, and
// may import host and what host may.
package router

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// ShardOf is the shard of a slot where there are so many shards: each has as many
// slots as any other, or one more.
func ShardOf(slot uint16, shards int) int { return int(slot) * shards / job.Slots }

// Shards are the open cells of a namespace.
type Shards struct {
	cells []*cell.Cell
}

// Open are the shards of a namespace that the host has open.
func Open(h *host.Host, ns tenancy.NamespaceID) (Shards, error) {
	cells, err := h.Cells(ns)
	return Shards{cells}, err
}

// Count is how many there are, at least one.
func (s Shards) Count() int { return len(s.cells) }

// All are the cells by shard, for reading.
func (s Shards) All() []*cell.Cell { return s.cells }

// Home is the shard of what belongs to the namespace as a whole: its keys.
func (s Shards) Home() *cell.Cell { return s.cells[0] }

// Of is the shard of a queue.
func (s Shards) Of(queue string) *cell.Cell {
	if len(s.cells) == 1 {
		return s.cells[0]
	}
	return s.cells[ShardOf(job.SlotOf(queue), len(s.cells))]
}

// Birth is the shard a job was born on.
func (s Shards) Birth(id job.ID) *cell.Cell {
	if len(s.cells) == 1 {
		return s.cells[0]
	}
	return s.cells[ShardOf(id.Slot(), len(s.cells))]
}

// OfJob is the shard a job is on, or on its way to, as far as this node knows; of
// one that never was it is the shard it would have been born on.
//
// Each shard here shows a moment of its own: one that lags may still send on a job
// that is back. So only a forward of a later move than the one before is followed.
func (s Shards) OfJob(id job.ID) (*cell.Cell, error) {
	at, _, err := s.Follow(id)
	return at, err
}

// Passage is how a job came to a shard, or is on its way there.
type Passage struct {
	From  *cell.Cell // the shard it left last
	Queue string     // it left for
	to    *cell.Cell
}

// Follow is OfJob, and how the job went there; nil where it is where it was born,
// because it never left or because it is back.
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

// Over says that the job has come to where it went, whatever became of it there
// since. All that is sent goes in order, so it is known once nothing waits to be
// sent; while something does, it is not.
func (p *Passage) Over() bool {
	for _, box := range p.From.State().Outboxes() {
		if box.Shard == p.to.Shard() {
			return box.Ops() == 0
		}
	}
	return true
}

// OnItsWay answers who asks for a job that has left a shard and has not been seen
// on the next.
func OnItsWay(id job.ID) *api.Error {
	err := api.Errorf(api.ViewBehind, "job %s is being moved to another shard: try again in a moment", id)
	err.RetryAfter = retryMove
	return err
}
