package duties

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The pace at which settled jobs are removed. A shorter retention may free any number of
// jobs at once, and acks must not feel it. So the duty removes purgeRound jobs in a round
// and as many more as have settled since the last one: a backlog shrinks by 2,000 jobs a
// second at least, however many settle meanwhile.
const (
	purgeRound = 100
	purgePause = 50 * time.Millisecond // from the begin of a round to that of the next
)

// purging is how far the round is in which settled jobs are removed.
type purging struct {
	nextNs  int64  // when the next round may begin
	left    uint64 // jobs that this round may still remove
	settled uint64 // jobs that had settled when the round began
	behind  bool   // the round removed all it could, and there may be more
}

// begin begins a round. A round that follows on one that left something makes up for
// what has settled meanwhile; after others there is nothing to make up for.
func (p *purging) begin(nowNs int64, settled uint64) {
	p.left = purgeRound
	if p.behind {
		p.left += settled - p.settled
	}
	p.nextNs, p.settled = nowNs+int64(purgePause), settled
}

// purgeJobs removes settled jobs whose retention is over: one chunk of a round, so that
// the other duties need not wait for the whole of it.
func purgeJobs(ctx context.Context, d *Duties) (next int64, err error) {
	p, nowNs := &d.purging, d.cfg.NowNs()
	if p.left == 0 {
		if p.behind && nowNs < p.nextNs {
			return p.nextNs, nil
		}
		p.begin(nowNs, d.cfg.Store.Settled())
	}
	ids, next, err := d.cfg.Store.RetentionDue(nowNs, int(min(p.left, job.MaxDutyItems)))
	if err != nil {
		return 0, fmt.Errorf("read the settled jobs: %w", err)
	}
	if len(ids) == 0 {
		p.left, p.behind = 0, next <= nowNs // lists that only seemed to be due take a round, too
		return max(next, p.nextNs), nil
	}
	o := &op.PurgeJobs{Meta: &op.Meta{Principal: "duty"}, JobIds: make([][]byte, len(ids))}
	for i := range ids {
		o.JobIds[i] = ids[i][:]
	}
	if err := d.cfg.Propose(ctx, o); err != nil {
		return 0, err
	}
	p.left -= uint64(len(ids))
	p.behind = p.left == 0
	return nowNs, nil
}
