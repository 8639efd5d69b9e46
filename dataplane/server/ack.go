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
)

var ok = api.Status{Status: "ok"}

func (s *Server) ack(w http.ResponseWriter, r *http.Request) error {
	var body convert.AckBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id, err := q.find(r.PathValue("job_id"))
	if err != nil {
		return err
	}
	var f convert.Faults
	item := convert.FromAck(&f, id, &body)
	if err := f.Err(); err != nil {
		return err
	}
	result, err := commit[*op.AckResult](s, w, r, q.cell, &op.Ack{Meta: q.meta, Items: []*op.AckItem{item}})
	if err != nil {
		return err
	}
	if len(result.Items) != 1 {
		return fmt.Errorf("an ack of one job has %d results", len(result.Items))
	}
	if err := result.Items[0].Err(); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, ok)
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
	var out api.AckBatchResponse
	refused := func(id string, code api.Code, message string) {
		out.Errors = append(out.Errors, api.ItemError{JobID: id, Code: code, Error: message})
	}
	items := make([]*op.AckItem, 0, len(body.Acks))
	asked := make([]*convert.AckBatchItem, 0, len(body.Acks)) // who asked for items[i]
	for i := range body.Acks {
		b := &body.Acks[i]
		item, err := q.ackItem(b)
		var e *api.Error
		switch {
		case err == nil:
			items, asked = append(items, item), append(asked, b)
		case errors.As(err, &e):
			refused(b.JobID, e.Code, e.Message)
		default:
			return err
		}
	}
	if len(items) > 0 {
		result, err := commit[*op.AckResult](s, w, r, q.cell, &op.Ack{Meta: q.meta, Items: items})
		if err != nil {
			return err
		}
		if len(result.Items) != len(items) {
			return fmt.Errorf("an ack of %d jobs has %d results", len(items), len(result.Items))
		}
		for i, item := range result.Items {
			if item.GetCode() != "" {
				refused(asked[i].JobID, api.Code(item.Code), item.Message)
			} else {
				out.Acked++
			}
		}
	}
	if len(items) == 0 {
		setIndex(w, q.cell.Applied())
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// ackItem is one item of a batch, checked on its own: an *api.Error refuses it
// alone.
func (q *request) ackItem(b *convert.AckBatchItem) (*op.AckItem, error) {
	id, err := q.find(b.JobID)
	if err != nil {
		return nil, err
	}
	var f convert.Faults
	item := convert.FromAck(&f, id, &b.AckBody)
	return item, f.Err()
}

// find reads a job's id. What is no id, and a job in a queue the caller may not
// see, is NOT_FOUND; whether the job exists is left to whoever uses the id.
func (q *request) find(text string) (job.ID, error) {
	id, err := job.ParseID(text)
	if err != nil {
		return job.ID{}, noJob(text)
	}
	seen, err := q.sees(id)
	if err != nil {
		return job.ID{}, err
	}
	if !seen {
		return job.ID{}, noJob(id.String())
	}
	return id, nil
}

func noJob(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no job %s", convert.Excerpt(id))
}
