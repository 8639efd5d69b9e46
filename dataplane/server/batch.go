package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A batch belongs to one queue, which state.Batch.HomeQueue returns. A caller whose scope covers that queue
// may see the batch, and with the right to enqueue may also seal it. To add jobs, the caller also needs the
// right to enqueue to the queues of these jobs. To other callers the batch does not exist: they get
// NOT_FOUND. The creator of a batch needs the right to enqueue to the callback's queue, to the queue of every
// job and to the queues of the steps of the jobs' chains. A parent batch must be one that the creator may
// use.

func (s *Server) getBatch(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id, at, err := q.batchOf(r)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, at); err != nil {
		return err
	}
	snapshot := at.State().Snapshot()
	defer snapshot.Close()
	b, err := snapshot.Batch(id)
	if err != nil {
		return err
	}
	if b == nil || !q.seesBatch(b) {
		return noBatch(job.BatchIDText(id))
	}
	return writeBatch(w, snapshot, b)
}

func (s *Server) addToBatch(w http.ResponseWriter, r *http.Request) error {
	var body convert.EnqueueBatchBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id, at, err := q.batchOf(r)
	if err != nil {
		return err
	}
	var f convert.Faults
	jobs := convert.FromEnqueueBatch(&f, &body, at.NowNs(), s.maxPayload)
	convert.NotInBatch(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if err := q.mayEnqueue(jobs); err != nil {
		return err
	}
	if err := q.mayUseBatch(r, at, id); err != nil {
		return err
	}
	for _, n := range jobs {
		if q.shards.Of(n.Queue) != at {
			return api.Errorf(api.CrossShard, "batch %s is on shard %d and queue %s on shard %d: a batch takes jobs of its own shard; create another batch for the others", job.BatchIDText(id), at.Shard(), n.Queue, q.shards.Of(n.Queue).Shard())
		}
	}
	made, err := s.enqueueJobs(w, r, &q, at, &op.Enqueue{Jobs: jobs, BatchId: id[:]}, true)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusCreated, made)
}

func (s *Server) sealBatch(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id, at, err := q.batchOf(r)
	if err != nil {
		return err
	}
	if err := q.mayUseBatch(r, at, id); err != nil {
		return err
	}
	// The result of the op has no payload. The payload is immutable, so it may be read from any later state.
	result, err := commitHere[*op.SealBatchResult](s, w, r, &q, at, &op.SealBatch{Meta: q.meta, BatchId: id[:]})
	if err != nil {
		return err
	}
	snapshot := at.State().Snapshot()
	defer snapshot.Close()
	return writeBatch(w, snapshot, result.Batch)
}

func writeBatch(w http.ResponseWriter, from *state.Snapshot, b *state.Batch) error {
	payload, err := from.BatchPayload([16]byte(b.Id))
	if err != nil {
		return err
	}
	out, err := convert.ToBatch(b, payload)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// batchOf returns the id in the path and the shard that such a batch would lie on. It refuses a malformed id
// with NOT_FOUND, and does not check that the batch exists.
func (q *request) batchOf(r *http.Request) (job.ID, *cell.Cell, error) {
	id, err := job.ParseBatchID(r.PathValue("id"))
	if err != nil {
		return job.ID{}, nil, noBatch(r.PathValue("id"))
	}
	return id, q.shards.Birth(id), nil
}

// seesBatch reports whether the caller's scope covers the queue that a batch belongs to. The batch's events
// name that queue too, so that exactly the callers who may read the batch receive its events.
func (q *request) seesBatch(b *state.Batch) bool { return q.who.Covers(b.HomeQueue()) }

// mayUseBatch returns NOT_FOUND if the caller's scope does not cover the batch, or if a caller with a scope
// names no known batch. A follower that does not know the batch may be behind, so it catches up with the
// leader and reads again. Nothing is read for a caller who may see every queue, because the op checks that
// the batch exists.
func (q *request) mayUseBatch(r *http.Request, at *cell.Cell, id job.ID) error {
	if len(q.who.QueueScope) == 0 {
		return nil
	}
	b, err := at.State().Batch(id)
	if err == nil && b == nil && !at.Leader() {
		if err := at.Verify(r.Context()); err != nil {
			return again(err)
		}
		b, err = at.State().Batch(id)
	}
	if err != nil {
		return err
	}
	if b == nil || !q.seesBatch(b) {
		return noBatch(job.BatchIDText(id))
	}
	return nil
}

// mayBatch checks the right to create a batch on a shard and sets b.CallbackShard. The error is CROSS_SHARD
// if the parent batch lies on another shard. mayBatch allows a nil b.
func (q *request) mayBatch(r *http.Request, at *cell.Cell, b *op.NewBatch) error {
	if b == nil {
		return nil
	}
	if b.CallbackQueue != "" {
		if err := q.allow(tenancy.JobEnqueue, b.CallbackQueue); err != nil {
			return err
		}
		b.CallbackShard = q.shards.Of(b.CallbackQueue).Shard()
	}
	if len(b.ParentId) == 0 {
		return nil
	}
	parent := job.ID(b.ParentId)
	above := q.shards.Birth(parent)
	if err := q.mayUseBatch(r, above, parent); err != nil {
		return err
	}
	if above != at {
		return api.Errorf(api.CrossShard, "batch %s lies on shard %d and the jobs on shard %d: a batch is a member of one of its own shard", job.BatchIDText(parent), above.Shard(), at.Shard())
	}
	return nil
}

func noBatch(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no batch %s", text.Quote(id))
}
