package op_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// chained builds an enqueue of a job whose chain goes through queues named for their shards, from the first,
// and ends with a job in "exit" on shard 0.
func (w *world) chained(shards ...uint32) *op.Enqueue {
	o := w.newJobs(fmt.Sprint("q", shards[0]), 1)
	chain := &job.Chain{Exit: &job.Step{Queue: "exit"}}
	for _, shard := range shards {
		chain.Steps = append(chain.Steps, &job.Step{Queue: fmt.Sprint("q", shard), Shard: shard})
	}
	o.Jobs[0].Chain = chain
	return o
}

// jobsOf returns the jobs of a shard.
func (s *shard) jobsOf() (all []*job.Job) {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	for j, err := range v.Jobs() {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// Chains run through shards whose deliveries are late, repeated and cut anywhere, and acks are sometimes
// repeated. Each step is created once, and each chain ends once.
func TestChainsAdvanceOnce(t *testing.T) {
	t.Parallel()
	const chains, steps = 12, 4
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			shards := newShards(t, 3)
			w := &world{t: t, clockNs: epochNs}
			for range chains {
				var path []uint32
				for range steps {
					path = append(path, uint32(r.IntN(3)))
				}
				shards[path[0]].must(w.chained(path...))
			}
			acked := map[*shard][]*op.Ack{}
			for turn, completed := 0, 0; completed < chains*(steps+1); turn++ {
				if turn == 20_000 {
					t.Fatalf("after %d turns %d jobs have completed", turn, completed)
				}
				at := shards[r.IntN(3)]
				switch to := shards[r.IntN(3)]; r.IntN(3) {
				case 0:
					if at == to {
						continue
					}
					// The delivery starts with the first op kept, so some of its ops have usually arrived
					// before.
					if last := at.deliver(to, 0, 1+r.IntN(4)); last > 0 && r.IntN(2) == 0 {
						at.must(&op.TrimOutbox{Shard: to.number, UpTo: last})
					}
				case 1:
					o := w.fetch(fmt.Sprint("q", at.number), 3)
					o.Queues = append(o.Queues, "exit")
					if leased := at.must(o).(*op.FetchResult).Jobs; len(leased) > 0 {
						done := ack(leased...)
						at.must(done)
						acked[at] = append(acked[at], done)
						completed += len(leased)
					}
				case 2:
					if before := acked[at]; len(before) > 0 {
						at.must(before[r.IntN(len(before))])
					}
				}
			}
			made := map[string]int{}
			for _, s := range shards {
				for _, j := range s.jobsOf() {
					if j.State != job.Completed {
						t.Errorf("job %s in %s is %s", job.ID(j.Id), j.Queue, j.State.Word())
					}
					if j.Chain != nil {
						made[fmt.Sprintf("%x step %d", j.Chain.ChainId, j.Chain.Step)]++
					} else {
						made["exit"]++
					}
				}
			}
			if made["exit"] != chains || len(made) != chains*steps+1 {
				t.Errorf("%d ends and %d steps of %d chains with %d each", made["exit"], len(made)-1, chains, steps)
			}
			for step, n := range made {
				if n > 1 && step != "exit" {
					t.Errorf("%s was made %d times", step, n)
				}
			}
		})
	}
}

// A full outbox does not hold up a chain, because a worker that is done must not be told to do its work
// again.
func TestAFullOutboxHoldsUpNoChain(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	shards[0].must(w.chained(0, 1))
	leased := shards[0].must(w.fetch("q0", 1)).(*op.FetchResult).Jobs
	const step = 1000
	for range state.MaxOutboxOps / step {
		shards[0].move("p", 1, shards[0].enqueue(w, "q", step, 0)...)
	}
	last := shards[0].enqueue(w, "q", 1, 0)[0]
	if _, err := shards[0].apply(&op.MoveJobs{JobIds: [][]byte{last[:]}, Queue: "p", Shard: 1}); api.CodeOf(err) != api.Overloaded {
		t.Fatalf("there is room for a move: %v", err)
	}
	if refused := shards[0].must(ack(leased...)).(*op.AckResult).Items[0]; refused.Code != "" {
		t.Fatalf("the ack was refused: %v", refused)
	}
	if got := shards[0].store.Outboxes()[0].Ops(); got != state.MaxOutboxOps+1 {
		t.Errorf("%d ops wait, want %d", got, state.MaxOutboxOps+1)
	}
}

