package server

import (
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
)

// sweepFrom is from how many jobs on it is cheaper to go along the store than to look
// each payload up.
const sweepFrom = 4

// sweeps are the jobs of an answer, read from one shard after the other. What it answers
// is only good until the next is asked for. The zero value reads nothing yet.
type sweeps struct {
	cell *cell.Cell
	read *state.JobReader
}

// of is the jobs of a shard, of which so many may be read.
func (s *sweeps) of(c *cell.Cell, count int) state.Reader {
	if s.cell == c {
		return s.read
	}
	if count < sweepFrom {
		return c.State()
	}
	s.close()
	read, err := c.State().JobReader()
	if err != nil {
		return c.State() // which tells who reads it what is wrong
	}
	s.cell, s.read = c, read
	return read
}

// close ends the reading. What went wrong, the reads have told.
func (s *sweeps) close() {
	if s.cell != nil {
		_ = s.read.Close()
	}
	*s = sweeps{}
}
