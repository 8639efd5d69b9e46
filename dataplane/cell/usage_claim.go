package cell

import (
	"context"
	"time"

	"github.com/corvo/corvo/billing"
)

// claimMargin is the time by which a claim is behind the leader's clock. It covers the difference between the clocks of two
// leaders (engine.MaxSkew), and entries that have their clock and are not committed yet.
const claimMargin = time.Minute

// claimClock returns a time before the clock of every entry that this member has not applied yet. It reads the clock
// first, and then has a quorum confirm the leadership: a later leader begins after that, with a clock of its own that
// differs by less than claimMargin. It adds no entry to the log, so that an idle shard stays idle.
func (c *Cell) claimClock(ctx context.Context) (int64, error) {
	now := c.group.ClockNs()
	if err := c.group.Verify(ctx); err != nil {
		return 0, err
	}
	return now - int64(claimMargin), nil
}

// UsageClaim returns the newest claim that the shard's usage is complete, which this member made as the leader, or nil.
func (c *Cell) UsageClaim() *billing.Claim {
	if c.usage == nil {
		return nil
	}
	return c.usage.Claim()
}
