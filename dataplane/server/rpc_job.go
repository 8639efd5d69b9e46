package server

import (
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server/convert"
)

func (s *Server) rpcEnqueue(c *rpcCall, m *workerpb.EnqueueRequest) (*workerpb.EnqueueResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	var body convert.EnqueueBody
	if err := convert.FromRPCEnqueue(c.r, m, &body); err != nil {
		return nil, err
	}
	made, err := s.enqueueJob(c.w, c.r, q, &convert.Faults{}, &body)
	if err != nil {
		return nil, err
	}
	one := &made.Results[0]
	return &workerpb.EnqueueResponse{JobId: one.JobID, Status: one.Status, UniqueExisting: one.UniqueExisting, ResultJson: string(one.Result)}, nil
}

func (s *Server) rpcAck(c *rpcCall, m *workerpb.AckRequest) (*workerpb.AckResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	body, err := convert.FromRPCAck(m)
	if err != nil {
		return nil, err
	}
	rejected, err := s.ackJob(c.w, c.r, q, m.JobId, &body)
	return &workerpb.AckResponse{UsageRejected: rejected}, err
}

func (s *Server) rpcAckBatch(c *rpcCall, m *workerpb.AckBatchRequest) (*workerpb.AckBatchResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	if err := checkAcks(len(m.Items)); err != nil {
		return nil, err
	}
	acks, refused := fromAcks(m.Items, "")
	out, err := s.ackJobs(c.w, c.r, q, acks)
	if err != nil {
		return nil, err
	}
	acked, errs, rejected := convert.ToRPCAcked(&out)
	return &workerpb.AckBatchResponse{Acked: acked, Errors: append(refused, errs...), UsageRejected: rejected}, nil
}

// fromAcks converts acks, each independently, and returns an error for each ack that is not valid. An ack
// that names neither a lease token nor a worker gets worker as its worker id; "" gives it none.
func fromAcks(items []*workerpb.AckBatchItem, worker string) (acks []convert.AckBatchItem, refused []*workerpb.ItemError) {
	acks = make([]convert.AckBatchItem, len(items))
	n := 0
	for _, item := range items {
		err := convert.FromRPCAckItem(item, worker, &acks[n])
		if e, visible := asError(err); visible {
			refused = append(refused, &workerpb.ItemError{JobId: item.JobId, Code: string(e.Code), Error: e.Message})
			continue
		}
		n++
	}
	return acks[:n], refused
}

func (s *Server) rpcFail(c *rpcCall, m *workerpb.FailRequest) (*workerpb.FailResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	body, err := convert.FromRPCFail(m)
	if err != nil {
		return nil, err
	}
	failed, err := s.failJob(c.w, c.r, q, m.JobId, body)
	if err != nil {
		return nil, err
	}
	return convert.ToRPCFailed(convert.ToFailed(failed)), nil
}

func (s *Server) rpcHeartbeat(c *rpcCall, m *workerpb.HeartbeatRequest) (*workerpb.HeartbeatResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	body, err := convert.FromRPCHeartbeat(m)
	if err != nil {
		return nil, err
	}
	out, err := s.beat(c.w, c.r, q, body)
	if err != nil {
		return nil, err
	}
	return convert.ToRPCHeartbeat(out), nil
}

func (s *Server) rpcInfo(*rpcCall, *workerpb.GetServerInfoRequest) (*workerpb.GetServerInfoResponse, error) {
	return &workerpb.GetServerInfoResponse{ServerVersion: s.cfg.Version, ApiVersion: apiVersion, Capabilities: s.capabilities()}, nil
}
