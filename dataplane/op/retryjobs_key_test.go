package op_test

import (
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// A unique key whose period is over is free to a job that runs again, as it is to a new one, even before
// ReleaseUnique has run.
func TestRevivedJobTakesAKeyThatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.clockNs + int64(job.DefaultUniquePeriod)
	brought := func(st job.State, untilNs int64) []byte {
		return w.bring(st, func(j *job.Job) { j.Opt().UniqueKey, j.Details().UniqueExpiresNs = "k", untilNs })
	}
	dead := brought(job.Dead, later)
	holder := brought(job.Held, w.clockNs+1)
	retry := &op.RetryJobs{JobIds: [][]byte{dead}}
	w.clockNs++ // the holder's period ends
	if r := w.apply(retry)[0].(*op.JobsResult); r.Items[0].GetRefusal().GetCode() != "" {
		t.Fatalf("refused: %v", r.Items[0])
	}
	if j := w.job(holder); j.Detail.GetUniqueExpiresNs() != 0 {
		t.Errorf("the one before has the key until %d", j.Detail.GetUniqueExpiresNs())
	}
	if j := w.job(dead); j.State != job.Pending || j.Detail.GetUniqueExpiresNs() != later {
		t.Errorf("it is %s and has the key until %d", j.State.Word(), j.Detail.GetUniqueExpiresNs())
	}
	w.check()
}
