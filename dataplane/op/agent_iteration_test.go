package op_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// acked returns the answer to an ack of one lease.
func (w *world) acked(l *op.Leased, set func(*op.AckItem)) *op.Refusal {
	w.t.Helper()
	o := ack(l)
	set(o.Items[0])
	return one[*op.AckResult](w, o).Items[0]
}

// leasedAgain leases the only ready job of a queue.
func (w *world) leasedAgain(queue string) *op.Leased {
	w.t.Helper()
	jobs := one[*op.FetchResult](w, w.fetch(queue, 1)).Jobs
	if len(jobs) != 1 {
		w.t.Fatalf("%d jobs are ready", len(jobs))
	}
	return jobs[0]
}

// jobOf returns a job's record.
func (w *world) jobOf(id []byte) *job.Job {
	w.t.Helper()
	j, err := w.store.Job(job.ID(id))
	if err != nil || j == nil {
		w.t.Fatal(j, err)
	}
	return j
}

// The bytes kept of a job's iterations are bounded exactly. A result is never refused because of them.
func TestIterationBytesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	goOn := func(checkpoint, trace int) *op.Refusal {
		return w.acked(l, func(i *op.AckItem) {
			i.AgentStatus = job.Continue
			i.Checkpoint, i.Trace = &job.Blob{Data: make([]byte, checkpoint)}, &job.Blob{Data: make([]byte, trace)}
		})
	}
	for range job.MaxIterationBytes/job.MaxCheckpoint - 1 {
		if r := goOn(job.MaxCheckpoint, 0); r.GetCode() != "" {
			t.Fatal(r)
		}
		l = w.leasedAgain("q")
	}
	before := w.jobOf(l.Id)
	if r := goOn(job.MaxCheckpoint, 1); api.Code(r.GetCode()) != api.PayloadTooLarge || !strings.Contains(r.Message, "without a trace") {
		t.Errorf("one byte too many is %v", r)
	}
	if after := w.jobOf(l.Id); after.State != job.Active || after.Detail.IterationBytes != before.Detail.IterationBytes {
		t.Errorf("a refused ack has left %v", after)
	}
	if r := goOn(job.MaxCheckpoint-1, 1); r.GetCode() != "" {
		t.Fatal(r)
	}
	l = w.leasedAgain("q")
	if r := w.acked(l, func(i *op.AckItem) { i.Trace = &job.Blob{Data: []byte("t")} }); api.Code(r.GetCode()) != api.PayloadTooLarge {
		t.Errorf("a trace too many is %v", r)
	}
	if r := w.acked(l, func(i *op.AckItem) { i.Result = &job.Blob{Data: make([]byte, job.MaxResult)} }); r.GetCode() != "" {
		t.Errorf("the result is refused: %v", r)
	}
	w.check()
	w.checkReplica()
	w.apply(&op.DeleteJobs{JobIds: [][]byte{l.Id}})
	w.check()
	if kept, err := w.store.Iterations(job.ID(l.Id)); len(kept) != 0 || err != nil {
		t.Errorf("%d iterations are left of a job that is gone: %v", len(kept), err)
	}
}

// No job has more iterations than the limit, whatever its agent sets and people approve.
func TestIterationsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	goOn := func() *op.Refusal { return w.acked(l, func(i *op.AckItem) { i.AgentStatus = job.Continue }) }
	// The job has an iteration and a replay from it, which is cancelled below.
	goOn()
	id := w.newID("q")
	w.apply(&op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{id[:]}}, JobId: l.Id, From: 1})
	for n := 1; n <= job.MaxIterations; n++ {
		l = w.leasedAgain("q")
		if r := goOn(); r.GetCode() != "" {
			t.Fatal(r)
		}
		if n == 1 { // two jobs are ready: the replay goes, so that the other is alone
			w.apply(&op.CancelJobs{JobIds: [][]byte{id[:]}})
		}
		if w.jobOf(l.Id).State == job.Held {
			break
		}
	}
	j := w.jobOf(l.Id)
	if d := j.Detail; j.State != job.Held || d.Hold != job.Hold_HOLD_MAX_ITERATIONS || d.Iteration != job.MaxIterations {
		t.Fatalf("after %d iterations the job is %s: %s", d.Iteration, j.State.Word(), d.HoldReason)
	}
	w.apply(&op.ReleaseJobs{JobIds: [][]byte{l.Id}})
	l = w.leasedAgain("q")
	if r := goOn(); api.Code(r.GetCode()) != api.StateConflict {
		t.Errorf("an iteration too many is %v", r)
	}
	if r := w.acked(l, func(*op.AckItem) {}); r.GetCode() != "" {
		t.Errorf("the last iteration cannot end the job: %v", r)
	}
	w.check()
}

