package cell

import (
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// heldRetry is the wait that a fetch is told which the leader refuses because starts are held.
const heldRetry = 5 * time.Second

// admission returns the function that refuses fetches while starts are held, and slows the leader down to the pace of
// its view. It returns nil if neither can happen.
func (c *Cell) admission() func(pipeline.Op) error {
	if c.cfg.ViewLagLimit == 0 && c.cfg.StartsHeld == nil {
		return nil
	}
	return c.admit
}

// admit refuses fetches while starts are held, and enqueues and fetches while the view's answers are older than the
// limit. Acks, fails and heartbeats always pass, because a worker that cannot settle a job loses its lease and the work
// is done twice. The ops of duties, of other shards and of operators pass too.
//
// A fetch comes here during a hold only if it was claimed before the hold, or on the host of a follower that has not
// heard of the hold.
func (c *Cell) admit(o pipeline.Op) error {
	switch optable.Proposed(o).(type) {
	case *op.Fetch:
		if c.startsHeld() {
			err := api.Errorf(api.Overloaded, "no job starts, because the organisation has reached its spend limit: try again later")
			err.RetryAfter = heldRetry
			return err
		}
	case *op.Enqueue:
	default:
		return nil
	}
	if c.cfg.ViewLagLimit == 0 {
		return nil
	}
	retry, behind := c.view.Behind(c.cfg.ViewLagLimit)
	if !behind {
		return nil
	}
	c.lagRefusals.Add(1)
	_, age := c.view.Lag()
	err := api.Errorf(api.Overloaded, "the view is %s behind, more than the %s of --view-lag-limit: try again later", age.Round(100*time.Millisecond), c.cfg.ViewLagLimit)
	err.RetryAfter = retry
	return err
}
