package sim

import (
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
)

// didNothing reports whether an op had no effect, so that its client may repeat it under the same key.
func didNothing(result any) bool {
	switch r := result.(type) {
	case *op.FetchResult:
		return len(r.Jobs) == 0
	case *op.AckResult:
		return !slices.ContainsFunc(r.Items, func(r *op.Refusal) bool { return r.GetCode() != string(op.ResultUnchecked) })
	case *op.MoveJobsResult:
		return !slices.ContainsFunc(r.Items, func(r *op.Refusal) bool { return r.GetCode() == "" })
	case *op.JobsResult:
		return !slices.ContainsFunc(r.Items, func(d *op.JobDone) bool { return d.GetRefusal().GetCode() == "" })
	}
	return false
}

func (m *model) dispatch(o op.Op) outcome {
	switch o := o.(type) {
	case *op.Enqueue:
		return m.enqueue(o)
	case *op.Fetch:
		return m.fetch(o)
	case *op.Ack:
		return m.ack(o)
	case *op.Fail:
		return m.fail(o)
	case *op.Heartbeat:
		return m.heartbeat(o)
	case *op.SetQueue:
		return m.setQueue(o)
	case *op.Promote:
		return m.promote(o)
	case *op.Reclaim:
		return m.reclaim(o)
	case *op.PurgeIdempotency:
		return m.purgeIdempotency(o)
	case *op.StartTerm:
		m.termStartedNs = m.clockNs
		return outcome{result: &op.StartTermResult{}}
	case *op.TrimFeed:
		return outcome{result: &op.TrimFeedResult{}}
	case *op.CreateKey:
		return m.createKey(o)
	case *op.RevokeKey:
		return m.revokeKey(o)
	case *op.SetKey:
		return m.setKey(o)
	case *op.RotateKey:
		return m.rotateKey(o)
	case *op.TrimUsage:
		if o.GetFirstSeq() < m.usageFirst || o.GetFirstSeq() > uint64(len(m.usage))+1 {
			return outcome{refused: api.StateConflict}
		}
		m.usageFirst = o.GetFirstSeq()
		return outcome{result: &op.TrimUsageResult{}}
	case *op.DeleteQueue:
		return m.deleteQueue(o)
	case *op.RaiseLevel:
		if o.GetLevel() < m.level {
			return outcome{refused: api.StateConflict}
		}
		m.level = o.GetLevel()
		return outcome{result: &op.RaiseLevelResult{}}
	case *op.MoveJobs:
		return m.moveJobs(o)
	case *op.Deliver:
		return m.deliver(o)
	case *op.TrimOutbox:
		return m.trimOutbox(o)
	}
	return m.dispatchLater(o)
}

// dispatchLater is the second half of dispatch, which would be too long as one function.
func (m *model) dispatchLater(o op.Op) outcome {
	switch o := o.(type) {
	case *op.RecordUsage:
		return m.recordUsage(o)
	case *op.SetMembers:
		return m.setMembers(o)
	case *op.CancelJobs:
		return m.cancelJobs(o)
	case *op.RetryJobs:
		return m.retryJobs(o)
	case *op.HoldJobs:
		return m.holdJobs(o)
	case *op.ReleaseJobs:
		return m.releaseJobs(o)
	case *op.RejectJobs:
		return m.rejectJobs(o)
	case *op.DeleteJobs:
		return m.deleteJobs(o)
	case *op.ExpireJobs:
		return m.expireJobs(o)
	case *op.ReleaseUnique:
		return m.releaseUnique(o)
	case *op.PurgeJobs:
		return m.purgeJobs(o)
	case *op.SealBatch:
		return m.sealBatch(o)
	case *op.PurgeBatches:
		return m.purgeBatches(o)
	case *op.ResolveDependents:
		return m.resolveDependents(o)
	case *op.PutSchedule:
		return m.putSchedule(o)
	case *op.PauseSchedule:
		return m.pauseSchedule(o)
	case *op.DeleteSchedule:
		return m.deleteSchedule(o)
	case *op.RunSchedules:
		return m.runSchedules(o)
	case *op.ClearQueue:
		return m.clearQueue(o)
	case *op.SweepQueue:
		return m.sweepQueue(o)
	case *op.Replenish:
		return outcome{result: &op.ReplenishResult{}}
	case *op.PutResource:
		return m.putResource(o)
	case *op.DeleteResource:
		return m.deleteResource(o)
	case *op.OpenGate:
		return m.openGate(o)
	case *op.SetSettings:
		m.settings = o.GetSettings()
		return outcome{result: &op.SetSettingsResult{}}
	case *op.ReplayJob:
		return m.replayJob(o)
	case *op.ScoreJob:
		return m.scoreJob(o)
	case *op.SetAlerts:
		return m.setAlerts(o)
	case *op.ReportDeliveries:
		return m.reportDeliveries(o)
	case *op.PurgeDeliveries:
		return m.purgeDeliveries(o)
	case *op.QueueDelivery:
		return m.queueDelivery(o)
	case *op.SeedPrices:
		return m.seedPrices(o)
	case *op.TurnBudgets:
		return m.turnBudgets(o)
	case *op.BalanceBudgets:
		return outcome{result: &op.BalanceBudgetsResult{}} // no drawn budget is shared between shards
	case *op.RecordRequests:
		return m.recordRequests(o)
	case *op.TrimAudit:
		return m.trimAudit(o)
	}
	return m.dispatchBulk(o)
}
