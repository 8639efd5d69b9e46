package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
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
	items := make([]*op.HeartbeatItem, 0, len(beats))
	for i := range beats {
		b := &beats[i]
		if b.Item == nil {
			continue
		}
		seen, err := q.sees(b.ID)
		if err != nil {
			return err
		}
		if seen {
			items = append(items, b.Item)
		} else {
			b.Item = nil
		}
	}
	var result *op.HeartbeatResult
	if len(items) == 0 {
		setIndex(w, q.cell.Applied())
	} else {
		if result, err = commit[*op.HeartbeatResult](s, w, r, q.cell, &op.Heartbeat{Meta: q.meta, Items: items}); err != nil {
			return err
		}
		if len(result.Items) != len(items) {
			return fmt.Errorf("a heartbeat of %d jobs has %d results", len(items), len(result.Items))
		}
	}
	return serve.WriteJSON(w, http.StatusOK, convert.ToHeartbeat(beats, result))
}
