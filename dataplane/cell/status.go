package cell

import (
	"time"

	"github.com/corvo/corvo/engine"
)

// Status is what an operator may want to know of a cell.
type Status struct {
	Engine engine.Status
	// ViewApplied is the last entry the read model shows; ViewLag is how many
	// events it is behind the store, for ViewBehind.
	ViewApplied Index
	ViewLag     uint64
	ViewBehind  time.Duration
	// ViewBuilding says that a new file of the view is being built.
	ViewBuilding bool
	// ViewSlowed is how many enqueues and fetches this member refused because of
	// Config.ViewLagLimit.
	ViewSlowed uint64
	// FeedEvents is how many events the feed holds.
	FeedEvents uint64
	FeedBytes  uint64 // of its entries
	// IdempotencyRecords is how many idempotency keys are remembered.
	IdempotencyRecords uint64
	Queues             uint64
	// UsageRows is how many usage rows are kept; UsageWaiting is how many of them
	// their receiver is not known to have, 0 where there is no receiver.
	UsageRows    uint64
	UsageWaiting uint64
	// UsageRejected is how many usage reports were ever kept aside. UsageErr is why usage
	// does not reach its receiver until somebody looks; nil while it does.
	UsageRejected uint64
	UsageErr      error
	// AlertsDropped is how many changes of alerts nobody is told of that this member
	// found out as the leader: their webhooks have too many deliveries to wait for.
	AlertsDropped uint64
	// WebhookEventsLost is how many events webhooks are not told of, for there was no
	// room on their way to the home shard. Every member counts the same.
	WebhookEventsLost uint64
}

// Status is a momentary view of the cell's numbers; it costs no entry in the
// log.
func (c *Cell) Status() (Status, error) {
	of, err := c.group.Status()
	if err != nil {
		return Status{}, err
	}
	s := Status{Engine: of}
	head := c.store.Head()
	_, index := c.view.Cursor()
	s.ViewApplied = Index(index)
	if s.ViewLag, s.ViewBehind = c.view.Lag(); s.ViewLag == 0 {
		// The cursor stands at the last entry that had events. Those after it, up to
		// the head read before, changed nothing a view could show.
		s.ViewApplied = max(s.ViewApplied, Index(head.GetIndex()))
	}
	s.ViewBuilding, s.ViewSlowed = c.view.Building(), c.slowed.Load()
	s.FeedEvents, s.FeedBytes = head.GetFeedNextSeq()-head.GetFeedFirstSeq(), head.FeedHeld()
	first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	s.UsageRows, s.UsageRejected = next-first, head.GetUsageRejected()
	if c.usage != nil {
		s.UsageErr = c.usage.Err()
		s.UsageWaiting = c.usage.Owed()
	}
	s.IdempotencyRecords, s.Queues = head.GetIdempotencyRecords(), head.GetQueueRecords()
	s.AlertsDropped, s.WebhookEventsLost = c.duties.AlertsDropped(), head.GetTellingsLost()
	return s, nil
}

// Failed is why the cell has ceased to work, for good; nil while it works.
func (c *Cell) Failed() error {
	if err := c.group.Err(); err != nil {
		return err
	}
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Err is why the cell is unhealthy, or nil: it has Failed; or its view does not
// follow, or what it sends to other shards or its usage cannot be shipped since it
// and its receiver disagree, all of which it tries again and again.
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
