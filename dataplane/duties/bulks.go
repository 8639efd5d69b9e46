package duties

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// How a part of a bulk operation is done.
const (
	// bulkChunk is how many jobs are done by one op: an entry must be short, for
	// others wait while it is applied.
	bulkChunk = 50
	// bulkPage is how many jobs are looked for at once.
	bulkPage = 1000
	// bulkRest is for how long the next chunk waits after a commit, as a part of the
	// time the last one took: the others' work goes on meanwhile.
	bulkRest = 1
	// minBulkBackoff and maxBulkBackoff are for how long a part waits where there is
	// no room for what follows from it, or its node's view cannot be asked.
	minBulkBackoff = 10 * time.Millisecond
	maxBulkBackoff = time.Second
)

// BulkConfig is what it takes to do the parts of bulk operations.
type BulkConfig struct {
	Store *state.Store
	// Propose hands a chunk to the shard's leader and waits for its commit.
	Propose func(ctx context.Context, o *op.RunBulk) (*op.RunBulkResult, error)
	// Find looks for jobs that a part is for in the order of their numbers, from where
	// a cursor stands, "" for the first. What it shows at first is all there was when
	// the part began. An error says nothing of the store: but for a filter or a cursor
	// that cannot be read, it is asked again.
	Find func(ctx context.Context, p *state.BulkPart, w *state.BulkWork, cursor string, limit int) (BulkFound, error)
}

// BulkFound are some jobs, in order of their numbers.
type BulkFound struct {
	IDs     []job.ID
	Numbers []uint64
	Cursor  string // where the rest is found; "" = these were the last
}

// Bulks does the parts of bulk operations on the shard's leader: a chunk of each in
// turn, and the next when the last is committed. It works beside the other duties,
// which need not wait for it. All that is known of a part that must not be lost is in
// its record; a new leader goes on from there.
type Bulks struct {
	cfg  BulkConfig
	wake chan struct{}
	// parts are those under way; only Run's goroutine uses them.
	parts map[[16]byte]*bulkPart
}

// bulkPart is what is known of a part besides its record.
type bulkPart struct {
	work    *state.BulkWork
	found   BulkFound // yet to be done
	asked   bool      // something was looked for
	backoff time.Duration
	due     time.Time // not before that
}

// NewBulks makes what does the parts of one shard; Run starts it.
func NewBulks(cfg BulkConfig) *Bulks { return &Bulks{cfg: cfg, wake: make(chan struct{}, 1)} }

// OnBulk is the store's hook: something has changed about a bulk operation.
func (b *Bulks) OnBulk() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run does what there is to do until ctx ends, which is the only thing it returns nil
// for.
func (b *Bulks) Run(ctx context.Context) error {
	b.parts = map[[16]byte]*bulkPart{} // another may have led since
	for {
		rest, err := b.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("bulk operations: %w", err)
		}
		b.sleep(ctx, rest)
	}
}

