package cell

import (
	"time"

	"github.com/corvo/corvo/engine"
)

// Status describes a cell for an operator.
type Status struct {
	Engine engine.Status
	// ViewApplied is the last entry that the view shows. ViewLag is the number of events by which it is
	// behind the store, and ViewBehind the time.
	ViewApplied Index
	ViewLag     uint64
	ViewBehind  time.Duration
	// ViewBuilding says that a new file of the view is being built.
	ViewBuilding bool
	// ViewSlowed counts the enqueues and fetches that this member refused because of Config.ViewLagLimit.
	ViewSlowed uint64
	// FeedEvents is the number of events in the feed.
	FeedEvents uint64
	FeedBytes  uint64 // of its entries
	// IdempotencyRecords is the number of stored idempotency keys.
	IdempotencyRecords uint64
	Queues             uint64
	// UsageRows is the number of stored usage rows. UsageWaiting is the number of them that the receiver has
	// not confirmed, 0 without a receiver.
	UsageRows    uint64
	UsageWaiting uint64
	// UsageRejected counts all usage reports that were ever set aside because they are invalid. UsageErr is
	// the reason why usage cannot reach its receiver until an operator acts; nil while it can.
	UsageRejected uint64
	UsageErr      error
	// AlertsDropped counts the changes of alerts that this member detected as the leader and did not report,
	// because too many deliveries of the webhook or of the namespace were waiting.
	AlertsDropped uint64
	// WebhookEventsLost counts the events that webhooks were not told of, because there was no room on the
	// way to the home shard. Every member has the same count.
	WebhookEventsLost uint64
}

// Status returns the cell's present numbers. It adds no entry to the log.
func (c *Cell) Status() (Status, error) {
	of, err := c.group.Status()
	if err != nil {
		return Status{}, err
	}
	s := Status{Engine: of}
	head := c.store.Head()
	s.ViewApplied = c.viewApplied()
	s.ViewLag, s.ViewBehind = c.view.Lag()
	s.ViewBuilding, s.ViewSlowed = c.view.Building(), c.lagRefusals.Load()
	s.FeedEvents, s.FeedBytes = head.GetFeedNextSeq()-head.GetFeedFirstSeq(), head.FeedHeld()
	first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	s.UsageRows, s.UsageRejected = next-first, head.GetUsageRejected()
	if c.usage != nil {
		s.UsageErr = c.usage.Err()
		s.UsageWaiting = c.usage.Owed()
	}
	s.IdempotencyRecords, s.Queues = head.GetIdempotencyRecords(), head.GetQueueRecords()
	s.AlertsDropped, s.WebhookEventsLost = c.duties.AlertsDropped(), head.GetNotificationsLost()
	return s, nil
}

// viewApplied returns the last entry that the view shows.
func (c *Cell) viewApplied() Index {
	applied := c.Applied()
	_, index := c.view.Cursor()
	if lag, _ := c.view.Lag(); lag == 0 {
		// The cursor is at the last entry that had events. The entries after it, up to applied, changed nothing
		// that a view could show.
		return max(Index(index), applied)
	}
	return Index(index)
}

// Failed returns the error that made the cell stop for good, or nil while it works.
func (c *Cell) Failed() error {
	if err := c.group.Err(); err != nil {
		return err
	}
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Err returns the reason why the cell is unhealthy, or nil: the cell has failed, its view cannot follow the
// store, or its messages to other shards or its usage are refused, or do not agree with what their receiver
// has. The cell retries all but the first.
func (c *Cell) Err() error {
	if err := c.Failed(); err != nil {
		return err
	}
	if err := c.view.Err(); err != nil {
		return err
	}
	if c.outbox != nil {
		if err := c.outbox.Err(); err != nil {
			return err
		}
	}
	if c.usage == nil {
		return nil
	}
	return c.usage.Err()
}
