package server

import (
	"errors"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
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
	rejected, err := s.ackJob(w, r, &q, r.PathValue("job_id"), &body)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.AckResponse{Status: ok.Status, UsageRejected: rejected})
}

// ackJob acks one job. It returns the reason why the job's usage report was rejected, or "" if it was not.
func (s *Server) ackJob(w http.ResponseWriter, r *http.Request, q *request, name string, body *convert.AckBody) (rejected string, err error) {
	id, j, err := q.lookUp(r, name, telemetry.Sampled(r.Context()))
	if err != nil {
		return "", err
	}
	var f convert.Faults
	item := convert.FromAck(&f, id, body)
	if err := f.Err(); err != nil {
		return "", err
	}
	if err := s.addTools(q, item, body.ToolCalls); err != nil {
		return "", err
	}
	r, span := q.beginSettle(r, telemetry.SpanAck, id, j, item.Usage)
	rejected, err = s.commitAck(w, r, q, item)
	span.end(err)
	return rejected, err
}

// beginSettle starts the span of one job's ack or fail. j may be nil, because lookUp need not have read the
// job; the span then lacks the job's queue, attempt and link.
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

func (s *Server) commitAck(w http.ResponseWriter, r *http.Request, q *request, item *op.AckItem) (rejected string, err error) {
	id, found := job.ID(item.Proof.Id), &mismatches{}
	done, err := s.acks(r, q, []job.ID{id}, []*op.AckItem{item}, found).one(w, r, q)
	return done.GetUsageRejected(), found.explain(id, err)
}

// acks prepares acks; ids[i] is the job of all[i]. The result's methods, settle and one, propose one op for
// each shard, and note in found the job results that do not match their schemas.
func (s *Server) acks(r *http.Request, q *request, ids []job.ID, all []*op.AckItem, found *mismatches) *items[*op.Refusal] {
	return &items[*op.Refusal]{
		ids: ids,
		propose: func(c *cell.Cell, at []int) ([]*op.Refusal, position, error) {
			asked := pick(all, at)
			refused, where, err := s.proposeAcks(r, q, c, asked, found)
			s.markSeen(q, min(len(asked), len(refused)), func(i int) (*op.LeaseProof, *op.Refusal) { return asked[i].Proof, refused[i] })
			return refused, where, err
		},
		refusal: refusalItself,
	}
}

func refusalItself(r *op.Refusal) *op.Refusal { return r }

func (s *Server) ackBatch(w http.ResponseWriter, r *http.Request) error {
	var body convert.AckBatchBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	out, err := s.ackJobs(w, r, &q, body.Acks)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// ackJobs acks each job independently, so that one refused ack does not stop the others. It refuses a request
// with more than job.MaxAckItems acks.
func (s *Server) ackJobs(w http.ResponseWriter, r *http.Request, q *request, acks []convert.AckBatchItem) (api.AckBatchResponse, error) {
	if err := checkAcks(len(acks)); err != nil {
		return api.AckBatchResponse{}, err
	}
	r, span := q.beginSpan(r, telemetry.SpanAck, telemetry.OperationSettle)
	span.batch(len(acks))
	out, err := s.settle(w, r, q, acks, span)
	span.end(err)
	return out, err
}

// checkAcks refuses more acks than one op may have.
func checkAcks(n int) error {
	var f convert.Faults
	if n > job.MaxAckItems {
		f.Invalid("acks", "has %d entries; at most %d are taken", n, job.MaxAckItems)
	}
	return f.Err()
}

// settle proposes the valid acks. Its answer lists an error for each invalid ack and for each ack that its
// shard refused. If only some shards committed their ops, the answer lists a failed shard's error for each
// ack of that shard. The request fails as a whole if there are valid acks and no shard committed any, or on
// an error that is no *api.Error.
func (s *Server) settle(w http.ResponseWriter, r *http.Request, q *request, acks []convert.AckBatchItem, span *span) (api.AckBatchResponse, error) {
	var out api.AckBatchResponse
	refused := func(id string, code api.Code, message string) {
		out.Errors = append(out.Errors, api.ItemError{JobID: id, Code: code, Error: message})
	}
	items := make([]*op.AckItem, 0, len(acks))
	asked := make([]*convert.AckBatchItem, 0, len(acks)) // asked[i] is the request's item for items[i]
	ids := make([]job.ID, 0, len(acks))                  // the job of items[i]
	into := convert.NewAcks(len(acks))
	for i := range acks {
		b := &acks[i]
		item, err := q.ackItem(r, &into, b, span)
		if err == nil {
			err = s.addTools(q, item, b.ToolCalls)
		}
		if err == nil {
			items, asked, ids = append(items, item), append(asked, b), append(ids, job.ID(item.Proof.Id))
			continue
		}
		e, visible := asError(err)
		if !visible {
			return out, err
		}
		refused(b.JobID, e.Code, e.Message)
	}
	span.usages(items)
	if len(items) == 0 {
		setIndex(w, positionOf(q.shards.Home()))
		return out, nil
	}
	misfits := &mismatches{}
	settled := s.acks(r, q, ids, items, misfits)
	if err := settled.settle(q); err != nil {
		return out, err
	}
	if settled.at == nil { // no shard committed an op
		return out, errors.Join(settled.errs...)
	}
	setIndex(w, settled.at...)
	for i, item := range settled.results {
		e, visible := asError(settled.errs[i])
		switch {
		case visible:
			refused(asked[i].JobID, e.Code, e.Message)
		case settled.errs[i] != nil:
			return out, settled.errs[i]
		case item.GetCode() != "":
			refused(asked[i].JobID, api.Code(item.Code), item.Message)
			out.Errors[len(out.Errors)-1].Details = misfits.details(ids[i])
		default:
			out.Acked++
			if item.GetUsageRejected() != "" {
				out.UsageRejected = append(out.UsageRejected, api.UsageRejection{JobID: asked[i].JobID, Reason: item.UsageRejected})
			}
		}
	}
	return out, nil
}

// ackItem finds the job of one item of a batch request and converts the item. If it returns an *api.Error,
// only that item is refused.
func (q *request) ackItem(r *http.Request, into *convert.Acks, b *convert.AckBatchItem, span *span) (*op.AckItem, error) {
	id, j, err := q.lookUp(r, b.JobID, span.linkable())
	if err != nil {
		return nil, err
	}
	span.link(j)
	var f convert.Faults
	item := into.From(&f, id, &b.AckBody)
	return item, f.Err()
}
