package server

import (
	"context"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

// A bulk operation is one action on many jobs on any shards. The shards' leaders perform it in the
// background. A request for at most job.BulkWaited jobs waits for the operation's end, at most bulkWait,
// unless the client sets async. The operation treats a job outside the caller's scope as absent; the scope is
// the one at the operation's start.

// bulkWait is the longest time that a request waits for the end of its operation.
const bulkWait = 20 * time.Second

func (s *Server) bulkRoutes() []serve.Route {
	return []serve.Route{
		{Method: "POST", Path: "/api/v1/jobs/bulk", Permission: tenancy.JobManage, Handler: s.startBulk, MaxBody: bodyBatch,
			Summary: "Apply one action to many jobs", Description: "The answer is 202 if the server continues the operation after it.", Request: api.BulkRequest{}, Response: api.BulkResponse{}},
		{Method: "GET", Path: "/api/v1/bulk/{id}", Permission: tenancy.JobRead, Handler: s.getBulk, Query: read,
			Summary: "Get a bulk operation with the failures of jobs", Response: api.Bulk{}},
		{Method: "GET", Path: "/api/v1/bulk/{id}/progress", Permission: tenancy.JobRead, Handler: s.followBulk,
			Summary: "Stream the progress of a bulk operation as server-sent events"},
		{Method: "DELETE", Path: "/api/v1/bulk/{id}", Permission: tenancy.JobManage, Handler: s.cancelBulk,
			Summary: "Cancel a bulk operation; finished changes stay", Response: api.Status{}},
	}
}

func (s *Server) startBulk(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	var body api.BulkRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	o, ids := convert.FromBulk(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if o.Action == state.BulkAction_BULK_ACTION_MOVE {
		if err := q.mayMoveTo(o.Queue); err != nil {
			return err
		}
		o.Shard = q.shards.Of(o.Queue).Shard()
	}
	if body.Filter != nil {
		err = s.findBulk(w, r, &q, body.Filter, o)
	} else {
		err = q.nameBulk(ids, o)
	}
	if err != nil {
		return err
	}
	home := q.shards.Home()
	id := home.NewID("")
	q.meta.Ids = [][]byte{id[:]}
	o.Meta = q.meta
	for _, glob := range q.who.QueueScope {
		o.Scope = append(o.Scope, string(glob))
	}
	waits := !body.Async && o.EstimatedTotal <= job.BulkWaited
	if !waits {
		q.answers(http.StatusAccepted)
	}
	started, err := commit[*op.StartBulkResult](s, w, r, &q, home, o)
	if err != nil {
		return err
	}
	id = job.ID(started.BulkId)
	var ended *state.Bulk
	if waits {
		if ended, err = s.awaitBulk(r, home, id); err != nil {
			return err
		}
	}
	if ended == nil {
		return serve.WriteJSON(w, http.StatusAccepted, api.BulkStarted{
			BulkOperationID: job.BulkIDText(id), Status: "processing", EstimatedTotal: o.EstimatedTotal,
			ProgressURL: "/api/v1/bulk/" + job.BulkIDText(id) + "/progress",
		})
	}
	if ended.Error != "" {
		return api.Errorf(api.Internal, "%s", ended.Error)
	}
	c := ended.Counts()
	return serve.WriteJSON(w, http.StatusOK, api.BulkResponse{
		Affected: c.Affected, Errors: c.Errors, DurationMs: time.Since(began).Milliseconds(), BulkOperationID: job.BulkIDText(id),
	})
}

// mayMoveTo checks the right to the target queue of a move. It also refuses a queue that is being deleted,
// because the queue's shard cannot refuse jobs from another shard.
func (q *request) mayMoveTo(queue string) error {
	if err := q.allow(tenancy.JobManage, queue); err != nil {
		return err
	}
	to, err := queueRecord(q.shards.Of(queue), queue)
	if err == nil && to.GetDeleting() {
		err = api.Errorf(api.Conflict, "queue %s is being deleted: wait for the end of the deletion, then create it again", queue)
	}
	return err
}

// nameBulk adds a share of the named jobs for each shard, and sets the operation's number of jobs. Each job
// belongs to the share of the shard that this node believes has the job.
func (q *request) nameBulk(ids []job.ID, o *op.StartBulk) error {
	at := make([]*cell.Cell, len(ids))
	for i, id := range ids {
		var err error
		if at[i], err = q.shards.OfJob(id); err != nil {
			return err
		}
	}
	for _, part := range router.Split(len(ids), func(i int) *cell.Cell { return at[i] }) {
		share := &op.BulkStart{Shard: part.Cell.Shard()}
		for _, i := range part.At {
			share.JobIds = append(share.JobIds, ids[i][:])
		}
		o.Shares = append(o.Shares, share)
	}
	o.EstimatedTotal = uint64(len(ids))
	return nil
}

// findBulk sets the operation's filter and its shards, and estimates how many jobs match. If the filter names
// a queue, findBulk checks the caller's right to manage that queue.
func (s *Server) findBulk(w http.ResponseWriter, r *http.Request, q *request, filter *api.SearchFilter, o *op.StartBulk) error {
	query, err := view.ParseFilter(*filter)
	if err != nil {
		return err
	}
	if o.Filter, err = convert.FilterText(filter); err != nil {
		return err
	}
	o.InQueue, o.InStates = query.Queue, query.States
	cells := q.shards.All()
	if query.Queue != "" {
		if err := q.allow(tenancy.JobManage, query.Queue); err != nil {
			return err
		}
		cells = []*cell.Cell{q.shards.Of(query.Queue)}
	}
	query.Limit = 1
	if _, err := s.awaitView(w, r, q, cells...); err != nil {
		return err
	}
	totals := make([]int64, len(cells))
	if err := router.Scatter(len(cells), func(i int) error {
		page, err := q.searchShard(r.Context(), cells[i], query)
		totals[i] = page.Total
		return err
	}); err != nil {
		return err
	}
	for i, c := range cells {
		o.Shares = append(o.Shares, &op.BulkStart{Shard: c.Shard()})
		o.EstimatedTotal += uint64(totals[i])
	}
	return nil
}

// awaitBulk waits for the end of an operation, at most bulkWait. It returns nil if the operation has not
// ended by then, or when the node begins to drain.
func (s *Server) awaitBulk(r *http.Request, home *cell.Cell, id job.ID) (*state.Bulk, error) {
	ctx, cancel := context.WithTimeout(r.Context(), bulkWait)
	defer cancel()
	for {
		news := home.State().BulkChanged()
		b, err := home.State().Bulk(id)
		if err != nil || b.GetFinishedNs() > 0 {
			return b, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, r.Context().Err()
		case <-s.draining.Done():
			return nil, nil
		}
	}
}

func (s *Server) getBulk(w http.ResponseWriter, r *http.Request) error {
	q, _, err := s.atHome(r)
	if err != nil {
		return err
	}
	_, b, err := q.bulk(r)
	if err != nil {
		return err
	}
	doc, err := convert.ToBulk(b)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, doc)
}

func (s *Server) cancelBulk(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id, _, err := q.bulk(r)
	if err != nil {
		return err
	}
	result, err := commit[*op.CancelBulkResult](s, w, r, &q, q.shards.Home(), &op.CancelBulk{Meta: q.meta, BulkId: id[:]})
	if err != nil {
		return err
	}
	if result.Ended {
		return serve.WriteJSON(w, http.StatusOK, api.Status{Status: api.BulkCancelled})
	}
	return serve.WriteJSON(w, http.StatusAccepted, api.Status{Status: "cancelling"})
}

// bulk returns the operation in the path if the caller has no queue scope or started the operation. Others
// get NOT_FOUND. A follower that does not know the operation may be behind, so it catches up with the leader
// and reads again.
func (q *request) bulk(r *http.Request) (job.ID, *state.Bulk, error) {
	id, err := job.ParseBulkID(r.PathValue("id"))
	if err != nil {
		return id, nil, noBulk(r.PathValue("id"))
	}
	home := q.shards.Home()
	b, err := home.State().Bulk(id)
	if err == nil && b == nil && !home.Leader() {
		if err := home.Verify(r.Context()); err != nil {
			return id, nil, again(err)
		}
		b, err = home.State().Bulk(id)
	}
	switch {
	case err != nil:
		return id, nil, err
	case b == nil, !mayFollow(q.who, b):
		return id, nil, noBulk(r.PathValue("id"))
	}
	return id, b, nil
}

// mayFollow reports whether a principal may see an operation.
func mayFollow(who tenancy.Principal, b *state.Bulk) bool {
	return len(who.QueueScope) == 0 || b.Principal == principalOf(who)
}

func noBulk(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no bulk operation %s", text.Quote(id))
}