// A job that follows another gets its queue even at the limit of queues, where a client's enqueue is refused.
func TestPlaceRefusesNoQueue(t *testing.T) {
	t.Parallel()
	s := newShards(t, 1)[0]
	w := &world{t: t, clockNs: epochNs}
	for n := range job.MaxQueues {
		s.must(&op.SetQueue{Queue: fmt.Sprint("q", n)})
	}
	if _, err := s.apply(w.newJobs("late", 1)); api.CodeOf(err) != api.Conflict {
		t.Fatalf("there is room for a queue: %v", err)
	}
	o := w.newJobs("late", 1)
	s.must(&op.CreateJobs{Meta: o.Meta, Jobs: o.Jobs})
	if got := s.store.Fetchable("late"); got != 1 {
		t.Errorf("%d jobs can be fetched", got)
	}
}

// If another job holds the unique key, no job is created, and the feed gets an event of the holder.
func TestPlaceAtATakenKey(t *testing.T) {
	t.Parallel()
	s := newShards(t, 1)[0]
	w := &world{t: t, clockNs: epochNs}
	holder := w.arriving("q")
	holder.Job.Opt().UniqueKey, holder.Job.Details().UniqueExpiresNs = "k", epochNs*2
	s.must(holder)
	before := s.store.Head().FeedNextSeq
	for _, queue := range []string{"q", "r"} {
		o := w.newJobs(queue, 1)
		if queue == "q" { // in another queue it is another key
			o.Jobs[0].Opt().UniqueKey, o.Jobs[0].Opt().UniquePeriodMs = "k", 1000
		}
		s.must(&op.CreateJobs{Meta: o.Meta, Jobs: o.Jobs})
	}
	if got := s.jobsOf(); len(got) != 2 || got[0].Queue == got[1].Queue {
		t.Errorf("there are %v", got)
	}
	v := s.store.Snapshot()
	defer v.Close()
	var events []string
	for fed, err := range v.Feed(before) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range fed.Entry.Events {
			events = append(events, fmt.Sprint(e.Type, string(e.JobId) == string(holder.Job.Id)))
		}
	}
	if got := fmt.Sprint(events); got != "[EVENT_DUPLICATE true EVENT_ENQUEUED false]" {
		t.Errorf("the feed has %s", got)
	}
}

// chainBounds are the limits of a chain. set makes the chain as large as n.
var chainBounds = []struct {
	field  string
	at     int
	beyond api.Code
	set    func(nj *op.NewJob, n int)
}{
	{"jobs[0].chain.steps", job.MaxChainSteps, api.ValidationError, func(nj *op.NewJob, n int) {
		for len(nj.Chain.Steps) < n {
			nj.Chain.Steps = append(nj.Chain.Steps, &job.Step{Queue: "r"})
		}
	}},
	{"jobs[0].chain", job.MaxChainBytes, api.PayloadTooLarge, func(nj *op.NewJob, n int) {
		// The job's own payload counts, as does each other's.
		nj.Payload = &job.Blob{Data: make([]byte, n/4)}
		nj.Chain.Steps[1].Payload = &job.Blob{Data: make([]byte, n/4)}
		nj.Chain.OnFailure, nj.Chain.Failure = job.OnFailure_ON_FAILURE_QUEUE, &job.Step{Queue: "f", Payload: &job.Blob{Data: make([]byte, n/4)}}
		nj.Chain.Exit.Payload = &job.Blob{Data: make([]byte, n-3*(n/4))}
	}},
	{"jobs[0].chain.exit.shard", job.Slots - 1, api.ValidationError, func(nj *op.NewJob, n int) { nj.Chain.Exit.Shard = uint32(n) }},
	{"jobs[0].chain.on_failure", 1, api.ValidationError, func(nj *op.NewJob, n int) {
		if nj.Chain.OnFailure = job.OnFailure(n); n == 2 {
			nj.Chain.OnFailure = 3
		}
	}},
}

