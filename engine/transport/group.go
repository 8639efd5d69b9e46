package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// groupKey identifies a group on the wire.
type groupKey struct {
	name        string
	incarnation entry.Incarnation
}

func (k groupKey) append(to []byte) []byte {
	to = appendBytes(to, k.name)
	return append(to, k.incarnation[:]...)
}

// group decodes the output of groupKey.append.
func (c *cursor) group() groupKey {
	k := groupKey{name: c.string()}
	if len(c.rest) < len(k.incarnation) {
		c.fail("an incarnation is cut off")
		return k
	}
	c.rest = c.rest[copy(k.incarnation[:], c.rest):]
	if k.name == "" || len(k.name) > maxName {
		c.fail("a group's name is empty or too long")
	}
	return k
}

func decodeGroupKey(b []byte) (groupKey, error) {
	c := cursor{rest: b}
	k := c.group()
	return k, c.end()
}

// Group is one group's raft.Transport, with pre-vote.
type Group struct {
	groupKey
	t        *Transport
	handlers handlers
	consumer chan raft.RPC
	inbox    inbox

	heartbeat atomic.Pointer[func(raft.RPC)]
	admit     atomic.Pointer[func(string) bool]
	staging   atomic.Pointer[image.Staging]

	ctx    context.Context // ends with the Group
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	wg       sync.WaitGroup
	incoming *transfer // the snapshot that is being received
}

var (
	_ raft.Transport   = (*Group)(nil)
	_ raft.WithPreVote = (*Group)(nil)
	_ raft.WithClose   = (*Group)(nil)
)

// newGroup creates a group. The caller holds t.mu.
func newGroup(t *Transport, name string, incarnation entry.Incarnation) *Group {
	g := &Group{groupKey: groupKey{name, incarnation}, t: t, consumer: make(chan raft.RPC)}
	g.inbox.ready = make(chan struct{}, 1)
	g.ctx, g.cancel = context.WithCancel(t.ctx)
	g.wg.Go(g.deliver)
	return g
}

// Handle sets the handler of calls of kind k to this group.
func (g *Group) Handle(k Kind, h Handler) { g.handlers.set(k, h) }

// Stage sets the store for the parts of received snapshots. Before that, and with nil, snapshots are refused.
func (g *Group) Stage(s image.Staging) {
	if s == nil {
		g.staging.Store(nil)
		return
	}
	g.staging.Store(&s)
}

// Admit sets the function that decides which nodes may send to the group. It is called for each message with
// the ID in the sender's certificate, on the goroutine that reads from the sender, so it must not block. nil
// = every node that the Identity trusts.
func (g *Group) Admit(ask func(id string) bool) {
	if ask == nil {
		g.admit.Store(nil)
		return
	}
	g.admit.Store(&ask)
}

func (g *Group) admits(id string) bool {
	ask := g.admit.Load()
	return ask == nil || (*ask)(id)
}

// Consumer returns the channel of the peers' requests to raft.
func (g *Group) Consumer() <-chan raft.RPC { return g.consumer }

// LocalAddr returns the address that this node advertises.
func (g *Group) LocalAddr() raft.ServerAddress { return raft.ServerAddress(g.t.address) }

// SetHeartbeatHandler sets the function that answers heartbeats without the Consumer. It runs on the
// goroutine that reads from the sender, except for the first heartbeats of a term (see answerHeartbeat).
func (g *Group) SetHeartbeatHandler(handle func(raft.RPC)) {
	if handle == nil {
		g.heartbeat.Store(nil)
		return
	}
	g.heartbeat.Store(&handle)
}

// EncodePeer encodes an address for raft's messages.
func (g *Group) EncodePeer(_ raft.ServerID, address raft.ServerAddress) []byte {
	return []byte(address)
}

