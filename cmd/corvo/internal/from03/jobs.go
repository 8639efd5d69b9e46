package from03

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/text"
	limits "github.com/corvo/corvo/dataplane/job"
)

const (
	// lotJobs is the number of jobs that a run reads and then enqueues at once, in the order in which they
	// were created. A lot of jobs with payloads of 1 MiB fits into no request; the run then sends them one by
	// one.
	lotJobs = 200
	// parallel is the number of concurrent requests for reads, and for changes whose order does not matter.
	parallel = 8
)

// copied is a job on the target: its id and the state in which it was found, "" if this run created it.
type copied struct {
	id, state string
}

// jobs copies the unfinished jobs that no earlier run has copied. It leaves out those that have expired or
// ended meanwhile, and those that the target refuses.
func (r *run) jobs(ctx context.Context) error {
	if err := r.findEarlier(ctx); err != nil {
		return fmt.Errorf("look for jobs of an earlier run: %w", err)
	}
	gone, err := r.Source.search(ctx, "", finished, 1, "")
	if err != nil {
		return err
	}
	r.report.Jobs.Finished = gone.Total
	ids, err := r.list(ctx)
	if err != nil {
		return err
	}
	r.report.Jobs.Found = len(ids)
	done := 0
	for lot := range slices.Chunk(ids, lotJobs) {
		if err := r.copyLot(ctx, lot); err != nil {
			return err
		}
		if done += len(lot); r.Progress != nil {
			r.Progress(done, len(ids))
		}
	}
	return nil
}

// findEarlier finds the jobs that earlier runs copied.
func (r *run) findEarlier(ctx context.Context) error {
	return r.eachCopied(ctx, func(old string, j *api.Job) { r.copied[old] = copied{j.ID, j.State} })
}

// eachCopied calls f for every job on the target that carries an old id. It reads every job, because no
// search finds a tag by its name alone, and a server that receives a copy holds little else.
func (r *run) eachCopied(ctx context.Context, f func(old string, j *api.Job)) error {
	most := limits.MaxSearchLimit
	return r.Target.SearchAll(ctx, api.SearchRequest{Limit: &most}, client.Read{Strong: true}, 0, func(j *api.Job) error {
		if old := j.Tags[IDTag]; old != "" {
			f(old, j)
		}
		return nil
	})
}

// list returns the ids of the unfinished jobs, oldest first. The cursors of 0.3 are offsets, so a job that
// ends meanwhile may make list return another twice or miss one. list drops the repeated ids, and compare
// counts again afterwards.
func (r *run) list(ctx context.Context) ([]string, error) {
	var ids []string
	seen := map[string]bool{}
	for cursor := ""; ; {
		p, err := r.Source.search(ctx, "", unfinished, pageJobs, cursor)
		if err != nil {
			return nil, err
		}
		for _, j := range p.Jobs {
			if !seen[j.ID] {
				seen[j.ID] = true
				ids = append(ids, j.ID)
			}
		}
		if !p.HasMore || p.Cursor == cursor || len(p.Jobs) == 0 {
			return ids, nil
		}
		cursor = p.Cursor
	}
}

// draft is a job to copy and its request.
type draft struct {
	job  job
	req  api.EnqueueRequest
	gone bool
}

// copyLot copies a lot of jobs in their order.
func (r *run) copyLot(ctx context.Context, ids []string) error {
	read, err := r.read(ctx, ids)
	if err != nil {
		return err
	}
	var drafts, parked []*draft
	drafted := map[string]bool{} // old ids of drafts
	now := time.Now()
	for i := range read {
		d := &read[i]
		if drafted[d.job.ParentID] { // its request needs the parent's new id, so enqueue the parent first
			if err := r.enqueue(ctx, drafts); err != nil {
				return err
			}
			drafts, drafted = nil, map[string]bool{}
		}
		earlier, here := r.copied[d.job.ID]
		switch {
		case d.gone:
			r.report.Jobs.Gone++
		case here:
			r.report.Jobs.Earlier++
			if d.job.parked() && earlier.state == scheduled { // the earlier run ended before it held the job
				parked = append(parked, d)
			}
		case r.draft(d, now):
			drafts, drafted[d.job.ID] = append(drafts, d), true
			if d.job.parked() {
				parked = append(parked, d)
			}
		}
	}
	if err := r.enqueue(ctx, drafts); err != nil {
		return err
	}
	return r.park(ctx, parked)
}