func TestChainBounds(t *testing.T) {
	t.Parallel()
	for _, b := range chainBounds {
		for n, want := range map[int]api.Code{b.at: "", b.at + 1: b.beyond} {
			w := &world{t: t, clockNs: epochNs}
			o := w.chained(0, 1)
			b.set(o.Jobs[0], n)
			var code api.Code
			err := o.Validate()
			if err != nil {
				code = api.CodeOf(err)
			}
			if code != want {
				t.Errorf("%s at %d: %v, want %q", b.field, n, err, want)
			}
		}
	}
}

// Fields that only the state sets are refused from a client, and checked when a shard sends them.
func TestJobsThatFollowAreChecked(t *testing.T) {
	t.Parallel()
	id := make([]byte, 16)
	link := func(step uint32) *job.ChainLink { return &job.ChainLink{ChainId: id, Step: step} }
	for name, c := range map[string]struct {
		change func(nj *op.NewJob)
		fits   bool // of a shard
	}{
		"a step":                {func(nj *op.NewJob) { nj.Origin = &job.Origin{Kind: 1, JobId: id, Queue: "q"} }, true},
		"a callback":            {func(nj *op.NewJob) { nj.Origin = &job.Origin{Kind: 4, BatchId: id} }, true},
		"a run":                 {func(nj *op.NewJob) { nj.Opt().ScheduleId = id }, true},
		"a result":              {func(nj *op.NewJob) { nj.Previous = &job.Blob{} }, true},
		"an unknown origin":     {func(nj *op.NewJob) { nj.Origin = &job.Origin{Kind: 5} }, false},
		"an origin of nothing":  {func(nj *op.NewJob) { nj.Origin = &job.Origin{Kind: 1, Queue: "q"} }, false},
		"a short schedule":      {func(nj *op.NewJob) { nj.Opt().ScheduleId = id[:3] }, false},
		"a link without chain":  {func(nj *op.NewJob) { nj.Link = link(1) }, false},
		"a link to the first":   {func(nj *op.NewJob) { nj.Chain, nj.Link = later(), link(0) }, false},
		"a link beyond":         {func(nj *op.NewJob) { nj.Chain, nj.Link = later(), link(2) }, false},
		"a later step":          {func(nj *op.NewJob) { nj.Chain, nj.Link = later(), link(1) }, true},
		"a later step, ended":   {func(nj *op.NewJob) { nj.Chain, nj.Link = later(), &job.ChainLink{ChainId: id, Step: 1, Ended: true} }, false},
		"a later step, no base": {func(nj *op.NewJob) { nj.Chain, nj.Link = later(), link(1); nj.Chain.Steps[0].Payload = nil }, false},
	} {
		w := &world{t: t, clockNs: epochNs}
		o := w.newJobs("q", 1)
		c.change(o.Jobs[0])
		if err := o.Validate(); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s, of a client: %v", name, err)
		}
		if err := (&op.CreateJobs{Meta: o.Meta, Jobs: o.Jobs}).Validate(); (err == nil) != c.fits {
			t.Errorf("%s, of a shard: %v", name, err)
		}
	}
}

// later builds a chain whose second step is in queue q.
func later() *job.Chain {
	return &job.Chain{Steps: []*job.Step{{Queue: "p", Payload: &job.Blob{Data: []byte("{}")}}, {Queue: "q"}}}
}