// The number of a job's scores is limited. Existing scores can still change.
func TestScoresAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 1)
	w.apply(o)
	score := func(scorer int) any {
		return w.apply(&op.ScoreJob{JobId: o.Meta.Ids[0], Score: &job.Score{Dimension: "d", Scorer: long(scorer)}})[0]
	}
	for n := range job.MaxScores {
		if err, refused := score(n).(error); refused {
			t.Fatal(err)
		}
	}
	if err, _ := score(job.MaxScores).(error); api.CodeOf(err) != api.Conflict {
		t.Errorf("a score too many: %v", err)
	}
	if err, refused := score(0).(error); refused {
		t.Errorf("one that is there cannot change: %v", err)
	}
	w.check()
}

// Records of iterations and scores outlive a restart, byte for byte, and replays read
// them from then on.
func TestIterationsOutliveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	for n := range 5 {
		w.acked(l, func(i *op.AckItem) {
			i.AgentStatus, i.Usage = job.Continue, &job.Usage{CostNanoUsd: 2}
			if n%2 == 0 {
				i.Checkpoint = &job.Blob{Data: []byte{'0' + byte(n)}}
			}
		})
		w.apply(&op.ScoreJob{JobId: l.Id, Score: &job.Score{Dimension: "d", Value: float64(n)}})
		w.restart()
		l = w.leasedAgain("q")
		w.restart()
	}
	id := w.newID("q")
	one[*op.ReplayJobResult](w, &op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{id[:]}}, JobId: l.Id, From: 5})
	b, err := w.store.Blob(id, job.Checkpoint)
	if err != nil || string(b.GetData()) != "2" {
		t.Errorf("the replay has checkpoint %q: %v", b.GetData(), err)
	}
	kept, err := w.store.Iterations(job.ID(l.Id))
	if err != nil || len(kept) != 5 {
		t.Fatalf("kept %v: %v", kept, err)
	}
	if last := kept[4]; last.TotalCostNanoUsd != 10 || last.Usage.CostNanoUsd != 2 {
		t.Errorf("the last iteration cost %d, all of them %d", last.Usage.CostNanoUsd, last.TotalCostNanoUsd)
	}
	w.check()
	w.checkReplica()
}

// A job that goes on notifies no dependent. Only its end does.
func TestOnlyTheEndOfAnAgentIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 1)
	batch := w.newID("q")
	o.Meta.Ids = append(o.Meta.Ids, batch[:])
	o.Batch = &op.NewBatch{CallbackQueue: "called"}
	o.Jobs[0].Chain = &job.Chain{Steps: []*job.Step{{Queue: "q"}, {Queue: "next"}}}
	w.apply(o)
	waits := w.newJobs("waits", 1)
	waits.Jobs[0].DependsOn = []*op.Dependency{{JobId: o.Meta.Ids[0]}}
	w.apply(waits)
	l := w.leasedAgain("q")
	for _, status := range []job.IterationStatus{job.Continue, job.Suspend} {
		if r := w.acked(l, func(i *op.AckItem) { i.AgentStatus = status }); r.GetCode() != "" {
			t.Fatal(r)
		}
		w.apply(&op.ReleaseJobs{JobIds: [][]byte{l.Id}})
		l = w.leasedAgain("q")
		if w.store.Fetchable("next")+w.store.Fetchable("called") > 0 || w.jobOf(waits.Meta.Ids[0]).BlockedBy != 1 {
			t.Fatalf("somebody was told after %s", status.Word())
		}
	}
	w.acked(l, func(i *op.AckItem) { i.AgentStatus = job.Done })
	w.apply(&op.ResolveDependents{JobIds: [][]byte{l.Id}})
	if w.store.Fetchable("next") != 1 || w.store.Fetchable("called") != 1 || w.store.Fetchable("waits") != 1 {
		t.Error("not everybody was told in the end")
	}
	w.check()
}
