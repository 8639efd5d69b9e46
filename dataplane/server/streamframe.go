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

// frame is one frame of a stream: acks, then enqueues, then a fetch. Its ops go into the
// log in this order, and behind those of the frames before, because they go to the
// backlog's door in it; what comes of them is awaited while later frames are begun.
type frame struct {
	stream *stream
	m      *workerpb.StreamLifecycleRequest
	size   int64 // bytes that are in hand
	who    tenancy.Principal

	q    request
	jobs []*op.NewJob
	at   *cell.Cell    // where the jobs go
	ask  convert.Fetch // Count 0 = nothing

	working sync.WaitGroup
	errs    [3]error // of the acks, the enqueues, the fetch
	did     [3]bool  // which of them were done, in part, or may have been
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

// begin returns when the ops of the frame are in the backlog, or done, or refused.
func (f *frame) begin() {
	f.out.RequestId = f.m.RequestId
	if err := f.prepare(); err != nil {
		f.errs[partAcks] = err
		close(f.done)
		return
	}
	var turns []*turn
	if len(f.m.Acks) > 0 {
		turns = append(turns, f.start(f.ack))
	}
	if len(f.jobs) > 0 {
		turns = append(turns, f.start(f.enqueue))
	}
	if claims := f.claims(); len(claims) > 0 {
		turns = append(turns, f.start(func(q *request) { f.fetch(q, claims) }))
	}
	for _, t := range turns {
		t.enter()
	}
	go f.finish()
}

// prepare reads the frame. Its errors are those of a frame that has done nothing.
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

// start has a part of the frame done and returns when its op is at the backlog's door,
// or is done without coming there: where another node leads, or shards have a log each,
// parts follow each other.
func (f *frame) start(do func(q *request)) *turn {
	t := newTurn()
	q := f.q
	q.meta = &op.Meta{Principal: f.q.meta.Principal}
	if q.shards.Count() == 1 {
		q.turn = t
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
	result, err := f.stream.server.commitJobs(nil, r, q, f.at, &op.Enqueue{Jobs: f.jobs})
	span.end(err)
	did := err == nil
	if did {
		f.out.EnqueuedJobIds, err = convert.ToRPCEnqueued(result.Jobs)
	}
	f.ended(partEnqueues, err, did)
}

// claims is what the fetch can have now. One whose frame fills the queues that it empties
// is proposed with it in any case.
func (f *frame) claims() []claim {
	if f.ask.Count == 0 {
		return nil
	}
	f.stream.server.fetched(&f.q, &f.ask)
	runs := f.q.shards.Runs(f.ask.Queues)
	claims := claimRuns(runs, f.ask.Count)
	if len(claims) == 0 && f.q.shards.Count() == 1 && slices.ContainsFunc(f.jobs, func(n *op.NewJob) bool { return slices.Contains(f.ask.Queues, n.Queue) }) {
		claims = []claim{{runs[0], f.ask.Count, func() {}}}
	}
	return claims
}

func (f *frame) fetch(q *request, claims []claim) {
	leased, _, err := f.stream.server.leaseClaimed(f.request(), q, &f.ask, claims, false)
	f.leased = leased
	f.ended(partFetch, err, len(leased) > 0)
}

// ended notes what came of a part. One whose outcome is not known may have been done.
func (f *frame) ended(part int, err error, did bool) {
	f.errs[part], f.did[part] = err, did || engine.Unknown(err)
}

// finish waits for the parts, looks for work once more where there was none, and makes
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
	// Who is answered an error may not look for jobs beside it.
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

// err is the first error of the frame.
func (f *frame) err() error {
	for _, err := range f.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// release has the message used again, if it may be.
func (f *frame) release() {
	if mayBeKept(f.m) {
		f.m.ReturnToVTPool()
	}
}

// mayBeKept says whether a message may be used again. It keeps the memory of all that it
// ever had: one with more than a frame takes, which is refused, would do so for as long as
// frames come. Of empty acks that is a hundred times what came of the wire.
func mayBeKept(m *workerpb.StreamLifecycleRequest) bool {
	return len(m.Acks) <= job.MaxAckItems && len(m.Enqueues) <= job.MaxEnqueueJobs && len(m.Queues) <= job.MaxFetchQueues
}

// answer is what the client is told. It is called by one goroutine for all frames.
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

// leaderFor is where a frame with an error may be sent instead. Clients do that unasked: it
// is for frames of which no part was done, or may have been.
func (f *frame) leaderFor(err error) string {
	if api.CodeOf(err) != api.LeaderUnavailable || slices.Contains(f.did[:], true) {
		return ""
	}
	return f.stream.server.leaderURL(&f.q)
}

// notLeader is the error of a frame that did nothing because this node neither leads nor
// could pass it on, where it knows who leads.
const notLeader = "NOT_LEADER"

// leaderURL is where clients reach the node that leads, if that is another one.
func (s *Server) leaderURL(q *request) string {
	if s.cfg.Cluster == nil || q.shards.Count() != 1 || q.shards.Home().Leader() {
		return ""
	}
	return s.cfg.Cluster.URL(q.shards.Home().Engine().LeaderID())
}

// inList names the item that an error of one of a list is about.
func inList(list string, at int, err error) error {
	e, told := asError(err)
	if !told {
		return err
	}
	out := api.Errorf(e.Code, "%s[%d]: %s", list, at, e.Message)
	out.Details = e.Details
	return out
}

// principal is who opened the call.
func (c *rpcCall) principal() tenancy.Principal { return serve.Principal(c.r.Context()) }
