package duties

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The pace at which settled jobs are removed. A shorter retention may make any number of jobs due at once,
// and acks must not become slower for it. The store lists the settled jobs by queue and state. The duty
// removes purgeRound jobs in a round, and as many more as have settled since the last round in lists with due
// jobs. However many jobs settle, a backlog therefore shrinks by 2,000 jobs a second if the commits keep up.
// To count the jobs of all lists was rejected, because a busy queue that keeps its jobs would hasten the
// removal of another queue's jobs.
const (
	purgeRound = 100
	purgePause = 50 * time.Millisecond // from the start of a round to the start of the next
)

// purging is the state of the current round of removals.
type purging struct {
	nextNs int64  // when the next round may begin
	left   uint64 // number of jobs that this round may still remove
	behind bool   // the round removed all it could, and more jobs may be due
}

// begin starts a round. If the last round left jobs, the new one also makes up for the jobs that have settled
// since the last one began.
func (p *purging) begin(nowNs int64, settled uint64) {
	p.left = purgeRound
	if p.behind {
		p.left += settled
	}
	p.nextNs = nowNs + int64(purgePause)
}

// purgeJobs removes settled jobs whose retention is over. A pass removes one chunk of a round, so that the
// other duties need not wait for the whole round.
func purgeJobs(ctx context.Context, d *Duties) (next int64, err error) {
	p, nowNs := &d.purging, d.cfg.NowNs()
	if p.left == 0 {
		if p.behind && nowNs < p.nextNs {
			return p.nextNs, nil
		}
		p.begin(nowNs, d.cfg.Store.SettledWhereDue(nowNs))
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