// DecodePeer decodes the output of EncodePeer.
func (g *Group) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// Close abandons all requests of the group, in either direction. It may be called before raft's shutdown,
// which then does not wait for unreachable peers. It waits for running Handlers and transfers.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	incoming := g.incoming
	g.mu.Unlock()
	g.cancel()
	if incoming != nil {
		incoming.stop()
	}
	g.wg.Wait()
	g.t.mu.Lock()
	defer g.t.mu.Unlock()
	if g.t.groups[g.name] == g {
		delete(g.t.groups, g.name)
	}
	return nil
}

// serve runs a function on a goroutine that Close waits for, and Close calls cancel. serve returns false if g
// is closed.
func (g *Group) serve(ctx context.Context, cancel context.CancelFunc, run func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	stop := context.AfterFunc(g.ctx, cancel)
	g.wg.Go(func() {
		defer stop()
		run()
	})
	return true
}

// AppendEntries implements raft.Transport. If the entries exceed MaxAppend, it sends only the first of them
// and removes the others from args, because raft continues after the entries that it finds there.
func (g *Group) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	args.Entries = args.Entries[:countFitting(args.Entries)]
	how := groupStream
	if isHeartbeat(args) {
		how = urgent
	}
	payload := appendAppendRequest(buffer(appendSize(args)), args)
	answer, err := g.rpc(id, target, frameAppend, payload, how)
	if err != nil {
		return err
	}
	return decodeAppendResponse(answer, resp)
}

// MaxAppend bounds the entries of one AppendEntries in bytes. A single larger entry is sent alone.
const MaxAppend = 4 << 20

// countFitting returns how many of the entries go in one message, at least one.
func countFitting(entries []*raft.Log) int {
	size := 0
	for i, l := range entries {
		if size += logSize(l); size > MaxAppend && i > 0 {
			return i
		}
	}
	return len(entries)
}

// isHeartbeat recognises raft's heartbeats as raft's own transports do.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return r.Term != 0 && len(r.Addr) > 0 && r.PrevLogEntry == 0 &&
		r.PrevLogTerm == 0 && len(r.Entries) == 0 && r.LeaderCommitIndex == 0
}

// RequestVote implements raft.Transport.
func (g *Group) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	answer, err := g.rpc(id, target, frameVote, appendVoteRequest(nil, args), urgent)
	if err != nil {
		return err
	}
	return decodeVoteResponse(answer, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (g *Group) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	answer, err := g.rpc(id, target, framePreVote, appendPreVoteRequest(nil, args), urgent)
	if err != nil {
		return err
	}
	return decodePreVoteResponse(answer, resp)
}

// TimeoutNow implements raft.Transport.
func (g *Group) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	answer, err := g.rpc(id, target, frameTimeout, appendRPCHeader(nil, args.RPCHeader), urgent)
	if err != nil {
		return err
	}
	return decodeTimeoutResponse(answer, resp)
}

// rpc sends a request to a member's raft and returns the answer.
func (g *Group) rpc(id raft.ServerID, target raft.ServerAddress, kind frameKind, payload []byte, how priority) ([]byte, error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("a message of %d bytes to node %q is more than %d", len(payload), id, MaxMessage)
	}
	ctx, cancel := context.WithTimeout(g.ctx, rpcTimeout(len(payload)))
	defer cancel()
	answer, err := g.t.roundTrip(ctx, Peer{ID: string(id), Address: string(target)}, g, kind, payload, how)
	if err != nil {
		return nil, g.explain(id, err)
	}
	return answer, nil
}

// The largest messages must arrive at minRate, in bytes a second, to be in time. The time limit grows with
// the size, because a message that times out is sent again as a whole, and would time out again.
const minRate = 512 << 10

// rpcTimeout returns the time limit for a message of the given size.
func rpcTimeout(size int) time.Duration {
	return RPCTimeout + time.Duration(size/minRate)*time.Second
}

func (g *Group) explain(id raft.ServerID, err error) error {
	if g.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", raft.ErrTransportShutdown, ErrClosed)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("node %q gave no answer in time: %w", id, err)
	}
	return fmt.Errorf("node %q: %w", id, err)
}
