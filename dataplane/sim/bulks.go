package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelBulks are the bulk operations that a shard knows: on the home shard the operations of the namespace in
// homes, on every shard its own parts of them in parts.
type modelBulks struct {
	homes map[string]*state.Bulk
	parts map[string]*modelPart
}

// modelPart is a shard's part of a bulk operation.
type modelPart struct {
	*state.BulkPart
	work *state.BulkWork
}

// dispatchBulk dispatches the ops of bulk operations.
func (m *model) dispatchBulk(o op.Op) outcome {
	switch o := o.(type) {
	case *op.StartBulk:
		return m.startBulk(o)
	case *op.RunBulk:
		return m.runBulk(o)
	case *op.CancelBulk:
		return m.cancelBulk(o)
	case *op.PurgeBulks:
		return m.purgeBulks(o)
	}
	panic("the model does not know this op")
}

func (m *model) startBulk(o *op.StartBulk) outcome {
	id := string(o.GetMeta().GetIds()[0])
	out := outcome{result: &op.StartBulkResult{BulkId: []byte(id)}}
	if m.bulks.homes[id] != nil {
		return out
	}
	b := &state.Bulk{
		Id: []byte(id), Action: o.GetAction(), Principal: o.GetMeta().GetPrincipal(), Scope: o.GetScope(),
		EstimatedTotal: o.GetEstimatedTotal(), CreatedNs: m.clockNs, UpdatedNs: m.clockNs,
	}
	m.bulks.homes[id] = b
	m.ledger.bulks[id] = &state.BulkCounts{}
	for _, s := range o.GetShares() {
		b.Shares = append(b.Shares, &state.BulkShare{Shard: s.GetShard()})
	}
	for _, s := range o.GetShares() {
		m.send(s.GetShard(), traveller{arrive: func(to *model) { to.openPart(o, s) }})
	}
	return out
}

// openPart begins a shard's part. If the part names no jobs, it does not cover jobs that are created or
// arrive later.
func (m *model) openPart(o *op.StartBulk, s *op.BulkStart) {
	p := &modelPart{
		&state.BulkPart{
			Id: o.GetMeta().GetIds()[0], Action: o.GetAction(), Queue: o.GetQueue(), Shard: o.GetShard(), Priority: o.GetPriority(),
			Scope: o.GetScope(), InQueue: o.GetInQueue(), InStates: o.GetInStates(),
			CreatedNs: m.clockNs, ReportedNs: m.clockNs, End: m.nextNumber,
		},
		&state.BulkWork{Filter: o.GetFilter(), JobIds: s.GetJobIds()},
	}
	if n := len(s.GetJobIds()); n > 0 {
		p.Named, p.End = true, uint64(n)
	}
	m.bulks.parts[string(p.Id)] = p
}

func (m *model) runBulk(o *op.RunBulk) outcome {
	p := m.bulks.parts[string(o.GetBulkId())]
	if p == nil || p.Next != o.GetFrom() {
		return outcome{result: &op.RunBulkResult{}}
	}
	counts, tally := &state.BulkCounts{}, m.ledger.bulks[string(p.Id)]
	proto.Merge(counts, p.Counts)
	p.Counts = counts
	var failures []*state.BulkFailure
	for _, id := range o.GetJobIds() {
		j := m.jobs[job.ID(id)]
		code := api.NotFound
		switch {
		case p.covers(j):
			code = m.act(p, j)
		case !p.Named:
			continue
		}
		if code == "" {
			counts.Affected++
			tally.Affected++
			continue
		}
		counts.Errors++
		tally.Errors++
		if int(p.FailuresReported) < job.MaxBulkFailures {
			failures = append(failures, &state.BulkFailure{JobId: id, Code: string(code)})
			p.FailuresReported++
		}
	}
	p.Next = min(o.GetTo(), p.End)
	ended := p.Next == p.End || o.GetFailure() != ""
	if ended {
		delete(m.bulks.parts, string(p.Id))
	}
	if ended || len(failures) > 0 || m.clockNs-p.ReportedNs >= 1e9 {
		p.ReportedNs = m.clockNs
		m.tellBulk(p, failures, ended, o.GetFailure())
	}
	return outcome{result: &op.RunBulkResult{Applied: true}}
}

