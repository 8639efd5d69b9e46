package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// provider declares a provider.
func (s *shard) provider(name string, p *state.Provider) {
	s.t.Helper()
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{6: 1, 7: byte(s.ids >> 8), 8: byte(s.ids)})
	s.mustApply(&op.PutResource{
		Meta:     &op.Meta{Ids: [][]byte{id[:]}},
		Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: name, Shards: 1, Provider: p},
	})
}

// needing makes a provider necessary for every job of a queue.
func (s *shard) needing(queue, provider string) {
	s.t.Helper()
	s.mustApply(&op.SetQueue{Queue: queue, Provider: &provider})
}

// enqueueIn enqueues n plain jobs in a queue.
func (s *shard) enqueueIn(queue string, n int) {
	s.t.Helper()
	s.enqueueCosting(queue, n, 0)
}

// enqueueCosting is enqueueIn with an estimated cost; 0 is none.
func (s *shard) enqueueCosting(queue string, n int, nanoUsd int64) {
	s.t.Helper()
	for range n {
		s.ids++
		id := job.NewID(time.Now().UnixMilli(), queue, job.Entropy{7: byte(s.ids >> 8), 8: byte(s.ids)})
		n := &op.NewJob{Queue: queue, Payload: &job.Blob{Data: []byte("{}")}, Retry: job.NewRetry(), Priority: job.Normal}
		if nanoUsd > 0 {
			n.Opt().CostEstimateNanoUsd = nanoUsd
		}
		s.mustApply(&op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{n}})
	}
}

// take fetches up to n jobs of a queue.
func (s *shard) take(queue string, n int) []*op.Leased {
	s.t.Helper()
	s.ids++
	return s.mustApply(&op.Fetch{
		Meta: &op.Meta{LeaseSeed: append(make([]byte, 14), byte(s.ids>>8), byte(s.ids))}, Queues: []string{queue}, Count: uint32(n), LeaseMs: time.Hour.Milliseconds(),
	}).(*op.FetchResult).Jobs
}

// opened returns the number of OpenGate ops that the duty has proposed.
func (s *shard) opened() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.proposed {
		if _, ok := o.(*op.OpenGate); ok {
			n++
		}
	}
	return n
}

