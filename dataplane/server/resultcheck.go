package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/server/resultschema"
)

// mismatches are what is said of acked jobs whose results do not match their schemas.
// The shards of a request write to it at the same time.
type mismatches struct {
	mu  sync.Mutex
	all map[job.ID]map[string]any
}

func (m *mismatches) note(id job.ID, details map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[job.ID]map[string]any{}
	}
	m.all[id] = details
}

// details are those of a refused job; nil where there are none.
func (m *mismatches) details(id job.ID) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[id]
}

// explain adds the details to a job's refusal.
func (m *mismatches) explain(id job.ID, err error) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if errors.As(err, &e) && e.Code == api.ResultMismatch {
		e.Details = m.details(id)
	}
	return err
}

// proposeAcks has items acked that lie on one shard. The op asks back where results
// have to be held against their jobs' schemas: those that match are acked then, the
// others' attempts fail.
func (s *Server) proposeAcks(r *http.Request, q *request, c *cell.Cell, asked []*op.AckItem, told *mismatches) ([]*op.Refusal, position, error) {
	result, where, err := proposeItems[*op.AckResult](s, r, q, c, &op.Ack{Meta: q.meta, Items: asked})
	refused := result.GetItems()
	if err != nil || len(refused) != len(asked) {
		return refused, where, err
	}
	check := resultCheck{s: s, r: r, q: q, cell: c, told: told, asked: asked, refused: refused, where: where}
	for i, why := range refused {
		if api.Code(why.GetCode()) != op.ResultUnchecked {
			continue
		}
		if err := check.look(i); err != nil {
			return nil, where, err
		}
	}
	if err := check.settle(); err != nil {
		return nil, where, err
	}
	return check.refused, check.where, nil
}

// resultCheck answers what an ack has asked back.
type resultCheck struct {
	s       *Server
	r       *http.Request
	q       *request
	cell    *cell.Cell
	told    *mismatches
	asked   []*op.AckItem
	refused []*op.Refusal // by position; of those that are looked at what comes of them
	where   position

	fit    []int // positions
	misfit []misfit
}

type misfit struct {
	at   int
	all  []resultschema.Mismatch
	more int
}

// look holds one result against its job's schema.
func (x *resultCheck) look(i int) error {
	item := x.asked[i]
	id := job.ID(item.Proof.Id)
	schema, err := x.schema(x.r.Context(), id)
	if err != nil {
		return err
	}
	if schema == nil { // the job has gone meanwhile
		x.refused[i] = &op.Refusal{Code: string(api.NotFound), Message: noJob(id.String()).Message}
		return nil
	}
	if item.Result.GetKeyId() != "" {
		return fmt.Errorf("the result of %s is sealed with key %q, which this node does not have", id, item.Result.GetKeyId())
	}
	all, more := schema.Check(item.Result.GetData())
	if len(all) > 0 {
		x.misfit = append(x.misfit, misfit{i, all, more})
	} else {
		x.fit = append(x.fit, i)
	}
	return nil
}

// schema is a job's schema, which never changes. A node that does not lead may not
// have heard of the job yet. Nil: it is gone.
func (x *resultCheck) schema(ctx context.Context, id job.ID) (*resultschema.Schema, error) {
	for sure := x.cell.Leader(); ; sure = true {
		b, err := x.cell.State().Blob(id, job.ResultSchema)
		switch {
		case err != nil:
			return nil, err
		case b == nil && sure:
			return nil, nil
		case b == nil:
			if err := x.cell.Verify(ctx); err != nil {
				return nil, again(err)
			}
			continue
		case b.KeyId != "":
			return nil, fmt.Errorf("the result schema of %s is sealed with key %q, which this node does not have", id, b.KeyId)
		}
		schema, err := resultschema.Compile(b.Data)
		if err != nil {
			return nil, fmt.Errorf("the result schema of %s, which was compiled when it was enqueued: %w", id, err)
		}
		return schema, nil
	}
}

// settle acks what matches and fails the rest.
func (x *resultCheck) settle() error {
	if len(x.fit) > 0 {
		if err := x.ack(); err != nil {
			return err
		}
	}
	if len(x.misfit) > 0 {
		return x.fail()
	}
	return nil
}

// ack has the results acked that match. Where the first op did nothing else it has
// left the request's Idempotency-Key alone, which this op then takes. Else that op is
// remembered with its questions, and a repeat of the request comes by here again.
func (x *resultCheck) ack() error {
	meta := &op.Meta{Principal: x.q.meta.Principal}
	if len(x.fit) == len(x.asked) {
		meta = x.q.meta
	}
	items := pick(x.asked, x.fit)
	for _, item := range items {
		item.ResultChecked = true
	}
	result, at, err := propose[*op.AckResult](x.r.Context(), x.s, x.cell, &op.Ack{Meta: meta, Items: items})
	if err != nil {
		return err
	}
	if len(result.GetItems()) != len(items) {
		return fmt.Errorf("an ack of %d jobs has %d results", len(items), len(result.GetItems()))
	}
	for k, i := range x.fit {
		x.refused[i] = result.Items[k]
	}
	x.where = position{x.cell.Shard(), at}
	return nil
}

// fail ends the attempts whose results do not match. What they have used counts. Where
// that was done before, and the answer lost, the op answers the same again.
func (x *resultCheck) fail() error {
	o := &op.Fail{Meta: &op.Meta{Principal: x.q.meta.Principal, RequestId: []byte(op.MisfitRequest)}}
	for _, m := range x.misfit {
		item := x.asked[m.at]
		o.Items = append(o.Items, &op.FailItem{Proof: item.Proof, Usage: item.Usage, Error: convert.MismatchText(m.all)})
	}
	result, at, err := propose[*op.FailResult](x.r.Context(), x.s, x.cell, o)
	if err != nil {
		return err
	}
	if len(result.GetItems()) != len(x.misfit) {
		return fmt.Errorf("a fail of %d jobs has %d results", len(x.misfit), len(result.GetItems()))
	}
	for k, m := range x.misfit {
		failed := result.Items[k]
		if failed.GetRefusal().GetCode() != "" {
			x.refused[m.at] = failed.Refusal
			continue
		}
		x.refused[m.at] = &op.Refusal{Code: string(api.ResultMismatch), Message: o.Items[k].Error}
		x.told.note(job.ID(o.Items[k].Proof.Id), convert.ToMismatch(m.all, m.more, failed))
	}
	x.where = position{x.cell.Shard(), at}
	return nil
}
