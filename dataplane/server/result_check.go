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

// mismatches collects the details of results that do not match their jobs' schemas. The shards of a request
// write to it at the same time.
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

// details returns the details of a job whose result did not match, or nil.
func (m *mismatches) details(id job.ID) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[id]
}

// explain adds the details to the error RESULT_MISMATCH of a job. It leaves every other error unchanged.
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

// proposeAcks acks items on one shard and returns one refusal for each; a refusal without a code means
// success. The op returns ResultUnchecked for results that must be checked against their jobs' schemas.
// proposeAcks checks them and acks the jobs whose results match. It fails the attempts of the others, notes
// the details in found and refuses these items with RESULT_MISMATCH.
func (s *Server) proposeAcks(r *http.Request, q *request, c *cell.Cell, asked []*op.AckItem, found *mismatches) ([]*op.Refusal, position, error) {
	result, where, err := proposeOnce[*op.AckResult](s, r, q, c, &op.Ack{Meta: q.meta, Items: asked})
	refused := result.GetItems()
	if err != nil || len(refused) != len(asked) {
		return refused, where, err
	}
	check := resultCheck{s: s, r: r, q: q, cell: c, found: found, asked: asked, refused: refused, where: where}
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

// resultCheck checks the results that an ack returned as unchecked.
type resultCheck struct {
	s       *Server
	r       *http.Request
	q       *request
	cell    *cell.Cell
	found   *mismatches
	asked   []*op.AckItem
	refused []*op.Refusal // by position; for a checked item the result of its ack or fail
	where   position

	fit    []int // positions
	misfit []misfit
}

type misfit struct {
	at   int
	all  []resultschema.Mismatch
	more int
}

// look checks one result against its job's schema. If the job no longer exists, it refuses the item with
// NOT_FOUND.
func (x *resultCheck) look(i int) error {
	item := x.asked[i]
	id := job.ID(item.Proof.Id)
	schema, err := x.schema(x.r.Context(), id)
	if err != nil {
		return err
	}
	if schema == nil { // the job was removed in the meantime
		x.refused[i] = &op.Refusal{Code: string(api.NotFound), Message: noJob(id.String()).Message}
		return nil
	}
	if item.Result.GetKeyId() != "" {
		return fmt.Errorf("the result of %s is sealed with key %q, which this node does not have", id, item.Result.GetKeyId())
	}
	all, more, err := schema.Check(x.r.Context(), item.Result.GetData())
	if err != nil {
		return err
	}
	if len(all) > 0 {
		x.misfit = append(x.misfit, misfit{i, all, more})
	} else {
		x.fit = append(x.fit, i)
	}
	return nil
}

// schema returns a job's schema, or nil if the job no longer exists. A schema is immutable. A follower may
// not know the job yet, so it catches up with the leader before it returns nil.
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

// settle acks the jobs whose results match and fails the jobs whose results do not.
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

// ack acks the jobs whose results match. If these are all jobs of the request, the first op changed nothing
// and did not use up the request's Idempotency-Key, so this op uses the key. If they are only some, this op
// uses no key. A repeat of the request then reaches this check again, because the first op is either
// remembered with its unchecked results or, if it changed nothing, not remembered.
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

// fail ends the attempts whose results do not match and counts their usage. If an earlier try with the same
// lease token did that and its answer was lost, the op repeats that answer.
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
		x.found.note(job.ID(o.Items[k].Proof.Id), convert.ToMismatch(m.all, m.more, failed))
	}
	x.where = position{x.cell.Shard(), at}
	return nil
}
