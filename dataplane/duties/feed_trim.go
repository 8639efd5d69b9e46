package duties

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// trimEvery is the time between two examinations of a growing feed, usage log or audit log. A feed that does
// not grow is not examined. Usage and audit records that do not grow are examined when the oldest are due.
const trimEvery = 2 * time.Second

// trimSlack bounds how far the feed, the usage and the audit log outgrow the number that is kept before they
// are trimmed: by 1/trimSlack of that number. Each trim is an entry in the log, so the duties trim in
// strides.
const trimSlack = 4

// growth records whether something has grown since the duty last examined it.
type growth struct {
	dirty atomic.Bool
	next  int64 // when to look again; only Run's goroutine uses it
}

// grew records growth and reports whether that is news.
func (g *growth) grew() bool { return !g.dirty.Load() && g.dirty.CompareAndSwap(false, true) }

// trimFeed removes the events that no reader needs. It waits for the node's own view while the feed holds at
// most Config.FeedBytes; a view that is further behind is rebuilt from the state. The bound counts bytes
// because it protects the disk, and because an event with a long queue name takes several times the bytes of
// another.
func trimFeed(ctx context.Context, d *Duties) (int64, error) {
	nowNs := d.cfg.NowNs()
	if nowNs < d.feed.next {
		return d.feed.next, nil
	}
	if !d.feed.dirty.Swap(false) {
		return never, nil
	}
	d.feed.next = nowNs + int64(trimEvery)

	first, next, within, err := d.feedWithin()
	if err != nil {
		return 0, err
	}
	to := trimTo(first, next, d.cfg.FeedKeep, d.cfg.ViewSeq(), within)
	if to > first {
		if err := d.cfg.Propose(ctx, &op.TrimFeed{Meta: &op.Meta{Principal: "duty"}, FirstSeq: to}); err != nil {
			d.feed.dirty.Store(true)
			return 0, err
		}
	}
	if tooLong(to, next, d.cfg.FeedKeep) {
		// The view held the trim back. It may catch up while the feed stands still, and then nothing else
		// would make the duty look again.
		d.feed.dirty.Store(true)
	}
	return d.feed.next, nil
}

// feedWithin returns the bounds of the feed, and the first sequence such that the feed from there on has at
// most Config.FeedBytes.
func (d *Duties) feedWithin() (first, next, within uint64, err error) {
	v := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, v.Close()) }()
	within, err = v.FeedWithin(d.cfg.FeedBytes)
	return v.Head().GetFeedFirstSeq(), v.Head().GetFeedNextSeq(), within, err
}

// tooLong reports whether the records numbered [first, next) have outgrown the number to keep by more than
// the slack.
func tooLong(first, next, keep uint64) bool { return next-first > keep+keep/trimSlack }

// trimTo returns the sequence at which the feed [first, next) should start. It keeps the newest `keep`
// events, or more if the view still needs them, but none before within. viewSeq is the next event that the view
// reads.
func trimTo(first, next, keep, viewSeq, within uint64) uint64 {
	to := within
	if tooLong(first, next, keep) {
		to = max(to, min(next-keep, viewSeq))
	}
	return max(first, to)
}
