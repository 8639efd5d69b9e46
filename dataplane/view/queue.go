package view

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Queues lists the queues whose names covers accepts, or all queues if covers is nil, in the order of their
// names. Settings and counts come from the store's records, so that an old or missing file does not change
// them. Only the rates come from the feed, as far as it was read.
func (v *View) Queues(ctx context.Context, covers func(name string) bool) ([]api.Queue, error) {
	found := []api.Queue{}
	err := v.records(func(snap *state.Snapshot, oldest *state.Oldest) error {
		for rec, err := range snap.Queues() {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if covers != nil && !covers(rec.Name) {
				continue
			}
			q, err := v.toQueue(rec, oldest)
			if err != nil {
				return err
			}
			found = append(found, q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Queue returns one queue as the store has it, or nil if the queue is unknown.
func (v *View) Queue(name string) (found *api.Queue, err error) {
	err = v.records(func(snap *state.Snapshot, oldest *state.Oldest) error {
		rec, err := snap.Queue(name)
		if rec == nil || err != nil {
			return err
		}
		q, err := v.toQueue(rec, oldest)
		found = &q
		return err
	})
	return found, err
}

// records lets f read the store as of one moment.
func (v *View) records(f func(*state.Snapshot, *state.Oldest) error) (err error) {
	snap := v.store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	oldest, err := v.store.Oldest(snap)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, oldest.Close()) }()
	return f(snap, oldest)
}

// toQueue converts a queue's record to its API form.
func (v *View) toQueue(rec *state.Queue, oldest *state.Oldest) (api.Queue, error) {
	oldestNs, err := oldest.Of(rec)
	if err != nil {
		return api.Queue{}, err
	}
	q := api.Queue{
		Name: rec.Name, Paused: rec.Paused, MaxConcurrency: above0(int(rec.MaxConcurrency)), CreatedAt: timeOf(rec.CreatedNs),
		RateLimit: above0(int(rec.RateLimit)), RateWindowMs: above0(rec.RateWindowMs),

		Pending: inState(rec, job.Pending), Active: inState(rec, job.Active), Held: inState(rec, job.Held),
		Completed: inState(rec, job.Completed), Dead: inState(rec, job.Dead), Cancelled: inState(rec, job.Cancelled),
		Scheduled: inState(rec, job.Scheduled), Retrying: inState(rec, job.Retrying),
		Enqueued: int64(rec.Enqueued), Failed: int64(rec.Failed),

		OldestPendingAt: optionalTime(oldestNs),
		RatePerMinute:   float64(v.rates.of(rec.Name, v.seenUntil(time.Now())).Completed),
		UniqueLocks:     int64(rec.UniqueLocks), Provider: optional(rec.Provider),
		PriorityAgeingMs: above0(rec.AgeingMs), MaxLength: above0(int64(rec.MaxLength)), OnFull: onFull(rec.Overflow),
		Retention: toRetention(rec.Retention), Defaults: toDefaults(rec.Defaults),
	}
	q.Status = queueStatus(&q, rec.Draining, rec.Deleting)
	return q, nil
}

// above0 returns a pointer to n, or nil for 0, which means "none" in a record.
func above0[T int | int64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

// QueueNames lists the names of all queues in order, as of the last flush. It never returns nil with a nil
// error.
func (v *View) QueueNames(ctx context.Context) ([]string, error) {
	names := []string{}
	err := v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		}, "SELECT name FROM queue ORDER BY name")
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Check reads from the file to find out whether the file can be read.
func (v *View) Check(ctx context.Context) error {
	return v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(*sql.Rows) error { return nil }, "SELECT 1 FROM queue LIMIT 1")
	})
}
