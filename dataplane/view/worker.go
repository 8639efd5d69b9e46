package view

import (
	"context"
	"database/sql"
)

// Holding counts the jobs of one queue that a worker leases.
type Holding struct {
	WorkerID  string
	Hostname  string // as the worker gave it for one of these jobs; "" = for none
	Queue     string
	Active    int64
	StartedNs int64 // when the first of these jobs started
	RenewedNs int64 // when the worker last fetched one or renewed its lease
}

// heldSQL reads only the active jobs: see hot_by_rare_state.
const heldSQL = `
SELECT worker_id, coalesce(max(hostname), ''), queue, count(*), min(started_ns), max(lease_renewed_ns)
FROM hot
WHERE state = 'active' AND state <> 'pending' AND state <> 'completed' AND worker_id IS NOT NULL
GROUP BY worker_id, queue`

// Holdings lists the jobs that workers hold, as of the last flush, in no order. It leaves out jobs that were
// fetched without a worker_id.
func (v *View) Holdings(ctx context.Context) ([]Holding, error) {
	var all []Holding
	err := v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var h Holding
			err := rows.Scan(&h.WorkerID, &h.Hostname, &h.Queue, &h.Active, &h.StartedNs, &h.RenewedNs)
			all = append(all, h)
			return err
		}, heldSQL)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
