package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// The bounds of one heartbeat.
	beatJobs  = 1000
	beatBytes = 4 << 20
)

// beats renews the leases of the jobs that run, until the run ends.
func (r *run) beats() {
	t := time.NewTicker(r.rhythm())
	defer t.Stop()
	for {
		select {
		case <-r.calls.Done():
			return
		case <-t.C:
			// One that is not answered must not keep the next from the jobs it does not know.
			r.group.Go(r.beat)
		}
	}
}

// rhythm is the time between heartbeats.
func (r *run) rhythm() time.Duration { return min(beatEvery, r.lease/3) }

// beat is one heartbeat of all jobs. Those that only have their leases renewed may be told
// of at the same time: their ends need not wait for it.
func (r *run) beat() {
	var some []beatOf
	bytes := 0
	send := func() {
		if len(some) > 0 {
			jobs := some
			r.group.Go(func() { r.tell(r.calls, jobs) })
		}
		some, bytes = nil, 0
	}
	for _, j := range r.held() {
		if j.isLost() || !j.tryTake() {
			continue
		}
		b := beatOf{j, j.told()}
		if b.report.empty() {
			j.leave()
		}
		if bytes += b.report.size(); len(some) == beatJobs || len(some) > 0 && bytes > beatBytes {
			send()
			bytes = b.report.size()
		}
		some = append(some, b)
	}
	send()
}

// beatOf is a job and what is told of it.
type beatOf struct {
	job    *Job
	report report
}

// tell sends a heartbeat of jobs, and lets go of those that report something.
func (r *run) tell(ctx context.Context, jobs []beatOf) {
	err := r.renew(ctx, jobs)
	for _, b := range jobs {
		if refused(err) && (len(jobs) > 1 || !b.report.empty()) {
			// One of them says what the server does not take: it must not cost the others
			// their leases.
			_ = r.renewOne(ctx, b) // the handler's Save and the attempt's end hear of it
		}
		if !b.report.empty() {
			b.job.leave()
		}
	}
}

// refused says that the server did not want a heartbeat.
func refused(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && !passing(err)
}

// flush tells what there is to tell of a job. The caller has taken it.
func (r *run) flush(ctx context.Context, j *Job) error {
	for {
		err := r.renewOne(ctx, beatOf{j, j.told()})
		if err != nil && !errors.Is(err, ErrCancelled) || j.usages() == 0 {
			return err
		}
	}
}

// renewOne is renew of one job. What the server refuses to take of it is dropped, and
// the attempt fails with the reason; its lease is renewed all the same.
func (r *run) renewOne(ctx context.Context, b beatOf) error {
	err := r.renew(ctx, []beatOf{b})
	if !refused(err) || b.report.empty() {
		return err
	}
	err = fmt.Errorf("what was set of job %s is refused: %w", b.job.JobID, err)
	b.job.mu.Lock()
	if b.job.fault == nil {
		b.job.fault = err
	}
	b.job.mu.Unlock()
	b.report = report{}
	return errors.Join(err, r.renew(ctx, []beatOf{b}))
}

// mostSaid is the highest concurrency that a server takes.
const mostSaid = 1_000_000

// says is the concurrency that the server is told.
func (r *run) says() int { return min(r.limit, mostSaid) }

// sayDraining tells the server, for people to see, that the worker takes no more jobs.
// It is told once more with each heartbeat, so that a failure is no loss.
func (r *run) sayDraining() {
	ctx, cancel := context.WithTimeout(r.calls, r.rhythm())
	defer cancel()
	req := api.HeartbeatRequest{Jobs: map[string]api.HeartbeatJob{}, WorkerID: r.id, Concurrency: r.says(), Draining: true}
	if _, err := r.client.Heartbeat(ctx, req); err != nil {
		r.log.Debug("worker: the server does not know that it drains", "worker_id", r.id, "error", err)
	}
}

// renew sends a heartbeat until it is answered, and tells the jobs what it said. It is
// the same request each time, of the same name: usage is counted once.
func (r *run) renew(ctx context.Context, jobs []beatOf) error {
	req := api.HeartbeatRequest{Jobs: make(map[string]api.HeartbeatJob, len(jobs)), ReportID: newKey(),
		WorkerID: r.id, Concurrency: r.says(), Draining: r.drains()}
	ends := time.Now().Add(r.rhythm()) // the next heartbeat renews what this one does not
	for _, b := range jobs {
		said := api.HeartbeatJob{LeaseToken: b.job.LeaseToken, WorkerID: r.id, Progress: b.report.progress, Checkpoint: b.report.checkpoint}
		if len(b.report.usage) > 0 {
			said.Usage = &b.report.usage[0]
		}
		req.Jobs[b.job.JobID] = said
		if end := b.job.leaseEnd().Add(leaseSlack); !b.report.empty() && end.After(ends) {
			ends = end
		}
	}
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	var out api.HeartbeatResponse
	var sent time.Time
	err := r.insist(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, r.rhythm())
		defer cancel()
		sent = time.Now()
		out, err = r.client.Heartbeat(ctx, req)
		return err
	})
	if err != nil {
		for _, b := range jobs {
			if !refused(err) || len(jobs) == 1 && b.report.empty() {
				r.log.Warn("worker: a lease could not be renewed", "worker_id", r.id, "queue", b.job.Queue, "job_id", b.job.JobID, "error", err)
			}
			if !refused(err) {
				b.job.untold(b.report)
			}
		}
		return err
	}
	for _, b := range jobs {
		err = errors.Join(err, b.job.answered(out.Jobs[b.job.JobID], sent))
	}
	return err
}

// answered is what a heartbeat that was sent at some time said of the job. One that is to
// be cancelled is still the worker's, until it lets go.
func (j *Job) answered(s api.HeartbeatStatus, sent time.Time) error {
	j.renewed(sent.Add(time.Duration(j.LeaseDuration)*time.Second), s.BudgetExceeded)
	if s.Status != "cancel" {
		return nil
	}
	j.cancel(ErrCancelled)
	return ErrCancelled
}
