package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
)

// Bounds of the cost of one explanation.
const (
	whyCounted = 10_000  // most jobs ahead that are counted
	whyAwaited = 100_000 // most waiting records of a shard that one explanation searches
)

// A worker counts as listening until whyListening after its last request. A poll lasts a minute at most, and
// a busy worker renews its leases.
const whyListening = 2 * time.Minute

// explain answers why a job does not run.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	q, id, at, err := s.jobAt(r)
	if err != nil {
		return err
	}
	e := explanation{s: s, q: &q, at: at}
	if err := e.read(id); err != nil {
		return err
	}
	if e.j == nil {
		return q.absent(r, id)
	}
	if !q.who.Covers(e.j.Queue) {
		return noJob(id.String())
	}
	if err := e.rest(); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, e.says)
}

// explanation collects the answer.
type explanation struct {
	s    *Server
	q    *request
	at   *cell.Cell
	j    *job.Job
	says api.Why
}

// read reads the job and every possible reason on its shard from one snapshot and the shard's resources.
func (e *explanation) read(id job.ID) (err error) {
	resources := e.at.State().ResourceIndex()
	snapshot := e.at.State().Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if e.j, err = snapshot.Job(id); err != nil || e.j == nil {
		return err
	}
	reasons, err := op.Explain(op.NewSnapshotState(snapshot, resources, e.at.NowNs()), e.j)
	if err != nil {
		return err
	}
	failed, err := snapshot.Errors(id)
	if err != nil {
		return err
	}
	var last *job.AttemptError
	if n := len(failed); n > 0 {
		last = failed[n-1]
	}
	e.says = convert.ToWhy(e.j, reasons, last)
	return e.position(snapshot)
}

// position finds a pending job's position in its line.
func (e *explanation) position(from *state.Snapshot) error {
	if e.j.State != job.Pending {
		return nil
	}
	at := &api.WhyPosition{}
	var ahead int
	var err error
	if op.AtGate(e.j) {
		at.Gate = e.j.Detail.GateName
		ahead, err = from.BeforeAtGate(e.j, whyCounted)
		for _, g := range e.at.State().Gates() {
			if g.Kind == e.j.Detail.Gate && g.Name == at.Gate {
				at.Of = int64(g.Jobs)
			}
		}
	} else {
		ahead, err = from.BeforeReady(e.j, whyCounted)
		if err == nil {
			at.Of, err = e.readyBeside(from)
		}
	}
	if err != nil {
		return err
	}
	at.Ahead, at.AtLeast = int64(ahead), ahead == whyCounted
	at.Of = max(at.Of, at.Ahead+1) // gates are as of the last commit, which may be newer
	e.says.Position = at
	return nil
}

// readyBeside returns the number of ready jobs in the job's line: the jobs of its fairness key if its queue
// has lanes, or else all jobs of its queue.
func (e *explanation) readyBeside(from *state.Snapshot) (int64, error) {
	rec, err := from.Queue(e.j.Queue)
	if err != nil || rec.GetLanes() == 0 {
		return int64(rec.Ready()), err
	}
	lane, err := from.Lane(e.j.Queue, e.j.FairnessKey)
	return int64(lane.GetPending()), err
}

// rest adds the facts from outside the job's shard: the workers that listen, or the jobs that the job waits
// for.
func (e *explanation) rest() error {
	switch {
	case e.j.State == job.Pending:
		return e.listening()
	case e.j.BlockedBy > 0:
		return e.awaited()
	}
	return nil
}

// listening adds the number of workers with a worker id that lately sent this node a request and fetch from
// the queue. It also adds the reasons of a pending job from outside its shard: a hold of starts, jobs ahead, no
// worker, or nothing that keeps the job.
func (e *explanation) listening() error {
	known, err := e.s.cfg.Host.Workers(e.q.who.Namespace)
	if err != nil {
		return err
	}
	if e.s.cfg.Host.StartsHeld(e.q.who.Namespace) {
		convert.AddReason(&e.says, op.Why{
			Reason: op.ReasonSpendLimit,
			Text:   "the organisation has reached its spend limit, so that no job starts: raise the limit with corvo cloud billing spend-limit, or wait for the next month",
		})
	}
	nowNs, n := e.s.cfg.Now().UnixNano(), 0
	for _, worker := range known.List(nowNs) {
		if nowNs-worker.SeenNs <= int64(whyListening) && slices.Contains(worker.Queues, e.j.Queue) {
			n++
		}
	}
	e.says.Workers = &n
	if ahead := e.says.Position; ahead.Ahead > 0 {
		convert.AddReason(&e.says, op.Why{Reason: op.ReasonBehind, Name: cmp.Or(ahead.Gate, e.j.Queue), Text: behind(ahead)})
	}
	if n == 0 {
		convert.AddReason(&e.says, op.Why{
			Reason: op.ReasonNoWorker, Name: e.j.Queue,
			Text: fmt.Sprintf("no worker has fetched from queue %q on this node in the last %s: start one, or see GET /workers (this node does not know workers without a worker_id or on other nodes)", e.j.Queue, whyListening),
		})
	}
	if len(e.says.Reasons) == 0 {
		convert.AddReason(&e.says, op.Why{Reason: op.ReasonReady, Name: e.j.Queue, Text: "nothing keeps it: the next fetch from its queue gets it"})
	}
	return nil
}

func behind(at *api.WhyPosition) string {
	word := ""
	if at.AtLeast {
		word = "at least "
	}
	return fmt.Sprintf("it stands in line behind %s%s", word, op.Jobs(at.Ahead))
}

// awaited adds the jobs that the job depends on. Each shard has the records of its own jobs.
func (e *explanation) awaited() error {
	waiter := job.ID(e.j.Id)
	type part struct {
		ids   []job.ID
		whole bool
	}
	parts, err := router.Gather(e.q.shards, func(c *cell.Cell) (p part, err error) {
		snapshot := c.State().Snapshot()
		defer func() { err = errors.Join(err, snapshot.Close()) }()
		p.ids, p.whole, err = snapshot.Awaited(waiter, whyAwaited)
		return p, err
	})
	if err != nil {
		return err
	}
	for _, p := range parts {
		e.says.DependsOnMore = e.says.DependsOnMore || !p.whole
		for _, id := range p.ids {
			one := api.WhyAwaited{JobID: id.String()}
			at, err := e.q.shards.OfJob(id)
			if err != nil {
				return err
			}
			j, err := at.State().Job(id)
			if err != nil {
				return err
			}
			if j != nil && e.q.who.Covers(j.Queue) {
				word := j.State.Word()
				one.State = &word
			}
			e.says.DependsOn = append(e.says.DependsOn, one)
		}
	}
	slices.SortFunc(e.says.DependsOn, func(a, b api.WhyAwaited) int { return cmp.Compare(a.JobID, b.JobID) })
	return nil
}
