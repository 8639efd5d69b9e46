package view

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/corvo/corvo/api"
)

// queueColumns are what scanQueue reads of queue q. The oldest pending job is
// the first entry of an index.
const queueColumns = `q.name, q.paused, q.max_concurrency, q.created_ns,
	q.pending, q.active, q.held, q.completed, q.dead, q.cancelled, q.scheduled, q.retrying,
	q.enqueued_total, q.failed_total,
	q.rate_limit, q.rate_window_ms, q.draining, q.deleting, q.max_length, q.on_full, q.retention, q.defaults, q.unique_locks, q.provider, q.ageing_ms,
	(SELECT h.created_ns FROM hot h WHERE h.queue = q.name AND h.state = 'pending' ORDER BY h.number LIMIT 1)`

// Queues lists all queues by name, as of the last flush.
func (v *View) Queues(ctx context.Context) ([]api.Queue, error) {
	return v.queues(ctx, "SELECT "+queueColumns+" FROM queue q ORDER BY q.name")
}

// NamedQueues lists those of the queues that exist, by name, as of the last
// flush.
func (v *View) NamedQueues(ctx context.Context, names []string) ([]api.Queue, error) {
	text, err := list(names)
	if err != nil {
		return nil, err
	}
	return v.queues(ctx, "SELECT "+queueColumns+" FROM queue q WHERE q.name IN "+fromList+" ORDER BY q.name", text)
}

// QueueNames lists the names of all queues in order, as of the last flush. It is
// never nil.
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

// Queue is one queue, nil when it is unknown, as of the last flush.
func (v *View) Queue(ctx context.Context, name string) (*api.Queue, error) {
	found, err := v.queues(ctx, "SELECT "+queueColumns+" FROM queue q WHERE q.name = ?", name)
	if len(found) == 0 || err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (v *View) queues(ctx context.Context, query string, args ...any) ([]api.Queue, error) {
	found, now := []api.Queue{}, time.Now()
	err := v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			q, err := scanQueue(rows)
			q.RatePerMinute = float64(v.rates.of(q.Name, now).Completed)
			found = append(found, q)
			return err
		}, query, args...)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func scanQueue(rows *sql.Rows) (api.Queue, error) {
	var q api.Queue
	var created int64
	var oldest sql.NullInt64
	var concurrency, rate sql.Null[int]
	var window, length, ageing sql.Null[int64]
	var draining, deleting bool
	var retention, defaults sql.NullString
	if err := rows.Scan(&q.Name, &q.Paused, &concurrency, &created,
		&q.Pending, &q.Active, &q.Held, &q.Completed, &q.Dead, &q.Cancelled, &q.Scheduled, &q.Retrying,
		&q.Enqueued, &q.Failed,
		&rate, &window, &draining, &deleting, &length, &q.OnFull, &retention, &defaults, &q.UniqueLocks, &q.Provider, &ageing,
		&oldest); err != nil {
		return api.Queue{}, err
	}
	q.CreatedAt = timeOf(created)
	q.MaxConcurrency, q.RateLimit = nullValue(concurrency), nullValue(rate)
	q.RateWindowMs, q.MaxLength, q.PriorityAgeingMs = nullValue(window), nullValue(length), nullValue(ageing)
	if oldest.Valid {
		t := timeOf(oldest.Int64)
		q.OldestPendingAt = &t
	}
	q.Status = queueStatus(&q, draining, deleting)
	return q, errors.Join(fromText(retention, &q.Retention), fromText(defaults, &q.Defaults))
}