// While a gate is closed the duty proposes nothing, whatever else happens. When the gate opens, the duty lets
// go of as many jobs as fit together.
func TestAGateOpensByItself(t *testing.T) {
	inShard(t, 1000, func(s *shard) {
		s.provider("p", &state.Provider{Requests: 10})
		s.needing("q", "p")
		s.enqueueIn("q", 35)
		if got := s.take("q", 100); len(got) != 10 {
			t.Fatalf("fetched %d jobs of 10 a minute", len(got))
		}
		if left := s.store.Fetchable("q"); left != 0 {
			t.Errorf("%d jobs are fetchable at a closed gate", left)
		}
		for range 50 { // other work, and time passes
			s.enqueueIn("other", 1)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := s.opened(); n != 0 {
			t.Errorf("%d ops were proposed while the gate was closed", n)
		}
		for s.store.Fetchable("q") == 0 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if n, left := s.opened(), s.store.Fetchable("q"); n != 1 || left != 10 {
			t.Errorf("%d ops have opened the gate for %d jobs; one is for 10", n, left)
		}
		if got := s.take("q", 100); len(got) != 10 {
			t.Errorf("fetched %d jobs", len(got))
		}
		synctest.Wait()
		if n := s.opened(); n != 1 {
			t.Errorf("%d ops were proposed for 10 jobs", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := s.take("q", 100); len(got) != 10 {
			t.Errorf("fetched %d jobs", len(got))
		}
	})
}

// Tokens that a running job gives back let other jobs go at once.
func TestAGateOpensWhenAJobEnds(t *testing.T) {
	inShard(t, 1000, func(s *shard) {
		s.provider("p", &state.Provider{OutputTokens: 1000})
		s.needing("q", "p")
		s.enqueueIn("q", 9)
		first := s.take("q", 9)
		if len(first) != 1 {
			t.Fatalf("%d jobs run while nothing is known of what they use", len(first))
		}
		l := first[0]
		s.mustApply(&op.Ack{Items: []*op.AckItem{{
			Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Usage: &job.Usage{OutputTokens: 200},
		}}})
		synctest.Wait()
		if left := s.store.Fetchable("q"); left != 4 {
			t.Errorf("%d jobs may be fetched where 4 find room", left)
		}
	})
}

// After a provider is deleted, the duty lets go of all jobs that waited for it, in as many looks as
// necessary.
func TestAProviderThatGoesKeepsNobody(t *testing.T) {
	inShard(t, 1000, func(s *shard) {
		s.provider("p", &state.Provider{Requests: 1})
		s.needing("q", "p")
		s.enqueueIn("q", 3*openedAtOnce)
		s.take("q", 1)
		s.take("q", 1)
		if gates := s.store.Gates(); len(gates) != 1 || gates[0].Jobs != 3*openedAtOnce-1 {
			t.Fatalf("at gates wait %v", gates)
		}
		s.mustApply(&op.DeleteResource{Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: "p", Shards: 1})
		time.Sleep(3 * openTimeout)
		synctest.Wait()
		if gates := s.store.Gates(); len(gates) != 0 {
			t.Errorf("at gates wait %v", gates)
		}
		if left := s.store.Fetchable("q"); left != 3*openedAtOnce-1 {
			t.Errorf("%d jobs may be fetched", left)
		}
	})
}

// A queue without workers does not keep the jobs of another queue at the gate.
func TestAQueueWithoutWorkersKeepsNobodyAtAGate(t *testing.T) {
	inShard(t, 1000, func(s *shard) {
		s.provider("p", &state.Provider{Requests: 2})
		s.needing("idle", "p")
		s.needing("busy", "p")
		s.enqueueIn("idle", 8)
		s.enqueueIn("busy", 2)
		if got := s.take("idle", 9); len(got) != 2 {
			t.Fatalf("fetched %d", len(got))
		}
		s.take("busy", 9)
		if gates := s.store.Gates(); gates[0].Jobs != 8 {
			t.Fatalf("at gates wait %v", gates)
		}
		time.Sleep(62*time.Second + 5*openTimeout)
		synctest.Wait()
		if left := s.store.Fetchable("busy"); left != 2 {
			t.Errorf("%d jobs of the queue that has workers may be fetched", left)
		}
		if got := s.take("busy", 9); len(got) != 2 {
			t.Errorf("fetched %d", len(got))
		}
		if got := s.take("idle", 9); len(got) != 0 {
			t.Errorf("fetched %d beyond the limit", len(got))
		}
	})
}

// A job that fits into a budget is let go although more jobs than one look examines wait before it and do not fit.
// Once the duty has examined every job, it rests.
func TestAGateExaminesJobsBehindTheFirst(t *testing.T) {
	inShard(t, 1000, func(s *shard) {
		s.putBudget(&state.Budget{
			Scope: state.BudgetScope_BUDGET_SCOPE_NAMESPACE, Target: op.BudgetTarget, Timezone: "UTC", OnExceed: state.OnExceed_ON_EXCEED_THROTTLE,
			Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: 100}},
		})
		s.enqueueCosting("running", 1, 99)
		running := s.take("running", 1)[0]
		const large = 5*openedAtOnce + 1
		s.enqueueCosting("q", large, 50)
		s.enqueueCosting("q", 1, 10)
		for i := 0; s.store.Fetchable("q") > 0; i++ {
			if got := s.take("q", 100); len(got) > 0 || i > large {
				t.Fatalf("fetched %d jobs that cost more than is left", len(got))
			}
		}
		s.mustApply(&op.Ack{Items: []*op.AckItem{{
			Proof: &op.LeaseProof{Id: running.Id, Token: running.LeaseToken}, Usage: &job.Usage{CostNanoUsd: 70},
		}}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := s.opened(); n != 1 || s.store.Fetchable("q") != 1 {
			t.Errorf("%d ops have let go of %d jobs; one job fits", n, s.store.Fetchable("q"))
		}
		if got := s.take("q", 1); len(got) != 1 {
			t.Error("the job that fits is not fetched")
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w := s.duties.gates[gateKey{job.Gate_GATE_BUDGET, "namespace/default"}]; w == nil || w.next < time.Now().Add(time.Hour).UnixNano() {
			t.Errorf("the duty looks again at %+v although nothing changes", w)
		}
	})
}
