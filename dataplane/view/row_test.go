package view

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// notShown removes from a record the fields that no document shows. A row must hold each new field of a
// record, unless this function names it.
func notShown(j *job.Job) *job.Job {
	j.LeaseExpired, j.Blobs, j.Moves, j.SettledNs = false, 0, 0, 0
	j.Doomed, j.Origin, j.HasDependents = false, nil, false
	j.History = nil
	if l := j.Lease; l != nil {
		l.Token, l.LengthMs, l.LastRequest, l.Reservation = nil, 0, nil, nil
		if j.State != job.Active {
			l.ExpiresNs = 0
		}
	}
	if j.Usage != nil {
		j.Usage.CostReported = false
	}
	if j.Batch != nil {
		j.Batch.Shard, j.Batch.Counted = 0, false
	}
	if j.Chain != nil {
		j.Chain.Ended = false
	}
	return j
}

// sameRecord compares the record converted from a row, its chain and its errors with the store's. Comparing
// only documents would miss a field that a row lost and that no document shows yet.
func sameRecord(h *shard, id job.ID) {
	h.t.Helper()
	stored, err := h.store.Job(id)
	must(h.t, err)
	blob, err := h.store.Blob(id, job.ChainConfig)
	must(h.t, err)
	storedErrors, err := h.store.Errors(id)
	must(h.t, err)
	must(h.t, h.view.read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		r := new(row)
		must(h.t, each(ctx, tx, func(rows *sql.Rows) error { return scanRow(rows, r) }, "SELECT "+rowColumns+` FROM hot h
			JOIN document d ON d.number = h.number LEFT JOIN work w ON w.number = h.number LEFT JOIN extra x ON x.number = h.number
			WHERE d.id = ?`, id.String()))
		if got, want := r.job.String(), notShown(stored).String(); got != want {
			h.t.Errorf("the row has\n%s\nand the record\n%s", got, want)
		}
		if got, want := chainOf(h.t, r.blobs[job.ChainConfig]), chainOf(h.t, blob); got != want {
			h.t.Errorf("the row has the chain\n%s\nand the store\n%s", got, want)
		}
		s := search{tx: tx}
		errs, _, err := s.errors(ctx, &r.job)
		must(h.t, err)
		if got, want := fmt.Sprint(errs), fmt.Sprint(storedErrors); got != want {
			h.t.Errorf("the rows have the errors\n%s\nand the store\n%s", got, want)
		}
		return nil
	}))
}

// sameRecords calls sameRecord for every job.
func sameRecords(h *shard) {
	h.t.Helper()
	snap := h.store.Snapshot()
	defer snap.Close()
	for j, err := range snap.Jobs() {
		must(h.t, err)
		sameRecord(h, job.ID(j.Id))
	}
}

// chainOf returns a chain as text, without the parts that no document shows: its shards, and the payload of
// the first step, which is the job's own.
func chainOf(t testing.TB, b *job.Blob) string {
	t.Helper()
	c := &job.Chain{}
	must(t, c.UnmarshalVT(b.GetData()))
	if len(c.Steps) > 0 {
		c.Steps[0].Payload = nil
	}
	for _, s := range append(c.Steps, c.Failure, c.Exit) {
		if s != nil {
			s.Shard = 0
			if s.Payload != nil {
				s.Payload = payload(compact(t, s.Payload.Data))
			}
		}
	}
	return c.String()
}

// compact returns JSON as the encoder writes it.
func compact(t testing.TB, text []byte) string {
	t.Helper()
	out, err := json.Marshal(json.RawMessage(text))
	must(t, err)
	return string(out)
}

// TestRowsHoldRecords compares the rows of many jobs with random properties.
func TestRowsHoldRecords(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	r := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		id := h.enqueueRich(r, "q")
		h.settle()
		sameRecord(h, id)
	}
	// Every column has had a value.
	must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var column string
			must(t, rows.Scan(&column))
			var n int
			must(t, tx.QueryRowContext(ctx, "SELECT count("+column+") FROM extra").Scan(&n))
			if later := map[string]bool{"hold_reason": true, "cancelling": true}; n == 0 && !later[column] {
				t.Errorf("no job has %s", column)
			}
			return nil
		}, "SELECT name FROM pragma_table_info('extra')")
	}))
}

// TestAPlainJobHasNoExtraRow also removes the rare property of a job again.
func TestAPlainJobHasNoExtraRow(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 2)
	for step, want := range []int{0, 1, 0} {
		h.change(ids[1], func(_ *state.Tx, j *job.Job) {
			j.Details().HoldReason = map[bool]string{true: "look"}[step == 1]
		}, evHeld)
		h.settle()
		must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			var n int
			must(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM extra").Scan(&n))
			if n != want {
				t.Errorf("step %d: %d rows, want %d", step, n, want)
			}
			return nil
		}))
	}
	h.same()
}