// covers reports whether a part applies to a job.
func (p *modelPart) covers(j *modelJob) bool {
	if j == nil || len(p.Scope) > 0 && !slices.ContainsFunc(p.Scope, func(glob string) bool {
		return strings.HasPrefix(j.queue, strings.TrimSuffix(glob, "*")) // the workload draws no globs but names and prefixes
	}) {
		return false
	}
	there := p.Action == state.BulkAction_BULK_ACTION_MOVE && j.queue == p.Queue
	return p.Named || !there && (p.InQueue == "" || p.InQueue == j.queue) && (len(p.InStates) == 0 || slices.Contains(p.InStates, j.state))
}

// act applies the part's action to a job, as the op for single jobs would.
func (m *model) act(p *modelPart, j *modelJob) api.Code {
	var out outcome
	switch ids := [][]byte{j.id[:]}; p.Action {
	case state.BulkAction_BULK_ACTION_RETRY:
		out = m.retryJobs(&op.RetryJobs{JobIds: ids})
	case state.BulkAction_BULK_ACTION_REQUEUE:
		out = m.retryJobs(&op.RetryJobs{JobIds: ids, Requeue: true})
	case state.BulkAction_BULK_ACTION_CANCEL:
		if j.state == job.Cancelled {
			return api.StateConflict // CancelJobs would not refuse it
		}
		out = m.cancelJobs(&op.CancelJobs{JobIds: ids})
	case state.BulkAction_BULK_ACTION_MOVE:
		return m.moveOne(p, j)
	case state.BulkAction_BULK_ACTION_CHANGE_PRIORITY:
		if j.state != job.Pending && j.state != job.Scheduled && j.state != job.Retrying {
			return api.StateConflict
		}
		j.priority = p.Priority
		m.put(j)
		return ""
	case state.BulkAction_BULK_ACTION_APPROVE:
		out = m.releaseJobs(&op.ReleaseJobs{JobIds: ids})
	case state.BulkAction_BULK_ACTION_REJECT:
		out = m.rejectJobs(&op.RejectJobs{JobIds: ids})
	case state.BulkAction_BULK_ACTION_HOLD:
		out = m.holdJobs(&op.HoldJobs{JobIds: ids})
	case state.BulkAction_BULK_ACTION_DELETE:
		out = m.deleteJobs(&op.DeleteJobs{JobIds: ids})
	}
	return api.Code(out.result.(*op.JobsResult).Items[0].GetRefusal().GetCode())
}

// moveOne moves a job. It refuses a job that must not move even if the job is already in the queue.
func (m *model) moveOne(p *modelPart, j *modelJob) api.Code {
	if j.state == job.Active || j.state == job.Cancelled {
		return api.StateConflict
	}
	out := m.moveJobs(&op.MoveJobs{Queue: p.Queue, Shard: p.Shard, JobIds: [][]byte{j.id[:]}})
	if out.refused != "" {
		return out.refused
	}
	return api.Code(out.result.(*op.MoveJobsResult).Items[0].GetCode())
}

// tellBulk reports a part's progress to the home shard. The last part to end finishes the bulk operation.
func (m *model) tellBulk(p *modelPart, failures []*state.BulkFailure, ended bool, why string) {
	counts, id, from := proto.Clone(p.Counts).(*state.BulkCounts), string(p.Id), m.number
	if counts == nil {
		counts = &state.BulkCounts{}
	}
	m.send(0, traveller{arrive: func(home *model) {
		b := home.bulks.homes[id]
		i := slices.IndexFunc(b.GetShares(), func(s *state.BulkShare) bool { return s.Shard == from && !s.Ended })
		if i < 0 {
			return
		}
		s := b.Shares[i]
		s.Counts, s.Reported, s.Ended = counts, true, ended
		b.Failures = append(b.Failures, failures...)
		b.Failures = b.Failures[:min(len(b.Failures), job.MaxBulkFailures)]
		if b.Error == "" {
			b.Error = why
		}
		b.UpdatedNs = home.clockNs
		if !slices.ContainsFunc(b.Shares, func(s *state.BulkShare) bool { return !s.Ended }) {
			b.FinishedNs, b.PurgeNs = home.clockNs, home.clockNs+7*24*3600*1e9
		}
	}})
}

