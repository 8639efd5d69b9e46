package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func byNumber(m *model) []*modelJob {
	all := make([]*modelJob, 0, len(m.jobs))
	for _, j := range m.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *modelJob) int { return cmp.Compare(a.number, b.number) })
	return all
}

// agree compares a real result with the outcome that the model expected, and teaches the model the lease
// tokens, which it cannot predict.
func (m *model) agree(want outcome, got any) error {
	if err, refused := got.(error); refused {
		if want.refused == "" || api.CodeOf(err) != want.refused {
			return fmt.Errorf("refused with %w, the model expected %q", err, want.refused)
		}
		return nil
	}
	if want.refused != "" {
		return fmt.Errorf("answered %v, the model expected the refusal %s", got, want.refused)
	}
	real, ok := got.(proto.Message)
	if !ok {
		return fmt.Errorf("answered a %T", got)
	}
	real = proto.Clone(real)
	if leased, ok := real.(*op.FetchResult); ok && !want.old {
		if err := m.learn(leased); err != nil {
			return fmt.Errorf("answered %v, the model expected %v: %w", got, want.result, err)
		}
	}
	blank(real)
	if expected := want.result.(proto.Message); !proto.Equal(real, expected) {
		return fmt.Errorf("answered %v, the model expected %v", real, expected)
	}
	return nil
}

// learn stores the tokens of new leases in the model.
func (m *model) learn(r *op.FetchResult) error {
	for _, l := range r.GetJobs() {
		j := m.jobs[job.ID(l.GetId())]
		if j == nil {
			return fmt.Errorf("fetched %x, which the model does not have", l.GetId())
		}
		if len(l.GetLeaseToken()) != 16 {
			return fmt.Errorf("a lease token of %d bytes", len(l.GetLeaseToken()))
		}
		if j.token == nil {
			j.token = l.GetLeaseToken()
		}
		if !bytes.Equal(j.token, l.GetLeaseToken()) {
			return fmt.Errorf("the lease of %x has another token than before", l.GetId())
		}
	}
	return nil
}

// blank removes the parts of a result that the model does not predict: tokens, message texts and empty
// refusals.
func blank(m proto.Message) {
	scrub := func(r *op.Refusal) { r.Message = "" }
	switch r := m.(type) {
	case *op.FetchResult:
		for _, l := range r.Jobs {
			l.LeaseToken = nil
		}
	case *op.AckResult:
		for _, item := range r.Items {
			scrub(item)
		}
	case *op.HeartbeatResult:
		for _, item := range r.Items {
			scrub(item)
		}
	case *op.MoveJobsResult:
		for _, item := range r.Items {
			scrub(item)
		}
	case *op.JobsResult:
		for _, item := range r.Items {
			if item.Refusal.GetCode() == "" {
				item.Refusal = nil
			} else {
				scrub(item.Refusal)
			}
		}
	case *op.FailResult:
		for _, item := range r.Items {
			if item.Refusal.GetCode() == "" && item.Refusal.GetUsageRejected() == "" {
				item.Refusal = nil
			} else {
				scrub(item.Refusal)
			}
		}
	}
}

// compare reports the differences between a store's records and the model's.
func (m *model) compare(v *state.Snapshot) error {
	var errs []error
	seen := 0
	for j, err := range v.Jobs() {
		if err != nil {
			return err
		}
		seen++
		want := m.jobs[job.ID(j.GetId())]
		if want == nil {
			errs = append(errs, fmt.Errorf("the store has %x, the model does not", j.GetId()))
			continue
		}
		errs = append(errs, want.compare(j), want.compareAgent(j), m.compareSpending(want, j))
	}
	if seen != len(m.jobs) {
		errs = append(errs, fmt.Errorf("the store has %d jobs, the model %d", seen, len(m.jobs)))
	}
	if level := max(v.Head().GetFeatureLevel(), 1); level != m.level {
		errs = append(errs, fmt.Errorf("the store has level %d, the model %d", level, m.level))
	}
	errs = append(errs, m.compareMembers(v))
	for name, want := range m.queues {
		errs = append(errs, m.compareQueue(v, name, want))
	}
	for q, err := range v.Queues() {
		if err != nil {
			return err
		}
		if m.queues[q.GetName()] == nil {
			errs = append(errs, fmt.Errorf("the store has queue %s, the model does not", q.GetName()))
		}
	}
	if !proto.Equal(orUnset(v.Head().GetSettings()), orUnset(m.settings)) {
		errs = append(errs, fmt.Errorf("the store has the settings %v, the model %v", v.Head().GetSettings(), m.settings))
	}
	waiters := uint64(0)
	for _, w := range m.waiters {
		waiters += uint64(len(w.shards))
	}
	if h := v.Head(); h.GetDependentsRecords() != uint64(len(m.waiters)) || h.GetWaiterRecords() != waiters {
		errs = append(errs, fmt.Errorf("%d jobs wait for %d in the store, %d for %d in the model", h.GetWaiterRecords(), h.GetDependentsRecords(), waiters, len(m.waiters)))
	}
	errs = append(errs, m.compareKeys(v), m.compareUsage(v), m.compareAudit(v), m.compareBatches(v), m.compareSchedules(v), m.compareAgents(v),
		m.compareResources(v), m.compareLanes(v), m.compareTraffic(v), m.compareMoney(v))
	return errors.Join(errs...)
}