// sleep waits for as long as a pass has said; where that was nothing, until there is
// something new.
func (b *Bulks) sleep(ctx context.Context, rest time.Duration) {
	if rest < 0 {
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
		return
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// pass does a chunk of each part and says how long to rest; a negative time where
// there is nothing to do.
func (b *Bulks) pass(ctx context.Context) (rest time.Duration, err error) {
	parts, err := b.cfg.Store.BulkParts()
	if err != nil {
		return 0, err
	}
	under := make(map[[16]byte]*bulkPart, len(parts))
	rest = -1
	for _, p := range parts {
		id := [16]byte(p.Id)
		known := b.parts[id]
		if known == nil {
			known = &bulkPart{}
		}
		under[id] = known
		if wait := time.Until(known.due); wait > 0 {
			rest = sooner(rest, wait)
			continue
		}
		began := time.Now()
		err := b.chunk(ctx, p, known)
		switch {
		case err == nil:
			known.backoff = 0
			rest = sooner(rest, time.Since(began)*bulkRest)
		case ctx.Err() != nil:
			return 0, nil
		case passes(err):
			known.backoff = min(max(2*known.backoff, minBulkBackoff), maxBulkBackoff)
			known.due = time.Now().Add(known.backoff)
			rest = sooner(rest, known.backoff)
		default:
			return 0, fmt.Errorf("%s: %w", job.BulkIDText(id), err)
		}
	}
	b.parts = under
	return rest, nil
}

// passes says whether an error is one of those that pass: whatever the store cannot
// live with ends what is done here by ending the leadership.
func passes(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code.Retryable()
}

// sooner is the earlier of two waits, of which a negative one is none.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// chunk does the next jobs of a part.
func (b *Bulks) chunk(ctx context.Context, p *state.BulkPart, known *bulkPart) error {
	o, err := b.next(ctx, p, known)
	if api.CodeOf(err) == api.ValidationError || api.CodeOf(err) == api.InvalidFilter {
		// It was checked where it came in: another version wrote it, or reads it now. To
		// pass over what it cannot read would widen it.
		o, err = &op.RunBulk{From: p.Next, To: p.Next, Failure: "the filter cannot be read here: " + err.Error()}, nil
	}
	if err != nil || o == nil {
		return err
	}
	o.Meta, o.BulkId = &op.Meta{Principal: "duty"}, p.Id
	result, err := b.cfg.Propose(ctx, o)
	if err == nil && result.Waits {
		err = api.Errorf(api.Overloaded, "there is no room for what follows from it")
	}
	return err
}

// next is the chunk that comes next; nil where there is none yet.
func (b *Bulks) next(ctx context.Context, p *state.BulkPart, known *bulkPart) (o *op.RunBulk, err error) {
	if known.work == nil {
		if known.work, err = b.cfg.Store.BulkWork([16]byte(p.Id)); err != nil || known.work == nil {
			return nil, err // it has just ended
		}
	}
	if p.Named {
		return named(p, known.work), nil
	}
	f := &known.found
	for len(f.Numbers) > 0 && f.Numbers[0] < p.Next {
		f.IDs, f.Numbers = f.IDs[1:], f.Numbers[1:]
	}
	if len(f.IDs) == 0 && (!known.asked || f.Cursor != "") {
		page, err := b.cfg.Find(ctx, p, known.work, f.Cursor, bulkPage)
		if api.CodeOf(err) == api.ValidationError && f.Cursor != "" {
			known.asked, *f = false, BulkFound{} // the view is another one: once more from its start
			return nil, nil
		}
		if err != nil {
			return nil, unfound(err)
		}
		known.asked, *f = true, page
	}
	o = &op.RunBulk{From: p.Next, To: p.Next}
	for i, id := range f.IDs {
		if len(o.JobIds) == bulkChunk {
			return o, nil
		}
		if n := f.Numbers[i]; n >= p.Next {
			o.JobIds, o.After, o.To = append(o.JobIds, id[:]), append(o.After, n+1), n+1
		}
	}
	if f.Cursor == "" {
		o.To = p.End
	}
	if o.To == p.Next {
		return nil, nil // the rest is to be looked for
	}
	return o, nil
}

// unfound is an error of Find, for which a shard must not end: a view that cannot be
// asked is waited for, however it says so.
func unfound(err error) error {
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return err
	}
	return api.Wrap(err, api.Unhealthy, "the view could not be asked")
}

// named is the chunk of a part whose jobs are named.
func named(p *state.BulkPart, w *state.BulkWork) *op.RunBulk {
	to := min(p.Next+bulkChunk, uint64(len(w.JobIds)))
	o := &op.RunBulk{From: p.Next, JobIds: w.JobIds[p.Next:to], To: to}
	for n := p.Next; n < to; n++ {
		o.After = append(o.After, n+1)
	}
	return o
}

// purgeBulks forgets bulk operations that ended long ago, and others that have ended
// while there are so many that new ones might be refused.
func purgeBulks(ctx context.Context, d *Duties) (int64, error) {
	for {
		nowNs := d.cfg.NowNs()
		until := nowNs
		if d.cfg.Store.Head().GetBulkRecords() > op.BulksAim {
			until = never - 1
		}
		ids, err := d.cfg.Store.Due(state.TimerBulk, until, job.MaxDutyItems)
		if err != nil {
			return 0, fmt.Errorf("read the timers of bulk operations: %w", err)
		}
		if len(ids) == 0 {
			return d.orNextTimer(state.TimerBulk, nowNs, never)
		}
		o := &op.PurgeBulks{Meta: &op.Meta{Principal: "duty"}}
		for i := range ids {
			o.BulkIds = append(o.BulkIds, ids[i][:])
		}
		if err := d.cfg.Propose(ctx, o); err != nil {
			return 0, err
		}
	}
}
