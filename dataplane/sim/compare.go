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

// agree holds one real result against what the model expected, and teaches the
// model the lease tokens it could not know.
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
			return err
		}
	}
	blank(real)
	if expected := want.result.(proto.Message); !proto.Equal(real, expected) {
		return fmt.Errorf("answered %v, the model expected %v", real, expected)
	}
	return nil
}

// learn takes the tokens of new leases into the model.
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

// blank removes what the model does not predict: tokens, message texts, and the
// key record an op answers with.
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
	case *op.FailResult:
		for _, item := range r.Items {
			if item.Refusal.GetCode() == "" {
				item.Refusal = nil
			} else {
				scrub(item.Refusal)
			}
		}
	case *op.CreateKeyResult:
		r.Key = nil
	}
}

// compare reports how a store's jobs, queues and keys differ from the model's.
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
		errs = append(errs, want.compare(j))
	}
	if seen != len(m.jobs) {
		errs = append(errs, fmt.Errorf("the store has %d jobs, the model %d", seen, len(m.jobs)))
	}
	if level := max(v.Head().GetFeatureLevel(), 1); level != m.level {
		errs = append(errs, fmt.Errorf("the store has level %d, the model %d", level, m.level))
	}
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
	errs = append(errs, m.compareUsage(v))
	return errors.Join(errs...)
}

func (want *modelJob) compare(j *job.Job) error {
	id := job.ID(j.GetId())
	same := j.GetNumber() == want.number && j.GetQueue() == want.queue && j.GetPriority() == want.priority &&
		j.GetState() == want.state && j.GetAttempt() == want.attempt && j.GetLeaseExpired() == want.leaseExpired &&
		tokensOf(j.GetUsage()) == want.tokens && j.GetUsage().GetCostNanoUsd() == want.costNano &&
		j.GetUsage().GetModel() == want.model && j.GetUsage().GetProvider() == want.provider && int(j.GetErrors()) == want.errors && j.GetMoves() == want.moves
	if want.state == job.Active {
		same = same && bytes.Equal(j.GetLease().GetToken(), want.token) && j.GetLease().GetExpiresNs() == want.leaseEndNs
	}
	if want.state == job.Scheduled || want.state == job.Retrying {
		same = same && j.GetScheduledNs() == want.dueNs
	}
	if !same {
		return fmt.Errorf("%s is %v in the store, %+v in the model", id, j, want)
	}
	return nil
}

func (m *model) compareQueue(v *state.Snapshot, name string, want *modelQueue) error {
	q, err := v.Queue(name)
	if err != nil {
		return err
	}
	if q == nil {
		return fmt.Errorf("the store has no queue %s", name)
	}
	if q.GetPaused() != want.paused || int(q.GetMaxConcurrency()) != want.max ||
		q.GetEnqueued() != want.enqueued || q.GetCompleted() != want.completed || q.GetFailed() != want.failed || q.GetDead() != want.buried {
		return fmt.Errorf("queue %s is %v in the store, %+v in the model", name, q, want)
	}
	for s := range job.States {
		if got, counted := q.GetInState()[s], m.count(name, job.State(s)); int(got) != counted {
			return fmt.Errorf("queue %s counts %d %s jobs, the model %d", name, got, job.State(s).Word(), counted)
		}
	}
	return nil
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
