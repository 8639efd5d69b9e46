package convert

import (
	"maps"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// Beat is one job of a heartbeat. Item is nil if Name is not a job id, and the caller sets it to nil for a
// job that the client may not see.
type Beat struct {
	Name string
	ID   job.ID
	Item *op.HeartbeatItem
}

// FromHeartbeat converts the jobs of a heartbeat, ordered by the names the client used. No job may be nil;
// serve.Decode removes such jobs from a body.
func FromHeartbeat(f *Faults, r *api.HeartbeatRequest) []Beat {
	if len(r.Jobs) > job.MaxHeartbeatJobs {
		f.Invalid("jobs", "has %d entries; at most %d are taken", len(r.Jobs), job.MaxHeartbeatJobs)
		return nil
	}
	if len(r.ReportID) > job.MaxReportID {
		f.Invalid("report_id", "has %d bytes; at most %d are taken", len(r.ReportID), job.MaxReportID)
	}
	if err := job.CheckText(r.WorkerID, job.MaxWorkerID); err != nil {
		f.Invalid("worker_id", "%v", err)
	}
	workerConcurrency(f, r.Concurrency)
	beats := make([]Beat, 0, len(r.Jobs))
	for _, name := range slices.Sorted(maps.Keys(r.Jobs)) {
		b := Beat{Name: name}
		var err error
		if b.ID, err = job.ParseID(name); err == nil {
			j := r.Jobs[name]
			f.scope = scope{list: "jobs", name: name}
			b.Item = &op.HeartbeatItem{
				Proof:      leaseProof(f, b.ID, j.LeaseToken, j.WorkerID),
				Progress:   blob(f, "progress", j.Progress, job.MaxProgress),
				Checkpoint: blob(f, "checkpoint", j.Checkpoint, job.MaxCheckpoint),
				Usage:      usage(j.Usage),
				LeaseMs:    leaseMs(f, "lease_duration", j.LeaseDuration, 0),
			}
		}
		beats = append(beats, b)
	}
	f.scope = scope{}
	return beats
}

// The possible answers of a heartbeat for a job.
const (
	heartbeatOK     = "ok"
	heartbeatCancel = "cancel"
)

// ToHeartbeat converts the outcome of a heartbeat. result must have one item for each Beat with an item, in
// order. A job is listed as unknown if its Beat has no item or the job was not found. It is listed as
// canceled if its lease is lost, or if the worker must stop it although the lease was renewed. Jobs of both
// lists have the status cancel.
func ToHeartbeat(beats []Beat, result *op.HeartbeatResult) api.HeartbeatResponse {
	out := api.HeartbeatResponse{
		Jobs:     make(map[string]api.HeartbeatStatus, len(beats)),
		Acked:    []string{},
		Unknown:  []string{},
		Canceled: []string{},
	}
	next := 0
	for _, b := range beats {
		code, cancel, over, rejected := api.NotFound, false, false, ""
		if b.Item != nil {
			code, rejected = api.Code(result.Items[next].GetCode()), result.Items[next].GetUsageRejected()
			_, cancel = slices.BinarySearch(result.Cancel, uint32(next))
			_, over = slices.BinarySearch(result.OverBudget, uint32(next))
			next++
		}
		status := heartbeatCancel
		switch {
		case code == "" && !cancel:
			status = heartbeatOK
			out.Acked = append(out.Acked, b.Name)
		case code == api.NotFound:
			out.Unknown = append(out.Unknown, b.Name)
		default:
			out.Canceled = append(out.Canceled, b.Name)
		}
		out.Jobs[b.Name] = api.HeartbeatStatus{Status: status, BudgetExceeded: over, UsageRejected: rejected}
	}
	return out
}
