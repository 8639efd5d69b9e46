package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// giveBack returns undelivered jobs to their queues without counting an attempt. If a shard fails to do so,
// its jobs become pending when their leases expire.
func (s *Server) giveBack(r *http.Request, q *request, leased []lease) {
	parts := router.Split(len(leased), func(i int) *cell.Cell { return leased[i].cell })
	_ = router.Scatter(len(parts), func(p int) error { // each part logs its own error
		part := parts[p]
		fail := &op.Fail{Meta: &op.Meta{Principal: q.meta.Principal, RequestId: part.Cell.RequestID()}, Items: make([]*op.FailItem, len(part.At))}
		for i, at := range part.At {
			fail.Items[i] = &op.FailItem{
				Proof:  &op.LeaseProof{Id: leased[at].Id, Token: leased[at].LeaseToken},
				Reason: op.FailReason_FAIL_REASON_UNDELIVERED,
			}
		}
		// A refused item has lost its lease in the meantime, so its job needs no return.
		if _, _, err := propose[*op.FailResult](context.WithoutCancel(r.Context()), s, part.Cell, fail); err != nil {
			// No answer reports this failure, so only the operator can be informed.
			s.cfg.Logger.Warn("the server could not return undelivered jobs to their queues; they become pending when their leases expire",
				"jobs", len(part.At), "request_id", serve.RequestID(r.Context()), "error", err)
		}
		return nil
	})
}

// undelivered gives back jobs whose answer did not reach the client. It keeps the leases of a fetch with an
// Idempotency-Key, because the client may have repeated the fetch and work on the jobs with the same tokens.
// A client that repeats the fetch later gets the same leases, as long as they hold. If no client repeats it,
// the jobs wait until their leases expire.
func (s *Server) undelivered(r *http.Request, q *request, leased []lease) {
	if q.meta.Idempotency == nil {
		s.giveBack(r, q, leased)
	}
}

// deliverChunk is the size in bytes at which the server sends a part of an answer, so that an answer of 512
// jobs with large payloads is never held in memory as a whole.
const deliverChunk = 256 << 10

// deliver sends leased jobs to their worker. If the client has left, or if reading a job or sending fails,
// all jobs count as undelivered, because a worker cannot use a partial answer.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, leased []lease, batch bool, span *span) error {
	if r.Context().Err() != nil { // the client left during the commit
		s.undelivered(r, q, leased)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	err := s.send(w, r, q, ask, leased, batch, span)
	if err != nil {
		s.undelivered(r, q, leased)
	}
	return err
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, leased []lease, batch bool, span *span) error {
	var b []byte
	if batch {
		b = append(b, `{"jobs":[`...)
	}
	whole := true
	w.Header().Set("Content-Type", "application/json")
	for i, l := range leased {
		if i > 0 {
			b = append(b, ',')
		}
		id, err := job.IDFromBytes(l.Id)
		if err != nil {
			return fmt.Errorf("result of a fetch: %w", err)
		}
		store := l.cell.State()
		j, err := store.Job(id)
		if err != nil {
			return fmt.Errorf("compose %s for its worker: %w", id, err)
		}
		if b, err = convert.AppendFetched(b, store, id, j, l.Leased, ask.LeaseMs); err != nil {
			return fmt.Errorf("compose %s for its worker: %w", id, err)
		}
		if j.GetDetail().GetIterationsKept() > 0 {
			if b, err = q.appendToolResults(r.Context(), b, l.cell, id, j); err != nil {
				return fmt.Errorf("compose %s for its worker: %w", id, err)
			}
		}
		span.link(j)
		if span != nil && !batch {
			span.queue(j.Queue)
			span.message(id.String(), l.Attempt)
		}
		if len(b) >= deliverChunk && i < len(leased)-1 {
			if _, err := w.Write(b); err != nil {
				return fmt.Errorf("deliver to a worker: %w", err)
			}
			b, whole = b[:0], false
		}
	}
	if batch {
		b = append(b, `]}`...)
	}
	b = append(b, '\n')
	if whole {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("deliver to a worker: %w", err)
	}
	// Only a flush shows whether the connection accepted the answer.
	if err := http.NewResponseController(w).Flush(); err != nil {
		return fmt.Errorf("deliver to a worker: %w", err)
	}
	return nil
}
