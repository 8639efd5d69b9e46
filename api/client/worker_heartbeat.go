package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// These constants limit one heartbeat.
	heartbeatJobs  = 1000
	heartbeatBytes = 4 << 20
)

// heartbeatLoop renews the leases of the running jobs until the run ends.
func (r *run) heartbeatLoop() {
	t := time.NewTicker(r.heartbeatInterval())
	defer t.Stop()
	for {
		select {
		case <-r.calls.Done():
			return
		case <-t.C:
			r.group.Go(r.heartbeat)
		}
	}
}

// heartbeatInterval returns the time between heartbeats.
func (r *run) heartbeatInterval() time.Duration { return min(heartbeatEvery, r.lease/3) }

// heartbeat starts heartbeats for all jobs, except jobs whose lease is lost and jobs about which another call
// is under way. It releases a job without a report at once, so that the job's end need not wait for the
// response. Reports that an earlier heartbeat may have delivered go in heartbeats of their own, because the
// server recognises them by the report id of that heartbeat.
func (r *run) heartbeat() {
	type batch struct {
		jobs  []jobReport
		bytes int
	}
	send := func(jobs []jobReport) {
		// In a goroutine, so that an unanswered heartbeat does not delay the next one for newer jobs.
		r.group.Go(func() { r.sendHeartbeat(r.calls, jobs) })
	}
	batches := map[string]*batch{} // by report id; "" for new reports
	for _, j := range r.held() {
		if j.isLost() || !j.tryAcquire() {
			continue
		}
		b := jobReport{j, j.takeReport()}
		if b.report.empty() {
			j.release()
		}
		some := batches[b.report.id]
		if some == nil {
			some = &batch{}
			batches[b.report.id] = some
		}
		if some.bytes += b.report.size(); len(some.jobs) == heartbeatJobs || len(some.jobs) > 0 && some.bytes > heartbeatBytes {
			send(some.jobs)
			*some = batch{bytes: b.report.size()}
		}
		some.jobs = append(some.jobs, b)
	}
	for _, some := range batches {
		send(some.jobs)
	}
}

// jobReport is a job and the report about it.
type jobReport struct {
	job    *Job
	report report
}

// sendHeartbeat sends a heartbeat and then releases the jobs that had a report. If the server refuses the
// heartbeat, sendHeartbeat sends a heartbeat for each job alone, except for a single job without a report.
func (r *run) sendHeartbeat(ctx context.Context, jobs []jobReport) {
	err := r.renew(ctx, jobs)
	for _, b := range jobs {
		if refused(err) && (len(jobs) > 1 || !b.report.empty()) {
			// Repeat each job alone, because the refused report of one job must not cost the others their
			// leases.
			_ = r.renewOne(ctx, b) // a refused report becomes the job's fault, which Save returns and settle sends
		}
		if !b.report.empty() {
			b.job.release()
		}
	}
}

// refused reports whether the server refused a heartbeat with an error that a repeat would get too.
func refused(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && !transient(err)
}

// flush sends all reports of a job. The caller has acquired the job.
func (r *run) flush(ctx context.Context, j *Job) error {
	for {
		err := r.renewOne(ctx, jobReport{j, j.takeReport()})
		if err != nil && !errors.Is(err, ErrCancelled) || j.usages() == 0 {
			return err
		}
	}
}

// renewOne sends a heartbeat for one job. A report that the server refuses is dropped and fails the
// attempt later; the lease is renewed nevertheless.
func (r *run) renewOne(ctx context.Context, b jobReport) error {
	err := r.renew(ctx, []jobReport{b})
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
	return errors.Join(err, r.renew(ctx, []jobReport{b}))
}

// maxConcurrency is the largest concurrency that a server accepts.
const maxConcurrency = 1_000_000

// reportedConcurrency returns the concurrency for the server.
func (r *run) reportedConcurrency() int { return min(r.limit, maxConcurrency) }

// announceDraining tells the server that the worker fetches no more jobs. Each heartbeat repeats it, so a
// failure is harmless.
func (r *run) announceDraining() {
	ctx, cancel := context.WithTimeout(r.calls, r.heartbeatInterval())
	defer cancel()
	req := api.HeartbeatRequest{Jobs: map[string]*api.HeartbeatJob{}, WorkerID: r.id, Concurrency: r.reportedConcurrency(), Draining: true}
	if _, err := r.client.Heartbeat(ctx, req); err != nil {
		r.log.Debug("worker: the server does not know that it drains", "worker_id", r.id, "error", err)
	}
}

// renew sends a heartbeat until it is answered or its time is over, and applies the response to the jobs.
// Each try is the same request with the same ReportID, so that usage counts once. The reports must all have
// the same id, or all have none. renew sets the id in the reports with usage, so that a later heartbeat
// repeats it.
func (r *run) renew(ctx context.Context, jobs []jobReport) error {
	id := jobs[0].report.id
	if id == "" {
		id = newKey()
	}
	req := api.HeartbeatRequest{Jobs: make(map[string]*api.HeartbeatJob, len(jobs)), ReportID: id,
		WorkerID: r.id, Concurrency: r.reportedConcurrency(), Draining: r.isDraining()}
	ends := time.Now().Add(r.heartbeatInterval()) // if this heartbeat is not answered by then, the next one renews these leases
	for i := range jobs {
		b := &jobs[i]
		said := &api.HeartbeatJob{LeaseToken: b.job.LeaseToken, WorkerID: r.id, Progress: b.report.progress, Checkpoint: b.report.checkpoint}
		if len(b.report.usage) > 0 {
			said.Usage, b.report.id = &b.report.usage[0], id
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
	err := r.retry(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, r.heartbeatInterval())
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
				b.job.restoreReport(b.report)
			}
		}
		return err
	}
	for _, b := range jobs {
		err = errors.Join(err, b.job.answered(out.Jobs[b.job.JobID], sent))
	}
	return err
}

// answered applies the response to a heartbeat; `sent` is the time at which the heartbeat was sent. With the
// status cancel (the job is to be cancelled, its lease is lost, or it is unknown) answered ends the handler's
// context and returns ErrCancelled. The job stays with the worker until its handler returns.
func (j *Job) answered(s api.HeartbeatStatus, sent time.Time) error {
	j.renewed(sent.Add(time.Duration(j.LeaseDuration)*time.Second), s.BudgetExceeded)
	if s.Status != "cancel" {
		return nil
	}
	j.cancel(ErrCancelled)
	return ErrCancelled
}
