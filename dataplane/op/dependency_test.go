package op_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	bounds = append(bounds, []struct {
		op, field string
		at        int
		beyond    api.Code
		set       func(o op.Op, n int)
	}{
		{"enqueue", "jobs", job.MaxDependencies, api.ValidationError, func(o op.Op, n int) {
			w := &world{clockNs: epochNs}
			for range n {
				id := w.newID("q")
				dependOn(o.(*op.Enqueue), id[:])
			}
		}},
		{"enqueue", "jobs[0].depends_on[0]", 16, api.ValidationError, func(o op.Op, n int) { dependOn(o.(*op.Enqueue), make([]byte, n)) }},
		{"enqueue", "jobs[0].depends_on[0]", job.Slots - 1, api.ValidationError, func(o op.Op, n int) {
			o.(*op.Enqueue).Jobs[0].DependsOn = []*op.Dependency{{JobId: make([]byte, 16), Shard: uint32(n)}}
		}},
		{"enqueue", "jobs[0].dependency_policy", int(job.DependencyIgnore), api.ValidationError, func(o op.Op, n int) {
			o.(*op.Enqueue).Jobs[0].Opt().DependencyPolicy = job.DependencyPolicy(n)
		}},
		{"watch-job", "job_id", 16, api.ValidationError, func(o op.Op, n int) { o.(*op.WatchJob).JobId = make([]byte, n) }},
		{"watch-job", "waiter_id", 16, api.ValidationError, func(o op.Op, n int) { o.(*op.WatchJob).WaiterId = make([]byte, n) }},
		{"watch-job", "waiter_shard", job.Slots - 1, api.ValidationError, func(o op.Op, n int) { o.(*op.WatchJob).WaiterShard = uint32(n) }},
		{"settle-dependency", "job_id", 16, api.ValidationError, func(o op.Op, n int) { o.(*op.SettleDependency).JobId = make([]byte, n) }},
		{"settle-dependency", "waiter_id", 16, api.ValidationError, func(o op.Op, n int) { o.(*op.SettleDependency).WaiterId = make([]byte, n) }},
		{"settle-dependency", "outcome", int(job.Cancelled), api.ValidationError, func(o op.Op, n int) { o.(*op.SettleDependency).Outcome = job.State(n) }},
		{"resolve-dependents", "job_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) {
			o.(*op.ResolveDependents).JobIds = slices.Repeat(o.(*op.ResolveDependents).JobIds[:1], n)
		}},
	}...)
}

// resolve does the duty's work until nothing is due, and returns the number of ops.
func (w *world) resolve() (ops int) {
	w.t.Helper()
	for ; ; ops++ {
		due := w.dueDependents()
		if len(due) == 0 {
			return ops
		}
		w.apply(&op.ResolveDependents{JobIds: due})
	}
}

func (w *world) dueDependents() (ids [][]byte) {
	w.t.Helper()
	due, err := w.store.Due(state.TimerDependents, w.clockNs, job.MaxDutyItems)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range due {
		ids = append(ids, due[i][:])
	}
	return ids
}

// A job has as many dependencies as allowed, and the last one releases it.
func TestFanIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all [][]byte
	for range job.MaxDependencies / job.MaxEnqueueJobs {
		o := w.newJobs("q", job.MaxEnqueueJobs)
		w.apply(o)
		all = append(all, o.Meta.Ids...)
	}
	waiter := w.newJobs("after", 1)
	dependOn(waiter, all...)
	one[*op.EnqueueResult](w, waiter)
	id := waiter.Meta.Ids[0]
	for len(all) > 0 {
		if j := w.job(id); j.State != job.Scheduled || j.BlockedBy != uint32(len(all)) {
			t.Fatalf("with %d to go the job is %s, blocked by %d", len(all), j.State.Word(), j.BlockedBy)
		}
		leased := one[*op.FetchResult](w, w.fetch("q", job.MaxFetchJobs)).Jobs
		w.apply(ack(leased...))
		all = all[len(leased):]
		w.resolve()
	}
	if j := w.job(id); j.State != job.Pending || j.BlockedBy != 0 {
		t.Errorf("after all the job is %s, blocked by %d", j.State.Word(), j.BlockedBy)
	}
	w.check()
}

