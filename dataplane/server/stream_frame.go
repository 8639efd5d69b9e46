package server

import (
	"net/http"
	"slices"
	"sync"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// frame is one frame of a stream: acks, then enqueues, then a fetch. If the namespace has one shard and this
// node leads it, the frame's ops are admitted to the backlog in this order, and after the ops of earlier
// frames, so that they enter the log in this order. Their results are awaited while later frames begin. The
// second fetch of finish has no fixed order.
type frame struct {
	stream *stream
	m      *workerpb.StreamLifecycleRequest
	size   int64 // bytes that count against the budget
	who    tenancy.Principal

	q    request
	jobs []*op.NewJob
	at   *cell.Cell    // the shard of the jobs
	ask  convert.Fetch // Count 0 = no fetch

	working sync.WaitGroup
	errs    [3]error // by part
	did     [3]bool  // parts that were done, wholly or partly, or may have been
	out     workerpb.StreamLifecycleResponse
	leased  []lease
	done    chan struct{}
}

// The parts of a frame.
const (
	partAcks = iota
	partEnqueues
	partFetch
)

func (f *frame) request() *http.Request { return f.stream.call.r }

// begin returns when the ops of the frame are in the backlog, done or refused. It does not wait for the
// second fetch of finish.
func (f *frame) begin() {
	f.out.RequestId = f.m.RequestId
	if err := f.prepare(); err != nil {
		f.errs[partAcks] = err
		close(f.done)
		return
	}
	var slots []*slot
	if len(f.m.Acks) > 0 {
		slots = append(slots, f.start(f.ack))
	}
	if len(f.jobs) > 0 {
		slots = append(slots, f.start(f.enqueue))
	}
	if claims := f.claims(); len(claims) > 0 {
		slots = append(slots, f.start(func(q *request) { f.fetch(q, claims) }))
	}
	for _, t := range slots {
		t.enter()
	}
	go f.finish()
}

// prepare reads the frame. If it returns an error, the frame has had no effect.
func (f *frame) prepare() error {
	shards, err := router.Open(f.stream.server.cfg.Host, f.who.Namespace)
	if err != nil {
		return err
	}
	f.q = request{who: f.who, shards: shards, meta: &op.Meta{Principal: principalOf(f.who)}}
	if err := checkAcks(len(f.m.Acks)); err != nil {
		return err
	}
	if len(f.m.Enqueues) > 0 {
		if err := f.readJobs(); err != nil {
			return err
		}
	}
	if f.m.FetchCount == 0 {
		return nil
	}
	ask, err := convert.FromRPCFetch(f.m.Queues, f.m.WorkerId, f.m.Hostname, f.m.LeaseDuration, f.m.FetchCount, f.m.Concurrency)
	if err != nil {
		return err
	}
	if err := f.q.allow(tenancy.JobWork, ask.Queues...); err != nil {
		return err
	}
	f.ask = ask
	return nil
}

func (f *frame) readJobs() (err error) {
	jobs, at, err := convert.FromRPCEnqueues(f.request(), f.m.Enqueues, f.q.shards.Home().NowNs(), f.stream.server.maxPayload)
	if err != nil && at >= 0 {
		return inList("enqueues", at, err)
	}
	if err != nil {
		return err
	}
	f.jobs = jobs
	if err := f.q.mayEnqueue(f.jobs); err != nil {
		return err
	}
	f.at, err = f.q.shardOf(f.jobs)
	return err
}

// start runs a part of the frame. It returns when the part's op waits for admission, or when the part has
// ended. If another node leads or the namespace has several shards, no op waits, so one part runs after the
// other.
func (f *frame) start(do func(q *request)) *slot {
	t := newSlot()
	q := f.q
	q.meta = &op.Meta{Principal: f.q.meta.Principal}
	if q.shards.Count() == 1 {
		q.slot = t
	}
	f.working.Go(func() {
		defer close(t.ended)
		do(&q)
	})
	t.wait()
	return t
}

func (f *frame) ack(q *request) {
	acks, refused := fromAcks(f.m.Acks, f.m.WorkerId)
	r, span := q.beginSpan(f.request(), telemetry.SpanAck, telemetry.OperationSettle)
	span.batch(len(acks))
	out, err := f.stream.server.settle(nil, r, q, acks, span)
	span.end(err)
	acked, errs, rejected := convert.ToRPCAcked(&out)
	f.out.Acked, f.out.AckErrors, f.out.UsageRejected = acked, append(refused, errs...), rejected
	f.ended(partAcks, err, acked > 0)
}

func (f *frame) enqueue(q *request) {
	r, span := q.beginEnqueue(f.request(), f.jobs, true)
	result, _, err := f.stream.server.commitJobs(nil, r, q, f.at, &op.Enqueue{Jobs: f.jobs})
	span.end(err)
	did := err == nil
	if did {
		f.out.EnqueuedJobIds, err = convert.ToRPCEnqueued(result.Jobs)
	}
	f.ended(partEnqueues, err, did)
}

// claims claims the jobs that the fetch can have now. If there are none, but the frame enqueues to a queue of
// its fetch in a namespace with one shard, the fetch is proposed anyway, unless starts are held: the leader would refuse
// it, and the frame would have an error although its other parts were done.
func (f *frame) claims() []claim {
	if f.ask.Count == 0 {
		return nil
	}
	f.stream.server.fetched(&f.q, &f.ask)
	runs := f.q.shards.Runs(f.ask.Queues)
	claims := claimRuns(runs, f.ask.Count)
	if len(claims) == 0 && f.q.shards.Count() == 1 && !f.stream.server.cfg.Host.StartsHeld(f.q.who.Namespace) && slices.ContainsFunc(f.jobs, func(n *op.NewJob) bool { return slices.Contains(f.ask.Queues, n.Queue) }) {
		claims = []claim{{runs[0], f.ask.Count, func() {}}}
	}
	return claims
}

func (f *frame) fetch(q *request, claims []claim) {
	leased, _, err := f.stream.server.leaseClaimed(f.request(), q, &f.ask, claims, false)
	f.leased = leased
	f.ended(partFetch, err, len(leased) > 0)
}

// ended records the outcome of a part. A part with an unknown outcome may have been done.
func (f *frame) ended(part int, err error, did bool) {
	f.errs[part], f.did[part] = err, did || engine.Unknown(err)
}

// finish waits for the parts, fetches once more if they found no job and had no error, and adds the jobs to
// the answer.
func (f *frame) finish() {
	defer close(f.done)
	f.working.Wait()
	s := f.stream.server
	if f.ask.Count > 0 && len(f.leased) == 0 && f.err() == nil {
		f.ask.Wait = 0
		if len(f.m.Acks) == 0 && len(f.jobs) == 0 {
			f.ask.Wait = streamWait
		}
		leased, err := s.lease(nil, f.request(), &f.q, &f.ask, nil)
		f.leased = leased
		f.ended(partFetch, err, len(leased) > 0)
	}
	if len(f.leased) == 0 {
		return
	}
	// A client does not look for jobs in an answer with an error, so the jobs are given back.
	if f.err() != nil {
		s.giveBack(f.request(), &f.q, f.leased)
		f.leased = nil
		return
	}
	r, span := f.q.beginSpan(f.request(), telemetry.SpanFetch, telemetry.OperationReceive)
	span.batch(len(f.leased))
	f.out.Jobs, f.leased, f.errs[partFetch] = s.compose(r, &f.q, f.leased, f.ask.LeaseMs, span)
	span.end(f.errs[partFetch])
}

// err returns the first error of the frame.
func (f *frame) err() error {
	for _, err := range f.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// release returns the message to the pool, unless it is too large.
func (f *frame) release() {
	if mayBeKept(f.m) {
		f.m.ReturnToVTPool()
	}
}

// mayBeKept reports whether a message may be used again. A message keeps the memory of its largest content.
// One that exceeded the bounds of a frame, and was refused, would keep that memory for as long as the pool
// reuses it. Empty acks, for example, take a hundred times the memory that they took on the wire.
func mayBeKept(m *workerpb.StreamLifecycleRequest) bool {
	return len(m.Acks) <= job.MaxAckItems && len(m.Enqueues) <= job.MaxEnqueueJobs && len(m.Queues) <= job.MaxFetchQueues
}

// answer builds the answer for the client. One goroutine calls it for all frames.
func (f *frame) answer() *workerpb.StreamLifecycleResponse {
	err := f.err()
	if err == nil {
		return &f.out
	}
	e := serve.Refused(f.request(), err)
	f.out.Error, f.out.RetryAfterMs = e.Error(), e.RetryAfter.Milliseconds()
	if url := f.leaderFor(err); url != "" {
		f.out.Error, f.out.LeaderAddr = notLeader, url
	}
	return &f.out
}

// leaderFor returns the URL of the leader if the client should send a failed frame there instead. Clients do
// so automatically, so leaderFor returns "" if a part of the frame was done or may have been.
func (f *frame) leaderFor(err error) string {
	if api.CodeOf(err) != api.LeaderUnavailable || slices.Contains(f.did[:], true) {
		return ""
	}
	return f.stream.server.leaderURL(&f.q)
}

// notLeader is the error of a frame without effect, if this node neither leads nor could forward the frame
// but knows the leader.
const notLeader = "NOT_LEADER"

// leaderURL returns the URL of the leader. It returns "" if this node leads or does not know the leader, in a
// namespace of several shards, and without a cluster.
func (s *Server) leaderURL(q *request) string {
	if s.cfg.Cluster == nil || q.shards.Count() != 1 || q.shards.Home().Leader() {
		return ""
	}
	return s.cfg.Cluster.URL(q.shards.Home().Engine().LeaderID())
}

// inList adds the index of the faulty item to an error.
func inList(list string, at int, err error) error {
	e, visible := asError(err)
	if !visible {
		return err
	}
	out := api.Errorf(e.Code, "%s[%d]: %s", list, at, e.Message)
	out.Details = e.Details
	return out
}

// principal returns the sender that opened the call.
func (c *rpcCall) principal() tenancy.Principal { return serve.Principal(c.r.Context()) }