func (m *model) cancelBulk(o *op.CancelBulk) outcome {
	b := m.bulks.homes[string(o.GetBulkId())]
	switch {
	case b == nil:
		return outcome{refused: api.NotFound}
	case b.FinishedNs > 0 && !b.Cancelled:
		return outcome{refused: api.StateConflict}
	case b.Cancelled:
		return outcome{result: &op.CancelBulkResult{Ended: b.FinishedNs > 0}}
	}
	b.Cancelled, b.UpdatedNs = true, m.clockNs
	for _, s := range b.Shares {
		if s.Ended {
			continue
		}
		m.send(s.Shard, traveller{arrive: func(to *model) {
			if p := to.bulks.parts[string(b.Id)]; p != nil {
				delete(to.bulks.parts, string(b.Id))
				to.tellBulk(p, nil, true, "")
			}
		}})
	}
	return outcome{result: &op.CancelBulkResult{Ended: b.FinishedNs > 0}}
}

func (m *model) purgeBulks(o *op.PurgeBulks) outcome {
	result := &op.PurgeBulksResult{}
	for _, id := range o.GetBulkIds() {
		if b := m.bulks.homes[string(id)]; b.GetFinishedNs() > 0 && b.PurgeNs <= m.clockNs {
			delete(m.bulks.homes, string(id))
			result.Purged++
		}
	}
	return outcome{result: result}
}

// compareBulks compares a store's bulk operations with the model's.
func (sh *shard) compareBulks(v *state.Snapshot) error {
	homes, parts := maps.Clone(sh.model.bulks.homes), maps.Clone(sh.model.bulks.parts)
	for b, err := range v.Bulks() {
		if err != nil {
			return err
		}
		for _, f := range b.GetFailures() {
			f.Error = ""
		}
		if want := homes[string(b.GetId())]; !proto.Equal(b, want) {
			return fmt.Errorf("bulk operation %x is %v in the store, %v in the model", b.GetId(), b, want)
		}
		delete(homes, string(b.GetId()))
	}
	for p, err := range v.BulkParts() {
		if err != nil {
			return err
		}
		want := parts[string(p.GetId())]
		if want == nil || !proto.Equal(p, want.BulkPart) {
			return fmt.Errorf("the part of bulk operation %x is %v in the store, %v in the model", p.GetId(), p, want)
		}
		work, err := sh.steady.store.BulkWork([16]byte(p.GetId()))
		if err != nil || !proto.Equal(work, want.work) {
			return fmt.Errorf("the work of bulk operation %x is %v in the store, %v in the model (%w)", p.GetId(), work, want.work, err)
		}
		delete(parts, string(p.GetId()))
	}
	if len(homes)+len(parts) > 0 {
		return fmt.Errorf("the store has not the bulk operations %v and the parts %v", homes, parts)
	}
	return nil
}

// inspectBulks checks, when all shards are at rest, that every bulk operation has ended, and that its counts
// match the counts that the ledger took when the work was done.
func (s *simulation) inspectBulks() error {
	for _, sh := range s.shards {
		parts, err := sh.steady.store.BulkParts()
		if err != nil || len(parts) > 0 {
			return fmt.Errorf("shard %d: parts of bulk operations are done without end: %v (%w)", sh.number, parts, err)
		}
	}
	v := s.shards[0].steady.store.Snapshot()
	defer v.Close()
	for b, err := range v.Bulks() {
		if err != nil {
			return err
		}
		if b.GetFinishedNs() == 0 {
			return fmt.Errorf("bulk operation %v has not ended, and none of its parts is under way", b)
		}
		if got, want := b.Counts(), s.ledger.bulks[string(b.GetId())]; !proto.Equal(got, want) {
			return fmt.Errorf("bulk operation %v counts %v, and %v were done", b, got, want)
		}
		if uint64(len(b.GetFailures())) != min(b.Counts().GetErrors(), job.MaxBulkFailures) {
			return errors.New("a bulk operation does not list its errors")
		}
	}
	return nil
}

