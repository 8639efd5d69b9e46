package duties

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/job"
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
// up to job.MaxFeedEvents; a view further behind is rebuilt from state.
func trimFeed(ctx context.Context, d *Duties) (int64, error) {
	nowNs := d.cfg.NowNs()
	if nowNs < d.feed.next {
		return d.feed.next, nil
	}
	if !d.feed.dirty.Swap(false) {
		return never, nil
	}
	d.feed.next = nowNs + int64(trimEvery)

	head := d.cfg.Store.Head()
	first, next := head.GetFeedFirstSeq(), head.GetFeedNextSeq()
	to := trimTo(first, next, d.cfg.FeedKeep, d.cfg.ViewSeq())
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

// tooLong says whether what is numbered [first, next) has outgrown what is kept.
func tooLong(first, next, keep uint64) bool { return next-first > keep+keep/trimSlack }

// trimTo is the sequence the feed [first, next) should start at. It keeps keep
// events, more where the view still needs them (viewSeq is its next), and never
// more than job.MaxFeedEvents.
func trimTo(first, next, keep, viewSeq uint64) uint64 {
	if !tooLong(first, next, keep) {
		return first
	}
	to := min(next-keep, viewSeq)
	if next-to > job.MaxFeedEvents {
		to = next - job.MaxFeedEvents
	}
	return max(first, to)
}