func orUnset(s *state.Settings) *state.Settings {
	if s == nil {
		return &state.Settings{}
	}
	return s
}

func (j *modelJob) compare(is *job.Job) error {
	id := job.ID(is.GetId())
	same := is.GetNumber() == j.number && is.GetQueue() == j.queue && is.GetPriority() == j.priority &&
		is.GetState() == j.state && is.GetAttempt() == j.attempt && is.GetAttemptBase() == j.base && is.GetLeaseExpired() == j.leaseExpired &&
		tokensOf(is.GetUsage()) == j.tokens && is.GetUsage().GetCostNanoUsd() == j.costNano &&
		is.GetUsage().GetModel() == j.model && is.GetUsage().GetProvider() == j.provider &&
		int(is.GetErrors()) == len(j.errors) && is.GetMoves() == j.moves &&
		is.GetCreatedNs() == j.createdNs && is.GetScheduledNs() == j.dueNs
	if j.state == job.Active {
		same = same && bytes.Equal(is.GetLease().GetToken(), j.token) && is.GetLease().GetExpiresNs() == j.leaseEndNs
	}
	if !same || !j.compareTerms(is) || !j.compareGroups(is) {
		return fmt.Errorf("%s is %v in the store, %+v in the model", id, is, j)
	}
	return nil
}

// compareTerms compares a job's options, gate, times, flags, retry policy, tags and headers.
func (j *modelJob) compareTerms(is *job.Job) bool {
	unique := j.uniqueEndNs == 0 || is.GetOptions().GetUniqueKey() == j.unique && is.GetOptions().GetUniqueWholePeriod() == j.uniqueWhole
	if gate := is.GetDetail(); gate.GetGate() != j.gate.kind || gate.GetGateName() != j.gate.name {
		return false
	}
	samePairs := func(a, b []*job.Pair) bool {
		return slices.EqualFunc(a, b, func(a, b *job.Pair) bool { return proto.Equal(a, b) })
	}
	return unique && is.GetDetail().GetUniqueExpiresNs() == j.uniqueEndNs && is.GetOptions().GetDebounceKey() == j.debounce &&
		is.GetOptions().GetExpireAfterMs() == j.lifeMs && is.GetDetail().GetExpireNs() == j.endNs && is.GetSettledNs() == j.settledNs &&
		is.GetCancelling() == j.cancelling && is.GetDoomed() == j.doomed && proto.Equal(is.GetRetry(), j.retry) &&
		samePairs(is.GetTags(), j.tags) && samePairs(is.GetHeaders(), j.headers)
}

// compareGroups compares a job's relations to other jobs: its batch, chain, origin, dependencies, parent and
// schedule.
func (j *modelJob) compareGroups(is *job.Job) bool {
	var batch *job.Membership
	if b := j.batch; b != nil {
		batch = &job.Membership{BatchId: b.batch[:], Shard: b.shard, Counted: b.counted}
	}
	var link *job.ChainLink
	if c := j.chain; c != nil {
		link = &job.ChainLink{ChainId: c.chain[:], Step: uint32(c.step), Ended: c.ended}
	}
	j.learnReason(is)
	return proto.Equal(is.GetBatch(), batch) && proto.Equal(is.GetChain(), link) && proto.Equal(is.GetOrigin(), j.origin) &&
		int(is.GetBlockedBy()) == j.blocked && is.GetHasDependents() == j.awaited && is.GetOptions().GetDependencyPolicy() == j.policy &&
		bytes.Equal(is.GetOptions().GetParentId(), j.parent) && bytes.Equal(is.GetOptions().GetScheduleId(), j.schedule)
}

// inspectDocuments compares the documents of all jobs, and the errors of lost attempts, with the model's.
func (sh *shard) inspectDocuments() error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	for _, j := range byNumber(sh.model) {
		for kind, want := range map[job.BlobKind]*job.Blob{
			job.Payload: j.payload, job.Previous: j.previous, job.Result: j.agent.result,
			job.Checkpoint: j.agent.checkpoint, job.ResultSchema: j.agent.schema,
		} {
			b, err := v.Blob(j.id, kind)
			if err != nil || !proto.Equal(b, want) {
				return fmt.Errorf("blob %d of job %s is %v in the store, %v in the model (%w)", kind, j.id, b, want, err)
			}
		}
	}
	return sh.model.inspectLost(v)
}

// sameBytes compares two stores key by key.
func sameBytes(a, b *state.Snapshot) error {
	next, stop := pull(b)
	defer stop()
	for kv, err := range a.All() {
		if err != nil {
			return err
		}
		other, err, ok := next()
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("key %q is missing in the second store", kv.Key)
		case !bytes.Equal(kv.Key, other.Key):
			return fmt.Errorf("the first store has key %q where the second has %q", kv.Key, other.Key)
		case !bytes.Equal(kv.Value, other.Value):
			return fmt.Errorf("key %q is %x in the first store, %x in the second", kv.Key, kv.Value, other.Value)
		}
	}
	if kv, err, ok := next(); err != nil || ok {
		return errors.Join(err, fmt.Errorf("the second store has key %q, the first does not", kv.Key))
	}
	return nil
}
