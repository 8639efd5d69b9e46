package loadgen

import (
	"context"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// streamConn speaks StreamLifecycle with the Go SDK. Each client has its own stream and connection, as
// workers in several processes have, and sends as many frames at once as its window allows.
type streamConn struct {
	stream *client.Stream
	worker string
}

// dial returns the connection of a client.
func (r *run) dial(worker string) conn {
	if r.Transport == Stream {
		return &streamConn{r.api.Stream(), worker}
	}
	return &httpConn{api: r.api, worker: worker, single: r.Transport == HTTP}
}

func (s *streamConn) close() { s.stream.Close() }

func (s *streamConn) do(ctx context.Context, f frame) (answer, error) {
	out, err := s.stream.Do(ctx, s.frameOf(f))
	a := answer{enqueued: len(out.JobIDs), acked: out.Acked, refused: refusals(out.AckErrors), leased: make([]lease, len(out.Jobs))}
	for i := range out.Jobs {
		j := &out.Jobs[i]
		a.leased[i] = leaseOf(j.JobID, j.LeaseToken, j.Payload)
	}
	return a, err
}

func (s *streamConn) frameOf(f frame) client.Frame {
	out := client.Frame{Acks: ackItems(f.acks), Enqueues: f.enqueue, Count: f.fetch}
	if f.fetch > 0 {
		out.Fetch = &api.FetchRequest{Queues: []string{f.queue}, WorkerID: s.worker}
	}
	return out
}
