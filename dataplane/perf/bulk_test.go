//go:build unix

package perf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
)

// TestMeasureBulk measures how long acks take while a bulk operation cancels every pending job, half of
// -measure.jobs, and the speed of the operation. Its figures are in "Processor profile" in
// docs/benchmarks.md.
func TestMeasureBulk(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	var before, during []figures
	var rates []float64
	for range *rounds {
		c := openNodes(t, 1, engine.Tuning{}).all[0].Cells()[0]
		fillMixed(t, c, *heldJobs)
		before = append(before, measure(t, bulkCallers, lifecycleAcks(t, c)))
		l := startLoad(bulkCallers, lifecycleAcks(t, c))
		time.Sleep(*lasting / 5)
		from := time.Now()
		b := cancelWaiting(t, c)
		during = append(during, func() figures { l.stop(t); return l.between(t, from, time.Now()) }())
		rates = append(rates, float64(b.Counts().Affected)/time.Duration(b.FinishedNs-b.CreatedNs).Seconds())
		if got := b.Counts().Affected; got != uint64(*heldJobs/2) || b.Counts().Errors != 0 {
			t.Errorf("affected %d of %d: %v", got, *heldJobs/2, b.Counts())
		}
	}
	alone, beside := middle(before), middle(during)
	t.Logf("%d jobs: %.0f a second; acks of %d callers p50 %v, p99 %v without, p50 %v, p99 %v beside it; lifecycles a second %.0f without, %.0f beside it", *heldJobs/2,
		median(rates, func(f float64) float64 { return f }), bulkCallers, alone.p50, alone.p99, beside.p50, beside.p99, alone.rate, beside.rate)
}

const bulkCallers = 16

// lifecycleAcks returns a function whose every second call acks a job and is timed. The call before it
// enqueues and fetches that job and is not timed.
func lifecycleAcks(t *testing.T, c *cell.Cell) func(caller int) error {
	t.Helper()
	var leased [bulkCallers][]*op.Leased
	return func(caller int) error {
		queue := fmt.Sprint("load", caller)
		if mine := leased[caller]; len(mine) > 0 {
			leased[caller] = mine[1:]
			_, _, err := cell.Propose[*op.AckResult](t.Context(), c, &op.Ack{Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: mine[0].Id, Token: mine[0].LeaseToken}}}})
			return err
		}
		if _, _, err := cell.Propose[*op.EnqueueResult](t.Context(), c, enqueueOp(c.NewID(queue), queue)); err != nil {
			return err
		}
		got, _, err := cell.Propose[*op.FetchResult](t.Context(), c, &op.Fetch{
			Meta: &op.Meta{LeaseSeed: c.LeaseSeed()}, Queues: []string{queue}, Count: 1, WorkerId: "w", LeaseMs: time.Minute.Milliseconds(),
		})
		if err != nil {
			return err
		}
		leased[caller] = got.Jobs
		return errNotTimed
	}
}

// errNotTimed ends a call that neither failed nor is timed.
var errNotTimed = errors.New("not timed")

// cancelWaiting cancels the pending jobs that fillMixed has created and returns the finished operation.
func cancelWaiting(t *testing.T, c *cell.Cell) *state.Bulk {
	t.Helper()
	filter, err := json.Marshal(map[string]any{"queue": "waiting", "state": []string{"pending"}})
	if err != nil {
		t.Fatal(err)
	}
	id := c.NewID("")
	o := &op.StartBulk{
		Meta: &op.Meta{Ids: [][]byte{id[:]}}, Action: state.BulkAction_BULK_ACTION_CANCEL,
		Filter: filter, InQueue: "waiting", Shares: []*op.BulkStart{{}},
	}
	if _, _, err := cell.Propose[*op.StartBulkResult](t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	for {
		news := c.State().BulkChanged()
		b, err := c.State().Bulk(id)
		if err != nil {
			t.Fatal(err)
		}
		if b.GetFinishedNs() > 0 {
			return b
		}
		<-news
	}
}
