package duties

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// trimEvery is how often the feed and the usage are looked at while they grow.
// What does not grow is not looked at at all.
const trimEvery = 2 * time.Second

// trimSlack is how far, as a part of what is kept, the feed and the usage outgrow
// their bounds before they are cut: trimming is an entry in the log, so it is done
// in strides.
const trimSlack = 4

// growth remembers whether something has grown since it was last looked at.
type growth struct {
	dirty atomic.Bool
	next  int64 // when to look again; only Run's goroutine uses it
}

// grew notes growth and reports whether that is news.
func (g *growth) grew() bool { return !g.dirty.Load() && g.dirty.CompareAndSwap(false, true) }

// trimFeed drops the events no reader is owed. The node's own view is waited for
// while the feed holds at most Config.FeedBytes; a view further behind is rebuilt from
// state. The bound is in bytes because disk is what it protects, and because an event
// of a long queue name takes several times what another takes.
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
		// The view held it back. It may catch up while the feed stands still, and
		// then nothing else would have us look again.
		d.feed.dirty.Store(true)
	}
	return d.feed.next, nil
}

// feedWithin returns the bounds of the feed, and the first sequence from which on it
// holds at most Config.FeedBytes.
func (d *Duties) feedWithin() (first, next, within uint64, err error) {
	v := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, v.Close()) }()
	within, err = v.FeedWithin(d.cfg.FeedBytes)
	return v.Head().GetFeedFirstSeq(), v.Head().GetFeedNextSeq(), within, err
}

// tooLong says whether what is numbered [first, next) has outgrown what is kept.
func tooLong(first, next, keep uint64) bool { return next-first > keep+keep/trimSlack }

// trimTo is the sequence the feed [first, next) should start at. It keeps keep
// events, more where the view still needs them (viewSeq is its next), and never one
// before within.
func trimTo(first, next, keep, viewSeq, within uint64) uint64 {
	to := within
	if tooLong(first, next, keep) {
		to = max(to, min(next-keep, viewSeq))
	}
	return max(first, to)
}