// read reads the jobs in full, several at once.
func (r *run) read(ctx context.Context, ids []string) ([]draft, error) {
	all := make([]draft, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, id := range ids {
		group.Go(func() error {
			j, err := r.Source.job(ctx, id)
			if errors.Is(err, errAbsent) || err == nil && slices.Contains(finished, j.State) {
				all[i].gone = true
				return nil
			}
			all[i].job = j
			return err
		})
	}
	return all, group.Wait()
}

// draft builds the request for a job and reports whether the job can be copied.
func (r *run) draft(d *draft, now time.Time) bool {
	req, lost, err := d.job.request(now, r.copied[d.job.ParentID].id)
	switch {
	case errors.Is(err, errExpired):
		r.report.Jobs.Expired++
		return false
	case err != nil:
		r.refuse(d, err)
		return false
	case len(lost) > 0:
		r.report.Jobs.Shortened++
		r.report.problem(d.job, "copied without "+strings.Join(lost, ", "))
	}
	d.req = req
	return true
}

func (r *run) refuse(d *draft, err error) {
	r.report.Jobs.Refused++
	r.report.problem(d.job, err.Error())
}

// enqueue enqueues all drafts in one request, so that they keep their order and cost one commit. If the
// server refuses that request, enqueue sends each job alone, so that the server refuses only the jobs at
// fault.
func (r *run) enqueue(ctx context.Context, drafts []*draft) error {
	if len(drafts) == 0 {
		return nil
	}
	if r.DryRun {
		for _, d := range drafts {
			r.made(d, d.job.ID, false)
		}
		return nil
	}
	reqs := make([]api.EnqueueRequest, len(drafts))
	for i, d := range drafts {
		reqs[i] = d.req
	}
	made, err := r.Target.EnqueueBatch(ctx, reqs)
	if err == nil {
		for i, d := range drafts {
			unique := len(made.Results) > i && made.Results[i].UniqueExisting
			r.made(d, made.JobIDs[i], unique)
		}
		return nil
	}
	if !isRefusal(err) {
		return err
	}
	for _, d := range drafts {
		one, err := r.Target.Enqueue(ctx, d.req)
		switch {
		case err == nil:
			r.made(d, one.JobID, one.UniqueExisting)
		case isRefusal(err):
			r.refuse(d, err)
		default:
			return err
		}
	}
	return nil
}

// made records the new job of a draft.
func (r *run) made(d *draft, id string, unique bool) {
	if unique {
		r.refuse(d, fmt.Errorf("job %s holds its unique key %q here", id, d.req.UniqueKey))
		return
	}
	r.copied[d.job.ID] = copied{id: id}
	r.report.Jobs.Copied++
}

// park holds the copies of held and dead jobs, and rejects those of the dead ones.
func (r *run) park(ctx context.Context, drafts []*draft) error {
	if r.DryRun {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, d := range drafts {
		c, here := r.copied[d.job.ID]
		if !here { // it was refused
			continue
		}
		group.Go(func() error {
			if d.job.State == held {
				return r.Target.Hold(ctx, c.id, text.Head(d.job.HoldReason, limits.MaxHoldReason))
			}
			if err := r.Target.Hold(ctx, c.id, ""); err != nil {
				return err
			}
			return r.Target.Reject(ctx, c.id, d.job.lastError(limits.MaxHoldReason))
		})
	}
	return group.Wait()
}

// isRefusal reports whether the server has judged a request and refused it, so that it would also refuse a
// repeat.
func isRefusal(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && !refused.Code.Retryable()
}