// Many jobs wait for one. They are notified some at a time, and then nothing is due.
func TestFanOut(t *testing.T) {
	t.Parallel()
	const waiters = 5 * op.MaxNotified
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	for range waiters / job.MaxEnqueueJobs {
		o := w.newJobs("after", job.MaxEnqueueJobs)
		dependOn(o, l.Id)
		w.apply(o)
	}
	w.apply(ack(l))
	for told := 0; told < waiters; told += op.MaxNotified {
		if n := w.store.Fetchable("after"); n != told {
			t.Fatalf("%d jobs may be fetched, %d have been told", n, told)
		}
		if got := one[*op.ResolveDependentsResult](w, &op.ResolveDependents{JobIds: [][]byte{l.Id}}); got.Notified != op.MaxNotified {
			t.Fatalf("%d were notified by one op", got.Notified)
		}
	}
	if due := w.dueDependents(); len(due) > 0 || w.store.Fetchable("after") != waiters {
		t.Errorf("%d are fetchable and %d still due", w.store.Fetchable("after"), len(due))
	}
	w.check()
}

// The number of notifications of one op is bounded over all its jobs.
func TestToldIsBoundedOverJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leased := w.leased("q", 3)
	o := &op.ResolveDependents{}
	for _, l := range leased {
		waiters := w.newJobs("after", op.MaxNotified/2+1)
		dependOn(waiters, l.Id)
		w.apply(waiters)
		o.JobIds = append(o.JobIds, l.Id)
	}
	w.apply(ack(leased...))
	for _, want := range []uint32{op.MaxNotified, op.MaxNotified/2 + 3, 0} {
		if got := one[*op.ResolveDependentsResult](w, o); got.Notified != want {
			t.Errorf("%d were notified, want %d", got.Notified, want)
		}
	}
}

// apart is a namespace of several shards.
type apart struct {
	*world
	shards []*shard
}

func newApart(t testing.TB, n int) *apart {
	return &apart{&world{t: t, clockNs: epochNs}, newShards(t, n)}
}

// settle delivers every sent op and resolves due dependents until nothing happens.
func (a *apart) settle() {
	a.t.Helper()
	for quiet := false; !quiet; {
		quiet = true
		for _, from := range a.shards {
			for _, to := range a.shards {
				if from == to {
					continue
				}
				if last := from.deliver(to, 0, 1000); last > 0 {
					from.must(&op.TrimOutbox{Shard: to.number, UpTo: last})
					quiet = false
				}
			}
			due, err := from.store.Due(state.TimerDependents, from.store.Head().ClockNs, job.MaxDutyItems)
			if err != nil {
				a.t.Fatal(err)
			}
			for _, id := range due {
				from.must(&op.ResolveDependents{JobIds: [][]byte{id[:]}})
				quiet = false
			}
		}
	}
}

// waiter enqueues a job on a shard that depends on jobs of another.
func (a *apart) waiter(at, of int, policy job.DependencyPolicy, ids ...job.ID) job.ID {
	a.t.Helper()
	o := a.newJobs("after", 1)
	dependOn(o, idBytes(ids)...)
	for _, d := range o.Jobs[0].DependsOn {
		d.Shard = uint32(of)
	}
	o.Jobs[0].Opt().DependencyPolicy = policy
	a.shards[at].must(o)
	return job.ID(o.Meta.Ids[0])
}

func (a *apart) complete(at int, queue string) {
	a.t.Helper()
	leased := a.shards[at].must(a.fetch(queue, 1)).(*op.FetchResult).Jobs
	if len(leased) != 1 {
		a.t.Fatalf("nothing to fetch from %s of shard %d", queue, at)
	}
	a.shards[at].must(ack(leased...))
}

func (a *apart) is(at int, id job.ID, want job.State, blockedBy uint32) {
	a.t.Helper()
	j, err := a.shards[at].store.Job(id)
	if err != nil || j.GetState() != want || j.GetBlockedBy() != blockedBy {
		a.t.Fatalf("job %s is %s, blocked by %d (%v); want %s and %d", id, j.GetState().Word(), j.GetBlockedBy(), err, want.Word(), blockedBy)
	}
}

