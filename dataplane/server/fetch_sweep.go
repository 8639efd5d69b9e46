package server

import (
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
)

// sweepFrom is the least number of jobs for an iteration over the store. For fewer jobs a lookup of each
// payload is cheaper.
const sweepFrom = 4

// sweeps reads the jobs of an answer from one shard after the other. A record that one of its readers returns
// may be valid only until the next read. The zero value is ready to use.
type sweeps struct {
	cell *cell.Cell
	read *state.JobReader
}

// of returns a reader for the jobs of a shard. The caller may use the reader until the caller calls close or
// asks for another shard. count is the number of jobs that are still to be read, on all shards.
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
		return c.State() // its reads return the error
	}
	s.cell, s.read = c, read
	return read
}

// close closes the reader. Its reads have already returned any error.
func (s *sweeps) close() {
	if s.cell != nil {
		_ = s.read.Close()
	}
	*s = sweeps{}
}
