package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Iteration returns the last iteration of the job with this detail as of the last commit, or nil if it is not
// stored.
func (s *Store) Iteration(id job.ID, d *job.Detail) (*job.Iteration, error) {
	if d.GetIterationsKept() == 0 {
		return nil, nil
	}
	return committed(s, func(r source) (*job.Iteration, error) {
		it := &job.Iteration{}
		found, err := get(r, appendIterationKey(nil, id, d.GetIteration()), it)
		if err != nil {
			return nil, fmt.Errorf("iteration %d of job %s: %w", d.GetIteration(), id, err)
		}
		if !found {
			return nil, nil
		}
		return it, nil
	})
}