func (w *workload) startBulk() op.Op {
	if w.sh.number != 0 {
		return w.runBulk()
	}
	o := &op.StartBulk{Meta: w.request(), Action: state.BulkAction(1 + w.rng.IntN(9)), EstimatedTotal: w.rng.Uint64N(100)}
	o.Meta.Ids = [][]byte{w.bytes(16)}
	switch o.Action {
	case state.BulkAction_BULK_ACTION_MOVE:
		to := w.anyShard()
		o.Queue, o.Shard = to.work.jobQueue(), to.number
	case state.BulkAction_BULK_ACTION_CHANGE_PRIORITY:
		o.Priority = uint32(w.rng.IntN(job.Priorities))
	}
	if w.chance(3) {
		o.Scope = []string{pick(w, w.anyShard().work.queues), pick(w, []string{"queue-0-*", "queue-1*", "none"})}
	}
	named := w.chance(3)
	if !named {
		o.Filter = []byte("{}")
		if w.chance(3) {
			o.InQueue = pick(w, w.anyShard().work.queues)
		}
		for s := job.Pending; s < job.States && w.chance(2); s++ {
			o.InStates = append(o.InStates, s)
		}
	}
	for _, sh := range w.sh.shards {
		if len(o.Shares) > 0 && w.chance(4) {
			continue
		}
		share := &op.BulkStart{Shard: sh.number}
		if named {
			share.JobIds = idBytes(sh.work.some(w.oftenFew(6, 60), func(*modelJob) bool { return true }))
			if w.chance(40) { // more errors than a bulk operation lists
				share.JobIds = append(share.JobIds, slices.Repeat(share.JobIds[:1], job.MaxBulkFailures)...)
			}
		}
		o.Shares = append(o.Shares, share)
	}
	return o
}

func (w *workload) runBulk() op.Op {
	ids := slices.Sorted(maps.Keys(w.m.bulks.parts))
	if len(ids) == 0 {
		if w.sh.number == 0 {
			return w.startBulk()
		}
		return w.deliver()
	}
	o := w.m.bulks.parts[pick(w, ids)].chunk(w.m, 1+w.rng.IntN(20), func() bool { return w.chance(10) })
	switch w.rng.IntN(20) {
	case 0:
		o.From -= min(o.From, 1+w.rng.Uint64N(3)) // from a former leader
	case 1:
		o.Failure = "the filter cannot be read here"
	}
	return o
}

// chunk returns the op that a leader would propose for a part. It finds the part's jobs in the model, as the
// leader would find them in its view. If other returns true, it adds a job that the part does not cover.
func (p *modelPart) chunk(m *model, most int, other func() bool) *op.RunBulk {
	o := &op.RunBulk{Meta: duty(), BulkId: p.Id, From: p.Next, To: p.End}
	add := func(id []byte, at uint64) bool {
		if len(o.JobIds) == most {
			o.To = o.After[most-1]
			return false
		}
		o.JobIds, o.After = append(o.JobIds, id), append(o.After, at+1)
		return true
	}
	if p.Named {
		for at := p.Next; at < p.End && add(p.work.JobIds[at], at); at++ {
		}
		return o
	}
	for _, j := range byNumber(m) {
		if j.number >= p.Next && j.number < p.End && (p.covers(j) || other()) && !add(j.id[:], j.number) {
			break
		}
	}
	return o
}

// someBulk draws the id of a bulk operation, or one that does not exist.
func (w *workload) someBulk() []byte {
	if ids := slices.Sorted(maps.Keys(w.m.bulks.homes)); len(ids) > 0 && !w.chance(10) {
		return []byte(pick(w, ids))
	}
	return w.bytes(16)
}

func (w *workload) cancelBulk() op.Op { return &op.CancelBulk{Meta: w.request(), BulkId: w.someBulk()} }

func (w *workload) purgeBulks() op.Op {
	return &op.PurgeBulks{Meta: duty(), BulkIds: [][]byte{w.someBulk()}}
}
