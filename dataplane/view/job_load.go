package view

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

const (
	// loadWindow is the number of jobs whose records are read in the order of their ids.
	loadWindow = 1024
	// loadBytes limits the length of the blobs and errors that are read before the first job of a window is
	// written, because a window of large payloads may have a gigabyte.
	loadBytes = 1 << 20
)

// loadedJob is a job to be written, with the records from which its rows are made.
type loadedJob struct {
	touchedJob
	number uint64
	fresh  bool     // no row has its number yet
	job    *job.Job // nil if the store has no job of that id
	blobs  Blobs
	errors []*job.AttemptError
	loaded bool
}

// load reads the job's record, unless the caller has it, and its blobs and errors if the rows need them.
func (l *loadedJob) load(r *state.JobIterator) (err error) {
	l.loaded = true
	if l.job == nil {
		if l.job, err = r.Job(l.id); err != nil || l.job == nil {
			return err
		}
	}
	j := l.job
	// A job that moves into a queue gives up a debounce key that another job holds there. A job that waits
	// for its tools gives up the key of its first attempt.
	l.rewrite = l.rewrite || l.keyFreed && j.Options.GetDebounceMs() > 0
	if !l.fresh && !l.whole && !l.rewrite {
		return nil
	}
	wanted := j.Blobs &^ (1 << job.ChainConfig) // extra reads it
	if !l.fresh && !l.rewrite {
		wanted &^= 1<<job.Payload | 1<<job.Previous | 1<<job.ResultSchema // written once, and possibly long
	}
	if l.blobs, err = readBlobs(r, l.id, wanted); err == nil && j.Errors > 0 {
		l.errors, err = r.Errors(l.id)
	}
	return err
}

// size returns the length of the job's blobs and errors in bytes.
func (l *loadedJob) size() (n int) {
	for _, b := range l.blobs {
		n += len(b.GetData())
	}
	for _, e := range l.errors {
		n += len(e.Error) + len(e.Backtrace)
	}
	return n
}

// loadJobs reads the records of jobs and yields the jobs in the given order, part by part. It takes them out
// of the slice, so that a part's memory is free once the caller drops the part.
//
// The caller writes jobs in the order of their numbers. Concurrent requests get numbers and ids in different
// orders, and the store has the records in the order of ids. A window of jobs is therefore read in the order
// of ids, because the next record is then mostly one step away and needs no search. If the blobs and errors of
// a window exceed loadBytes, its other jobs are read one by one.
func loadJobs(r *state.JobIterator, jobs []*loadedJob) iter.Seq2[[]*loadedJob, error] {
	return func(yield func([]*loadedJob, error) bool) {
		for window := range slices.Chunk(jobs, loadWindow) {
			byID := slices.SortedFunc(slices.Values(window), func(a, b *loadedJob) int { return bytes.Compare(a.id[:], b.id[:]) })
			for i, length := 0, 0; i < len(byID) && length <= loadBytes; i++ {
				if err := byID[i].load(r); err != nil {
					yield(nil, fmt.Errorf("job %s: %w", byID[i].id, err))
					return
				}
				length += byID[i].size()
			}
			part := make([]*loadedJob, 0, len(window))
			for i, l := range window {
				window[i] = nil
				ends := i == len(window)-1 || !l.loaded
				if !l.loaded {
					if err := l.load(r); err != nil {
						yield(nil, fmt.Errorf("job %s: %w", l.id, err))
						return
					}
				}
				if part = append(part, l); ends {
					if !yield(part, nil) {
						return
					}
					part = nil
				}
			}
		}
	}
}

// readAhead yields the values of all. It takes them from all on another goroutine, which is one value ahead
// of the caller, so that reading the store and writing the file use a processor each.
func readAhead[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	type result struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		results, stop := make(chan result), make(chan struct{})
		var reader sync.WaitGroup
		defer reader.Wait()
		defer close(stop)
		reader.Go(func() {
			defer close(results)
			for value, err := range all {
				select {
				case results <- result{value, err}:
				case <-stop:
					return
				}
			}
		})
		for r := range results {
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}
