package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
)

func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request) error {
	var body api.HeartbeatRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	beats := convert.FromHeartbeat(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	var ids []job.ID
	renewals := make([]*op.HeartbeatItem, 0, len(beats))
	for i := range beats {
		b := &beats[i]
		if b.Item == nil {
			continue
		}
		seen, err := q.sees(r, b.ID)
		if err != nil {
			return err
		}
		if seen {
			ids, renewals = append(ids, b.ID), append(renewals, b.Item)
		} else {
			b.Item = nil
		}
	}
	result, err := s.renew(w, r, &q, ids, renewals)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, convert.ToHeartbeat(beats, result))
}

// renew renews leases, each on its own. Where a shard cannot be asked nothing is
// known of its jobs, which no answer of a heartbeat can say: the whole of it fails,
// and its repeat renews what was renewed once more.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, q *request, ids []job.ID, all []*op.HeartbeatItem) (*op.HeartbeatResult, error) {
	if len(ids) == 0 {
		setIndex(w, positionOf(q.shards.Home()))
		return &op.HeartbeatResult{}, nil
	}
	q.meta.RequestId = q.shards.Home().RequestID()
	settled := &items[*op.Refusal]{
		ids: ids,
		propose: func(c *cell.Cell, at []int) ([]*op.Refusal, position, error) {
			result, where, err := proposeItems[*op.HeartbeatResult](s, r, q, c, &op.Heartbeat{Meta: q.meta, Items: pick(all, at)})
			return result.GetItems(), where, err
		},
		refusal: refusalItself,
	}
	if err := settled.settle(q); err != nil {
		return nil, err
	}
	for _, err := range settled.errs {
		if err != nil {
			return nil, err
		}
	}
	setIndex(w, settled.at...)
	return &op.HeartbeatResult{Items: settled.results}, nil
}
