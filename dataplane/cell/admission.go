package cell

import (
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// admission returns the function that slows the leader down to the pace of its view, or nil if the view may
// fall behind without a limit.
func (c *Cell) admission() func(pipeline.Op) error {
	if c.cfg.ViewLagLimit == 0 {
		return nil
	}
	return c.admit
}

// admit refuses enqueues and fetches while the view's answers are older than the limit. Acks, fails and
// heartbeats always pass, because a worker that cannot settle a job loses its lease and the work is done
// twice. The ops of duties, of other shards and of operators pass too.
func (c *Cell) admit(o pipeline.Op) error {
	switch optable.Proposed(o).(type) {
	case *op.Enqueue, *op.Fetch:
	default:
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