// Each of two jobs on two shards waits for a job on the other, and for a job that does not exist.
func TestDependenciesOverShards(t *testing.T) {
	t.Parallel()
	a := newApart(t, 2)
	for at, of := range []int{1, 0} {
		ids := a.shards[of].enqueue(a.world, "q", 2, 0)
		waiter := a.waiter(at, of, job.DependencyFail, ids...)
		a.settle()
		a.is(at, waiter, job.Scheduled, 2)
		a.complete(of, "q")
		a.settle()
		a.is(at, waiter, job.Scheduled, 1)
		a.complete(of, "q")
		a.settle()
		a.is(at, waiter, job.Pending, 0)
		after := a.waiter(at, of, job.DependencyFail, ids...) // of those that are over
		a.settle()
		a.is(at, after, job.Pending, 0)
		gone := a.waiter(at, of, job.DependencyFail, a.newID("q"))
		held := a.waiter(at, of, job.DependencyHold, a.newID("q"))
		runs := a.waiter(at, of, job.DependencyIgnore, a.newID("q"))
		a.settle()
		a.is(at, gone, job.Dead, 0)
		a.is(at, held, job.Held, 1)
		a.is(at, runs, job.Pending, 0)
	}
}

// A WatchJob begins at the shard on which the job was created. The job has moved twice, so the WatchJob follows it,
// and the job stays on the shard where the WatchJob found it.
func TestADependencyThatHasMoved(t *testing.T) {
	t.Parallel()
	a := newApart(t, 3)
	id := a.shards[0].enqueue(a.world, "q", 1, 0)[0]
	a.shards[0].move("far", 1, id)
	a.shards[0].deliver(a.shards[1], 0, 1000)
	a.shards[1].move("farther", 2, id) // on its way: nothing has delivered it
	near, far := a.waiter(0, 0, job.DependencyFail, id), a.waiter(2, 0, job.DependencyFail, id)
	a.settle()
	a.is(0, near, job.Scheduled, 1)
	a.is(2, far, job.Scheduled, 1)
	for _, c := range []struct {
		at int
		id job.ID
	}{{2, id}, {0, near}, {2, far}} {
		if got := a.shards[c.at].move("q", 1, c.id)[0]; got.Code != string(api.StateConflict) {
			t.Errorf("moving %s to another shard: %v", c.id, got)
		}
		if got := a.shards[c.at].move("elsewhere", uint32(c.at), c.id)[0]; got.Code != "" {
			t.Errorf("moving %s within its shard: %v", c.id, got)
		}
	}
	a.complete(2, "elsewhere")
	a.settle()
	a.is(0, near, job.Pending, 0)
	a.is(2, far, job.Pending, 0)
	for _, c := range []struct {
		at int
		id job.ID
	}{{2, id}, {0, near}, {2, far}} {
		if got := a.shards[c.at].move("q", 1, c.id)[0]; got.Code != "" {
			t.Errorf("moving %s when nobody waits: %v", c.id, got)
		}
	}
	a.settle()
}

// A job may come back before this shard has sent on a WatchJob that waits here. Then it is watched here.
func TestADependencyThatComesBack(t *testing.T) {
	t.Parallel()
	a := newApart(t, 2)
	id := a.shards[0].enqueue(a.world, "q", 1, 0)[0]
	a.shards[0].move("far", 1, id)
	a.shards[0].deliver(a.shards[1], 0, 1000)
	waiter := a.waiter(0, 0, job.DependencyFail, id)
	a.shards[1].move("q", 0, id)
	a.shards[1].deliver(a.shards[0], 0, 1000)
	a.settle()
	a.is(0, waiter, job.Scheduled, 1)
	a.complete(0, "q")
	a.settle()
	a.is(0, waiter, job.Pending, 0)
}

