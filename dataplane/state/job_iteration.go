package state

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
)

type iterationName struct {
	id     job.ID
	number uint32
}

// PutIteration stores the next iteration of a job that the entry has read, and counts it in the job's detail;
// PutJob must follow. The Tx owns the record from then on.
func (tx *Tx) PutIteration(j *job.Job, it *job.Iteration) error {
	if err := tx.putIteration(j, it); err != nil {
		return tx.fail(fmt.Errorf("put iteration %d of job %x: %w", it.Number, j.Id, err))
	}
	return nil
}

func (tx *Tx) putIteration(j *job.Job, it *job.Iteration) error {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return err
	}
	d := j.Details()
	if it.Number != d.Iteration+1 {
		return fmt.Errorf("%d have ended", d.Iteration)
	}
	tx.key = appendIterationKey(tx.key[:0], id, it.Number)
	if err := put(tx.batch, tx.key, it); err != nil {
		return err
	}
	if tx.iterations == nil {
		tx.iterations = map[iterationName]*job.Iteration{}
	}
	tx.iterations[iterationName{id, it.Number}] = it
	d.Iteration = it.Number
	d.IterationsKept++
	d.IterationBytes += it.DocumentBytes()
	tx.documents += it.DocumentBytes()
	return nil
}

// Iteration returns an iteration of a job that the entry has read, as the entry's earlier ops left it, or nil
// if it is not stored. The caller must not change it.
func (tx *Tx) Iteration(j *job.Job, number uint32) (*job.Iteration, error) {
	d := j.Detail
	if number > d.GetIteration() || number <= d.GetIteration()-d.GetIterationsKept() {
		return nil, nil
	}
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return nil, tx.fail(err)
	}
	if it := tx.iterations[iterationName{id, number}]; it != nil {
		return it, nil
	}
	it, key := &job.Iteration{}, appendIterationKey(nil, id, number)
	found, err := get(tx.s.gen.db, key, it)
	if err == nil && !found {
		err = errKey(key, "is missing")
	}
	if err != nil {
		return nil, tx.fail(fmt.Errorf("iteration %d of job %s: %w", number, id, err))
	}
	return it, nil
}

// DeleteIterations removes the iterations of a job and resets its counts of them; PutJob must follow.
func (tx *Tx) DeleteIterations(j *job.Job) error {
	if j.Detail.GetIterationsKept() > 0 {
		if err := tx.removeIterations(job.ID(j.Id)); err != nil {
			return tx.fail(fmt.Errorf("delete the iterations of job %x: %w", j.Id, err))
		}
	}
	if d := j.Detail; d != nil {
		d.Iteration, d.IterationsKept, d.IterationBytes, d.CheckpointIn = 0, 0, 0, 0
	}
	return nil
}

func (tx *Tx) removeIterations(id job.ID) error {
	return tx.batch.DeleteRange(appendIterationKey(nil, id, 0), iterationsEnd(id), nil)
}

// removeJudgements deletes the iterations and scores of a job that is being deleted.
func (tx *Tx) removeJudgements(h *entryJob) error {
	if h.job.Detail.GetIterationsKept() > 0 {
		if err := tx.removeIterations(h.id); err != nil {
			return err
		}
	}
	if h.job.Detail.GetScores() > 0 {
		return tx.PutScores(h.id, nil)
	}
	return nil
}

// Iterations yields, in order, the stored iterations of a job with numbers above after.
func (v *Snapshot) Iterations(id job.ID, after uint32) iter.Seq2[*job.Iteration, error] {
	return scanRange(v.snap, append(appendIterationKey(nil, id, after), 0), iterationsEnd(id), func() *job.Iteration { return &job.Iteration{} })
}

// Iterations returns the stored iterations of a job as of the last commit, in order.
func (s *Store) Iterations(id job.ID) ([]*job.Iteration, error) {
	return committed(s, func(r source) (all []*job.Iteration, err error) {
		for it, err := range scanRange(r, appendIterationKey(nil, id, 0), iterationsEnd(id), func() *job.Iteration { return &job.Iteration{} }) {
			if err != nil {
				return nil, err
			}
			all = append(all, it)
		}
		return all, nil
	})
}

// Iteration returns the last iteration that the job's detail d counts, as of the last commit, or nil if it is
// not stored.
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

func appendIterationKey(b []byte, id job.ID, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append(append(b, prefixIteration), id[:]...), number)
}

func decodeIterationKey(key []byte) (id job.ID, number uint32, err error) {
	if len(key) != iterKeyLen || key[0] != prefixIteration {
		return job.ID{}, 0, errKey(key, "not an iteration key")
	}
	return job.ID(key[1:17]), binary.BigEndian.Uint32(key[17:]), nil
}

// iterationsEnd returns a key after every iteration key of a job and before those of the next job.
func iterationsEnd(id job.ID) []byte {
	return append(appendIterationKey(nil, id, 1<<32-1), 0)
}

// iterations checks that each job's iterations are numbered without a gap up to the last, and that the job
// counts them and their bytes correctly.
func (c *checker) iterations() error {
	seen, id := &job.Detail{}, job.ID{}
	owner := func() error {
		if seen.IterationsKept == 0 {
			return nil
		}
		c.agents--
		j, err := c.v.Job(id)
		if err != nil {
			return err
		}
		d := j.GetDetail()
		if d.GetIteration() != seen.Iteration || d.GetIterationsKept() != seen.IterationsKept || d.GetIterationBytes() != seen.IterationBytes {
			c.report("job %s has %d iterations up to number %d with %d bytes, it says %d up to %d with %d", id,
				seen.IterationsKept, seen.Iteration, seen.IterationBytes, d.GetIterationsKept(), d.GetIteration(), d.GetIterationBytes())
		}
		return nil
	}
	for kv, err := range scanPairs(c.v.snap, []byte{prefixIteration}, afterPrefix(prefixIteration)) {
		if err != nil {
			return err
		}
		of, number, err := decodeIterationKey(kv.Key)
		if err != nil {
			return err
		}
		it := &job.Iteration{}
		if err := decode(kv, it); err != nil {
			return err
		}
		if of != id {
			if err := owner(); err != nil {
				return err
			}
			id, seen = of, &job.Detail{Iteration: number - 1}
		}
		if it.Number != number || number != seen.Iteration+1 {
			c.report("job %s has iteration %d under number %d, after %d", id, it.Number, number, seen.Iteration)
		}
		seen.Iteration = number
		seen.IterationsKept++
		seen.IterationBytes += it.DocumentBytes()
	}
	if err := owner(); err != nil {
		return err
	}
	if c.agents != 0 {
		c.report("%d jobs count iterations and have none", c.agents)
	}
	return nil
}

func (c *checker) scoresOf(id [16]byte, s *Scores) error {
	j, err := c.v.Job(id)
	if err != nil {
		return err
	}
	if n := j.GetDetail().GetScores(); len(s.Scores) == 0 || int(n) != len(s.Scores) {
		c.report("job %s counts %d scores and has %d", job.ID(id), n, len(s.Scores))
	}
	c.scored--
	return nil
}
