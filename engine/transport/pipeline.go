package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline sends AppendEntries without waiting for the answers to the earlier ones.
type pipeline struct {
	g      *Group
	conn   *conn
	ctx    context.Context // ends with the pipeline
	cancel context.CancelFunc
	sent   chan *appending // in the order sent; holds the window less one, because collect awaits the answer to one more
	done   chan raft.AppendFuture
	wg     sync.WaitGroup
}

// appending implements raft.AppendFuture.
type appending struct {
	started  time.Time
	args     *raft.AppendEntriesRequest
	resp     *raft.AppendEntriesResponse
	request  *request
	limit    time.Duration
	err      error
	answered chan struct{} // closed once err is set
}

func (a *appending) Error() error {
	<-a.answered
	return a.err
}
func (a *appending) Start() time.Time                      { return a.started }
func (a *appending) Request() *raft.AppendEntriesRequest   { return a.args }
func (a *appending) Response() *raft.AppendEntriesResponse { return a.resp }

// AppendEntriesPipeline implements raft.Transport. A pipeline uses one connection and ends with it.
func (g *Group) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	ctx, cancel := context.WithTimeout(g.ctx, RPCTimeout)
	defer cancel()
	c, err := g.t.connection(ctx, Peer{ID: string(id), Address: string(target)})
	if err != nil {
		return nil, g.explain(id, err)
	}
	p := &pipeline{
		g: g, conn: c,
		sent: make(chan *appending, pipelineWindow-1),
		done: make(chan raft.AppendFuture, pipelineWindow),
	}
	p.ctx, p.cancel = context.WithCancel(g.ctx)
	p.wg.Go(p.collect)
	return p, nil
}

// AppendEntries sends one more request, and then waits while the window is full. It refuses a request that is
// too large; raft then sends the entries without a pipeline, in smaller requests.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	size := appendSize(args)
	if size > MaxMessage {
		return nil, fmt.Errorf("entries of %d bytes are more than the %d of a message", size, MaxMessage)
	}
	if p.ctx.Err() != nil {
		return nil, p.ended(p.ctx.Err())
	}
	a := &appending{started: time.Now(), args: args, resp: resp, limit: rpcTimeout(size), answered: make(chan struct{})}
	ctx, cancel := context.WithTimeout(p.ctx, a.limit)
	defer cancel()
	payload := appendAppendRequest(buffer(size), args)
	var err error
	if a.request, err = p.conn.start(ctx, p.g, frameAppend, payload, groupStream); err != nil {
		p.cancel()
		return nil, p.ended(err)
	}
	select {
	case p.sent <- a:
		if p.ctx.Err() != nil {
			p.drain() // collect may already have drained the channel
			return nil, p.ended(p.ctx.Err())
		}
		return a, nil
	case <-p.ctx.Done():
		err := a.request.abandon(p.ctx.Err())
		return nil, p.ended(err)
	}
}

func (p *pipeline) ended(err error) error {
	return fmt.Errorf("%w: %w", raft.ErrPipelineShutdown, err)
}

// Consumer returns the channel of completed futures, in the order of their requests.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close abandons the requests in flight.
func (p *pipeline) Close() error {
	p.cancel()
	p.wg.Wait()
	return nil
}

// collect waits for the answers in the order of the requests.
func (p *pipeline) collect() {
	for {
		select {
		case a := <-p.sent:
			if !p.complete(a) {
				p.cancel()
				p.drain()
				return
			}
		case <-p.ctx.Done():
			p.drain()
			return
		}
	}
}

// complete waits for an answer and delivers its future. The pipeline ends with the first error. Raft counts
// every delivered future as contact with the follower, even a failed one. So a future that has timed out is
// not delivered, because it would prolong the leader's lease with a silent follower. Raft notices the end
// when it sends the next request.
func (p *pipeline) complete(a *appending) bool {
	ctx, cancel := context.WithDeadline(p.ctx, a.started.Add(a.limit))
	defer cancel()
	answer, err := a.request.wait(ctx)
	if err == nil {
		err = decodeAppendResponse(answer, a.resp)
	}
	a.err = err
	close(a.answered)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	select {
	case p.done <- a:
		return err == nil
	case <-p.ctx.Done():
		return false
	}
}

// drain abandons the requests that were sent and not answered.
func (p *pipeline) drain() {
	for {
		select {
		case a := <-p.sent:
			a.err = p.ended(a.request.abandon(context.Canceled))
			close(a.answered)
		default:
			return
		}
	}
}