// The outbox to a shard is full. Jobs that depend on jobs there are refused, waiters there are notified
// later, waiters elsewhere at once, and nothing is due before the next try.
func TestDependenciesWithAFullOutbox(t *testing.T) {
	t.Parallel()
	a := newApart(t, 2)
	here := a.shards[0]
	id := here.enqueue(a.world, "q", 1, 0)[0]
	far := a.waiter(1, 0, job.DependencyFail, id)
	a.settle()
	near := a.waiter(0, 0, job.DependencyFail, id)
	for range state.MaxOutboxOps / job.MaxEnqueueJobs {
		here.move("far", 1, here.enqueue(a.world, "fill", job.MaxEnqueueJobs, 0)...)
	}
	o := a.newJobs("after", 1)
	o.Jobs[0].DependsOn = []*op.Dependency{{JobId: id[:], Shard: 1}}
	if _, err := here.apply(o); api.CodeOf(err) != api.Overloaded {
		t.Errorf("one that depends on a job of the other shard: %v", err)
	}
	a.complete(0, "q")
	resolve := &op.ResolveDependents{JobIds: [][]byte{id[:]}}
	if got := here.must(resolve).(*op.ResolveDependentsResult); got.Notified != 1 {
		t.Errorf("%d were notified", got.Notified)
	}
	a.is(0, near, job.Pending, 0)
	now := here.store.Head().ClockNs
	due, ok, err := here.store.NextDue(state.TimerDependents)
	if err != nil || !ok || due != now+int64(time.Second) {
		t.Errorf("it is tried again after %s (%v, %v)", time.Duration(due-now), ok, err)
	}
	if got := here.must(resolve).(*op.ResolveDependentsResult); got.Notified != 0 || here.store.Head().ClockNs > due {
		t.Errorf("%d were notified before that", got.Notified)
	}
	here.must(&op.TrimOutbox{Shard: 1, UpTo: state.MaxOutboxOps})
	for here.store.Head().ClockNs < due {
		here.must(&op.StartTerm{})
	}
	if got := here.must(resolve).(*op.ResolveDependentsResult); got.Notified != 1 {
		t.Errorf("%d were notified when there was room", got.Notified)
	}
	rows, err := here.store.Outgoing(1, state.MaxOutboxOps+1, 10, 1<<20)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d ops wait for the other shard: %v", len(rows), err)
	}
	met := &op.SettleDependency{}
	if err := met.UnmarshalVT(rows[0].Op.Op); err != nil || !proto.Equal(met, &op.SettleDependency{WaiterId: far[:], JobId: id[:], Outcome: job.Completed}) {
		t.Errorf("it is told %v, %v", met, err)
	}
}

// A dependency on this shard must exist. Dependencies on another shard are accepted as long as their WatchJob
// ops fit into the outbox.
func TestDependenciesAtTheBoundOfTheOutbox(t *testing.T) {
	t.Parallel()
	a := newApart(t, 1)
	o := a.newJobs("after", 1)
	for range job.MaxDependencies {
		id := a.newID("q")
		o.Jobs[0].DependsOn = append(o.Jobs[0].DependsOn, &op.Dependency{JobId: id[:], Shard: 1})
	}
	a.shards[0].must(o)
	if got := a.shards[0].store.Outboxes(); len(got) != 1 || got[0].Ops() != state.MaxOutboxOps {
		t.Errorf("on their way: %v", got)
	}
	one := a.newJobs("after", 1)
	one.Jobs[0].DependsOn = o.Jobs[0].DependsOn[:1]
	if _, err := a.shards[0].apply(one); api.CodeOf(err) != api.Overloaded {
		t.Errorf("one more: %v", err)
	}
}

// A job that waits or is waited for cannot come from another shard.
func TestTiedJobsDoNotArrive(t *testing.T) {
	t.Parallel()
	w := &world{t: t, clockNs: epochNs}
	for _, tie := range []func(j *job.Job){
		func(j *job.Job) { j.State, j.BlockedBy = job.Scheduled, 1 },
		func(j *job.Job) { j.HasDependents = true },
	} {
		o := w.arriving("q")
		tie(o.Job)
		if err := o.Validate(); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%v: %v", o.Job, err)
		}
	}
}
