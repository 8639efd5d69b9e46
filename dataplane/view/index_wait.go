package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
)

// Wait prompts a flush and returns when everything up to a raft index can be queried. Index 0 waits only for a
// file to query. Wait returns VIEW_BEHIND at ctx's deadline, ctx's error if ctx is cancelled, and UNHEALTHY once
// the view is closed.
func (v *View) Wait(ctx context.Context, index uint64) error {
	for {
		v.mu.Lock()
		at, moved, failure := v.position, v.moved, v.failure
		v.mu.Unlock()
		if at.seq > 0 && at.index >= index {
			return nil
		}
		signal(v.prompted)
		// Entries without events do not notify the view, so Wait also looks again after a time.
		again := time.NewTimer(v.o.FlushEvery)
		select {
		case <-moved:
		case <-again.C:
		case <-v.stopped:
			again.Stop()
			return api.Wrap(errClosed, api.Unhealthy, "the node is shutting down; ask another, or again later")
		case <-ctx.Done():
			again.Stop()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return behind(index, at, failure)
			}
			return ctx.Err()
		}
		again.Stop()
	}
}

// Approach waits at most limit until everything up to a raft index can be queried. After limit it returns nil
// too, because the file answers with its age. It does not wait for a file whose answers are already older
// than limit, because such a file will not catch up in that time. If there is no file, Approach waits for one
// as long as ctx allows and returns VIEW_BEHIND at the deadline.
func (v *View) Approach(ctx context.Context, index uint64, limit time.Duration) error {
	if _, age := v.Lag(); age <= limit {
		within, cancel := context.WithTimeout(ctx, limit)
		err := v.Wait(within, index)
		cancel()
		if api.CodeOf(err) != api.ViewBehind {
			return err
		}
	}
	return v.Wait(ctx, 0)
}

func behind(index uint64, at position, cause error) error {
	err := api.Wrap(cause, api.ViewBehind, fmt.Sprintf("the view is at index %d and did not reach %d in time: try again, or read without min_index and with consistency=eventual", at.index, index))
	err.RetryAfter = time.Second
	return err
}
