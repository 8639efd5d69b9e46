package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) throttleQueue(w http.ResponseWriter, r *http.Request) error {
	var body api.ThrottleRequest
	return s.setQueue(w, r, &body, "updated", func(o *op.SetQueue) error {
		var f convert.Faults
		convert.FromThrottle(&f, &body, o)
		return f.Err()
	})
}

func (s *Server) unthrottleQueue(w http.ResponseWriter, r *http.Request) error {
	q, name, c, err := s.manageQueue(r)
	if err != nil {
		return err
	}
	if err := s.awaitPresent(r, &q, c); err != nil {
		return err
	}
	if found, err := queueRecord(c, name); err != nil || found == nil {
		return cmp.Or(err, noQueue(name)) // setting a limit creates a queue, but removing one does not
	}
	var none uint32
	var window int64
	if _, err := commit[*op.SetQueueResult](s, w, r, &q, c, &op.SetQueue{Meta: q.meta, Queue: name, RateLimit: &none, RateWindowMs: &window}); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "updated"})
}

// drainQueue stops fetches from a queue and answers whether jobs are still active. A client that waits for
// the active jobs repeats the request. Like setQueue, drainQueue creates the queue if it does not exist.
func (s *Server) drainQueue(w http.ResponseWriter, r *http.Request) error {
	q, name, c, err := s.manageQueue(r)
	if err != nil {
		return err
	}
	draining := true
	_, err = commitHere[*op.SetQueueResult](s, w, r, &q, c, &op.SetQueue{Meta: q.meta, Queue: name, Draining: &draining})
	if api.CodeOf(err) == api.ViewBehind { // this node does not know the active jobs, so the client has to ask again
		return serve.WriteJSON(w, http.StatusOK, api.Status{Status: api.QueueDraining})
	}
	if err != nil {
		return err
	}
	found, err := queueRecord(c, name)
	if err != nil {
		return err
	}
	status := api.QueueDraining
	if found != nil && found.Running() == 0 { // nil: another client has deleted the queue
		status = api.QueueDrained
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

// clearQueue removes the waiting jobs of a queue, except held ones. The shard's leader removes them, in
// several entries if there are many jobs. The answer comes when this node has applied the end of the removal,
// or with 202 after Config.ReadWait.
func (s *Server) clearQueue(w http.ResponseWriter, r *http.Request) error {
	q, name, c, err := s.manageQueue(r)
	if err != nil {
		return err
	}
	begun, written, err := proposeOnce[*op.ClearQueueResult](s, r, &q, c, &op.ClearQueue{Meta: q.meta, Queue: name})
	if err != nil {
		return err
	}
	setIndex(w, written)
	ended, err := s.awaitCleared(r, &q, c, written, name)
	if err != nil {
		return err
	}
	status, word := http.StatusOK, "cleared"
	if !ended {
		status, word = http.StatusAccepted, "clearing"
	}
	found, err := queueRecord(c, name)
	if err != nil {
		return err
	}
	answer := api.Cleared{Status: word}
	if total := found.GetCleared(); total > begun.Cleared {
		answer.Removed = total - begun.Cleared
	}
	return serve.WriteJSON(w, status, answer)
}

// confirm lists the query parameters of a deletion.
var confirm = []serve.Param{
	{Name: "confirm", Type: serve.Boolean, Doc: "confirmation; must be true"},
	{Name: "if_settled", Type: serve.Boolean, Doc: "if true, refuse while a job has not settled"},
}

// deleteQueue removes a queue and its jobs. Like clearQueue it waits for the end, and answers with 202 after
// Config.ReadWait.
func (s *Server) deleteQueue(w http.ResponseWriter, r *http.Request) error {
	q, name, c, err := s.manageQueue(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("confirm") != "true" {
		return api.Errorf(api.ValidationError, "confirm is missing: this deletes queue %s with its jobs, settings and totals; give ?confirm=true to do it", name)
	}
	o := &op.DeleteQueue{Meta: q.meta, Queue: name, IfSettled: r.URL.Query().Get("if_settled") == "true"}
	if o.IfVersion, err = s.queueMatch(r, &q, c, name, noQueue(name)); err != nil {
		return err
	}
	begun, written, err := proposeOnce[*op.DeleteQueueResult](s, r, &q, c, o)
	if err != nil {
		return err
	}
	setIndex(w, written)
	ended := true
	if begun.Deleting {
		ended, err = s.awaitCleared(r, &q, c, written, name)
	}
	if err != nil {
		return err
	}
	if !ended {
		return serve.WriteJSON(w, http.StatusAccepted, api.Status{Status: "deleting"})
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// manageQueue begins a change of the queue in the path and returns its name and shard, if the caller may
// manage it.
func (s *Server) manageQueue(r *http.Request) (q request, name string, at *cell.Cell, err error) {
	if q, err = s.begin(r, nil); err != nil {
		return q, "", nil, err
	}
	if name, err = q.queue(r, tenancy.QueueManage); err != nil {
		return q, "", nil, err
	}
	return q, name, q.shards.Of(name), nil
}

// awaitCleared waits until this node has applied the end of the removal of a queue's jobs that began at the
// position begun, at most Config.ReadWait. It reports whether the removal has ended. It returns an error if the
// shard has closed or failed.
func (s *Server) awaitCleared(r *http.Request, q *request, c *cell.Cell, begun position, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	// A store that has not applied the beginning knows of no removal.
	if err := s.awaitOwn(ctx, q, begun); err != nil {
		if api.CodeOf(err) == api.ViewBehind {
			err = nil
		}
		return false, err
	}
	select {
	case <-c.State().Cleared(name):
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}

// queueRecord returns a queue's present record from the store, or nil if the queue does not exist.
func queueRecord(c *cell.Cell, name string) (*state.Queue, error) {
	v := c.State().Snapshot()
	defer v.Close()
	return v.Queue(name)
}
