package view

import (
	"context"
	"database/sql"
	"math"

	"github.com/corvo/corvo/dataplane/job"
)

// JobIDs lists at most limit jobs of a queue whose numbers are less than below, as of the last flush. It
// lists state by state, and the newest jobs of each state first.
func (v *View) JobIDs(ctx context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error) {
	var ids []job.ID
	err := v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, s := range states {
			if err := each(ctx, tx, func(rows *sql.Rows) error {
				var text string
				if err := rows.Scan(&text); err != nil {
					return err
				}
				id, err := job.ParseID(text)
				ids = append(ids, id)
				return err
			}, `SELECT d.id FROM hot h JOIN document d ON d.number = h.number
				WHERE h.queue = ? AND h.state = ? AND h.number < ? ORDER BY h.number DESC LIMIT ?`,
				queue, s.Word(), int64(min(below, math.MaxInt64)), limit-len(ids)); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}
