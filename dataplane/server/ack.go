package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/telemetry"
)

var ok = api.Status{Status: "ok"}

func (s *Server) ack(w http.ResponseWriter, r *http.Request) error {
	var body convert.AckBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id, j, err := q.look(r.PathValue("job_id"), telemetry.Sampled(r.Context()))
	if err != nil {
		return err
	}
	var f convert.Faults
	item := convert.FromAck(&f, id, &body)
	if err := f.Err(); err != nil {
		return err
	}
	r, span := q.beginSettle(r, telemetry.SpanAck, id, j, item.Usage)
	err = s.commitAck(w, r, &q, item)
	span.end(err)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, ok)
}

// beginSettle is the span of one job's ack or fail; j is nil where there is no
// span, and where there is no such job.
func (q *request) beginSettle(r *http.Request, name string, id job.ID, j *job.Job, u *job.Usage) (*http.Request, *span) {
	r, span := q.beginSpan(r, name, telemetry.OperationSettle)
	if span == nil {
		return r, nil
	}
	span.message(id.String(), j.GetAttempt())
	if j != nil {
		span.queue(j.Queue)
		span.link(j)
	}
	span.usage(u)
	return r, span
}

func (s *Server) commitAck(w http.ResponseWriter, r *http.Request, q *request, item *op.AckItem) error {
	result, err := commit[*op.AckResult](s, w, r, q.cell, &op.Ack{Meta: q.meta, Items: []*op.AckItem{item}})
	if err != nil {
		return err
	}
	if len(result.Items) != 1 {
		return fmt.Errorf("an ack of one job has %d results", len(result.Items))
	}
	return result.Items[0].Err()
}

func (s *Server) ackBatch(w http.ResponseWriter, r *http.Request) error {
	var body convert.AckBatchBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if len(body.Acks) > job.MaxAckItems {
		var f convert.Faults
		f.Invalid("acks", "has %d entries; at most %d are taken", len(body.Acks), job.MaxAckItems)
		return f.Err()
	}
	r, span := q.beginSpan(r, telemetry.SpanAck, telemetry.OperationSettle)
	span.batch(len(body.Acks))
	out, err := s.settle(w, r, &q, body.Acks, span)
	span.end(err)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// settle acks what can be acked and says of the rest why not.
func (s *Server) settle(w http.ResponseWriter, r *http.Request, q *request, acks []convert.AckBatchItem, span *span) (api.AckBatchResponse, error) {
	var out api.AckBatchResponse
	refused := func(id string, code api.Code, message string) {
		out.Errors = append(out.Errors, api.ItemError{JobID: id, Code: code, Error: message})
	}
	items := make([]*op.AckItem, 0, len(acks))
	asked := make([]*convert.AckBatchItem, 0, len(acks)) // who asked for items[i]
	for i := range acks {
		b := &acks[i]
		item, err := q.ackItem(b, span)
		var e *api.Error
		switch {
		case err == nil:
			items, asked = append(items, item), append(asked, b)
		case errors.As(err, &e):
			refused(b.JobID, e.Code, e.Message)
		default:
			return out, err
		}
	}
	span.usages(items)
	if len(items) == 0 {
		setIndex(w, q.cell.Applied())
		return out, nil
	}
	result, err := commit[*op.AckResult](s, w, r, q.cell, &op.Ack{Meta: q.meta, Items: items})
	if err != nil {
		return out, err
	}
	if len(result.Items) != len(items) {
		return out, fmt.Errorf("an ack of %d jobs has %d results", len(items), len(result.Items))
	}
	for i, item := range result.Items {
		if item.GetCode() != "" {
			refused(asked[i].JobID, api.Code(item.Code), item.Message)
		} else {
			out.Acked++
		}
	}
	return out, nil
}

// ackItem is one item of a batch, checked on its own: an *api.Error refuses it
// alone.
func (q *request) ackItem(b *convert.AckBatchItem, span *span) (*op.AckItem, error) {
	id, j, err := q.look(b.JobID, span.linkable())
	if err != nil {
		return nil, err
	}
	span.link(j)
	var f convert.Faults
	item := convert.FromAck(&f, id, &b.AckBody)
	return item, f.Err()
}

// find reads a job's id. What is no id, and a job in a queue the caller may not
// see, is NOT_FOUND; whether the job exists is left to whoever uses the id.
func (q *request) find(text string) (job.ID, error) {
	id, _, err := q.look(text, false)
	return id, err
}

// look is find that also answers the job, where it was read: when it is wanted,
// or the caller may not see all of them. It is nil as well where there is none.
func (q *request) look(text string, wanted bool) (job.ID, *job.Job, error) {
	id, err := job.ParseID(text)
	if err != nil {
		return job.ID{}, nil, noJob(text)
	}
	if len(q.who.QueueScope) == 0 && !wanted {
		return id, nil, nil
	}
	j, err := q.cell.State().Job(id)
	if err != nil {
		return job.ID{}, nil, err
	}
	if j != nil && !q.who.Covers(j.Queue) {
		return job.ID{}, nil, noJob(id.String())
	}
	return id, j, nil
}

func noJob(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no job %s", convert.Excerpt(id))
}
