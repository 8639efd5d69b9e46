package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) listQueues(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.All()...); err != nil {
		return err
	}
	showAge(w, q.shards.All()...)
	parts, err := router.Gather(q.shards, func(c *cell.Cell) ([]api.Queue, error) { return q.queuesOf(r.Context(), c) })
	if err != nil {
		return err
	}
	all := parts[0]
	for _, part := range parts[1:] {
		all = append(all, part...)
	}
	slices.SortFunc(all, func(a, b api.Queue) int { return strings.Compare(a.Name, b.Name) })
	return serve.WriteJSON(w, http.StatusOK, all)
}

// queuesOf returns the queues of a shard that the caller may see.
func (q *request) queuesOf(ctx context.Context, c *cell.Cell) ([]api.Queue, error) {
	var covers func(string) bool
	if len(q.who.QueueScope) > 0 {
		covers = q.who.Covers
	}
	return c.View().Queues(ctx, covers)
}

func (s *Server) getQueue(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	name, err := q.queue(r, tenancy.QueueRead)
	if err != nil {
		return err
	}
	at := q.shards.Of(name)
	if err := s.awaitState(r, &q, at); err != nil {
		return err
	}
	return showQueue(w, at, name, noQueue(name))
}

// showQueue answers with a queue and its version, or returns missing if the queue does not exist. It reads
// the version first, so the version may be older than the shown queue. A write that requires the older
// version is refused, whereas a newer version would let a write undo a change that its client has not seen.
func showQueue(w http.ResponseWriter, at *cell.Cell, name string, missing error) error {
	version, err := queueVersion(at, name)
	if err != nil {
		return err
	}
	if version == 0 {
		return missing
	}
	showAge(w, at)
	found, err := at.View().Queue(name)
	if err == nil && found == nil {
		err = missing
	}
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusOK, version, found)
}

// queueVersion returns the version of a queue's settings in the store, or 0 if the queue does not exist.
func queueVersion(at *cell.Cell, name string) (uint64, error) {
	rec, err := queueRecord(at, name)
	if rec == nil || err != nil {
		return 0, err
	}
	return op.QueueVersion(rec)
}

// onlyIf sets the request's preconditions on a write: If-Match requires a version of the queue, and
// If-None-Match: * requires that the queue does not exist. The op checks them.
func (s *Server) onlyIf(r *http.Request, q *request, at *cell.Cell, o *op.SetQueue) (err error) {
	if none := r.Header.Values(serve.IfNoneMatch); len(none) > 0 {
		if len(none) > 1 || strings.TrimSpace(none[0]) != "*" {
			return api.Errorf(api.ValidationError, "If-None-Match must be *, which creates a queue only if it does not exist")
		}
		o.Create = true
	}
	missing := api.Errorf(api.PreconditionFailed, "there is no queue %s, so it has no version: leave If-Match out to create it", o.Queue)
	o.IfVersion, err = s.queueMatch(r, q, at, o.Queue, missing)
	return err
}

// queueMatch returns the queue version that the request's If-Match requires, or 0 for any version. If the
// request has an If-Match but the queue does not exist, queueMatch answers as noneSeen does.
func (s *Server) queueMatch(r *http.Request, q *request, at *cell.Cell, name string, missing error) (uint64, error) {
	if len(r.Header.Values(serve.IfMatch)) == 0 {
		return 0, nil
	}
	if err := s.awaitPresent(r, q, at); err != nil {
		return 0, err
	}
	present, err := queueVersion(at, name)
	if err != nil {
		return 0, err
	}
	if present == 0 {
		return q.noneSeen(missing)
	}
	return ifMatch(r, present)
}

// noneSeen decides about a write that requires a version of a record that does not exist. Without an
// Idempotency-Key it refuses the write with missing. With one, an earlier try of the write may have removed
// the record, so noneSeen returns op.NoVersion and the op decides: it returns the result of that try or
// refuses.
func (q *request) noneSeen(missing error) (uint64, error) {
	if q.meta.GetIdempotency() == nil {
		return 0, missing
	}
	return op.NoVersion, nil
}

func noQueue(name string) error { return api.Errorf(api.NotFound, "there is no queue %s", name) }

func (s *Server) pauseQueue(w http.ResponseWriter, r *http.Request) error {
	paused := true
	return s.setQueue(w, r, nil, "paused", func(o *op.SetQueue) error { o.Paused = &paused; return nil })
}

func (s *Server) resumeQueue(w http.ResponseWriter, r *http.Request) error {
	paused := false
	return s.setQueue(w, r, nil, "resumed", func(o *op.SetQueue) error { o.Paused = &paused; return nil })
}

func (s *Server) setConcurrency(w http.ResponseWriter, r *http.Request) error {
	var body api.ConcurrencyRequest
	return s.setQueue(w, r, &body, "updated", func(o *op.SetQueue) error {
		var f convert.Faults
		o.MaxConcurrency = convert.FromConcurrency(&f, &body)
		return f.Err()
	})
}

// setQueue changes settings of the queue in the path and creates the queue if it does not exist. fill sets
// the op's fields after the body has been read.
func (s *Server) setQueue(w http.ResponseWriter, r *http.Request, body any, status string, fill func(*op.SetQueue) error) error {
	q, err := s.begin(r, body)
	if err != nil {
		return err
	}
	name, err := q.queue(r, tenancy.QueueManage)
	if err != nil {
		return err
	}
	o := &op.SetQueue{Meta: q.meta, Queue: name}
	if err := fill(o); err != nil {
		return err
	}
	if _, err := commit[*op.SetQueueResult](s, w, r, &q, q.shards.Of(name), o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

// putQueue replaces a queue's settings by the settings in the body and answers with the resulting queue.
func (s *Server) putQueue(w http.ResponseWriter, r *http.Request) error {
	var body api.PutQueueRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	name, err := q.queue(r, tenancy.QueueManage)
	if err != nil {
		return err
	}
	var f convert.Faults
	o := &op.SetQueue{Meta: q.meta, Queue: name}
	convert.FromPutQueue(&f, &body, o)
	if err := f.Err(); err != nil {
		return err
	}
	c := q.shards.Of(name)
	if err := s.onlyIf(r, &q, c, o); err != nil {
		return err
	}
	if _, err := commitHere[*op.SetQueueResult](s, w, r, &q, c, o); err != nil {
		return err
	}
	return showQueue(w, c, name, api.Errorf(api.NotFound, "another client deleted queue %s just after it was set", name))
}

// queue returns the name of the queue in the path, if the caller has the right to it.
func (q *request) queue(r *http.Request, what tenancy.Permission) (string, error) {
	name := r.PathValue("name")
	if err := job.CheckQueueName(name); err != nil {
		return "", api.Errorf(api.ValidationError, "the queue's name %w", err)
	}
	return name, q.allow(what, name)
}
