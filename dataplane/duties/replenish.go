package duties

import (
	"context"

	"github.com/corvo/corvo/dataplane/op"
)

// replenish makes the store examine again the queues whose rate limits now allow jobs that they kept back.
func replenish(ctx context.Context, d *Duties) (next int64, err error) {
	for {
		due := d.cfg.Store.ReplenishDue(d.cfg.NowNs())
		if len(due) == 0 {
			next, ok := d.cfg.Store.NextReplenish()
			if !ok {
				return never, nil
			}
			return next, nil
		}
		if err := d.cfg.Propose(ctx, &op.Replenish{Meta: &op.Meta{Principal: "duty"}, Queues: due}); err != nil {
			return 0, err
		}
	}
}
